//! Where the ranks of a run stand: degrees turned into a plan on nodes.

use crate::cluster::{Cluster, FlowCurve, GpuSpec, Link, Node, NodeDefaults, Wiring};
use crate::plan::Stage;
use std::sync::Arc;

/// How nodes are connected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Network {
    /// All network interfaces of a node together.
    pub(super) nic: Link,
    /// How many they are.
    pub(super) nics: u32,
    /// What one flow reaches.
    pub(super) flow: Option<FlowCurve>,
}

impl Network {
    /// Of a node whose network nobody uses.
    pub(super) fn unused() -> Self {
        Self { nic: NodeDefaults::default().nic, nics: 1, flow: None }
    }
}

/// Nodes, each with how many GPUs.
pub(super) fn cluster_of(nodes: &[(Arc<GpuSpec>, u32)], network: Network) -> Cluster {
    let node = |(index, (gpu, gpu_count)): (usize, &(Arc<GpuSpec>, u32))| Node {
        name: format!("node-{index}"),
        gpu: Arc::clone(gpu),
        gpu_count: *gpu_count,
        zone: "default".to_owned(),
        price_usd_per_hour: 0.0,
        nic: network.nic,
        wiring: Wiring { nics: network.nics.clamp(1, *gpu_count), switch: None },
        flow: network.flow,
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
            later_chunks: Vec::new(),
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
        let cluster = cluster_of(&[(Arc::clone(&gpu), 4), (gpu, 4)], Network::unused());
        let places = Places::new(&cluster);
        let stage = places.stage(6, 2, (3, 2)).unwrap();
        assert_eq!((stage.node.as_str(), stage.gpus, stage.first_layer), ("node-1", vec![2, 3], 3));
        assert_eq!(places.stage(3, 2, (0, 1)), None);
        assert_eq!(places.stage(8, 1, (0, 1)), None);
    }
}
