//! What a run that was killed has left beside its target.

use super::KINDS;
use std::fs::{self, File};
use std::path::Path;

/// Held as long as a folder is in the making: the system lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub(super) struct Held(#[expect(dead_code, reason = "what it is for is to be held")] Option<File>);

impl Held {
    /// Holds a folder, where the system can.
    pub(super) fn of(folder: &Path) -> Self {
        Self(File::open(folder).ok().filter(|file| file.try_lock().is_ok()))
    }
}

/// Removes what killed runs have left of a target: folders in the making, and older results that were moved aside. The
/// latter are moved back where nothing has taken their place. What a run that goes on holds is left alone, and so is
/// whatever isn't ours.
pub(super) fn clear(parent: &Path, name: &str, target: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.filter_map(Result::ok) {
        let (path, called) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let is_of = |kind: &str| called.strip_prefix(&format!(".{kind}-{name}-")).is_some_and(is_number);
        if !(is_of("tmp") || is_of("old")) || !is_ours(&path) || is_held(&path) {
            continue;
        }
        if !(is_of("old") && !target.exists() && fs::rename(&path, target).is_ok()) {
            drop(fs::remove_dir_all(&path));
        }
    }
}

/// The number of a process, and behind it that of an attempt where there was one.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.split('-').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether there is nothing in a folder but files that results have.
fn is_ours(folder: &Path) -> bool {
    let is_known = |entry: fs::DirEntry| {
        let name = entry.file_name();
        entry.file_type().is_ok_and(|kind| kind.is_file()) && KINDS.iter().any(|names| names.iter().any(|n| name == *n))
    };
    fs::read_dir(folder).is_ok_and(|mut entries| entries.all(|entry| entry.is_ok_and(is_known)))
}

/// Whether a process holds the folder; also where the system can't tell.
fn is_held(folder: &Path) -> bool {
    File::open(folder).and_then(|file| file.try_lock().map_err(Into::into)).is_err()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn what_killed_runs_left_is_cleared_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("out");
        let folder = |name: &str, file: &str| {
            fs::create_dir(place.path().join(name)).unwrap();
            fs::write(place.path().join(name).join(file), "x").unwrap();
        };
        folder("out", "summary.json");
        folder(".tmp-out-12", "rows.csv");
        folder(".tmp-out-13-1", "rows.csv");
        folder(".old-out-12", "summary.json");
        folder(".tmp-out-14", "precious.txt");
        folder(".tmp-out-more-12", "rows.csv");
        folder(".tmp-out-15", "rows.csv");
        let held = Held::of(&place.path().join(".tmp-out-15"));
        clear(place.path(), "out", &target);
        let names = || {
            let mut names: Vec<String> = fs::read_dir(place.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(), [".tmp-out-14", ".tmp-out-15", ".tmp-out-more-12", "out"]);
        drop(held);
        fs::remove_dir_all(&target).unwrap();
        folder(".old-out-16", "ledger.csv");
        clear(place.path(), "out", &target);
        assert_eq!(names(), [".tmp-out-14", ".tmp-out-more-12", "out"]);
        assert!(
            target.join("ledger.csv").exists(),
            "killed between moving the older results aside and the new ones in"
        );
    }
}
