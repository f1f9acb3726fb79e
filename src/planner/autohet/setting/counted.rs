//! How many units of each class a cluster has.

use super::ClassCosts;
use crate::cluster::{Cluster, GpuSpec, Link};
use std::sync::Arc;

/// Units of one GPU type behind one kind of network interface.
pub(super) struct Counted {
    pub(super) gpu: Arc<GpuSpec>,
    nic: Link,
    units: u32,
    units_per_node: u32,
}

impl Counted {
    pub(super) fn with(self, priced: ClassCosts) -> ClassCosts {
        let Self { gpu, nic, units, units_per_node } = self;
        ClassCosts { gpu, nic, units, units_per_node, ..priced }
    }
}

/// Units by GPU type and network interface, in the order of the nodes.
pub(super) fn count_units(cluster: &Cluster, tensor_parallel_size: u32) -> Vec<Counted> {
    let mut counted: Vec<Counted> = Vec::new();
    for node in &cluster.nodes {
        let units = node.gpu_count / tensor_parallel_size;
        if units == 0 {
            continue;
        }
        if let Some(known) = counted.iter_mut().find(|known| same_class(&known.gpu, known.nic, node)) {
            known.units += units;
            known.units_per_node = known.units_per_node.max(units);
        } else {
            let (gpu, nic) = (node.gpu.clone(), node.nic);
            counted.push(Counted { gpu, nic, units, units_per_node: units });
        }
    }
    counted
}

/// Whether a node's units are of the class of this GPU type and interface.
pub fn same_class(gpu: &Arc<GpuSpec>, nic: Link, node: &crate::cluster::Node) -> bool {
    (Arc::ptr_eq(gpu, &node.gpu) || **gpu == *node.gpu) && nic == node.nic
}
