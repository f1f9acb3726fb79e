//! The nodes of a plan, where nobody has described them.

use crate::cluster::{Cluster, ClusterError, GpuSpec, Link, Node, NodeDefaults};
use crate::plan::{Plan, Stage};
use std::sync::Arc;

/// Nodes of GPUs that the plan names by their types, where nobody has described the cluster.
///
/// # Errors
/// Where a type isn't in the catalog.
pub fn cluster_of_plan(plan: &Plan, defaults: &NodeDefaults) -> Result<Cluster, ClusterError> {
    nodes_of_plan(plan, defaults, |stage| GpuSpec::lookup(&stage.gpu_type))
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
    });
    let defaults = NodeDefaults { nic: UNBOUNDED, ..NodeDefaults::default() };
    nodes_of_plan(plan, &defaults, |_| Ok(Arc::clone(&gpu))).unwrap_or_default()
}

/// A link that bounds nothing.
const UNBOUNDED: Link = Link { bytes_per_s: 1e15, latency_s: 0.0 };

/// The nodes of a plan, each with as many devices as the plan uses of it.
///
/// # Errors
/// Where `gpu` doesn't know the type of a stage.
pub fn nodes_of_plan(
    plan: &Plan,
    defaults: &NodeDefaults,
    gpu: impl Fn(&Stage) -> Result<Arc<GpuSpec>, ClusterError>,
) -> Result<Cluster, ClusterError> {
    let mut cluster = Cluster::default();
    for stage in plan.replicas.iter().flat_map(|replica| &replica.stages) {
        let gpu_count = stage.gpus.iter().max().map_or(0, |&last| last.saturating_add(1));
        if let Some(id) = cluster.find(&stage.node) {
            let node = &mut cluster.nodes[id.index()];
            node.gpu_count = node.gpu_count.max(gpu_count);
            continue;
        }
        let gpu = gpu(stage)?;
        let (name, zone) = (stage.node.clone(), defaults.zone.clone());
        let (nic, wiring) = defaults.interfaces(gpu_count);
        cluster.nodes.push(Node { name, gpu, gpu_count, zone, price_usd_per_hour: 0.0, nic, wiring, flow: None });
    }
    Ok(cluster)
}
