//! Where the ranks of a run stand: degrees turned into a plan on nodes.

use crate::cluster::{Cluster, FlowCurve, GpuSpec, Link, Node};
use crate::plan::Stage;
use std::sync::Arc;

/// What the nodes of a run have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wiring {
    /// Network interface of a node.
    pub(super) nic: Link,
    /// What one flow reaches.
    pub(super) flow: Option<FlowCurve>,
}

/// Nodes, each with how many GPUs.
pub(super) fn cluster_of(nodes: &[(Arc<GpuSpec>, u32)], wiring: Wiring) -> Cluster {
    let node = |(index, (gpu, gpu_count)): (usize, &(Arc<GpuSpec>, u32))| Node {
        name: format!("node-{index}"),
        gpu: Arc::clone(gpu),
        gpu_count: *gpu_count,
        zone: "default".to_owned(),
        price_usd_per_hour: 0.0,
        nic: wiring.nic,
        flow: wiring.flow,
    };
    Cluster { nodes: nodes.iter().enumerate().map(node).collect() }
}

/// GPUs of a cluster in the order of ranks, node by node.
pub(super) struct Places<'a> {
    cluster: &'a Cluster,
    places: Vec<(usize, u32)>,
}

impl<'a> Places<'a> {
    pub(super) fn new(cluster: &'a Cluster) -> Self {
        let of_node = |(index, node): (usize, &Node)| (0..node.gpu_count).map(move |gpu| (index, gpu));
        Self { cluster, places: cluster.nodes.iter().enumerate().flat_map(of_node).collect() }
    }

    /// The stage of the ranks from `first` on; `None` where they aren't GPUs of one node.
    pub(super) fn stage(&self, first: usize, tensor_parallel_size: u32, layers: (u32, u32)) -> Option<Stage> {
        let ranks = self.places.get(first..first + tensor_parallel_size as usize)?;
        let (node, _) = *ranks.first()?;
        if ranks.iter().any(|(other, _)| *other != node) {
            return None;
        }
        let node = &self.cluster.nodes[node];
        Some(Stage {
            node: node.name.clone(),
            gpus: ranks.iter().map(|(_, gpu)| *gpu).collect(),
            gpu_type: node.gpu.name.clone(),
            first_layer: layers.0,
            num_layers: layers.1,
        })
    }
}

/// First layer and number of layers of each stage: as evenly as whole layers allow, the first stages having one more.
pub(super) fn even_layers(num_layers: u32, depth: u32) -> Vec<(u32, u32)> {
    let (each, more) = (num_layers / depth, num_layers % depth);
    let mut first = 0;
    (0..depth)
        .map(|stage| {
            let count = each + u32::from(stage < more);
            first += count;
            (first - count, count)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_dealt_out_evenly() {
        assert_eq!(even_layers(24, 4), [(0, 6), (6, 6), (12, 6), (18, 6)]);
        assert_eq!(even_layers(5, 3), [(0, 2), (2, 2), (4, 1)]);
    }

    #[test]
    fn a_stage_stays_in_its_node() {
        let gpu = GpuSpec::lookup("T4").unwrap();
        let wiring = Wiring { nic: Link::from_gbit_per_s(50.0, 0.0), flow: None };
        let cluster = cluster_of(&[(Arc::clone(&gpu), 4), (gpu, 4)], wiring);
        let places = Places::new(&cluster);
        let stage = places.stage(6, 2, (3, 2)).unwrap();
        assert_eq!((stage.node.as_str(), stage.gpus, stage.first_layer), ("node-1", vec![2, 3], 3));
        assert_eq!(places.stage(3, 2, (0, 1)), None);
        assert_eq!(places.stage(8, 1, (0, 1)), None);
    }
}
