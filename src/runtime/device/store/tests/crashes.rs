//! Crashes at every point where something is written or deleted.

use super::*;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a crash leaves of the call during which it came.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Crash {
    /// Nothing: it came just before.
    Before,
    /// Half: a temporary file, or the first of the names deleted.
    Amid,
    /// All of it, but nobody was told.
    After,
}

/// A folder whose user dies during one call that changes something; nothing gets through after that.
struct Mortal {
    inner: LocalDirectory,
    root: PathBuf,
    calls: AtomicUsize,
    dies_at: usize,
    crash: Crash,
}

impl Mortal {
    fn new(root: &Path, dies_at: usize, crash: Crash) -> Self {
        let inner = LocalDirectory::new(root);
        Self { inner, root: root.to_owned(), calls: AtomicUsize::new(0), dies_at, crash }
    }

    fn dead(&self) -> StoreError {
        StoreError::io("use", self.inner.place(""))(std::io::ErrorKind::Other.into())
    }

    fn change(&self, half: impl FnOnce(), whole: impl FnOnce() -> Result<(), StoreError>) -> Result<(), StoreError> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        match self.crash {
            _ if call < self.dies_at => return whole(),
            Crash::Amid if call == self.dies_at => half(),
            Crash::After if call == self.dies_at => whole()?,
            _ => {}
        }
        Err(self.dead())
    }

    fn is_alive(&self) -> bool {
        self.calls.load(Ordering::SeqCst) <= self.dies_at
    }

    fn if_alive<T>(&self, answer: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        if self.is_alive() { answer() } else { Err(self.dead()) }
    }
}

impl ObjectStore for Mortal {
    fn put(&self, name: &str, parts: &[&[u8]]) -> Result<(), StoreError> {
        let half = || {
            let (folder, file) = name.split_once('/').unwrap();
            std::fs::create_dir_all(self.root.join(folder)).unwrap();
            let whole = parts.concat();
            std::fs::write(self.root.join(folder).join(format!(".tmp-1-0-{file}")), &whole[..whole.len() / 2]).unwrap();
        };
        self.change(half, || self.inner.put(name, parts))
    }

    fn delete(&self, names: &[&str]) -> Result<(), StoreError> {
        let half = || self.inner.delete(&names[..names.len().div_ceil(2)]).unwrap();
        self.change(half, || self.inner.delete(names))
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.if_alive(|| self.inner.get(name))
    }

    fn list(&self, prefix: &str) -> Result<Vec<Object>, StoreError> {
        self.if_alive(|| self.inner.list(prefix))
    }

    fn leftovers(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.if_alive(|| self.inner.leftovers(prefix))
    }

    fn place(&self, name: &str) -> String {
        self.inner.place(name)
    }
}

/// Takes checkpoints of the steps, keeping two, until something fails. The last step of which the commit was confirmed.
fn train(checkpoints: &CheckpointStore, steps: impl IntoIterator<Item = u64>) -> (Option<u64>, Result<(), StoreError>) {
    let mut committed = None;
    for step in steps {
        let taken = checkpoints.begin(step).and_then(|()| {
            let shards = [layer(0, 0), layer(0, 1), layer(1, 0)];
            let write = |shard: Shard| checkpoints.writer().write(step, shard, &state(step as u32, 5));
            shards.into_iter().map(write).collect::<Result<Vec<_>, _>>()
        });
        let done = taken.and_then(|entries| checkpoints.commit(step, entries));
        if let Err(error) = done {
            return (committed, Err(error));
        }
        committed = Some(step);
        if let Err(error) = checkpoints.prune(2) {
            return (committed, Err(error));
        }
    }
    (committed, Ok(()))
}

/// One life that ends in a crash, and the one after it. Says whether the crash came at all.
fn live_twice(dies_at: usize, crash: Crash) -> bool {
    let place = Place::new();
    let mortal = Arc::new(Mortal::new(place.folder.path(), dies_at, crash));
    let (committed, result) = train(&CheckpointStore::new(mortal.clone(), run()), [10, 20, 30]);
    assert_eq!(result.is_ok(), mortal.is_alive(), "{dies_at} {crash:?}");

    for step in place.checkpoints.steps().unwrap() {
        place.checkpoints.verify(step).unwrap();
        let opened = place.checkpoints.open(step).unwrap();
        assert_eq!(opened.shards().count(), 3);
        assert_eq!(opened.read(layer(1, 0)).unwrap(), state(step as u32, 5));
    }
    let newest = place.checkpoints.newest_whole_step(Scrutiny::Contents).unwrap();
    assert!(newest.skipped.is_empty());
    let newest = newest.step.map(|step| step.step());
    assert!(newest >= committed, "{newest:?} of {committed:?}: what was committed stays");
    assert!(newest <= committed.or(Some(0)).map(|step| step + 10));

    let resumed = newest.unwrap_or(0);
    place.checkpoints.forget_after(resumed).unwrap();
    train(&place.checkpoints, [resumed + 10, resumed + 20]).1.unwrap();
    assert_eq!(place.checkpoints.steps().unwrap(), [resumed + 10, resumed + 20]);
    assert!(place.is_clean());
    assert_eq!(std::fs::read_dir(place.folder.path()).unwrap().count(), 2, "{dies_at} {crash:?}");
    result.is_err()
}

#[test]
fn no_crash_leaves_a_step_that_exists_but_is_incomplete() {
    for crash in [Crash::Before, Crash::Amid, Crash::After] {
        let crashes = (0..100).take_while(|dies_at| live_twice(*dies_at, crash)).count();
        // Three steps of three shards and a manifest, and a prune of a manifest and of its shards.
        assert_eq!(crashes, 3 * 4 + 2, "{crash:?}");
    }
}

#[test]
fn a_full_disk_leaves_no_temporary_file_and_the_older_steps() {
    let place = Place::new();
    place.checkpoint(10);
    // A folder where the file is to be: the rename fails as on a full disk, after the bytes were written.
    place.checkpoints.begin(20).unwrap();
    std::fs::create_dir_all(place.path("step-0000000020/layer-00000.slice-0.safetensors/x")).unwrap();
    let error = place.checkpoints.writer().write(20, layer(0, 0), &state(1, 5)).unwrap_err().to_string();
    assert!(error.contains("cannot write `") && error.contains("layer-00000.slice-0.safetensors"), "{error}");
    let leftovers = LocalDirectory::new(place.folder.path()).leftovers("").unwrap();
    assert_eq!(leftovers, ["step-0000000020/layer-00000.slice-0.safetensors/x/"]);
    assert_eq!(place.checkpoints.steps().unwrap(), [10]);
}
