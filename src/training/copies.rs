//! Copies of a checkpoint in host memory: which worker keeps which shard, and who sends it to whom.

use super::holders::Cast;
use super::nodes::Nodes;
use super::workers::Workers;
use crate::elastic::{PeerCopies, Shard};
use crate::ids::Rank;
use crate::runtime::device::messages::{Delivery, WorkerId};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Where the copies of one checkpoint are, by node and shard.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptCopies {
    pub(super) step: u64,
    keepers: BTreeMap<(String, Shard), WorkerId>,
}

impl KeptCopies {
    /// Who is to keep what of the checkpoint of this cast's state: each worker what it holds itself, and of what others send
    /// to its node the slices that are its turn.
    pub(super) fn new(step: u64, cast: &Cast, copies: &PeerCopies, nodes: &Nodes) -> Self {
        let mut keepers = holders(cast);
        for copy in &copies.copies {
            let count = nodes.gpu_count(&copy.to).max(1);
            if let Some(worker) = nodes.worker(&copy.to, u32::from(copy.shard.slice) % count) {
                keepers.entry((copy.to.to_string(), copy.shard)).or_insert(worker);
            }
        }
        Self { step, keepers }
    }

    /// The worker that keeps the node's copy of a shard of this step.
    pub(super) fn keeper(&self, step: u64, node: &str, shard: Shard) -> Option<WorkerId> {
        self.keepers.get(&(node.to_owned(), shard)).filter(|_| self.step == step).copied()
    }

    /// What each worker of the cast sends. Keepers that are gone get nothing: word of that is under way.
    pub(super) fn deliveries(
        &self,
        cast: &Cast,
        copies: &PeerCopies,
        workers: &Workers,
    ) -> BTreeMap<WorkerId, Vec<Delivery>> {
        let holders = holders(cast);
        let mut shards: BTreeMap<(WorkerId, SocketAddr), Vec<Shard>> = BTreeMap::new();
        for copy in &copies.copies {
            let from = holders.get(&(copy.from.to_string(), copy.shard));
            let to = self.keeper(self.step, &copy.to, copy.shard).and_then(|worker| workers.address(worker));
            if let (Some(&from), Some(to)) = (from, to) {
                shards.entry((from, to)).or_default().push(copy.shard);
            }
        }
        let mut deliveries: BTreeMap<WorkerId, Vec<Delivery>> = BTreeMap::new();
        for ((from, to), shards) in shards {
            deliveries.entry(from).or_default().push(Delivery { to, shards });
        }
        deliveries
    }
}

/// Of each node that holds a shard, the first worker that does.
fn holders(cast: &Cast) -> BTreeMap<(String, Shard), WorkerId> {
    let mut holders = BTreeMap::new();
    for (index, &worker) in cast.workers.iter().enumerate() {
        let rank = Rank::from(index);
        for shard in cast.shards(rank) {
            holders.entry((cast.node(rank).to_owned(), shard)).or_insert(worker);
        }
    }
    holders
}
