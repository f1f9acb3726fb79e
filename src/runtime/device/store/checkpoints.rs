//! The steps of a run in a store: which there are, and which stay.

use super::{
    Manifest, Object, ObjectStore, RunIdentity, Scrutiny, ShardEntry, ShardWriter, StoreError, StoredStep, names,
};
use crate::model::Shard;
use crate::runtime::device::BlockState;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The checkpoints of one run in one store: the coordinator's side, which begins steps, commits and deletes them, and
/// everybody's who reads.
///
/// ```
/// use autohet::ids::LayerId;
/// use autohet::model::{Block, ModelSpec, Shard};
/// use autohet::runtime::device::{BlockState, CheckpointStore, LocalDirectory, RunIdentity};
///
/// let place = tempfile::tempdir().unwrap();
/// let run = RunIdentity::new(&ModelSpec::preset("bert-large").unwrap(), 0);
/// let checkpoints = CheckpointStore::new(std::sync::Arc::new(LocalDirectory::new(place.path())), run);
/// let shard = Shard { block: Block::Layer(LayerId(3)), slice: 4 };
/// let state = BlockState { values: vec![0.5; 8], mean: vec![0.0; 8], mean_of_squares: vec![0.0; 8] };
///
/// checkpoints.begin(120).unwrap();
/// let entry = checkpoints.writer().write(120, shard, &state).unwrap();
/// assert_eq!(checkpoints.newest_step().unwrap(), None);
/// checkpoints.commit(120, vec![entry]).unwrap();
/// assert_eq!(checkpoints.read(120, shard).unwrap(), state);
/// ```
#[derive(Clone)]
pub struct CheckpointStore {
    store: Arc<dyn ObjectStore>,
    run: RunIdentity,
}

/// The newest step that is whole, and why newer ones aren't.
pub struct NewestWhole {
    /// The step; none where there is none.
    pub step: Option<StoredStep>,
    /// Newer steps that were passed over, each with what is wrong with it; newest first.
    pub skipped: Vec<(u64, StoreError)>,
}

impl CheckpointStore {
    /// The checkpoints of this run in this store.
    pub fn new(store: Arc<dyn ObjectStore>, run: RunIdentity) -> Self {
        Self { store, run }
    }

    /// A writer of shards into the same store.
    pub fn writer(&self) -> ShardWriter {
        ShardWriter::new(self.store.clone(), self.run.clone())
    }

    /// The committed steps, oldest first, whole or not.
    pub fn steps(&self) -> Result<Vec<u64>, StoreError> {
        let objects = self.store.list(names::STEPS)?;
        let mut steps: Vec<u64> = objects.iter().filter_map(|object| names::step_of_manifest(&object.name)).collect();
        steps.sort_unstable();
        Ok(steps)
    }

    /// The newest committed step, whole or not.
    pub fn newest_step(&self) -> Result<Option<u64>, StoreError> {
        Ok(self.steps()?.last().copied())
    }

    /// The newest step of which everything is there. Steps that are damaged are passed over; steps of another run are an
    /// error.
    pub fn newest_whole_step(&self, scrutiny: Scrutiny) -> Result<NewestWhole, StoreError> {
        let mut skipped = Vec::new();
        for step in self.steps()?.into_iter().rev() {
            let opened = self.open(step).and_then(|opened| opened.verify(scrutiny).map(|()| opened));
            match opened {
                Ok(opened) => return Ok(NewestWhole { step: Some(opened), skipped }),
                Err(error @ StoreError::OtherRun { .. }) => return Err(error),
                Err(error) => skipped.push((step, error)),
            }
        }
        Ok(NewestWhole { step: None, skipped })
    }

    /// A committed step, to read several shards from.
    pub fn open(&self, step: u64) -> Result<StoredStep, StoreError> {
        if let Some(manifest) = Manifest::read(&*self.store, &self.run, step)? {
            return Ok(StoredStep::new(self.store.clone(), manifest));
        }
        let place = self.store.place(&names::manifest(step));
        Err(StoreError::NoStep { step, place, there: self.steps()? })
    }

    /// Reads one shard of a step and checks every byte.
    pub fn read(&self, step: u64, shard: Shard) -> Result<BlockState, StoreError> {
        self.open(step)?.read(shard)
    }

    /// Reads all of a step; the first thing that isn't as it was written is the error.
    pub fn verify(&self, step: u64) -> Result<(), StoreError> {
        self.open(step)?.verify(Scrutiny::Contents)
    }

