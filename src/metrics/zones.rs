//! What an iteration sends from one availability zone to another.

use crate::ids::Rank;
use crate::program::{Op, Program};
use crate::runtime::sim::PricedProgram;

/// Bytes that cross between zones in one iteration, in whatever direction. `zone` tells where a rank sits. What a group reduces
/// passes each link of a ring through its ranks, in their order, whatever algorithm takes the time.
pub fn cross_zone_bytes(program: &Program, priced: &PricedProgram, zone: impl Fn(Rank) -> usize) -> f64 {
    let mut bytes = 0.0;
    let mut rings = vec![(0_u32, 0_u32); program.groups().len()];
    for instruction in program.ranks().iter().flat_map(|rank| &rank.instructions) {
        match instruction.op {
            Op::Send { channel, .. } => {
                let ends = &program.channels()[channel as usize];
                if zone(ends.from) != zone(ends.to) {
                    bytes += priced.channel_bytes[channel as usize] as f64;
                }
            }
            Op::AllReduce { group, .. } | Op::ReduceScatter { group, .. } => rings[group as usize].0 += 1,
            Op::AllGather { group, .. } => rings[group as usize].1 += 1,
            Op::Receive { .. }
            | Op::Forward { .. }
            | Op::RedundantForward { .. }
            | Op::Backward { .. }
            | Op::OptimizerStep => {}
        }
    }
    for ((group, price), (reduced, gathered)) in program.groups().iter().zip(&priced.groups).zip(rings) {
        let members = &group.ranks;
        let next = |place: usize| members[(place + 1) % members.len()];
        let crossings = (0..members.len()).filter(|&place| zone(members[place]) != zone(next(place))).count() as f64;
        // Every member takes part in each.
        let times = |count: u32| f64::from(count) / members.len() as f64;
        let phases: f64 = price.ring_bytes + price.then.iter().map(|(_, bytes)| bytes).sum::<f64>();
        bytes += crossings * (times(reduced) * phases + times(gathered) * price.gathered_bytes);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Cluster, NodeDefaults};
    use crate::cost::{CostModel, CostSettings};
    use crate::model::ModelSpec;
    use crate::runtime::sim::simulate;

    fn plan(stages: &serde_json::Value) -> crate::plan::Plan {
        let plan = serde_json::json!({
            "schema_version": 2, "planner": "by hand", "model": "gpt-tiny", "global_batch_size": 4,
            "micro_batch_size": 1, "sequence_parallel": false, "recompute": "none", "precision": "fp32",
            "schedule": "1f1b", "replicas": stages,
        });
        crate::plan::Plan::from_json(&plan.to_string(), "by hand").unwrap()
    }

    fn stage(node: &str, first_layer: u32, num_layers: u32) -> serde_json::Value {
        serde_json::json!({ "node": node, "gpus": [0], "gpu_type": "T4", "first_layer": first_layer, "num_layers": num_layers })
    }

    #[test]
    fn activations_and_gradients_cross_and_reductions_pass_each_link() {
        let cost = CostModel::new(ModelSpec::preset("gpt-tiny").unwrap(), CostSettings::default(), None);
        let cluster = Cluster::parse_mix("2x1xT4", &NodeDefaults::default()).unwrap();
        let names: Vec<&str> = cluster.nodes.iter().map(|node| node.name.as_str()).collect();
        let layers = cost.model().num_layers;
        let bytes = |stages: &serde_json::Value, zones: [usize; 2]| {
            let iteration = simulate(&plan(stages), &cluster, &cost).unwrap();
            let rings: f64 = iteration.priced.groups.iter().map(|group| group.ring_bytes).sum();
            (cross_zone_bytes(&iteration.program, &iteration.priced, |rank| zones[rank.index()]), rings, plan(stages))
        };
        // A pipeline of two: four micro batches, each an activation there and a gradient back.
        let pipeline = serde_json::json!([{ "micro_batches": 4, "stages": [stage(names[0], 0, layers / 2), stage(names[1], layers / 2, layers - layers / 2)] }]);
        let (crossing, _, plan) = bytes(&pipeline, [0, 1]);
        let boundary = cost.boundary_bytes(&plan.execution_at(1)) as f64;
        let tied = crossing - 8.0 * boundary;
        // What tied embeddings reduce between the two ends comes on top: both directions of one pair.
        assert!(tied >= 0.0 && tied < crossing, "{crossing} {boundary}");
        assert!(bytes(&pipeline, [0, 0]).0.abs() < f64::EPSILON);
        // Two replicas: every link of every ring of two crosses.
        let replica = |node: &str| serde_json::json!({ "micro_batches": 2, "stages": [stage(node, 0, layers)] });
        let replicas = serde_json::json!([replica(names[0]), replica(names[1])]);
        let (crossing, rings, _) = bytes(&replicas, [0, 1]);
        approx::assert_relative_eq!(crossing, 2.0 * rings, max_relative = 1e-12);
    }
}
