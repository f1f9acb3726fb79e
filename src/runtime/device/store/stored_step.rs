//! Reading a committed step.

use super::shard_file::Expected;
use super::{Manifest, ObjectStore, ShardEntry, StoreError, names};
use crate::model::Shard;
use crate::runtime::device::BlockState;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How closely a step is looked at before it counts as whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scrutiny {
    /// Every file is there and has its size: one listing. A damaged byte shows when the shard is read.
    Sizes,
    /// Every byte is read.
    Contents,
}

/// A committed step: its manifest, and its shards at hand.
#[derive(Clone)]
pub struct StoredStep {
    store: Arc<dyn ObjectStore>,
    manifest: Manifest,
}

impl StoredStep {
    pub(super) fn new(store: Arc<dyn ObjectStore>, manifest: Manifest) -> Self {
        Self { store, manifest }
    }

    /// Optimizer steps done.
    pub fn step(&self) -> u64 {
        self.manifest.step
    }

    /// What it consists of.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The shards that it holds, in order, each with its file.
    pub fn shards(&self) -> impl Iterator<Item = (Shard, &ShardEntry)> {
        self.manifest.shards.iter().filter_map(|entry| Some((entry.shard()?, entry)))
    }

    /// Reads a shard and checks every byte.
    pub fn read(&self, shard: Shard) -> Result<BlockState, StoreError> {
        let Some((_, entry)) = self.shards().find(|(listed, _)| *listed == shard) else {
            let place = self.store.place(&names::manifest(self.step()));
            return Err(StoreError::NotListed { step: self.step(), file: names::file(shard), place });
        };
        let (bytes, place) = self.bytes(entry)?;
        self.expected(shard, entry, &place).decode(&bytes)
    }

    /// Looks whether all shards are there and undamaged; the first that isn't is the error.
    pub fn verify(&self, scrutiny: Scrutiny) -> Result<(), StoreError> {
        self.verify_sizes()?;
        if scrutiny == Scrutiny::Contents {
            for (shard, entry) in self.shards() {
                let (bytes, place) = self.bytes(entry)?;
                self.expected(shard, entry, &place).check(&bytes)?;
            }
        }
        Ok(())
    }

    fn verify_sizes(&self) -> Result<(), StoreError> {
        let objects = self.store.list(&names::prefix(self.step()))?;
        let sizes: BTreeMap<&str, u64> = objects.iter().map(|object| (object.name.as_str(), object.bytes)).collect();
        for (_, entry) in self.shards() {
            let name = self.name(entry);
            match sizes.get(name.as_str()) {
                None => return Err(self.missing(entry)),
                Some(bytes) if *bytes != entry.bytes => {
                    let (expected, found) = (format!("{} bytes", entry.bytes), bytes.to_string());
                    return Err(StoreError::Damaged { place: self.store.place(&name), expected, found });
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn name(&self, entry: &ShardEntry) -> String {
        format!("{}{}", names::prefix(self.step()), entry.file)
    }

    fn bytes(&self, entry: &ShardEntry) -> Result<(Vec<u8>, String), StoreError> {
        let name = self.name(entry);
        let bytes = self.store.get(&name)?.ok_or_else(|| self.missing(entry))?;
        Ok((bytes, self.store.place(&name)))
    }

    fn missing(&self, entry: &ShardEntry) -> StoreError {
        StoreError::Missing { place: self.store.place(&self.name(entry)), expected: entry.describe() }
    }

    fn expected<'a>(&'a self, shard: Shard, entry: &'a ShardEntry, place: &'a str) -> Expected<'a> {
        Expected { run: &self.manifest.run, step: self.step(), shard, entry, place }
    }
}
