//! Which worker plays which rank of a plan, and so which shards it holds.

use super::nodes::Nodes;
use super::progress::program;
use crate::elastic::{PlacedPlan, Shard, rank_slices};
use crate::ids::Rank;
use crate::program::Program;
use crate::runtime::device::messages::{Job, WorkerId};

/// A plan on workers.
pub(super) struct Cast {
    pub(super) placed: PlacedPlan,
    pub(super) program: Program,
    /// By rank.
    pub(super) workers: Vec<WorkerId>,
}

impl Cast {
    /// Gives each rank the worker of its GPU.
    pub(super) fn new(placed: &PlacedPlan, job: &Job, nodes: &Nodes) -> Self {
        let stages = placed.plan.replicas.iter().flat_map(|replica| &replica.stages);
        let gpus = stages.flat_map(|stage| stage.gpus.iter().map(|&gpu| (stage.node.as_str(), gpu)));
        let worker = |(node, gpu)| nodes.worker(node, gpu).expect("a plan uses devices of nodes that are there");
        Self { placed: placed.clone(), program: program(job, &placed.plan), workers: gpus.map(worker).collect() }
    }

    pub(super) fn rank_of(&self, worker: WorkerId) -> Option<Rank> {
        self.workers.iter().position(|other| *other == worker).map(Rank::from)
    }

    /// The name of the node of a rank.
    pub(super) fn node(&self, rank: Rank) -> &str {
        let place = &self.program.ranks()[rank.index()];
        &self.placed.plan.replicas[place.replica.index()].stages[place.stage.index()].node
    }

    /// The shards that a rank holds: blocks from the input side, slices in order.
    pub(super) fn shards(&self, rank: Rank) -> Vec<Shard> {
        let place = &self.program.ranks()[rank.index()];
        let plan = &self.placed.plan;
        let slices = rank_slices(place.tensor_rank as usize, place.tensor_parallel_size as usize);
        let blocks = plan.replicas[place.replica.index()].blocks(place.stage.index());
        let shards = |block| slices.clone().map(move |slice| Shard { block, slice: slice as u8 });
        blocks.into_iter().flat_map(shards).collect()
    }

    /// The first worker of the node that holds the shard.
    pub(super) fn holder(&self, node: &str, shard: Shard) -> Option<WorkerId> {
        let ranks = (0..self.workers.len()).map(Rank::from);
        let mut holding = ranks.filter(|&rank| self.node(rank) == node && self.shards(rank).contains(&shard));
        holding.next().map(|rank| self.workers[rank.index()])
    }
}
