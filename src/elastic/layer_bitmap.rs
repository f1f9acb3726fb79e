//! The layer bitmap: which copies of each shard of the training state are where (AutoHet, arXiv 2512.20953).

use super::layout::{ShardIndex, StateLayout};
use super::node_sets::{NodeMask, NodeSets};
use super::peer_copies::PeerCopies;
use crate::cluster::Cluster;
use crate::plan::Plan;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Checkpoints kept on local disks and in the object store; the older one is what is left when the newer one turns out
/// to be damaged or is lost with its nodes.
pub const CHECKPOINTS_KEPT: usize = 2;

/// Where a policy may read state from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AllowedSources {
    /// Memory, copies in host memory and disks of all nodes that are up, and the object store.
    #[default]
    All,
    /// Memory and copies in host memory of all nodes that are up, and the object store: no checkpoints on local disks.
    MemoryAndObjectStore,
    /// The object store only: every restart reads the last complete checkpoint.
    ObjectStore,
}

/// Which nodes hold which shards, in memory, in copies in host memory and on disk, and which checkpoints the object store
/// has.
///
/// Nodes are known by name. A node that is lost is forgotten; when one of that name comes again, it is a new, empty
/// machine.
#[derive(Clone, Debug)]
pub struct LayerBitmap {
    layout: StateLayout,
    nodes: Interner,
    /// Copies in memory; all are of the step that training has reached.
    live: Option<(u64, NodeSets)>,
    /// Checkpoints being written, by step: the nodes that took part and are still there.
    saving: BTreeMap<u64, NodeSets>,
    /// Those that are to be sent the copies of one, without those that are gone.
    receiving: BTreeMap<u64, NodeSets>,
    /// The newest checkpoint of which copies are kept in host memory: by those that took it and by those that were sent it.
    host: Option<(u64, NodeSets)>,
    disk: BTreeMap<u64, NodeSets>,
    object_store: BTreeSet<u64>,
}

/// The copies of one step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copies<'a> {
    pub(super) step: u64,
    pub(super) memory: Option<&'a NodeSets>,
    pub(super) host: Option<&'a NodeSets>,
    pub(super) disk: Option<&'a NodeSets>,
    pub(super) object_store: bool,
}

impl LayerBitmap {
    /// No copies anywhere.
    pub fn new(layout: StateLayout) -> Self {
        Self {
            layout,
            nodes: Interner::default(),
            live: None,
            saving: BTreeMap::new(),
            receiving: BTreeMap::new(),
            host: None,
            disk: BTreeMap::new(),
            object_store: BTreeSet::new(),
        }
    }

    /// How the state is cut.
    pub fn layout(&self) -> &StateLayout {
        &self.layout
    }

    /// The plan's nodes, and no others, now hold `step` in memory: a start or a recovery has ended.
    ///
    /// Checkpoints of later steps belong to a history that was given up; they are dropped.
    pub fn set_live(&mut self, plan: &Plan, step: u64) {
        self.live = Some((step, self.holders(plan)));
        let is_past = |at: &u64| *at <= step;
        self.saving.retain(|at, _| is_past(at));
        self.receiving.retain(|at, _| is_past(at));
        self.host.take_if(|(at, _)| !is_past(at));
        self.disk.retain(|at, _| is_past(at));
        self.object_store.retain(is_past);
    }

    /// Training has reached `step`: the nodes that held the last one in memory hold this one. Without a live step,
    /// nothing happens.
    pub fn advance_live(&mut self, step: u64) {
        if let Some((live, _)) = &mut self.live {
            *live = step;
        }
    }

    /// The step of the copies in memory, complete or not.
    pub fn live_step(&self) -> Option<u64> {
        self.live.as_ref().map(|(step, _)| *step)
    }

    /// The node is lost, with its memory and its disk.
    pub fn forget_node(&mut self, name: &str) {
        let Some(node) = self.nodes.release(name) else { return };
        let in_memory = self.live.iter_mut().chain(&mut self.host).map(|(_, sets)| sets);
        let written = self.saving.values_mut().chain(self.receiving.values_mut()).chain(self.disk.values_mut());
        in_memory.chain(written).for_each(|sets| sets.remove_node(node));
    }

