//! Where a worker keeps checkpoints: its part of its node's disk, and the object store that all share.

use super::{CheckpointStore, Limited, LocalDirectory, ObjectStore, RunIdentity, StoreError, StoredStep};
use crate::model::Shard;
use crate::runtime::device::BlockState;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Where the checkpoints of a worker are.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VaultPlaces {
    /// What is trained: checkpoints of anything else are refused.
    pub run: RunIdentity,
    /// The folder that stands for the node's disk: each of its workers has a folder in it.
    pub disk: PathBuf,
    /// Name of the worker's own folder there.
    pub own: String,
    /// The folder that stands for the object store.
    pub object_store: PathBuf,
    /// How fast the object store is.
    pub pace: StorePace,
}

/// How fast an emulated object store is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StorePace {
    /// Bytes a second for each process by itself; as fast as the disk where there is none.
    pub bytes_per_s: Option<f64>,
    /// Bytes a second over all processes of a machine together; no limit where there is none.
    pub total_bytes_per_s: Option<f64>,
    /// Seconds before the first byte.
    pub latency_s: f64,
}

/// The checkpoints of a worker.
#[derive(Clone)]
pub struct Vaults {
    places: VaultPlaces,
    /// The worker's own part of its node's disk.
    pub own_disk: CheckpointStore,
    /// The object store.
    pub object_store: CheckpointStore,
}

impl Vaults {
    /// The checkpoints in these places. Nothing is read or written yet.
    pub fn new(places: &VaultPlaces) -> Self {
        let local = LocalDirectory::new(&places.object_store);
        let StorePace { bytes_per_s, total_bytes_per_s, latency_s } = places.pace;
        let latency = Duration::from_secs_f64(latency_s);
        let object_store: Arc<dyn ObjectStore> = match bytes_per_s {
            Some(bytes_per_s) => Arc::new(Limited::new(local, bytes_per_s, latency)),
            None if latency.is_zero() => Arc::new(local),
            None => Arc::new(Limited::new(local, f64::MAX, latency)),
        };
        let object_store: Arc<dyn ObjectStore> = match total_bytes_per_s {
            Some(total) => Arc::new(Limited::shared(object_store, total, &pace_file(&places.object_store))),
            None => object_store,
        };
        Self {
            own_disk: on_disk(places, places.disk.join(&places.own)),
            object_store: CheckpointStore::new(object_store, places.run.clone()),
            places: places.clone(),
        }
    }

    /// A shard from the disk of the node, whichever of its workers has written it.
    pub fn read_disk(&self, step: u64, shard: Shard) -> Result<BlockState, StoreError> {
        let mut last = self.own_disk.read(step, shard);
        for entry in fs::read_dir(&self.places.disk).into_iter().flatten().flatten() {
            if last.is_ok() {
                break;
            }
            last = on_disk(&self.places, entry.path()).read(step, shard);
        }
        last
    }

    /// A step of the object store.
    pub fn open_object_store(&self, step: u64) -> Result<StoredStep, StoreError> {
        self.object_store.open(step)
    }
}

/// The file by which processes share the pace of the store in this folder, beside it.
pub fn pace_file(object_store: &Path) -> PathBuf {
    object_store.with_extension("pace")
}

fn on_disk(places: &VaultPlaces, folder: PathBuf) -> CheckpointStore {
    CheckpointStore::new(Arc::new(LocalDirectory::new(folder)), places.run.clone())
}
