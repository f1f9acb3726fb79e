//! How much of an iteration nodes' network interfaces are in use.

use crate::ids::Rank;
use crate::plan::Plan;
use crate::program::Op;
use crate::runtime::sim::SimulatedIteration;
use crate::units::SimTime;
use std::collections::BTreeMap;

/// By stage, replica by replica, the share of the iteration in which something passes the interface of the stage's node: a
/// transfer or a reduction with a rank of another node. Where it does, all of the interface counts as in use.
pub fn interface_use(iteration: &SimulatedIteration, plan: &Plan) -> Vec<f64> {
    let SimulatedIteration { program, timeline, .. } = iteration;
    let node = |rank: Rank| {
        let place = &program.ranks()[rank.index()];
        plan.replicas[place.replica.index()].stages[place.stage.index()].node.as_str()
    };
    let mut uses: BTreeMap<&str, Vec<(SimTime, SimTime)>> = BTreeMap::new();
    for span in &timeline.spans {
        let here = node(span.rank);
        let leaves = match program.instruction(span.rank, span.id).op {
            Op::Send { channel, .. } | Op::Receive { channel, .. } => {
                let channel = &program.channels()[channel as usize];
                node(channel.from) != node(channel.to)
            }
            Op::AllReduce { group, .. } | Op::ReduceScatter { group, .. } | Op::AllGather { group, .. } => {
                program.groups()[group as usize].ranks.iter().any(|&other| node(other) != here)
            }
            Op::Forward { .. } | Op::RedundantForward { .. } | Op::Backward { .. } | Op::OptimizerStep => false,
        };
        if leaves {
            uses.entry(here).or_default().push((span.start, span.end));
        }
    }
    let makespan_s = timeline.makespan().as_seconds();
    let share = |spans: Vec<(SimTime, SimTime)>| if makespan_s > 0.0 { together_s(spans) / makespan_s } else { 0.0 };
    let shares: BTreeMap<&str, f64> = uses.into_iter().map(|(node, spans)| (node, share(spans))).collect();
    let stages = plan.replicas.iter().flat_map(|replica| &replica.stages);
    stages.map(|stage| shares.get(stage.node.as_str()).copied().unwrap_or(0.0)).collect()
}

/// Seconds in which at least one of the spans is under way.
fn together_s(mut spans: Vec<(SimTime, SimTime)>) -> f64 {
    spans.sort_unstable();
    let (mut sum, mut until) = (SimTime::ZERO, SimTime::ZERO);
    for (start, end) in spans {
        sum += end.saturating_sub(start.max(until));
        until = until.max(end);
    }
    sum.as_seconds()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Cluster, NodeDefaults};
    use crate::cost::{CostModel, CostSettings};
    use crate::model::ModelSpec;
    use crate::runtime::sim::simulate;

    #[test]
    fn overlapping_spans_count_once() {
        let spans = [(0, 4), (1, 2), (3, 6), (8, 9)].map(|(start, end)| (SimTime(start), SimTime(end)));
        approx::assert_relative_eq!(together_s(spans.to_vec()), 7e-9, max_relative = 1e-9);
    }

    /// Two stages on two nodes, and the same on one node: transfers use interfaces only where they leave the node. On a wire
    /// a hundred times narrower they take a larger share.
    #[test]
    fn only_what_leaves_a_node_uses_its_interface() {
        let cost = CostModel::new(ModelSpec::preset("gpt-tiny").unwrap(), CostSettings::default(), None);
        let plan = |second: &str, gpu: u32| {
            let stage = |node: &str, gpu, first_layer| {
                serde_json::json!({
                    "node": node, "gpus": [gpu], "gpu_type": "T4", "first_layer": first_layer, "num_layers": 2
                })
            };
            let plan = serde_json::json!({
                "schema_version": 2, "planner": "by hand", "model": "gpt-tiny", "global_batch_size": 2,
                "micro_batch_size": 1, "sequence_parallel": false, "recompute": "none", "precision": "fp32",
                "schedule": "1f1b", "replicas": [{
                    "micro_batches": 2, "stages": [stage("t4-0", 0, 0), stage(second, gpu, 2)]
                }],
            });
            Plan::from_json(&plan.to_string(), "plan").unwrap()
        };
        let uses = |mix: &str, plan: &Plan, bytes_per_s: f64| {
            let mut cluster = Cluster::parse_mix(mix, &NodeDefaults::default()).unwrap();
            cluster.nodes.iter_mut().for_each(|node| node.nic.bytes_per_s = bytes_per_s);
            interface_use(&simulate(plan, &cluster, &cost).unwrap(), plan)
        };
        assert_eq!(uses("1x2xT4", &plan("t4-0", 1), 1e9), [0.0, 0.0]);
        let (apart, narrow) = (plan("t4-1", 0), 1e7);
        let (wide, narrow) = (uses("2x1xT4", &apart, 1e9), uses("2x1xT4", &apart, narrow));
        assert!(wide.iter().all(|share| (0.0..0.5).contains(share) && *share > 0.0), "{wide:?}");
        assert!(narrow.iter().zip(&wide).all(|(narrow, wide)| narrow > wide && *narrow <= 1.0), "{narrow:?}");
    }
}