    /// What the node keeps in host memory can't be read.
    pub fn forget_host(&mut self, name: &str) {
        let Some(node) = self.nodes.find(name) else { return };
        self.host.iter_mut().for_each(|(_, sets)| sets.remove_node(node));
    }

    /// The node's disk can't be read: what it has of any checkpoint counts no longer.
    pub fn forget_disk(&mut self, name: &str) {
        let Some(node) = self.nodes.find(name) else { return };
        self.disk.values_mut().for_each(|sets| sets.remove_node(node));
    }

    /// The object store's checkpoint of `step` can't be read.
    pub fn forget_object_store(&mut self, step: u64) {
        self.object_store.remove(&step);
    }

    /// The plan's nodes have copied `step` to host memory and begin to write it, each what it holds to its disk, and
    /// all together one copy to the object store. These copies go to the host memory of others.
    pub fn begin_checkpoint(&mut self, plan: &Plan, step: u64, copies: &PeerCopies) {
        let holders = self.holders(plan);
        self.saving.insert(step, holders);
        let mut receivers = NodeSets::new(self.layout.shard_count());
        for copy in &copies.copies {
            receivers.insert(self.layout.index_of(copy.shard), self.nodes.intern(&copy.to));
        }
        self.receiving.insert(step, receivers);
    }

    /// The copies have arrived: of the nodes that began checkpoint `step` and weren't lost since, each keeps what it holds
    /// in host memory, and so does who was sent it. Older copies are let go. Does nothing if the checkpoint was never begun
    /// or has ended.
    pub fn record_host(&mut self, step: u64) {
        let (Some(holders), Some(receivers)) = (self.saving.get(&step), self.receiving.get(&step)) else { return };
        let mut kept = holders.clone();
        kept.add_all(receivers);
        self.host = Some((step, kept));
    }

    /// The object store has a whole checkpoint of `step` from an earlier run.
    pub fn record_earlier_checkpoint(&mut self, step: u64) {
        self.object_store.insert(step);
    }

    /// The disks have it: the nodes that began checkpoint `step` and weren't lost since now have it on disk. The newest
    /// two complete checkpoints are kept. Does nothing if the checkpoint was never begun or has ended.
    pub fn record_disk(&mut self, step: u64) {
        let Some(holders) = self.saving.get(&step) else { return };
        self.disk.insert(step, holders.clone());
        let complete = |sets: &NodeSets| sets.cover_everything();
        let oldest_kept = nth_newest(self.disk.iter().filter(|(_, sets)| complete(sets)).map(|(at, _)| *at));
        let oldest_partial = nth_newest(self.disk.iter().filter(|(_, sets)| !complete(sets)).map(|(at, _)| *at));
        self.disk.retain(|at, sets| *at >= oldest_kept && (complete(sets) || *at >= oldest_partial));
    }

    /// The object store has all of checkpoint `step`. Returns whether it does: not if the checkpoint was never begun,
    /// has ended, or if some shard was lost with all its holders before it was written. A shard whose uploader was lost
    /// is taken over by another holder. The newest two checkpoints are kept.
    pub fn record_object_store(&mut self, step: u64) -> bool {
        let whole = self.saving.get(&step).is_some_and(NodeSets::cover_everything);
        if whole {
            self.object_store.insert(step);
            let oldest_kept = nth_newest(self.object_store.iter().copied());
            self.object_store.retain(|at| *at >= oldest_kept);
        }
        whole
    }

    /// Nothing more is written of checkpoint `step`, finished or not; what disks and object store have of it stays.
    pub fn end_checkpoint(&mut self, step: u64) {
        self.saving.remove(&step);
        self.receiving.remove(&step);
    }

    /// The node now has the shard in memory too, of the step that training has reached.
    pub(super) fn add_live(&mut self, shard: ShardIndex, node: &str) {
        let bit = self.nodes.intern(node);
        if let Some((_, sets)) = &mut self.live {
            sets.insert(shard, bit);
        }
    }

    /// Nodes that have the shard in memory.
    pub(super) fn live_holders(&self, shard: ShardIndex) -> usize {
        self.live.as_ref().map_or(0, |(_, sets)| sets.nodes(shard).count())
    }

