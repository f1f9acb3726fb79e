//! Checkpoints: which worker writes what, and when all of it is there.

use super::TrainingError;
use super::copies::KeptCopies;
use super::holders::Cast;
use super::settings::Settings;
use crate::elastic::CHECKPOINTS_KEPT;
use crate::ids::Rank;
use crate::model::Shard;
use crate::runtime::device::messages::{Delivery, Job, Saved, SavedPlace, SnapshotOrder, WorkerId};
use crate::runtime::device::{
    DataSet, NewestWhole, RunIdentity, Scrutiny, ShardEntry, StoreError, StorePace, VaultPlaces, Vaults, pace_file,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

/// Where checkpoints go, and how often they are taken.
#[derive(Clone, Debug)]
pub struct CheckpointPlan {
    /// The folder: `object-store` in it stands for the object store, `autohet-disks` has a folder for each node's disk.
    pub folder: PathBuf,
    /// Iterations from one to the next.
    pub every: u64,
    /// How fast the object store is.
    pub pace: StorePace,
    /// Nodes that keep a copy of each shard in host memory beside those that hold it.
    pub peer_copies: u32,
}

/// The checkpoints of a run, if it takes any.
pub(super) struct Checkpoints(Option<Kept>);

struct Kept {
    plan: CheckpointPlan,
    run: RunIdentity,
    vaults: Vaults,
    under_way: Option<UnderWay>,
    /// The step of the newest one that is whole in the object store.
    durable: Option<u64>,
    /// Where the copies in host memory are.
    copies: Option<KeptCopies>,
    pruning: Option<JoinHandle<Result<Vec<u64>, StoreError>>>,
    /// Whether training is still to begin: until then the folder is as an earlier run has left it, maybe with steps that are
    /// newer than the one from which training goes on.
    is_new: bool,
    settings: Settings,
    /// Locked for as long as the run lasts.
    _folder: Option<File>,
}

/// A checkpoint that is being written.
struct UnderWay {
    step: u64,
    writers: BTreeSet<WorkerId>,
    /// Where its copies will be, if others keep any.
    copies: Option<KeptCopies>,
    copied: BTreeSet<WorkerId>,
    on_disk: BTreeSet<WorkerId>,
    in_object_store: BTreeSet<WorkerId>,
    entries: Vec<ShardEntry>,
}

/// From where a run goes on.
#[derive(Default)]
pub(super) struct Resumed {
    /// Checkpoints that are there, oldest first: the last one counts, the one before it where that can't be read after all.
    pub(super) steps: Vec<u64>,
    /// Newer checkpoints that are damaged, each with what is wrong.
    pub(super) skipped: Vec<(u64, StoreError)>,
    /// What is trained with now and wasn't then.
    pub(super) differences: Vec<String>,
}

/// What has become whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whole {
    InHosts,
    OnDisks,
    InObjectStore,
}

impl Checkpoints {
    /// Takes the folder, which no other run may have.
    pub(super) fn new(plan: Option<&CheckpointPlan>, job: &Job, data: &DataSet) -> Result<Self, TrainingError> {
        let Some(plan) = plan else { return Ok(Self(None)) };
        let run = RunIdentity::new(&job.model, job.seed);
        // The coordinator writes manifests only: it isn't held up.
        let places = VaultPlaces { pace: StorePace::default(), ..places(plan, &run, "coordinator", 0) };
        Ok(Self(Some(Kept {
            _folder: take(&plan.folder)?,
            plan: plan.clone(),
            run,
            vaults: Vaults::new(&places),
            under_way: None,
            durable: None,
            copies: None,
            pruning: None,
            is_new: true,
            settings: Settings::new(job, data),
        })))
    }

    /// The newest checkpoints of an earlier run of this job that are whole by size, from which training goes on: what is in
    /// them shows when it is read. Newer ones that are damaged are passed over; where all are, that is an error. In the
    /// object store nothing is deleted before training [goes on](Self::go_back_to). Disks of earlier runs are cleared: their
    /// nodes are gone.
    pub(super) fn resume(&mut self) -> Result<Resumed, TrainingError> {
        let Some(kept) = &mut self.0 else { return Ok(Resumed::default()) };
        let store = &kept.vaults.object_store;
        let NewestWhole { step, mut skipped } = store.newest_whole_step(Scrutiny::Sizes)?;
        let step = step.map(|step| step.step());
        if step.is_none() && !skipped.is_empty() {
            return Err(skipped.swap_remove(0).1.into());
        }
        let is_whole = |step: &u64| store.open(*step).and_then(|step| step.verify(Scrutiny::Sizes)).is_ok();
        let before = store.steps()?.into_iter().rev().filter(|before| Some(*before) < step).find(is_whole);
        clear(&kept.plan.folder.join(DISKS))?;
        kept.forget_pace();
        kept.durable = step;
        let settings = step.and_then(|_| Settings::read(&kept.plan.folder));
        let differences = settings.map(|before| kept.settings.differences(&before)).unwrap_or_default();
        Ok(Resumed { steps: before.into_iter().chain(step).collect(), skipped, differences })
    }

