//! What a plan is wanted for, and what it costs: a node is rented whole, from its first GPU in use on.

use super::{JudgedPlan, Plan, PlanError};
use crate::cluster::{Cluster, Node};
use std::collections::BTreeSet;

/// What makes one plan better than another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Goal {
    /// Most tokens a second.
    #[default]
    Throughput,
    /// Fewest dollars a token.
    UsdPerToken,
}

/// What is wanted of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Objective {
    /// What makes one plan better than another.
    pub goal: Goal,
    /// Fewest tokens a second.
    pub min_tokens_per_s: Option<f64>,
    /// Most dollars an hour, for the nodes that the plan uses.
    pub max_usd_per_hour: Option<f64>,
}

/// A plan with its throughput and its price.
#[derive(Clone, Debug, PartialEq)]
pub struct PricedPlan {
    /// The plan.
    pub plan: Plan,
    /// Seconds of one iteration, by the judge.
    pub predicted_iteration_s: f64,
    /// Tokens a second of such iterations.
    pub tokens_per_s: f64,
    /// Dollars an hour of the nodes that it uses: each whole, whatever part of its GPUs is in use. Others are given back.
    pub usd_per_hour: f64,
    /// Nodes that it uses.
    pub nodes: usize,
}

impl Plan {
    /// Dollars an hour of the nodes that it uses, each whole; `None` where one has no price.
    pub fn usd_per_hour(&self, cluster: &Cluster) -> Option<f64> {
        let used: BTreeSet<&str> = self.stages().map(|(_, stage)| stage.node.as_str()).collect();
        let prices = cluster.nodes.iter().filter(|node| used.contains(node.name.as_str()));
        let prices = prices.map(|node| node.price_usd_per_hour);
        prices.clone().all(|price| price > 0.0).then(|| prices.sum())
    }
}

impl PricedPlan {
    /// The price of a judged plan for this cluster, of samples of so many tokens.
    pub fn new(judged: &JudgedPlan, cluster: &Cluster, seq_length: u32) -> Self {
        let stages = judged.plan.replicas.iter().flat_map(|replica| &replica.stages);
        let used: BTreeSet<&str> = stages.map(|stage| stage.node.as_str()).collect();
        let rented = || cluster.nodes.iter().filter(|node| used.contains(node.name.as_str()));
        let tokens = f64::from(judged.plan.global_batch_size) * f64::from(seq_length);
        Self {
            plan: judged.plan.clone(),
            predicted_iteration_s: judged.predicted_iteration_s,
            tokens_per_s: tokens / judged.predicted_iteration_s,
            usd_per_hour: rented().map(|node| node.price_usd_per_hour).sum(),
            nodes: rented().count(),
        }
    }

    /// Dollars of a million tokens.
    pub fn usd_per_million_tokens(&self) -> f64 {
        self.usd_per_hour / 3600.0 / self.tokens_per_s * 1e6
    }

    /// Whether it is at least as fast and as cheap a token as another, and either faster or cheaper.
    pub fn dominates(&self, other: &Self) -> bool {
        let (ours, theirs) = (self.usd_per_million_tokens(), other.usd_per_million_tokens());
        let as_good = self.tokens_per_s >= other.tokens_per_s && ours <= theirs;
        as_good && (self.tokens_per_s > other.tokens_per_s || ours < theirs)
    }

    /// The plans that no other dominates, the fastest first; of equals the first.
    pub fn front(plans: &[Self]) -> Vec<Self> {
        let is_equal = |a: &Self, b: &Self| {
            a.tokens_per_s.total_cmp(&b.tokens_per_s).is_eq() && a.usd_per_hour.total_cmp(&b.usd_per_hour).is_eq()
        };
        let mut front: Vec<Self> = Vec::new();
        for plan in plans {
            let is_known = front.iter().any(|known| is_equal(known, plan));
            if !is_known && !plans.iter().any(|other| other.dominates(plan)) {
                front.push(plan.clone());
            }
        }
        front.sort_by(|a, b| b.tokens_per_s.total_cmp(&a.tokens_per_s));
        front
    }
}

impl Objective {
    /// Whether prices decide anything.
    pub fn needs_prices(&self) -> bool {
        self.goal == Goal::UsdPerToken || self.max_usd_per_hour.is_some()
    }

