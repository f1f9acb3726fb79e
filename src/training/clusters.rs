//! The nodes of a plan as they are when all of them are this machine.

use crate::cluster::{Cluster, GpuSpec, Link, NodeDefaults};
use crate::plan::{Plan, PlanViolation, nodes_of_plan};
use crate::runtime::device::{DeviceError, MAX_RANKS};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Checks that the nodes of the start are no more than this machine can play, one process for each GPU, and that the plan's
/// stages are on GPUs of `all` nodes, those that come later included.
///
/// # Errors
/// What is wrong, as of [`Plan::validate`].
pub fn check_nodes(plan: &Plan, start: &Cluster, all: &Cluster) -> Result<(), DeviceError> {
    let gpus = gpu_count(start);
    if gpus > MAX_RANKS as u64 {
        let what = format!("a plan for nodes that have {gpus} GPUs, counted from GPU 0 of each,");
        let hint = "each GPU of a node is a process of this machine, at most 64 of them";
        return Err(DeviceError::Unsupported { what, hint });
    }
    if all.nodes.iter().any(|node| node.name.is_empty()) {
        let what = "a node without a name".to_owned();
        return Err(DeviceError::Unsupported { what, hint: "give each node of the plan a name" });
    }
    let (mut used, mut violations) = (BTreeSet::new(), Vec::new());
    for (place, stage) in plan.stages() {
        let name = || stage.node.clone();
        let Some(id) = all.find(&stage.node) else {
            violations.push(PlanViolation::UnknownNode { place, node: name() });
            continue;
        };
        let gpu_count = all.node(id).gpu_count;
        for &gpu in &stage.gpus {
            if gpu >= gpu_count {
                violations.push(PlanViolation::GpuOutOfRange { place, node: name(), gpu, gpu_count });
            } else if !used.insert((stage.node.as_str(), gpu)) {
                violations.push(PlanViolation::GpuUsedTwice { place, node: name(), gpu });
            }
        }
    }
    if violations.is_empty() { Ok(()) } else { Err(DeviceError::Plan(violations)) }
}

/// GPUs of all nodes together.
pub fn gpu_count(cluster: &Cluster) -> u64 {
    cluster.nodes.iter().map(|node| u64::from(node.gpu_count)).sum()
}

/// The nodes of a plan as they are when all of them are this machine: devices of one type that is known by its profile,
/// and links without bounds of their own.
pub fn host_cluster(plan: &Plan, gpu_type: &str) -> Cluster {
    let gpu = Arc::new(GpuSpec {
        name: gpu_type.to_owned(),
        memory_bytes: u64::MAX,
        // Nothing is estimated from these: the profile measures all blocks.
        fp32_flops_per_s: 1e11,
        fp16_flops_per_s: 1e11,
        bf16_flops_per_s: Some(1e11),
        hbm_bytes_per_s: 1e10,
        multiprocessors: 1,
        product_share: GpuSpec::USUAL_PRODUCT_SHARE,
        stream_share: GpuSpec::USUAL_STREAM_SHARE,
        intra_node: UNBOUNDED,
        intra_node_kind: "this machine".to_owned(),
        host_bytes_per_s: UNBOUNDED.bytes_per_s,
        spot_usd_per_hour: 0.0,
        on_demand_usd_per_hour: 0.0,
    });
    let defaults = NodeDefaults { nic: UNBOUNDED, ..NodeDefaults::default() };
    nodes_of_plan(plan, &defaults, |_| Ok(Arc::clone(&gpu))).unwrap_or_default()
}

/// A link that bounds nothing.
const UNBOUNDED: Link = Link { bytes_per_s: 1e15, latency_s: 0.0 };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::cluster_of_plan;

    /// A pipeline of a layer a stage, each on these GPUs of a node.
    fn plan(stages: &[(&str, &[u32])]) -> Plan {
        let stage = |(first_layer, (node, gpus)): (usize, &(&str, &[u32]))| {
            serde_json::json!({
                "node": node, "gpus": gpus, "gpu_type": "T4", "first_layer": first_layer, "num_layers": 1
            })
        };
        let stages: Vec<_> = stages.iter().enumerate().map(stage).collect();
        let text = serde_json::json!({
            "schema_version": 2, "planner": "by hand", "model": "gpt-tiny", "global_batch_size": 1, "micro_batch_size": 1,
            "sequence_parallel": false, "recompute": "none", "precision": "fp32", "schedule": "1f1b",
            "replicas": [{ "micro_batches": 1, "stages": stages }],
        });
        Plan::from_json(&text.to_string(), "plan").unwrap()
    }

    fn checked(stages: &[(&str, &[u32])]) -> Result<(), String> {
        let plan = plan(stages);
        let nodes = cluster_of_plan(&plan, &NodeDefaults::default()).unwrap();
        check_nodes(&plan, &nodes, &nodes).map_err(|error| error.to_string())
    }

    #[test]
    fn nodes_that_no_machine_can_play_are_refused() {
        checked(&[("n0", &[0]), ("n1", &[2]), ("n0", &[1])]).unwrap();
        let refuses = |stages: &[(&str, &[u32])], expected: &str| {
            let found = checked(stages).unwrap_err();
            assert!(found.contains(expected) && found.contains("\nhint: "), "{found}");
        };
        refuses(&[("n0", &[u32::MAX])], "nodes that have 4294967295 GPUs");
        refuses(&[("n0", &[u32::MAX]), ("n1", &[u32::MAX])], "nodes that have 8589934590 GPUs");
        refuses(&[("n0", &[40]), ("n1", &[24])], "nodes that have 66 GPUs");
        refuses(&[("n0", &[0, 0])], "GPU 0 of node `n0` is used already");
        refuses(&[("", &[0])], "a node without a name");
    }

    #[test]
    fn a_plan_is_for_nodes_that_are_there() {
        let plan = plan(&[("n0", &[0, 1]), ("n1", &[0])]);
        let mut nodes = cluster_of_plan(&plan, &NodeDefaults::default()).unwrap();
        check_nodes(&plan, &nodes, &nodes).unwrap();
        nodes.nodes[0].gpu_count = 1;
        nodes.nodes.pop();
        let found = check_nodes(&plan, &nodes, &nodes).unwrap_err().to_string();
        assert!(found.contains("there is no GPU 1") && found.contains("there is no node `n1`"), "{found}");
    }
}
