//! Which node plays which part of a plan: nodes of one class are interchangeable, so each part goes to the node that
//! already holds most of its state.

use super::layer_bitmap::LayerBitmap;
use super::layout::StateLayout;
use crate::cluster::{Cluster, Node};
use crate::plan::Plan;
use std::collections::{BTreeMap, BTreeSet};

/// Everything about a node that a plan can depend on, without its name. Prices vary from one start to the next and are
/// left out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeClass {
    gpu: String,
    gpu_count: u32,
    zone: String,
    /// Bandwidth and latency of the network interface, as bits: equal or not is all that counts.
    nic: (u64, u64),
}

impl NodeClass {
    /// The class of a node.
    pub fn of(node: &Node) -> Self {
        Self {
            gpu: node.gpu.name.clone(),
            gpu_count: node.gpu_count,
            zone: node.zone.clone(),
            nic: (node.nic.bytes_per_s.to_bits(), node.nic.latency_s.to_bits()),
        }
    }

    /// A name for the `number`-th node of the class.
    pub(super) fn name(&self, number: usize) -> String {
        let Self { gpu, gpu_count, zone, nic } = self;
        format!("{gpu_count}x{gpu}@{zone}/{:x}.{:x}#{number}", nic.0, nic.1)
    }

    /// The class in a name made by [`NodeClass::name`].
    fn part_of_name(name: &str) -> &str {
        name.rsplit_once('#').map_or(name, |(class, _)| class)
    }
}

/// Puts a plan over nameless nodes on the nodes of `cluster`; `None` if there are too few of some class.
pub(super) fn place(plan: &Plan, cluster: &Cluster, bitmap: &LayerBitmap) -> Option<Plan> {
    let parts: BTreeSet<&str> = plan.replicas.iter().flat_map(|r| &r.stages).map(|stage| stage.node.as_str()).collect();
    let mut nodes_by_class: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for node in &cluster.nodes {
        let class = NodeClass::of(node).name(0);
        nodes_by_class.entry(NodeClass::part_of_name(&class).to_owned()).or_default().push(&node.name);
    }
    let mut parts_by_class: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for &part in &parts {
        parts_by_class.entry(NodeClass::part_of_name(part)).or_default().push(part);
    }
    let needed = needed_blocks(plan, bitmap);
    // Asked for once for each node, not for each part that it might play.
    let live: BTreeMap<&str, Vec<u64>> =
        cluster.nodes.iter().map(|node| (node.name.as_str(), live_bytes(&node.name, bitmap))).collect();
    let mut played_by: BTreeMap<&str, &str> = BTreeMap::new();
    for (class, parts) in parts_by_class {
        let nodes = nodes_by_class.get(class).filter(|nodes| nodes.len() >= parts.len())?;
        played_by.extend(assign(&parts, nodes, |part, node| kept_bytes(&needed[part], &live[node])));
    }
    let mut placed = plan.clone();
    for stage in placed.replicas.iter_mut().flat_map(|replica| &mut replica.stages) {
        played_by[stage.node.as_str()].clone_into(&mut stage.node);
    }
    Some(placed)
}

/// Pairs parts with nodes, most bytes that can stay first. Greedy: at least half of what the best pairing keeps.
fn assign<'p, 'n>(parts: &[&'p str], nodes: &[&'n str], bytes: impl Fn(&str, &str) -> u64) -> Vec<(&'p str, &'n str)> {
    let pairs = parts.iter().flat_map(|&part| nodes.iter().map(move |&node| (part, node)));
    let mut pairs: Vec<_> = pairs.map(|(part, node)| (bytes(part, node), part, node)).collect();
    pairs.sort_by_key(|(bytes, _, _)| std::cmp::Reverse(*bytes));
    let (mut placed, mut taken) = (BTreeSet::new(), BTreeSet::new());
    let mut assigned = Vec::new();
    for (_, part, node) in pairs {
        if !placed.contains(part) && !taken.contains(node) {
            placed.insert(part);
            taken.insert(node);
            assigned.push((part, node));
        }
    }
    assigned
}

/// The blocks that each part of the plan has to hold, each once: whole ones, as tensor-parallel groups are within nodes.
fn needed_blocks<'p>(plan: &'p Plan, bitmap: &LayerBitmap) -> BTreeMap<&'p str, Vec<usize>> {
    let mut needed: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for replica in &plan.replicas {
        for (position, stage) in replica.stages.iter().enumerate() {
            needed.entry(&stage.node).or_default().extend(bitmap.layout().stage_blocks(replica, position));
        }
    }
    for blocks in needed.values_mut() {
        blocks.sort_unstable();
        blocks.dedup();
    }
    needed
}

/// Bytes of each block that the node has in memory.
fn live_bytes(node: &str, bitmap: &LayerBitmap) -> Vec<u64> {
    let layout = bitmap.layout();
    let Some(is_live) = bitmap.live_on(node) else { return vec![0; layout.block_count()] };
    let of_block = |block: usize| {
        StateLayout::block_shards(block).filter(|&shard| is_live(shard)).map(|shard| layout.bytes(shard)).sum()
    };
    (0..layout.block_count()).map(of_block).collect()
}

/// Bytes of `blocks` that a node has in memory, of those that it has of each block.
fn kept_bytes(blocks: &[usize], live: &[u64]) -> u64 {
    blocks.iter().map(|&block| live[block]).sum()
}