    /// Whether a plan keeps within the limits.
    pub fn allows(&self, plan: &PricedPlan) -> bool {
        self.min_tokens_per_s.is_none_or(|least| plan.tokens_per_s >= least)
            && self.max_usd_per_hour.is_none_or(|most| plan.usd_per_hour <= most)
    }

    /// What the goal makes of a plan; less is better.
    pub fn score(&self, plan: &PricedPlan) -> f64 {
        match self.goal {
            Goal::Throughput => plan.predicted_iteration_s,
            Goal::UsdPerToken => plan.usd_per_million_tokens(),
        }
    }

    /// Refuses clusters of which a price isn't known.
    pub fn check_prices(cluster: &Cluster) -> Result<(), PlanError> {
        let unknown = |node: &&Node| node.price_usd_per_hour <= 0.0 || !node.price_usd_per_hour.is_finite();
        match cluster.nodes.iter().find(unknown) {
            Some(node) => Err(PlanError::NoPrice { node: node.name.clone(), gpu_type: node.gpu.name.clone() }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::plan;
    use super::*;
    use crate::cluster::NodeDefaults;

    fn priced(tokens_per_s: f64, usd_per_hour: f64) -> PricedPlan {
        PricedPlan { plan: plan(), predicted_iteration_s: 1.0 / tokens_per_s, tokens_per_s, usd_per_hour, nodes: 1 }
    }

    #[test]
    fn nodes_in_use_are_paid_whole_and_others_not_at_all() {
        let mut cluster = Cluster::parse_mix("1x2xA100-80+1x1xT4", &NodeDefaults::default()).unwrap();
        cluster.nodes[0].price_usd_per_hour = 7.2;
        cluster.nodes[1].price_usd_per_hour = 1.0;
        // 8 samples of 450 tokens in 2 s: 1800 tokens a second, 0.002 USD a second.
        let judged = JudgedPlan { plan: plan(), predicted_iteration_s: 2.0 };
        let found = PricedPlan::new(&judged, &cluster, 450);
        assert_eq!((found.usd_per_hour, found.nodes), (7.2, 1));
        assert!((found.tokens_per_s - 1800.0).abs() < 1e-9);
        assert!((found.usd_per_million_tokens() - 0.002 / 1800.0 * 1e6).abs() < 1e-9);
    }

    #[test]
    fn the_front_is_what_nothing_beats_in_both() {
        let plans = [
            priced(10.0, 40.0),
            priced(8.0, 20.0),
            priced(7.0, 28.0),
            priced(4.0, 8.0),
            priced(4.0, 8.0),
            priced(3.0, 6.3),
        ];
        let front: Vec<f64> = PricedPlan::front(&plans).iter().map(|plan| plan.tokens_per_s).collect();
        assert_eq!(front, [10.0, 8.0, 4.0]);
    }

    #[test]
    fn limits_and_goals() {
        let (fast, cheap) = (priced(10.0, 40.0), priced(4.0, 8.0));
        let throughput = Objective::default();
        let cost = Objective { goal: Goal::UsdPerToken, ..throughput };
        assert!(throughput.score(&fast) < throughput.score(&cheap) && cost.score(&cheap) < cost.score(&fast));
        assert!(!throughput.needs_prices() && cost.needs_prices());
        let floor = Objective { min_tokens_per_s: Some(5.0), ..cost };
        assert!(floor.allows(&fast) && !floor.allows(&cheap));
        let ceiling = Objective { max_usd_per_hour: Some(8.0), ..throughput };
        assert!(!ceiling.allows(&fast) && ceiling.allows(&cheap) && ceiling.needs_prices());
    }

    #[test]
    fn a_node_without_a_price_is_named() {
        let mut cluster = Cluster::parse_mix("1x2xA100-80+1x1xT4", &NodeDefaults::default()).unwrap();
        assert!(Objective::check_prices(&cluster).is_ok());
        cluster.nodes[1].price_usd_per_hour = 0.0;
        let error = Objective::check_prices(&cluster).unwrap_err().to_string();
        assert!(error.starts_with("node `t4-0` has no price\nhint: add `price_usd_per_hour`"), "{error}");
    }
}
