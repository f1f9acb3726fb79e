//! The nodes of a plan, where nobody has described them.

use super::{Plan, Stage};
use crate::cluster::{Cluster, ClusterError, GpuSpec, Node, NodeDefaults};
use std::sync::Arc;

/// Nodes of GPUs that the plan names by their types, where nobody has described the cluster.
///
/// # Errors
/// Where a type isn't in the catalog, which has no CPU cores either.
pub fn cluster_of_plan(plan: &Plan, defaults: &NodeDefaults) -> Result<Cluster, ClusterError> {
    let gpu = |stage: &Stage| {
        if stage.gpu_type == GpuSpec::CORE { Err(ClusterError::Cores) } else { GpuSpec::lookup(&stage.gpu_type) }
    };
    nodes_of_plan(plan, defaults, gpu)
}

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