    /// Whether the node has a shard in memory, at the step that training has reached; `None` if it has none.
    pub(super) fn live_on(&self, node: &str) -> Option<impl Fn(ShardIndex) -> bool + '_> {
        let ((_, sets), node) = (self.live.as_ref()?, self.nodes.find(node)?);
        Some(move |shard| sets.contains(shard, node))
    }

    /// The newest complete checkpoint in the object store.
    pub fn object_store_step(&self) -> Option<u64> {
        self.object_store.last().copied()
    }

    /// The newest step of which every shard can be read from somewhere, with nodes that are up, from these sources.
    pub fn newest_recoverable_step(&self, up: &Cluster, sources: AllowedSources) -> Option<u64> {
        let mask = up.nodes.iter().filter_map(|node| self.nodes.find(&node.name)).collect();
        self.newest_whole_copies(&mask, sources).map(|copies| copies.step)
    }

    /// The copies of that step.
    pub(super) fn newest_whole_copies(&self, up: &NodeMask, sources: AllowedSources) -> Option<Copies<'_>> {
        let (memory, disk) = (sources != AllowedSources::ObjectStore, sources == AllowedSources::All);
        let live_step = self.live_step().filter(|_| memory);
        let host = self.host.as_ref().filter(|_| memory);
        let mut steps: BTreeSet<u64> = self.object_store.iter().copied().chain(live_step).collect();
        steps.extend(host.map(|(step, _)| *step));
        steps.extend(self.disk.keys().filter(|_| disk));
        let copies = |step: u64| Copies {
            step,
            memory: self.live.as_ref().filter(|(live, _)| memory && *live == step).map(|(_, sets)| sets),
            host: host.filter(|(kept, _)| *kept == step).map(|(_, sets)| sets),
            disk: self.disk.get(&step).filter(|_| disk),
            object_store: self.object_store.contains(&step),
        };
        steps.into_iter().rev().map(copies).find(|copies| copies.is_whole(self.layout.shard_count(), up))
    }

    /// The node's bit, if it holds or held anything since it came.
    pub(super) fn bit(&self, name: &str) -> Option<usize> {
        self.nodes.find(name)
    }

    fn holders(&mut self, plan: &Plan) -> NodeSets {
        let mut sets = NodeSets::new(self.layout.shard_count());
        for (name, blocks) in self.layout.held_blocks(plan) {
            let node = self.nodes.intern(name);
            for block in blocks {
                sets.insert_all(StateLayout::block_shards(block), node);
            }
        }
        sets
    }
}

impl Copies<'_> {
    fn is_whole(&self, shards: usize, up: &NodeMask) -> bool {
        let held = |sets: Option<&NodeSets>, shard| sets.is_some_and(|sets| sets.meets(shard, up));
        let near = [self.memory, self.host, self.disk];
        self.object_store || (0..shards).all(|shard| near.iter().any(|&sets| held(sets, shard)))
    }
}

/// The oldest of the newest [`CHECKPOINTS_KEPT`] of ascending steps; zero where there are fewer.
fn nth_newest(ascending: impl DoubleEndedIterator<Item = u64>) -> u64 {
    ascending.rev().nth(CHECKPOINTS_KEPT - 1).unwrap_or(0)
}

/// Names to bits. A released bit is used again, so that sets stay as narrow as the cluster, however long the trace.
#[derive(Clone, Debug, Default)]
struct Interner {
    bits: BTreeMap<String, usize>,
    free: BTreeSet<usize>,
}

impl Interner {
    fn find(&self, name: &str) -> Option<usize> {
        self.bits.get(name).copied()
    }

    fn intern(&mut self, name: &str) -> usize {
        if let Some(bit) = self.find(name) {
            return bit;
        }
        let bit = self.free.pop_first().unwrap_or(self.bits.len());
        self.bits.insert(name.to_owned(), bit);
        bit
    }

    fn release(&mut self, name: &str) -> Option<usize> {
        let bit = self.bits.remove(name)?;
        self.free.insert(bit);
        Some(bit)
    }
}

#[cfg(test)]
mod tests;
