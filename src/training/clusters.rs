//! The nodes of a plan as they are when all of them are this machine.

use crate::cluster::{Cluster, GpuSpec, Link, NodeDefaults};
use crate::plan::{Plan, nodes_of_plan};
use std::sync::Arc;

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
    });
    let defaults = NodeDefaults { nic: UNBOUNDED, ..NodeDefaults::default() };
    nodes_of_plan(plan, &defaults, |_| Ok(Arc::clone(&gpu))).unwrap_or_default()
}

/// A link that bounds nothing.
const UNBOUNDED: Link = Link { bytes_per_s: 1e15, latency_s: 0.0 };
