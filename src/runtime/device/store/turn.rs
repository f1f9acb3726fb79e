//! Whose turn it is where transfers take a bandwidth one after the other.

use super::StoreError;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Who shares a bandwidth.
#[derive(Debug)]
pub(super) enum Turn {
    /// The threads of this process: when the last transfer that was asked for is over.
    InProcess(Mutex<Duration>),
    /// All processes that name the same file, which says the same. Their clocks have to be one.
    ByFile(PathBuf),
}

impl Turn {
    /// The threads of this process.
    pub(super) fn in_process() -> Self {
        Self::InProcess(Mutex::default())
    }

    /// All processes that name this file. The file is made when it is needed; whoever owns its folder removes it.
    pub(super) fn by_file(file: &Path) -> Self {
        Self::ByFile(file.to_owned())
    }

    /// When a transfer is over that is asked for at this time and takes so long once its turn has come.
    pub(super) fn take(&self, asked_at: Duration, takes: Duration) -> Result<Duration, StoreError> {
        let end = |free_at: Duration| asked_at.max(free_at).saturating_add(takes);
        match self {
            Self::InProcess(free_at) => {
                let mut free_at = free_at.lock().unwrap_or_else(PoisonError::into_inner);
                *free_at = end(*free_at);
                Ok(*free_at)
            }
            Self::ByFile(path) => {
                take_by_file(path, end).map_err(StoreError::io("share the pace by", path.display().to_string()))
            }
        }
    }
}

/// Under the file's lock, which ends with the handle.
fn take_by_file(path: &Path, end: impl Fn(Duration) -> Duration) -> std::io::Result<Duration> {
    let mut file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
    file.lock()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    // A file that isn't whole says nothing.
    let nanoseconds = bytes.try_into().map_or(0, u64::from_le_bytes);
    let over = end(Duration::from_nanos(nanoseconds));
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&u64::try_from(over.as_nanos()).unwrap_or(u64::MAX).to_le_bytes())?;
    Ok(over)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn check(one: &Turn, other: &Turn) {
        assert_eq!(one.take(5 * SECOND, 2 * SECOND).unwrap(), 7 * SECOND);
        assert_eq!(other.take(6 * SECOND, SECOND).unwrap(), 8 * SECOND, "after the first");
        assert_eq!(one.take(20 * SECOND, SECOND).unwrap(), 21 * SECOND, "a pause saves nothing up");
    }

    #[test]
    fn transfers_follow_one_another_in_a_process_and_across() {
        let alone = Turn::in_process();
        check(&alone, &alone);
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("pace");
        check(&Turn::by_file(&file), &Turn::by_file(&file));
        // What isn't a time is none.
        std::fs::write(&file, "x").unwrap();
        assert_eq!(Turn::by_file(&file).take(SECOND, SECOND).unwrap(), 2 * SECOND);
        let nowhere = Turn::by_file(&place.path().join("none/pace"));
        assert!(nowhere.take(SECOND, SECOND).unwrap_err().to_string().contains("share the pace by"));
    }

    #[test]
    fn many_threads_by_one_file_take_as_long_as_one_after_the_other() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("pace");
        let ends = std::thread::scope(|scope| {
            let take = || Turn::by_file(&file).take(SECOND, SECOND).unwrap();
            let threads: Vec<_> = (0..20).map(|_| scope.spawn(take)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<std::collections::BTreeSet<_>>()
        });
        assert!(ends.into_iter().eq((2..22).map(|seconds| seconds * SECOND)));
    }
}
