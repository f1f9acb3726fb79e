//! A change of plan as orders: who plays which rank, and where each shard of its state is.

use super::copies::KeptCopies;
use super::holders::Cast;
use super::nodes::Nodes;
use super::workers::Workers;
use crate::elastic::{Origin, RecoveryPlan, Shard, Source, Tier};
use crate::ids::Rank;
use crate::runtime::device::messages::{ShardOrigin, ShardSource, WorkerId};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// What says where things are.
pub(super) struct Directory<'a> {
    pub(super) nodes: &'a Nodes,
    pub(super) workers: &'a Workers,
    /// Who held what before the change.
    pub(super) before: Option<&'a Cast>,
    /// Where copies in host memory are.
    pub(super) copies: Option<&'a KeptCopies>,
}

impl Directory<'_> {
    /// Where the worker that is to play `rank` of `cast` finds its shards; nothing where one has gone since the recovery
    /// was planned.
    pub(super) fn sources(&self, cast: &Cast, rank: Rank, recovery: &RecoveryPlan) -> Option<Vec<ShardSource>> {
        let worker = cast.workers[rank.index()];
        let node = cast.node(rank);
        let of_node = recovery.shards.iter().filter(|copy| &*copy.to == node);
        let planned: BTreeMap<Shard, &Source> = of_node.map(|copy| (copy.shard, &copy.source)).collect();
        let find = |shard: Shard| {
            let from = match planned.get(&shard) {
                None if recovery.origin == Origin::InitialWeights => ShardOrigin::Seed,
                None => unreachable!("a recovery says where each shard is that a node needs"),
                Some(Source::OwnHost) => self.in_copies_of(recovery.resume_step, node, shard)?,
                Some(Source::Peer { node, tier: Tier::Host }) => {
                    self.in_copies_of(recovery.resume_step, node, shard)?
                }
                Some(source) => self.origin(worker, node, shard, source)?,
            };
            Some(ShardSource { shard, from })
        };
        cast.shards(rank).into_iter().map(find).collect()
    }

    fn origin(&self, worker: WorkerId, node: &str, shard: Shard, source: &Source) -> Option<ShardOrigin> {
        match source {
            Source::OwnMemory if self.holds(worker, shard) => Some(ShardOrigin::Own),
            Source::OwnMemory => self.in_memory_of(node, shard),
            Source::Peer { node, tier: Tier::Memory } => self.in_memory_of(node, shard),
            Source::OwnDisk => self.address(worker).map(ShardOrigin::Disk),
            Source::Peer { node, tier: Tier::Disk } => {
                self.address(self.nodes.any_worker(node)?).map(ShardOrigin::Disk)
            }
            Source::ObjectStore => Some(ShardOrigin::ObjectStore),
            Source::OwnHost | Source::Peer { tier: Tier::Host, .. } => unreachable!("copies have a step"),
        }
    }

    fn in_copies_of(&self, step: u64, node: &str, shard: Shard) -> Option<ShardOrigin> {
        self.address(self.copies?.keeper(step, node, shard)?).map(ShardOrigin::Copy)
    }

    fn holds(&self, worker: WorkerId, shard: Shard) -> bool {
        let held = self.before.and_then(|cast| Some((cast, cast.rank_of(worker)?)));
        held.is_some_and(|(cast, rank)| cast.shards(rank).contains(&shard))
    }

    fn in_memory_of(&self, node: &str, shard: Shard) -> Option<ShardOrigin> {
        self.address(self.before?.holder(node, shard)?).map(ShardOrigin::Memory)
    }

    fn address(&self, worker: WorkerId) -> Option<SocketAddr> {
        self.workers.address(worker)
    }
}
