//! Outcomes on disk, by a hash of everything that they depend on, the program among it.

use super::SweepError;
use super::hash::hash;
use crate::report::SweepOutcome;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A folder of outcomes. Any number of processes may use one at a time: a file appears whole.
#[derive(Clone, Debug)]
pub struct SweepCache {
    folder: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    /// A second hash of the run's content, of another beginning: a file of another run isn't taken for it.
    content: String,
    outcome: SweepOutcome,
}

/// Tells the second hash from the first, which is the file's name.
const SECOND: &[u8] = b"outcome";

impl SweepCache {
    /// Uses a folder, which is made where it is missing.
    pub fn open(folder: &Path) -> Result<Self, SweepError> {
        fs::create_dir_all(folder).map_err(|source| SweepError::write(folder, source))?;
        tempfile::tempfile_in(folder).map_err(|source| SweepError::write(folder, source.kind().into()))?;
        Ok(Self { folder: folder.to_owned() })
    }

    fn path(&self, key: u128) -> PathBuf {
        let name = format!("{key:032x}");
        self.folder.join(&name[..2]).join(format!("{name}.json"))
    }

    /// What came of the run of this content, if it is known. A file that can't be read is none.
    pub(super) fn get(&self, key: u128, content: &str) -> Option<SweepOutcome> {
        let entry: Entry = serde_json::from_slice(&fs::read(self.path(key)).ok()?).ok()?;
        (entry.content == second_hash(content)).then_some(entry.outcome)
    }

    /// Keeps an outcome. A cache that can't be written to saves no work, and does no harm.
    pub(super) fn put(&self, key: u128, content: &str, outcome: &SweepOutcome) {
        let entry = Entry { content: second_hash(content), outcome: outcome.clone() };
        let path = self.path(key);
        let write = || -> std::io::Result<()> {
            let folder = path.parent().unwrap_or(&self.folder);
            fs::create_dir_all(folder)?;
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(&serde_json::to_vec(&entry)?)?;
            file.persist(&path)?;
            Ok(())
        };
        drop(write());
    }
}

fn second_hash(content: &str) -> String {
    format!("{:032x}", hash(&[SECOND, content.as_bytes()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::SweepStatus;

    #[test]
    fn what_is_kept_is_found_by_its_content_only() {
        let place = tempfile::tempdir().unwrap();
        let cache = SweepCache::open(&place.path().join("deep/cache")).unwrap();
        let outcome = SweepOutcome::without_figures(SweepStatus::Infeasible, "too large");
        assert_eq!(cache.get(7, "a"), None);
        cache.put(7, "a", &outcome);
        assert_eq!(cache.get(7, "a"), Some(outcome));
        assert_eq!(cache.get(7, "b"), None, "another content under the same hash");
        fs::write(cache.path(7), "{").unwrap();
        assert_eq!(cache.get(7, "a"), None, "a file cut short");
    }
}
