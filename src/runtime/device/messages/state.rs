//! What is said of the training state: where it is read, where it is to be written, and what has been.

use crate::model::Shard;
use crate::runtime::device::ShardEntry;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// One shard of a rank's state, and where it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShardSource {
    /// The shard.
    pub shard: Shard,
    /// Where it is.
    pub from: ShardOrigin,
}

/// Where a shard is read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ShardOrigin {
    /// Nowhere: it is drawn from the seed.
    Seed,
    /// In this worker's own memory.
    Own,
    /// In the memory of another worker.
    Memory(SocketAddr),
    /// In a copy of a checkpoint in the host memory of another worker, or of this one.
    Copy(SocketAddr),
    /// On the disk of the node of another worker, or of this one.
    Disk(SocketAddr),
    /// In the object store.
    ObjectStore,
}

/// A checkpoint to take.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SnapshotOrder {
    /// Optimizer steps done.
    pub step: u64,
    /// Whether the copy stays in host memory until a newer one replaces it.
    pub keep: bool,
    /// What other workers are sent to keep.
    pub to_peers: Vec<Delivery>,
    /// Shards for the worker's own disk.
    pub to_disk: Vec<Shard>,
    /// Shards for the object store.
    pub to_object_store: Vec<Shard>,
    /// Checkpoints that stay on a disk, this one included.
    pub kept: usize,
    /// Stand still in the middle of it, to be killed there.
    pub stop: bool,
}

/// Shards for another worker's host memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Delivery {
    /// Where that worker listens.
    pub to: SocketAddr,
    /// The shards.
    pub shards: Vec<Shard>,
}

/// A written part of a checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Saved {
    /// Optimizer steps done.
    pub step: u64,
    /// Where it is.
    pub place: SavedPlace,
}

/// Where a part of a checkpoint is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum SavedPlace {
    /// In host memory: the worker's own, and that of those to whom it was sent.
    Host,
    /// On the worker's disk.
    Disk,
    /// In the object store, which was given this.
    ObjectStore(Vec<ShardEntry>),
}

/// Bytes of state by where they were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BytesRead {
    /// The worker's own memory.
    pub own: u64,
    /// Memory of other workers.
    pub memory: u64,
    /// Copies of a checkpoint in host memory, the worker's own or others'.
    pub copies: u64,
    /// Disks.
    pub disk: u64,
    /// The object store.
    pub object_store: u64,
}

impl BytesRead {
    /// Both together.
    pub fn add(&mut self, other: &Self) {
        let Self { own, memory, copies, disk, object_store } = other;
        self.own += own;
        self.memory += memory;
        self.copies += copies;
        self.disk += disk;
        self.object_store += object_store;
    }
}
