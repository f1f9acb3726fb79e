//! How exposed a plan's state is: which losses take the last copy of something in memory.

use super::layout::StateLayout;
use crate::plan::Plan;
use std::collections::{BTreeMap, BTreeSet};

/// How many nodes share each part of a plan's state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Exposure {
    /// By number of holders, how many parts have so many: blocks that the same nodes hold are one.
    parts: BTreeMap<u32, u32>,
}

impl Exposure {
    /// Of a plan.
    pub(super) fn of(plan: &Plan, layout: &StateLayout) -> Self {
        let mut holders: Vec<BTreeSet<&str>> = vec![BTreeSet::new(); layout.block_count()];
        for (node, blocks) in layout.held_blocks(plan) {
            for block in blocks {
                holders[block].insert(node);
            }
        }
        let mut parts = BTreeMap::new();
        for holders in holders.into_iter().filter(|holders| !holders.is_empty()).collect::<BTreeSet<_>>() {
            *parts.entry(holders.len() as u32).or_default() += 1;
        }
        Self { parts }
    }

    /// Chance that a loss of `lost` among `of` nodes, each as likely as any other, takes all holders of some part: at most,
    /// since those of several parts are counted for each.
    pub(super) fn fatal_share(&self, lost: u32, of: u32) -> f64 {
        let all_lost = |holders: u32| {
            (0..holders).map(|one| f64::from(lost.saturating_sub(one)) / f64::from(of.saturating_sub(one).max(1)))
        };
        let shares = self.parts.iter().map(|(&holders, &parts)| f64::from(parts) * all_lost(holders).product::<f64>());
        shares.sum::<f64>().min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elastic::fixtures::plan;
    use crate::plan::ScheduleKind;
    use approx::assert_relative_eq;

    fn exposure(plan: &Plan) -> Exposure {
        Exposure::of(plan, &StateLayout::of_bytes(4, 8, 8, 8))
    }

    #[test]
    fn by_hand() {
        // One pipeline of two nodes: whoever goes takes something along.
        let alone = exposure(&plan(1, &[&[("a", 0, 2), ("b", 2, 2)]]));
        assert_relative_eq!(alone.fatal_share(1, 4), 0.5);
        assert_relative_eq!(alone.fatal_share(2, 2), 1.0);
        // Two equal pipelines: two pairs, each hit by 1 of the 6 pairs among four nodes, and by no single loss.
        let twice = exposure(&plan(1, &[&[("a", 0, 2), ("b", 2, 2)], &[("c", 0, 2), ("d", 2, 2)]]));
        assert_relative_eq!(twice.fatal_share(1, 4), 0.0);
        assert_relative_eq!(twice.fatal_share(2, 4), 2.0 / 6.0);
        // Three of four: half of the triples have a given pair; never both pairs, so the sum is exact.
        assert_relative_eq!(twice.fatal_share(3, 4), 1.0);
    }

    #[test]
    fn second_copies_count() {
        let plain = plan(1, &[&[("a", 0, 1), ("b", 1, 1), ("c", 2, 1), ("d", 3, 1)]]);
        let copied = exposure(&Plan { schedule: ScheduleKind::Redundant, ..plain.clone() });
        assert_relative_eq!(exposure(&plain).fatal_share(1, 4), 1.0);
        assert_relative_eq!(copied.fatal_share(1, 4), 0.0);
        // Neighbours: four of the six pairs.
        assert_relative_eq!(copied.fatal_share(2, 4), 4.0 / 6.0);
    }
}
