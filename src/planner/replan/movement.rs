//! What a change of plan moves, and how long that takes.

use crate::cluster::Cluster;
use crate::cost::CostModel;
use crate::model::Block;
use crate::plan::Plan;
use std::collections::HashMap;

/// What a change of plan moves between nodes. A tensor-parallel group is in one node, so that a node has all of a block or
/// none; what moves between GPUs of a node counts as staying.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Movement {
    /// State that the new plan needs where it is.
    pub kept_bytes: u64,
    /// State that other nodes send.
    pub moved_bytes: u64,
    /// State that no node has any more, read from where checkpoints are.
    pub restored_bytes: u64,
    /// Seconds until the last node has its state, all interfaces at work at once.
    pub seconds: f64,
    /// The nodes that lack state, in the order of the cluster.
    pub nodes: Vec<NodeMovement>,
}

/// What one node gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeMovement {
    /// Name of the node.
    pub node: String,
    /// Blocks that it lacks.
    pub blocks: Vec<Block>,
    /// Their bytes.
    pub bytes: u64,
}

/// Blocks by node of a cluster, from the input side.
pub(super) struct Held {
    /// Per node and block.
    pub blocks: Vec<Vec<bool>>,
}

/// Blocks of a model, from the input side, with the bytes of their state.
pub(super) fn blocks(cost: &CostModel, plan: &Plan) -> Vec<(Block, u64)> {
    let layers = (0..cost.model().num_layers).map(|layer| Block::Layer(crate::ids::LayerId(layer)));
    let all = std::iter::once(Block::Embedding).chain(layers).chain([Block::Head]);
    all.map(|block| (block, cost.state_bytes(block, plan.precision))).collect()
}

impl Held {
    /// What the nodes of the cluster hold under a plan, which may name others.
    pub fn new(plan: &Plan, cluster: &Cluster, num_layers: u32) -> Self {
        let places: HashMap<&str, usize> =
            cluster.nodes.iter().enumerate().map(|(place, node)| (node.name.as_str(), place)).collect();
        let mut held = vec![vec![false; num_layers as usize + 2]; cluster.nodes.len()];
        for replica in &plan.replicas {
            for (position, stage) in replica.stages.iter().enumerate() {
                let Some(&place) = places.get(stage.node.as_str()) else { continue };
                let index = |block| match block {
                    Block::Embedding => 0,
                    Block::Layer(layer) => layer.index() + 1,
                    Block::Head => num_layers as usize + 1,
                };
                for block in replica.blocks(position) {
                    held[place].get_mut(index(block)).into_iter().for_each(|holds| *holds = true);
                }
            }
        }
        Self { blocks: held }
    }
}

/// What changing from one plan to another moves, on the nodes that are there. Each block that a node lacks comes from the
/// node that would have sent it soonest, rarest blocks first; from storage where none has it.
pub fn movement(from: &Plan, to: &Plan, cluster: &Cluster, cost: &CostModel, store_bytes_per_s: f64) -> Movement {
    let num_layers = cost.model().num_layers;
    let (held, needed) = (Held::new(from, cluster, num_layers), Held::new(to, cluster, num_layers));
    let blocks = blocks(cost, to);
    let holders: Vec<Vec<usize>> = (0..blocks.len())
        .map(|block| (0..held.blocks.len()).filter(|&node| held.blocks[node][block]).collect())
        .collect();
    let mut moved = Movement::default();
    let mut missing = Vec::new();
    for (place, node) in cluster.nodes.iter().enumerate() {
        let mut lacks = NodeMovement { node: node.name.clone(), blocks: Vec::new(), bytes: 0 };
        for (block, &(what, bytes)) in blocks.iter().enumerate().filter(|(block, _)| needed.blocks[place][*block]) {
            if held.blocks[place][block] {
                moved.kept_bytes += bytes;
            } else {
                lacks.blocks.push(what);
                lacks.bytes += bytes;
                missing.push((holders[block].len(), block, place));
            }
        }
        moved.nodes.extend((lacks.bytes > 0).then_some(lacks));
    }
    missing.sort_unstable();
    let (mut in_s, mut out_s) = (vec![0.0_f64; cluster.nodes.len()], vec![0.0_f64; cluster.nodes.len()]);
    for (_, block, place) in missing {
        let bytes = blocks[block].1;
        let seconds = |node: usize| bytes as f64 / cluster.nodes[node].nic.bytes_per_s;
        let soonest = |a: &&usize, b: &&usize| (out_s[**a] + seconds(**a)).total_cmp(&(out_s[**b] + seconds(**b)));
        if let Some(&sender) = holders[block].iter().min_by(soonest) {
            moved.moved_bytes += bytes;
            out_s[sender] += seconds(sender);
            in_s[place] += seconds(place);
        } else {
            moved.restored_bytes += bytes;
            in_s[place] += seconds(place).max(bytes as f64 / store_bytes_per_s);
        }
    }
    moved.seconds = in_s.into_iter().chain(out_s).fold(0.0, f64::max);
    moved
}
