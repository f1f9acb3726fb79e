//! What reducing a group's gradients takes: an algorithm, and a way over all links that it uses at once.

use super::pricing::GroupPrice;
use super::topology::Topology;
use crate::cost::communication::{Algorithm, Collective, CollectiveCost, GroupShape};
use crate::cost::{Collectives, CostModel, OptimizerState};
use crate::ids::Rank;
use crate::plan::Plan;
use crate::program::Group;
use crate::units::SimTime;

/// Prices one group.
pub(super) fn price_group(plan: &Plan, group: &Group, cost: &CostModel, topology: &mut Topology<'_>) -> GroupPrice {
    let execution = plan.execution_at(group.share.of);
    let sum = |of: &dyn Fn(crate::model::Block) -> u64| group.blocks.iter().map(|&block| of(block)).sum::<u64>() as f64;
    let gradient_bytes = sum(&|block| cost.gradient_bytes(block, &execution));
    let weight_bytes = sum(&|block| cost.parameters_per_gpu(block, &execution) * execution.precision.bytes());
    let framework = cost.framework();
    let is_scattered = framework.optimizer == OptimizerState::Sharded && plan.replicas.len() > 1;
    let collective = if is_scattered { Collective::ReduceScatter } else { Collective::AllReduce };
    let mut price = price_collective(collective, &group.ranks, gradient_bytes, framework.collectives, topology);
    if is_scattered {
        let shape = topology.shape(&group.ranks);
        price.gathered_bytes = cost_of(Collective::AllGather, &shape, weight_bytes, framework.collectives).link_bytes;
    }
    price
}

/// Prices a collective of `bytes`, the size of each rank's whole buffer.
pub(super) fn price_collective(
    collective: Collective,
    ranks: &[Rank],
    bytes: f64,
    how: Collectives,
    topology: &mut Topology<'_>,
) -> GroupPrice {
    if how == Collectives::Hierarchical
        && collective == Collective::AllReduce
        && let Some(price) = hierarchical(ranks, bytes, topology)
    {
        return price;
    }
    price_as(collective, &cost_of(collective, &topology.shape(ranks), bytes, how), ranks, bytes, topology)
}

/// The same in one phase, of this cost.
pub(super) fn price_as(
    collective: Collective,
    cost: &CollectiveCost,
    ranks: &[Rank],
    bytes: f64,
    topology: &mut Topology<'_>,
) -> GroupPrice {
    let latency = SimTime::from_seconds(cost.latency_s);
    let share = bytes / ranks.len() as f64;
    let (route, ring_bytes) = match (collective, cost.algorithm) {
        (Collective::AllToAll, _) => (topology.every_pair(ranks, latency, share), share),
        (_, Algorithm::Ring) => (topology.ring(ranks, latency, share), cost.link_bytes),
        (_, Algorithm::Tree) => (topology.tree(ranks, latency, bytes / 2.0), cost.link_bytes),
    };
    GroupPrice { ring_bytes, route, then: Vec::new(), gathered_bytes: 0.0 }
}

fn cost_of(collective: Collective, shape: &GroupShape, bytes: f64, how: Collectives) -> CollectiveCost {
    match how {
        Collectives::Nccl => shape.nccl(collective, bytes),
        Collectives::Ring | Collectives::Hierarchical => shape.ring_in_step(collective, bytes),
    }
}

/// Within each node, between those who hold the same share, and within each node again; `None` where the group hasn't as
/// many members, more than one, in each of several nodes.
pub(super) fn hierarchical(ranks: &[Rank], bytes: f64, topology: &mut Topology<'_>) -> Option<GroupPrice> {
    let nodes: Vec<Vec<Rank>> = topology
        .by_node(ranks)
        .into_values()
        .map(|members| members.into_iter().map(|(rank, _)| rank).collect())
        .collect();
    let per_node = nodes[0].len();
    if nodes.len() < 2 || per_node < 2 || nodes.iter().any(|members| members.len() != per_node) {
        return None;
    }
    let [(inside_s, inside_bytes), (between_s, between_bytes)] = topology.shape(ranks).hierarchical(bytes);
    let within = topology.rings(&nodes, SimTime::from_seconds(inside_s), bytes / per_node as f64);
    let across: Vec<Vec<Rank>> =
        (0..per_node).map(|place| nodes.iter().map(|members| members[place]).collect()).collect();
    let message_bytes = bytes / (per_node * nodes.len()) as f64;
    let across = topology.rings(&across, SimTime::from_seconds(between_s), message_bytes);
    let then = vec![(across, between_bytes), (within, inside_bytes)];
    Some(GroupPrice { ring_bytes: inside_bytes, route: within, then, gathered_bytes: 0.0 })
}
