//! The recovery plan: which node reads which shards from where.

use super::layer_bitmap::{AllowedSources, Copies, LayerBitmap};
use super::layout::{Shard, ShardIndex, StateLayout};
use super::node_sets::NodeMask;
use super::storage::StorageBandwidths;
use crate::cluster::Cluster;
use crate::plan::Plan;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a policy allows, and what storage gives.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RecoveryOptions {
    /// Where state may be read from.
    pub sources: AllowedSources,
    /// Bandwidths of disks and object store.
    pub bandwidths: StorageBandwidths,
}

/// How the nodes of a new plan get the state that they need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecoveryPlan {
    /// The step from which training goes on.
    pub resume_step: u64,
    /// Which copies that step has.
    pub origin: Origin,
    /// What moves, added up per receiver and source; receivers in the order of the cluster, own sources first.
    pub transfers: Vec<ShardTransfer>,
    /// Where each node reads each shard that it needs, in the order of nodes and shards.
    pub shards: Vec<ShardCopy>,
}

/// What a recovery starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The step that training had reached: no iteration is lost.
    Live,
    /// A checkpoint.
    Checkpoint,
    /// Nothing is left or nothing was there: training starts at step 0 with initial weights, and nothing is read.
    InitialWeights,
}

/// State that one node reads from one source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShardTransfer {
    /// Name of the node that needs it.
    pub to: Arc<str>,
    /// Where it is.
    pub source: Source,
    /// Bytes.
    pub bytes: u64,
    /// Shards.
    pub shards: u32,
}

/// One shard that one node needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShardCopy {
    /// Name of the node that needs it.
    pub to: Arc<str>,
    /// The shard.
    pub shard: Shard,
    /// Where the node reads it.
    pub source: Source,
}

/// Where a copy is, seen from the node that needs it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// In memory of one of its own GPUs: nothing crosses the network.
    OwnMemory,
    /// In a copy that its own host memory keeps.
    OwnHost,
    /// On its own disk.
    OwnDisk,
    /// With another node.
    Peer {
        /// Name of that node.
        node: Arc<str>,
        /// Where that node has it.
        tier: Tier,
    },
    /// In the object store.
    ObjectStore,
}

/// Where a node has a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// GPU memory.
    Memory,
    /// A copy in host memory.
    Host,
    /// Local disk.
    Disk,
}

impl RecoveryPlan {
    /// Bytes from the sources that `matches` accepts.
    pub fn bytes_from(&self, matches: impl Fn(&Source) -> bool) -> u64 {
        self.transfers.iter().filter(|transfer| matches(&transfer.source)).map(|transfer| transfer.bytes).sum()
    }

    /// The nodes that others read from.
    pub fn senders(&self) -> BTreeSet<Arc<str>> {
        let sender = |transfer: &ShardTransfer| match &transfer.source {
            Source::Peer { node, .. } => Some(Arc::clone(node)),
            Source::OwnMemory | Source::OwnHost | Source::OwnDisk | Source::ObjectStore => None,
        };
        self.transfers.iter().filter_map(sender).collect()
    }

    fn from_initial_weights() -> Self {
        Self { resume_step: 0, origin: Origin::InitialWeights, transfers: Vec::new(), shards: Vec::new() }
    }
}