    /// Where a worker keeps its checkpoints.
    pub(super) fn places(&self, node: &str, gpu: u32) -> Option<VaultPlaces> {
        self.0.as_ref().map(|kept| places(&kept.plan, &kept.run, node, gpu))
    }

    pub(super) fn are_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Whether the checkpoint of this step is whole in the object store.
    pub(super) fn is_durable(&self, step: u64) -> bool {
        self.0.as_ref().is_some_and(|kept| kept.durable == Some(step))
    }

    /// A node is lost, and its disk with it. A checkpoint that it was writing will never be whole.
    pub(super) fn forget(&mut self, node: &str, workers: &[WorkerId]) -> Result<(), TrainingError> {
        let Some(kept) = &mut self.0 else { return Ok(()) };
        kept.under_way.take_if(|under_way| workers.iter().any(|worker| under_way.writers.contains(worker)));
        clear(&disk(&kept.plan, node))
    }

    /// Gives up the checkpoint under way.
    pub(super) fn abandon(&mut self, step: u64) -> bool {
        let under_way = self.0.as_mut().map(|kept| &mut kept.under_way);
        under_way.is_some_and(|under_way| under_way.take_if(|under_way| under_way.step == step).is_some())
    }

    /// Training goes on from this step: later checkpoints belong to a history that is given up.
    pub(super) fn go_back_to(&mut self, step: u64) -> Result<(), TrainingError> {
        let Some(kept) = &mut self.0 else { return Ok(()) };
        kept.under_way.take_if(|under_way| under_way.step > step);
        let is_given_up = kept.durable.is_some_and(|durable| durable > step);
        let is_new = std::mem::take(&mut kept.is_new);
        if is_given_up || is_new {
            kept.vaults.object_store.forget_after(step)?;
        }
        if is_new {
            let folder = &kept.plan.folder;
            let failed = |source| TrainingError::CheckpointFolder { folder: folder.clone(), source };
            kept.settings.write(folder).map_err(failed)?;
        }
        kept.durable.take_if(|_| is_given_up);
        kept.copies.take_if(|copies| copies.step > step);
        Ok(())
    }

    /// Where copies in host memory are.
    pub(super) fn copies(&self) -> Option<&KeptCopies> {
        self.0.as_ref()?.copies.as_ref()
    }

    /// Who writes which shards of a checkpoint of the cast's state. On each node, the first worker that holds a shard
    /// writes it to the disk; of all holders, the one with the least to do so far writes it to the object store. Where others
    /// keep copies, `copies` says where, and `deliveries` who sends what.
    pub(super) fn orders(
        &mut self,
        step: u64,
        cast: &Cast,
        copies: Option<KeptCopies>,
        mut deliveries: BTreeMap<WorkerId, Vec<Delivery>>,
    ) -> Result<BTreeMap<WorkerId, SnapshotOrder>, TrainingError> {
        let keep = copies.is_some();
        let mut order = |worker| {
            let to_peers = deliveries.remove(&worker).unwrap_or_default();
            let kept = CHECKPOINTS_KEPT;
            (worker, SnapshotOrder { step, keep, to_peers, kept, ..SnapshotOrder::default() })
        };
        let mut orders: BTreeMap<WorkerId, SnapshotOrder> = cast.workers.iter().map(|&worker| order(worker)).collect();
        let Some(kept) = &mut self.0 else { return Ok(orders) };
        let worker = |rank: Rank| cast.workers[rank.index()];
        let mut holders: BTreeMap<Shard, Vec<Rank>> = BTreeMap::new();
        for rank in (0..cast.workers.len()).map(Rank::from) {
            for shard in cast.shards(rank) {
                holders.entry(shard).or_default().push(rank);
            }
        }
        for (shard, ranks) in holders {
            let mut nodes = BTreeSet::new();
            let firsts = ranks.iter().filter(|&&rank| nodes.insert(cast.node(rank)));
            for &rank in firsts {
                orders.entry(worker(rank)).or_default().to_disk.push(shard);
            }
            let least = ranks.into_iter().map(worker).min_by_key(|worker| orders[worker].to_object_store.len());
            let least = least.expect("each shard has a holder");
            orders.entry(least).or_default().to_object_store.push(shard);
        }
        drop(kept.pruning.take().map(JoinHandle::join));
        kept.vaults.object_store.begin(step)?;
        kept.under_way = Some(UnderWay {
            step,
            writers: orders.keys().copied().collect(),
            copies,
            copied: BTreeSet::new(),
            on_disk: BTreeSet::new(),
            in_object_store: BTreeSet::new(),
            entries: Vec::new(),
        });
        Ok(orders)
    }

