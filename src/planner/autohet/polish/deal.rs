//! Dealing out layers to the stages of a replica and micro batches to replicas, by compute alone.

use super::shape::{Group, Shape, World};
use crate::planner::room::{Ends, Place};

/// Cuts of the interval in which the time of all micro batches lies.
const BISECTIONS: usize = 48;

impl World<'_> {
    /// Deals the layers anew so that the slowest stage is as fast as it can be and each stage fits; `None` where they
    /// can't be held.
    pub(super) fn deal_layers(&self, shape: &Shape, group: &mut Group) -> Option<()> {
        let depth = group.stages.len();
        let num_layers = self.request.cost.model().num_layers;
        if depth == 0 || depth as u32 > num_layers {
            return None;
        }
        let (micro_batches, replicas) = (self.most_micro_batches(shape), shape.replicas());
        let mut stages = Vec::with_capacity(depth);
        for (place, &stage) in group.stages.iter().enumerate() {
            let costs = self.costs(shape, stage)?;
            let most = costs.most_layers(Place { stage: place, depth, micro_batches, replicas });
            if most == 0 {
                return None;
            }
            stages.push((costs.layer_s, costs.ends_s(Ends::at(place, depth)), most));
        }
        let mut dealt = vec![1_u32; depth];
        for _ in depth as u32..num_layers {
            let after = |place: usize| stages[place].1 + f64::from(dealt[place] + 1) * stages[place].0;
            let open = (0..depth).filter(|&place| dealt[place] < stages[place].2);
            let next = open.min_by(|&a, &b| after(a).total_cmp(&after(b)))?;
            dealt[next] += 1;
        }
        for (stage, layers) in group.stages.iter_mut().zip(dealt) {
            stage.layers = layers;
        }
        Some(())
    }

    /// Micro batches of each replica, group by group, so that the slowest is as fast as it can be; `None` where there are
    /// fewer than replicas.
    pub(super) fn deal_micro_batches(&self, shape: &Shape) -> Option<Vec<u32>> {
        let all = self.micro_batches(shape);
        let mut paces = Vec::new();
        for group in &shape.groups {
            let pace = self.pace(shape, group)?;
            paces.extend(std::iter::repeat_n(pace, group.replicas as usize));
        }
        if paces.is_empty() || (all as usize) < paces.len() {
            return None;
        }
        // How many a replica does in a time: one takes the fill, each further one a period.
        let done = |&(fill_s, period_s): &(f64, f64), time_s: f64| {
            (((time_s - fill_s) / period_s + 1.0 + 1e-9).floor().max(1.0) as u32).min(all)
        };
        let slowest_fill_s = paces.iter().map(|pace| pace.0).fold(0.0, f64::max);
        let slowest_period_s = paces.iter().map(|pace| pace.1).fold(0.0, f64::max);
        let (mut too_short_s, mut enough_s) = (0.0, slowest_fill_s + f64::from(all) * slowest_period_s);
        for _ in 0..BISECTIONS {
            let middle_s = f64::midpoint(too_short_s, enough_s);
            let is_enough = paces.iter().map(|pace| u64::from(done(pace, middle_s))).sum::<u64>() >= u64::from(all);
            *(if is_enough { &mut enough_s } else { &mut too_short_s }) = middle_s;
        }
        let mut dealt: Vec<u32> = paces.iter().map(|pace| done(pace, enough_s)).collect();
        let mut excess = dealt.iter().map(|count| u64::from(*count)).sum::<u64>() - u64::from(all);
        while excess > 0 {
            // The last of those that are done last.
            let end_s = |index: usize| paces[index].0 + f64::from(dealt[index] - 1) * paces[index].1;
            let open = (0..dealt.len()).filter(|&index| dealt[index] > 1);
            let last = open.max_by(|&a, &b| end_s(a).total_cmp(&end_s(b)))?;
            dealt[last] -= 1;
            excess -= 1;
        }
        Some(dealt)
    }

    /// Seconds of one micro batch through all stages of a replica, and through the slowest.
    fn pace(&self, shape: &Shape, group: &Group) -> Option<(f64, f64)> {
        let depth = group.stages.len();
        let (mut fill_s, mut period_s) = (0.0, 0.0_f64);
        for (place, &stage) in group.stages.iter().enumerate() {
            let costs = self.costs(shape, stage)?;
            let stage_s = costs.ends_s(Ends::at(place, depth)) + f64::from(stage.layers) * costs.layer_s;
            fill_s += stage_s;
            period_s = period_s.max(stage_s);
        }
        Some((fill_s, period_s))
    }
}