    /// Makes way for a step, before anybody writes a shard of it: steps from there on that were begun but never committed
    /// are deleted. A step that isn't newer than all committed ones is refused, and so is a store with another run's.
    pub fn begin(&self, step: u64) -> Result<(), StoreError> {
        if let Some(newest) = self.newest_step()? {
            if let Err(error @ StoreError::OtherRun { .. }) = self.open(newest) {
                return Err(error);
            }
            if newest >= step {
                let place = self.store.place(&names::manifest(newest));
                return Err(StoreError::NotNewest { step, newest, place });
            }
        }
        let names = self.names_of_steps()?;
        self.delete(names.iter().filter(|name| step_of(name).is_some_and(|found| found >= step)))
    }

    /// Commits a step: from here on it exists. `entries` are what all its writers reported; replicas that wrote the same
    /// shard must have written the same. Everything must be there by size.
    pub fn commit(&self, step: u64, entries: Vec<ShardEntry>) -> Result<(), StoreError> {
        let manifest = Manifest::new(&self.run, step, entries)?;
        let text = manifest.to_json();
        StoredStep::new(self.store.clone(), manifest).verify(Scrutiny::Sizes)?;
        self.store.put(&names::manifest(step), &[&text])
    }

    /// Deletes all steps after this one, committed or not: those of a future that training, resumed from this step, comes
    /// to anew. Nobody may be writing.
    pub fn forget_after(&self, step: u64) -> Result<(), StoreError> {
        let names = self.names_of_steps()?;
        self.delete(names.iter().filter(|name| step_of(name).is_some_and(|found| found > step)))
    }

    /// Deletes all but the newest `keep` (at least one) steps of which everything is there by size, and what interrupted
    /// writers have left. Steps newer than the newest of them stay: they may be being written. Returns the committed
    /// steps that went.
    pub fn prune(&self, keep: usize) -> Result<Vec<u64>, StoreError> {
        let objects = self.store.list(names::STEPS)?;
        let committed: BTreeSet<u64> =
            objects.iter().filter_map(|object| names::step_of_manifest(&object.name)).collect();
        let mut kept = BTreeSet::new();
        for step in committed.iter().rev() {
            if kept.len() < keep.max(1) && self.is_whole(*step, &objects)? {
                kept.insert(*step);
            }
        }
        let Some(newest) = kept.last().copied() else { return Ok(Vec::new()) };
        let goes = |step: u64| step < newest && !kept.contains(&step);
        let objects = objects.into_iter().map(|object| object.name).filter(|name| step_of(name).is_some_and(goes));
        let leftovers = self.store.leftovers(names::STEPS)?;
        let leftovers = leftovers.into_iter().filter(|name| step_of(name).is_some_and(|step| step <= newest));
        let doomed: Vec<String> = objects.chain(leftovers).collect();
        self.delete(doomed.iter())?;
        Ok(committed.into_iter().filter(|step| goes(*step)).collect())
    }

    /// Whether a step's manifest can be read and its shards are among the objects, in their sizes.
    fn is_whole(&self, step: u64, objects: &[Object]) -> Result<bool, StoreError> {
        let manifest = match Manifest::read(&*self.store, &self.run, step) {
            Ok(Some(manifest)) => manifest,
            Ok(None) | Err(StoreError::Damaged { .. } | StoreError::Version { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let sizes: BTreeMap<&str, u64> = objects.iter().map(|object| (object.name.as_str(), object.bytes)).collect();
        let is_there = |entry: &ShardEntry| {
            let name = format!("{}{}", names::prefix(step), entry.file);
            sizes.get(name.as_str()) == Some(&entry.bytes)
        };
        Ok(manifest.shards.iter().all(is_there))
    }

    /// All that is in the store of any step, leftovers included.
    fn names_of_steps(&self) -> Result<Vec<String>, StoreError> {
        let mut names = self.store.leftovers(names::STEPS)?;
        names.extend(self.store.list(names::STEPS)?.into_iter().map(|object| object.name));
        Ok(names)
    }

    /// Deletes manifests first, so that no step is left that lacks some of its shards.
    fn delete<'a>(&self, names: impl Iterator<Item = &'a String>) -> Result<(), StoreError> {
        let (manifests, others): (Vec<&str>, Vec<&str>) =
            names.map(String::as_str).partition(|name| names::step_of_manifest(name).is_some());
        for names in [manifests, others] {
            if !names.is_empty() {
                self.store.delete(&names)?;
            }
        }
        Ok(())
    }
}

fn step_of(name: &str) -> Option<u64> {
    names::split(name).map(|(step, _)| step)
}