/// How the nodes of `plan` get their state, given where copies are and which nodes are `up` (nodes under notice
/// included: they serve as long as they stand).
///
/// Training resumes from the newest step of which every shard can still be read: the step that it had reached if the
/// survivors' memory has everything, else a checkpoint, else step 0. Each shard is read from the node's own memory, else
/// from a copy in its own host memory, else from its own disk, else from a peer, else from the object store: surviving nodes first, the cloud only for what is missing
/// (AutoHet, arXiv 2512.20953), also where the store would be done before a busy peer. Among peers it is greedy list
/// scheduling: shards with the fewest holders first, each from the peer that would have sent it soonest by what it was
/// given so far; memory before disk and then the order of the cluster where two are equal. A node reads a shard once,
/// however many of its GPUs need it.
///
/// # Panics
///
/// If the plan uses a node that isn't up.
pub fn plan_recovery(bitmap: &LayerBitmap, plan: &Plan, up: &Cluster, options: &RecoveryOptions) -> RecoveryPlan {
    let mask: NodeMask = up.nodes.iter().filter_map(|node| bitmap.bit(&node.name)).collect();
    let Some(copies) = bitmap.newest_whole_copies(&mask, options.sources) else {
        return RecoveryPlan::from_initial_weights();
    };
    let mut scheduler = Scheduler::new(bitmap, up, copies, options);
    let needs = needs(bitmap, plan, up);
    let mut assigned: Vec<(Need, Choice)> = Vec::with_capacity(needs.len());
    let mut missing = Vec::new();
    for need in needs {
        match scheduler.own_copy(need) {
            Some(choice) => assigned.push((need, choice)),
            None => missing.push((scheduler.holder_count(need.shard), need.shard, need.to)),
        }
    }
    missing.sort_unstable();
    for (_, shard, to) in missing {
        let need = Need { to, shard };
        assigned.push((need, scheduler.best_peer(need)));
    }
    assigned.sort_unstable_by_key(|(need, _)| *need);
    let origin = if copies.memory.is_some() { Origin::Live } else { Origin::Checkpoint };
    written_out(bitmap, up, &assigned, copies.step, origin)
}

/// A node of the cluster needs a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Need {
    to: usize,
    shard: ShardIndex,
}

/// A [`Source`] with the peer as its place in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Choice {
    OwnMemory,
    OwnHost,
    OwnDisk,
    Peer(usize, Tier),
    ObjectStore,
}

/// What each node of the plan needs, once, in order.
fn needs(bitmap: &LayerBitmap, plan: &Plan, up: &Cluster) -> Vec<Need> {
    let places: BTreeMap<&str, usize> = up.nodes.iter().enumerate().map(|(i, node)| (node.name.as_str(), i)).collect();
    let layout = bitmap.layout();
    let mut needed = vec![false; up.nodes.len() * layout.shard_count()];
    for (node, blocks) in layout.held_blocks(plan) {
        let place = places.get(node).unwrap_or_else(|| panic!("the plan uses node `{node}`, which isn't up"));
        let shards = blocks.into_iter().flat_map(StateLayout::block_shards);
        shards.for_each(|shard| needed[place * layout.shard_count() + shard] = true);
    }
    let needed = needed.into_iter().enumerate().filter(|(_, needed)| *needed);
    needed.map(|(i, _)| Need { to: i / layout.shard_count(), shard: i % layout.shard_count() }).collect()
}

/// Gives each shard a source and keeps count of what each node has to send.
struct Scheduler<'a> {
    bitmap: &'a LayerBitmap,
    up: &'a Cluster,
    copies: Copies<'a>,
    disk_bytes_per_s: f64,
    /// Bit of each node of the cluster, and the other way round.
    bits: Vec<Option<usize>>,
    places: Vec<Option<usize>>,
    /// Seconds for which each node's interface and disk are busy with what was assigned so far.
    interface_s: Vec<f64>,
    disk_s: Vec<f64>,
}

impl<'a> Scheduler<'a> {
    fn new(bitmap: &'a LayerBitmap, up: &'a Cluster, copies: Copies<'a>, options: &RecoveryOptions) -> Self {
        let bits: Vec<_> = up.nodes.iter().map(|node| bitmap.bit(&node.name)).collect();
        let mut places = vec![None; bits.iter().flatten().max().map_or(0, |bit| bit + 1)];
        for (place, bit) in bits.iter().enumerate().filter_map(|(place, bit)| Some((place, (*bit)?))) {
            places[bit] = Some(place);
        }
        let idle = vec![0.0; bits.len()];
        let disk_bytes_per_s = options.bandwidths.disk_bytes_per_s;
        Self { bitmap, up, copies, disk_bytes_per_s, bits, places, interface_s: idle.clone(), disk_s: idle }
    }

