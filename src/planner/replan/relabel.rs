//! Which node plays which part of a new plan: nodes that are alike are interchangeable, so each part goes to the node that
//! already holds most of its state.

use super::movement::{Held, blocks};
use crate::cluster::{Cluster, Node};
use crate::cost::CostModel;
use crate::plan::Plan;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// The plan with its nodes exchanged among those alike, so that more of what the old plan held can stay. Greedy, the
/// largest part first: at least half of what the best exchange keeps.
pub fn relabelled(plan: &Plan, old: &Plan, cluster: &Cluster, cost: &CostModel) -> Plan {
    let num_layers = cost.model().num_layers;
    let (held, needed) = (Held::new(old, cluster, num_layers), Held::new(plan, cluster, num_layers));
    let bytes: Vec<u64> = blocks(cost, plan).into_iter().map(|(_, bytes)| bytes).collect();
    let used: HashSet<&str> =
        plan.replicas.iter().flat_map(|replica| &replica.stages).map(|stage| stage.node.as_str()).collect();
    let mut pairs = Vec::new();
    for alike in nodes_alike(cluster) {
        for &part in alike.iter().filter(|&&part| used.contains(cluster.nodes[part].name.as_str())) {
            for &node in &alike {
                let both = needed.blocks[part].iter().zip(&held.blocks[node]).zip(&bytes);
                let kept: u64 = both.filter(|((needs, has), _)| **needs && **has).map(|(_, bytes)| bytes).sum();
                // A part stays with its node where others keep no more.
                pairs.push((Reverse(kept), part != node, part, node));
            }
        }
    }
    pairs.sort_unstable();
    let (mut cast, mut taken) = (HashMap::new(), vec![false; cluster.nodes.len()]);
    for (_, _, part, node) in pairs {
        if !taken[node] && !cast.contains_key(cluster.nodes[part].name.as_str()) {
            taken[node] = true;
            cast.insert(cluster.nodes[part].name.as_str(), cluster.nodes[node].name.as_str());
        }
    }
    let mut plan = plan.clone();
    for stage in plan.replicas.iter_mut().flat_map(|replica| &mut replica.stages) {
        stage.node = cast[stage.node.as_str()].to_owned();
    }
    plan
}

/// Nodes that a plan can't tell apart, in the order of the cluster.
fn nodes_alike(cluster: &Cluster) -> Vec<Vec<usize>> {
    let of = |node: &Node| (node.gpu_count, node.nic, node.wiring);
    let alike = |a: &Node, b: &Node| a.gpu == b.gpu && of(a) == of(b) && a.zone == b.zone;
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (place, node) in cluster.nodes.iter().enumerate() {
        match groups.iter_mut().find(|group| alike(&cluster.nodes[group[0]], node)) {
            Some(group) => group.push(place),
            None => groups.push(vec![place]),
        }
    }
    groups
}
