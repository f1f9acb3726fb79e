//! Which mix of GPUs to rent for a budget: every mix that can be paid is planned, and what no other beats in throughput and
//! price of a token is the front.
//!
//! Where nodes are lost ([`Risk`]), what counts is the mean over what is up: each node is up independently of the others
//! with its type's share of time, each set of nodes that can be up has its own plan, and each loss and each return stops
//! training for as long as a change of plan takes. That leaves out bulk losses, the fetching of state and what checkpoints
//! cost; a replay doesn't.

mod mixes;
mod risk;

pub use mixes::{MOST_MIXES, Offer, affordable};
pub use risk::{Risk, risks_of_trace};

use crate::cluster::Cluster;
use crate::elastic::ReconfigurationSettings;
use crate::plan::{JudgedPlan, Objective, PricedPlan};
use crate::scenario::Scenario;
use crate::sweep::{Effort, Shared, plan_mix};
use risk::Expected;
use std::collections::BTreeMap;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// The job and the network.
    pub scenario: Scenario,
    /// What can be rented.
    pub offers: Vec<Offer>,
    /// Losses by offer; none where nodes stay.
    pub risks: Option<Vec<Risk>>,
    /// What makes one mix better than another, and the budget.
    pub objective: Objective,
    /// How hard plans are looked for.
    pub effort: Effort,
}

/// A mix with its plan.
#[derive(Clone, Debug)]
pub struct RatedMix {
    /// Nodes by offer.
    pub counts: Vec<u32>,
    /// The mix notation: `2x8xA100-80+1x8xH20`.
    pub mix: String,
    /// Its plan while all nodes are up, at the price of all of them.
    pub whole: PricedPlan,
    /// The same with throughput and price as they are expected where nodes are lost; else as they are.
    pub expected: PricedPlan,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Recommendation {
    /// Every mix that fits.
    pub mixes: Vec<RatedMix>,
    /// Places in `mixes` of those that no other beats, the fastest first.
    pub front: Vec<usize>,
    /// The place of the best for the objective, if one keeps within its limits.
    pub chosen: Option<usize>,
}

/// The mix with its plan, priced whole. `None` where nothing fits.
///
/// # Errors
/// What is wrong with the job, as text with its hint.
pub fn rate(question: &Question, counts: &[u32], shared: &Shared) -> Result<Option<RatedMix>, String> {
    let mix = mixes::notation(&question.offers, counts);
    let scenario = &question.scenario;
    let mut cluster = Cluster::parse_mix(&mix, &scenario.network.node_defaults()).map_err(|error| error.to_string())?;
    for node in &mut cluster.nodes {
        let offer = question.offers.iter().find(|offer| offer.gpu.name == node.gpu.name);
        node.price_usd_per_hour = offer.map_or(node.price_usd_per_hour, Offer::usd_per_node_hour);
    }
    let planned = match plan_mix(scenario, cluster, question.effort, shared) {
        Ok(planned) => planned,
        Err((true, _)) => return Ok(None),
        Err((false, problem)) => return Err(problem),
    };
    let cost = shared.cost_model(scenario).map_err(|error| error.to_string())?;
    let judged =
        JudgedPlan { predicted_iteration_s: planned.planned.predicted_iteration_s, plan: planned.planned.plan };
    // All nodes of a mix are rented: one that a plan leaves idle makes it dearer than the mix without it.
    let mut whole = PricedPlan::new(&judged, &planned.cluster, cost.model().seq_length);
    whole.usd_per_hour = planned.cluster.price_usd_per_hour();
    Ok(Some(RatedMix { counts: counts.to_vec(), mix, expected: whole.clone(), whole }))
}

impl Recommendation {
    /// Puts rated mixes, all that can be paid, into an answer.
    pub fn new(question: &Question, mut mixes: Vec<RatedMix>) -> Self {
        mixes.sort_by(|a, b| a.counts.cmp(&b.counts));
        if let Some(risks) = &question.risks {
            expect(&mut mixes, &question.offers, risks, &question.scenario.reconfiguration);
        }
        let objective = &question.objective;
        let expected: Vec<PricedPlan> = mixes.iter().map(|mix| mix.expected.clone()).collect();
        let front = PricedPlan::front(&expected);
        let place = |plan: &PricedPlan| expected.iter().position(|other| other == plan);
        let front: Vec<usize> = front.iter().filter_map(place).collect();
        // What is paid at most is the whole mix.
        let is_allowed = |place: &&usize| {
            let mix = &mixes[**place];
            objective.max_usd_per_hour.is_none_or(|most| mix.whole.usd_per_hour <= most * (1.0 + 1e-9))
                && objective.min_tokens_per_s.is_none_or(|least| mix.expected.tokens_per_s >= least)
        };
        let score = |place: usize| match objective.goal {
            crate::plan::Goal::Throughput => -mixes[place].expected.tokens_per_s,
            crate::plan::Goal::UsdPerToken => mixes[place].expected.usd_per_million_tokens(),
        };
        let chosen = front.iter().filter(is_allowed).min_by(|a, b| score(**a).total_cmp(&score(**b))).copied();
        Self { mixes, front, chosen }
    }
}

/// Works out what is expected of each mix from all that are smaller.
fn expect(mixes: &mut [RatedMix], offers: &[Offer], risks: &[Risk], changes: &ReconfigurationSettings) {
    let known: BTreeMap<Vec<u32>, f64> = mixes.iter().map(|mix| (mix.counts.clone(), mix.whole.tokens_per_s)).collect();
    for mix in mixes {
        let expected = Expected::of(&mix.counts, offers, risks, changes, mix.whole.predicted_iteration_s, |up| {
            known.get(up).copied().unwrap_or_default()
        });
        mix.expected.tokens_per_s = expected.tokens_per_s;
        mix.expected.usd_per_hour = expected.usd_per_hour;
    }
}

#[cfg(test)]
mod tests;
