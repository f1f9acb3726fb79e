//! Liveput: throughput over the losses to be expected (Parcae; Duan et al., NSDI 2024).

use crate::plan::Plan;
use std::collections::BTreeSet;

/// What is expected of the time until the plan is changed the next time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlook {
    /// Share of the nodes that will have been lost.
    pub lost_share: f64,
    /// Nodes there are, those that the plan leaves idle included.
    pub nodes: usize,
}

/// Expected share of the plan's replicas that can still be put together from what is left, by which throughput is
/// multiplied.
///
/// Nodes are lost independently of each other. Idle nodes stand in for lost ones as long as there are any; beyond that a
/// stage of which `k` holders are left, over all replicas, keeps `k` replicas going, since holders can change places (migration
/// within a stage). So `m` replicas are left where every stage has `m` holders: `sum over m of P(Binomial(D, 1 - q) >= m)^P`,
/// over `D`, for `D` replicas of `P` nodes and `q` the share lost that nobody stands in for.
///
/// ```
/// use autohet::elastic::policies::{Outlook, liveput_share};
/// // Two replicas of one node each, half of all nodes lost: both are left in 1 case of 4, at least one in 3.
/// assert_eq!(liveput_share(2, 1, Outlook { lost_share: 0.5, nodes: 2 }), (0.25 + 0.75) / 2.0);
/// ```
pub fn liveput_share(replicas: usize, depth: usize, outlook: Outlook) -> f64 {
    let used = (replicas * depth) as f64;
    let spare = (outlook.nodes as f64 - used).max(0.0) * (1.0 - outlook.lost_share);
    let lost_share = ((outlook.lost_share * used - spare) / used).clamp(0.0, 1.0);
    let at_least = tails(replicas, 1.0 - lost_share);
    at_least[1..].iter().map(|share| share.powi(depth as i32)).sum::<f64>() / replicas as f64
}

/// Tokens a second that are to be expected of a plan.
pub fn liveput(plan: &Plan, iteration_s: f64, outlook: Outlook) -> f64 {
    let nodes = |replica: &crate::plan::Replica| {
        replica.stages.iter().map(|stage| stage.node.as_str()).collect::<BTreeSet<_>>().len()
    };
    let depth = plan.replicas.iter().map(nodes).max().unwrap_or(1).max(1);
    liveput_share(plan.replicas.len().max(1), depth, outlook) / iteration_s
}

/// `P(Binomial(n, p) >= m)` for all `m` from 0 to `n`.
fn tails(n: usize, p: f64) -> Vec<f64> {
    let mut mass = vec![0.0; n + 1];
    mass[0] = 1.0;
    for tried in 0..n {
        for hits in (0..=tried).rev() {
            mass[hits + 1] += mass[hits] * p;
            mass[hits] *= 1.0 - p;
        }
    }
    let mut tail = 0.0;
    for share in mass.iter_mut().rev() {
        tail += *share;
        *share = tail;
    }
    mass
}

#[cfg(test)]
mod tests {
    use super::*;
    use approx::assert_relative_eq;

    #[test]
    fn by_hand() {
        // One replica of two nodes lives while both do: 0.9².
        assert_relative_eq!(liveput_share(1, 2, Outlook { lost_share: 0.1, nodes: 2 }), 0.81);
        // A spare node stands in for 0.9 nodes lost, more than the 0.2 that are expected to be.
        assert_relative_eq!(liveput_share(1, 2, Outlook { lost_share: 0.1, nodes: 3 }), 1.0);
        // Two replicas of two nodes, a tenth lost: P(>= 1) = 0.99, P(>= 2) = 0.81, each squared.
        let share = liveput_share(2, 2, Outlook { lost_share: 0.1, nodes: 4 });
        assert_relative_eq!(share, (0.99_f64.powi(2) + 0.81_f64.powi(2)) / 2.0);
        assert_relative_eq!(liveput_share(3, 4, Outlook { lost_share: 0.0, nodes: 12 }), 1.0);
    }

    #[test]
    fn many_losses_make_a_slower_plan_of_fewer_nodes_the_better_one() {
        let deep = |lost_share| liveput_share(1, 8, Outlook { lost_share, nodes: 8 }) / 1.0;
        let shallow = |lost_share| liveput_share(2, 4, Outlook { lost_share, nodes: 8 }) / 1.1;
        assert!(deep(0.0) > shallow(0.0) && deep(0.2) < shallow(0.2));
    }
}
