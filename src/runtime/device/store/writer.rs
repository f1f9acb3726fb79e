//! Writing shards, from any of the processes that hold them.

use super::manifest::RunIdentity;
use super::{ObjectStore, ShardEntry, StoreError, names, shard_file};
use crate::model::Shard;
use crate::runtime::device::BlockState;
use std::sync::Arc;

/// Writes shards of a run. There can be any number of writers, in any number of processes, for different shards or, with
/// the same state, for the same one.
#[derive(Clone)]
pub struct ShardWriter {
    store: Arc<dyn ObjectStore>,
    run: RunIdentity,
}

impl ShardWriter {
    /// A writer into this store.
    pub fn new(store: Arc<dyn ObjectStore>, run: RunIdentity) -> Self {
        Self { store, run }
    }

    /// Writes one shard of a step that the coordinator has begun. It stays once this returns; it counts once the entry
    /// is [committed](super::CheckpointStore::commit).
    pub fn write(&self, step: u64, shard: Shard, state: &BlockState) -> Result<ShardEntry, StoreError> {
        let entries = self.write_all(step, &[(shard, state)])?;
        Ok(entries.into_iter().next().expect("one entry a shard"))
    }

    /// Writes several shards, in less time than one after the other.
    pub fn write_all(&self, step: u64, shards: &[(Shard, &BlockState)]) -> Result<Vec<ShardEntry>, StoreError> {
        let encode = |&(shard, state)| shard_file::encode(&self.run, step, shard, state);
        let encoded: Vec<_> = shards.iter().map(encode).collect();
        let prefix = names::prefix(step);
        let object = |file: &shard_file::Encoded<'_>| format!("{prefix}{}", file.entry.file);
        let objects: Vec<_> = encoded.iter().map(|file| (object(file), file.parts().to_vec())).collect();
        self.store.put_all(&objects)?;
        Ok(encoded.into_iter().map(|file| file.entry).collect())
    }
}