    fn own_copy(&mut self, need: Need) -> Option<Choice> {
        let bit = self.bits[need.to]?;
        if self.copies.memory.is_some_and(|sets| sets.contains(need.shard, bit)) {
            return Some(Choice::OwnMemory);
        }
        if self.copies.host.is_some_and(|sets| sets.contains(need.shard, bit)) {
            return Some(Choice::OwnHost);
        }
        if !self.copies.disk.is_some_and(|sets| sets.contains(need.shard, bit)) {
            return None;
        }
        self.disk_s[need.to] += self.bytes(need.shard) / self.disk_bytes_per_s;
        Some(Choice::OwnDisk)
    }

    fn best_peer(&mut self, need: Need) -> Choice {
        let bytes = self.bytes(need.shard);
        let best = self.holders(need.shard).map(|(place, tier)| (self.finish_s(place, tier, bytes), tier, place));
        let soonest = best.min_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        let Some((_, tier, place)) = soonest else {
            assert!(self.copies.object_store, "a step with a lost shard was taken for whole");
            return Choice::ObjectStore;
        };
        self.interface_s[place] += bytes / self.up.nodes[place].nic.bytes_per_s;
        if tier == Tier::Disk {
            self.disk_s[place] += bytes / self.disk_bytes_per_s;
        }
        Choice::Peer(place, tier)
    }

    /// When a peer would have sent so many more bytes.
    fn finish_s(&self, place: usize, tier: Tier, bytes: f64) -> f64 {
        let interface_s = self.interface_s[place] + bytes / self.up.nodes[place].nic.bytes_per_s;
        match tier {
            Tier::Memory | Tier::Host => interface_s,
            Tier::Disk => interface_s.max(self.disk_s[place] + bytes / self.disk_bytes_per_s),
        }
    }

    fn holder_count(&self, shard: ShardIndex) -> usize {
        self.holders(shard).count()
    }

    /// The places of nodes that are up and hold the shard.
    fn holders(&self, shard: ShardIndex) -> impl Iterator<Item = (usize, Tier)> + '_ {
        let Copies { memory, host, disk, .. } = self.copies;
        let tiers = [(memory, Tier::Memory), (host, Tier::Host), (disk, Tier::Disk)];
        let holding = tiers.into_iter().filter_map(|(sets, tier)| Some((sets?, tier)));
        holding.flat_map(move |(sets, tier)| {
            let places = sets.nodes(shard).filter_map(|bit| *self.places.get(bit)?);
            places.map(move |place| (place, tier))
        })
    }

    fn bytes(&self, shard: ShardIndex) -> f64 {
        self.bitmap.layout().bytes(shard) as f64
    }
}

fn written_out(
    bitmap: &LayerBitmap,
    up: &Cluster,
    assigned: &[(Need, Choice)],
    resume_step: u64,
    origin: Origin,
) -> RecoveryPlan {
    let names: Vec<Arc<str>> = up.nodes.iter().map(|node| Arc::from(node.name.as_str())).collect();
    let source = |choice| match choice {
        Choice::OwnMemory => Source::OwnMemory,
        Choice::OwnHost => Source::OwnHost,
        Choice::OwnDisk => Source::OwnDisk,
        Choice::Peer(place, tier) => Source::Peer { node: Arc::clone(&names[place]), tier },
        Choice::ObjectStore => Source::ObjectStore,
    };
    let layout = bitmap.layout();
    let mut sums: BTreeMap<(usize, Choice), (u64, u32)> = BTreeMap::new();
    let mut shards = Vec::with_capacity(assigned.len());
    for &(Need { to, shard }, choice) in assigned {
        let (bytes, count) = sums.entry((to, choice)).or_default();
        *bytes += layout.bytes(shard);
        *count += 1;
        shards.push(ShardCopy { to: Arc::clone(&names[to]), shard: layout.shard(shard), source: source(choice) });
    }
    let transfer = |((to, choice), (bytes, shards))| {
        let to = Arc::clone(&names[to]);
        ShardTransfer { to, source: source(choice), bytes, shards }
    };
    RecoveryPlan { resume_step, origin, transfers: sums.into_iter().map(transfer).collect(), shards }
}