    /// A part is written. Returns what has become whole with it.
    pub(super) fn saved(&mut self, worker: WorkerId, saved: Saved) -> Result<Option<Whole>, TrainingError> {
        let Some(kept) = &mut self.0 else { return Ok(None) };
        let Some(under_way) = kept.under_way.as_mut().filter(|under_way| under_way.step == saved.step) else {
            return Ok(None);
        };
        let entries = match saved.place {
            SavedPlace::Host => {
                under_way.copied.insert(worker);
                let is_whole = under_way.copied == under_way.writers;
                kept.copies = under_way.copies.take_if(|_| is_whole).or(kept.copies.take());
                return Ok(is_whole.then_some(Whole::InHosts));
            }
            SavedPlace::Disk => {
                under_way.on_disk.insert(worker);
                return Ok((under_way.on_disk == under_way.writers).then_some(Whole::OnDisks));
            }
            SavedPlace::ObjectStore(entries) => entries,
        };
        under_way.entries.extend(entries);
        under_way.in_object_store.insert(worker);
        if under_way.in_object_store != under_way.writers {
            return Ok(None);
        }
        let UnderWay { step, entries, .. } = kept.under_way.take().expect("it was just there");
        kept.vaults.object_store.commit(step, entries)?;
        kept.durable = Some(step);
        let store = kept.vaults.object_store.clone();
        // In the background: training waits for none of it.
        kept.pruning = Some(thread::spawn(move || store.prune(CHECKPOINTS_KEPT)));
        Ok(Some(Whole::InObjectStore))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        drop(self.pruning.take().map(JoinHandle::join));
        self.forget_pace();
    }
}

impl Kept {
    /// Nobody uses the store: the file by which its users share its pace is of no use. There may be none.
    fn forget_pace(&self) {
        drop(fs::remove_file(pace_file(&object_store(&self.plan))));
    }
}

/// Cleared when a run begins: a name that nobody has for anything else.
const DISKS: &str = "autohet-disks";

fn places(plan: &CheckpointPlan, run: &RunIdentity, node: &str, gpu: u32) -> VaultPlaces {
    VaultPlaces {
        run: run.clone(),
        disk: disk(plan, node),
        own: format!("gpu-{gpu}"),
        object_store: object_store(plan),
        pace: plan.pace,
    }
}

fn object_store(plan: &CheckpointPlan) -> PathBuf {
    plan.folder.join("object-store")
}

/// The folder of a node's disk. Names of nodes can have any characters; their folders have few.
fn disk(plan: &CheckpointPlan, node: &str) -> PathBuf {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let escaped: String =
        node.chars().map(|c| if is_plain(c) { c.to_string() } else { format!("%{:x}.", u32::from(c)) }).collect();
    plan.folder.join(DISKS).join(escaped)
}

/// Sees to it that the folder is there, can be written, and is this run's alone. On systems that lock no folders nobody is
/// kept out.
fn take(folder: &Path) -> Result<Option<File>, TrainingError> {
    let failed = |source: io::Error| TrainingError::CheckpointFolder { folder: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    // Of the error only the kind is told, because the message names a file that nobody has asked for.
    tempfile::tempfile_in(folder).map_err(|error| failed(error.kind().into()))?;
    let Ok(lock) = File::open(folder) else { return Ok(None) };
    match lock.try_lock() {
        Err(TryLockError::WouldBlock) => Err(TrainingError::CheckpointFolderTaken { folder: folder.to_owned() }),
        Err(TryLockError::Error(_)) => Ok(None),
        Ok(()) => Ok(Some(lock)),
    }
}

fn clear(folder: &Path) -> Result<(), TrainingError> {
    match fs::remove_dir_all(folder) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(TrainingError::Disk { folder: folder.to_owned(), source })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_made_and_is_one_runs_at_a_time() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("deep/checkpoints");
        let lock = take(&folder).unwrap();
        assert!(matches!(take(&folder), Err(TrainingError::CheckpointFolderTaken { .. })));
        drop(lock);
        assert!(take(&folder).is_ok());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn what_cannot_be_a_folder_is_refused_as_input() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        fs::write(&file, "").unwrap();
        for folder in [file.clone(), file.join("below"), PathBuf::from("/proc/checkpoints")] {
            let error = take(&folder).unwrap_err();
            assert!(!error.happened_while_training() && error.to_string().contains("\nhint: "), "{error}");
        }
    }
}
