//! A results folder that is there whole or not at all.

mod leftovers;

use super::ReportError;
use leftovers::Held;
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

/// The files that each command writes into its folder; the first two are always among them. A folder that has these two, and
/// nothing that isn't in the list, is one of ours: deleting it loses what can be made again, and nothing else.
const KINDS: [&[&str]; 7] = [
    // `autohet-sim`
    &[
        "summary.json",
        "ledger.csv",
        "costs.csv",
        "resolved.toml",
        "timeline.csv",
        "recoveries.csv",
        "plans.jsonl",
        "throughput.svg",
        "iteration.perfetto.json",
    ],
    // `autohet-run`
    &["summary.json", "metrics.csv", "events.jsonl", "loss.svg", "timeline.perfetto.json"],
    // `autohet-run check`
    &["summary.json", "table.txt", "predicted.perfetto.json", "measured.perfetto.json"],
    // `autohet-sim reproduce paper`
    &["summary.json", "ratios.csv", "ratios.svg", "README.md"],
    // `autohet-sim reproduce recovery`
    &["summary.json", "recovery.csv", "recovery.svg", "README.md"],
    // `autohet-sim validate`
    &["summary.json", "records.csv", "scatter.svg", "README.md"],
    // `autohet-sim sweep`
    &["summary.json", "rows.csv", "rows.jsonl", "sweep.svg", "sweep.toml"],
];

/// A results folder in the making. Files are written beside the target, in a temporary folder that
/// [`commit`](ResultsFolder::commit) renames to it; dropped before that, it leaves nothing behind.
///
/// ```
/// # let place = tempfile::tempdir().unwrap();
/// let target = place.path().join("results/aws-spot");
/// let folder = autohet::report::ResultsFolder::create(&target).unwrap();
/// folder.write("summary.json", "{}").unwrap();
/// assert!(!target.exists());
/// folder.commit().unwrap();
/// assert!(target.join("summary.json").exists());
/// ```
#[derive(Debug)]
pub struct ResultsFolder {
    target: PathBuf,
    temporary: PathBuf,
    /// The folders above it that were made for it, the innermost first.
    made: Vec<PathBuf>,
    is_committed: bool,
    _held: Held,
}

impl ResultsFolder {
    /// Whether a folder could be written at `target`: what [`create`](Self::create) refuses is refused before the work is
    /// done. Nothing is made, so that nothing is left behind when the work is interrupted.
    pub fn check(target: &Path) -> Result<(), ReportError> {
        let (target, _) = resolve(target)?;
        check_replaceable(&target)?;
        let parent = parent_of(&target);
        let name =
            |folder: &Path| if folder.as_os_str().is_empty() { Path::new(".").into() } else { folder.to_owned() };
        let nearest = parent.ancestors().map(name).find(|folder| folder.exists()).unwrap_or_else(|| parent.clone());
        // Who may make a file without a name may make a folder. The message would name a file that nobody has asked for.
        let failed = |error: std::io::Error| ReportError::io("create results in", &nearest, error.kind().into());
        tempfile::tempfile_in(&nearest).map(drop).map_err(failed)
    }

    /// Begins a folder that will stand at `target`, whose parents are made where they are missing.
    ///
    /// An existing target is replaced on [`commit`](Self::commit) only if it is empty or has nothing but the files of
    /// earlier results; anything else is refused right here, as by [`check`](Self::check).
    pub fn create(target: &Path) -> Result<Self, ReportError> {
        let (target, name) = resolve(target)?;
        check_replaceable(&target)?;
        let parent = parent_of(&target);
        let made: Vec<PathBuf> = parent
            .ancestors()
            .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
            .map(Path::to_owned)
            .collect();
        let created = fs::create_dir_all(&parent).map_err(|source| ReportError::io("create", &parent, source));
        leftovers::clear(&parent, &name, &target);
        match created.and_then(|()| make_beside(&parent, &format!(".tmp-{name}-{}", std::process::id()))) {
            Ok(temporary) => {
                let held = Held::of(&temporary);
                Ok(Self { target, temporary, made, is_committed: false, _held: held })
            }
            Err(error) => {
                remove_empty(&made);
                Err(error)
            }
        }
    }

    /// Writes a file of the folder: one of those that are known as ours later.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> Result<(), ReportError> {
        if !KINDS.iter().any(|names| names.contains(&name)) {
            return Err(ReportError::FileName { name: name.to_owned() });
        }
        fs::write(self.temporary.join(name), bytes)
            .map_err(|source| ReportError::io("write", self.target.join(name), source))
    }

    /// Puts the folder in its place and returns where that is. An older one is moved aside first and deleted last, and
    /// moved back if the new one can't take its place.
    pub fn commit(mut self) -> Result<PathBuf, ReportError> {
        check_replaceable(&self.target)?;
        let rename = |from: &Path, to: &Path| fs::rename(from, to);
        let failed = |source| ReportError::io("put results in", &self.target, source);
        if self.target.exists() {
            let name = self.target.file_name().unwrap_or_default().to_string_lossy();
            let aside = make_beside(&parent_of(&self.target), &format!(".old-{name}-{}", std::process::id()))?;
            let _moved = Held::of(&self.target);
            // An empty folder gives way to a renamed one, so that the name is ours from here on.
            if let Err(source) = rename(&self.target, &aside) {
                // Nothing was moved; the empty folder is all there is to clear away.
                drop(fs::remove_dir(&aside));
                return Err(failed(source));
            }
            if let Err(source) = rename(&self.temporary, &self.target) {
                return Err(match rename(&aside, &self.target) {
                    Ok(()) => failed(source),
                    Err(second) => ReportError::io("move the older results back from", &aside, second),
                });
            }
            self.is_committed = true;
            fs::remove_dir_all(&aside)
                .map_err(|source| ReportError::io("remove the older results in", &aside, source))?;
        } else {
            rename(&self.temporary, &self.target).map_err(failed)?;
            self.is_committed = true;
        }
        Ok(self.target.clone())
    }
}

impl Drop for ResultsFolder {
    fn drop(&mut self) {
        if !self.is_committed {
            // There is nobody left to tell; what remains is named `.tmp-…`, and cleared by the next run.
            drop(fs::remove_dir_all(&self.temporary));
            remove_empty(&self.made);
        }
    }
}

/// Removes folders as long as they are empty: others may have come to use them.
fn remove_empty(folders: &[PathBuf]) {
    let is_removed = |folder: &PathBuf| fs::remove_dir(folder).is_ok() || !folder.exists();
    folders.iter().take_while(|folder| is_removed(folder)).for_each(drop);
}

/// Where a folder is to stand, and its name there. A link stays; what it points to is replaced.
fn resolve(target: &Path) -> Result<(PathBuf, String), ReportError> {
    // `there/../there` names `there`, beside which the folder is made and moved.
    let leads_back = || target.components().any(|part| part == Component::ParentDir) && target.exists();
    let target = if target.is_symlink() || leads_back() {
        fs::canonicalize(target).map_err(|source| ReportError::io("follow", target, source))?
    } else {
        target.components().collect()
    };
    match target.file_name().map(|name| name.to_string_lossy().into_owned()) {
        Some(name) => Ok((target, name)),
        None => Err(ReportError::NotAFolderName { path: target }),
    }
}

/// The folder that a path lies in; the current one for a bare name.
fn parent_of(target: &Path) -> PathBuf {
    match target.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Makes a folder that wasn't there before: a leftover of the same name is left alone.
fn make_beside(parent: &Path, name: &str) -> Result<PathBuf, ReportError> {
    for attempt in 0..100_u32 {
        let suffix = if attempt == 0 { String::new() } else { format!("-{attempt}") };
        let path = parent.join(format!("{name}{suffix}"));
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(source) => return Err(ReportError::io("create", path, source)),
        }
    }
    Err(ReportError::io("create", parent.join(name), ErrorKind::AlreadyExists.into()))
}

/// Whether the target is missing, empty, or one of our own.
fn check_replaceable(target: &Path) -> Result<(), ReportError> {
    let failed = |source| ReportError::io("look into", target, source);
    let entries = match fs::read_dir(target) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotADirectory && target.is_file() => {
            return Err(ReportError::NotOurs { path: target.to_owned(), why: "it is a file".to_owned() });
        }
        Err(source) => return Err(failed(source)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let is_file = entry.file_type().map_err(failed)?.is_file();
        names.push((entry.file_name().to_string_lossy().into_owned(), is_file));
    }
    names.sort();
    foreign(&names).map_or(Ok(()), |why| Err(ReportError::NotOurs { path: target.to_owned(), why }))
}

/// Why a folder with these entries, each with whether it is a plain file, isn't one of ours; nothing if it is, or is empty.
fn foreign(entries: &[(String, bool)]) -> Option<String> {
    let (first, _) = entries.first()?;
    let has = |name: &str| entries.iter().any(|(entry, is_file)| entry == name && *is_file);
    let Some(names) = KINDS.iter().find(|names| names[..2].iter().all(|name| has(name))) else {
        return Some(format!("it has `{first}`, and not the files of results"));
    };
    let stranger = entries.iter().find(|(entry, is_file)| !is_file || !names.contains(&entry.as_str()));
    stranger.map(|(entry, _)| format!("beside results it has `{entry}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn nothing_is_seen_before_the_commit_and_everything_after() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("deep/results");
        let folder = ResultsFolder::create(&target).unwrap();
        folder.write("metrics.csv", "1\n").unwrap();
        folder.write("summary.json", "{}").unwrap();
        assert!(!target.exists());
        assert_eq!(folder.commit().unwrap(), target);
        assert_eq!(names(&target), ["metrics.csv", "summary.json"]);
        assert_eq!(names(target.parent().unwrap()), ["results"]);
    }

    #[test]
    fn older_results_are_replaced_whole() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("results");
        for file in ["resolved.toml", "timeline.csv"] {
            let folder = ResultsFolder::create(&target).unwrap();
            for name in [file, "summary.json", "ledger.csv"] {
                folder.write(name, name).unwrap();
            }
            folder.commit().unwrap();
        }
        assert_eq!(names(&target), ["ledger.csv", "summary.json", "timeline.csv"]);
        assert_eq!(names(place.path()), ["results"]);
    }

    #[test]
    fn results_that_something_was_put_beside_are_not_touched() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("results");
        for (stranger, is_folder) in
            [("notes.md", false), ("checkpoints", true), ("loss.svg", true), ("table.txt", false)]
        {
            let folder = ResultsFolder::create(&target).unwrap();
            folder.write("summary.json", "{}").unwrap();
            folder.write("metrics.csv", "").unwrap();
            folder.commit().unwrap();
            let path = target.join(stranger);
            if is_folder {
                fs::create_dir(&path).unwrap();
            } else {
                fs::write(&path, "mine").unwrap();
            }
            let message = ResultsFolder::check(&target).unwrap_err().to_string();
            assert!(message.contains(stranger) && message.contains("\nhint: "), "{message}");
            assert!(path.exists());
            fs::remove_dir_all(&target).unwrap();
        }
        // Another program's summary doesn't make results.
        fs::create_dir(&target).unwrap();
        fs::write(target.join("summary.json"), "{}").unwrap();
        fs::write(target.join("README.md"), "").unwrap();
        assert!(matches!(ResultsFolder::check(&target), Err(ReportError::NotOurs { .. })));
    }

    #[test]
    fn a_check_refuses_what_creation_refuses_and_makes_nothing() {
        let place = tempfile::tempdir().unwrap();
        ResultsFolder::check(&place.path().join("deep/down/results")).unwrap();
        ResultsFolder::check(place.path()).unwrap();
        assert!(names(place.path()).is_empty());
        let file = place.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(matches!(ResultsFolder::check(&file), Err(ReportError::NotOurs { .. })));
        assert!(matches!(ResultsFolder::check(place.path()), Err(ReportError::NotOurs { .. })));
        assert!(matches!(ResultsFolder::check(Path::new("/")), Err(ReportError::NotAFolderName { .. })));
        assert!(matches!(ResultsFolder::check(&file.join("deep/below")), Err(ReportError::Io { .. })));
        assert_eq!(names(place.path()), ["file"]);
    }

    #[test]
    fn an_empty_folder_may_be_filled() {
        let place = tempfile::tempdir().unwrap();
        let folder = ResultsFolder::create(place.path()).unwrap();
        folder.write("summary.json", "{}").unwrap();
        folder.commit().unwrap();
        assert_eq!(names(place.path()), ["summary.json"]);
    }

    #[test]
    fn a_dropped_folder_leaves_the_older_one_alone_and_nothing_behind() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("results");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("summary.json"), "old").unwrap();
        fs::write(target.join("table.txt"), "old").unwrap();
        let folder = ResultsFolder::create(&target).unwrap();
        folder.write("summary.json", "new").unwrap();
        drop(folder);
        assert_eq!(names(place.path()), ["results"]);
        assert_eq!(fs::read_to_string(target.join("summary.json")).unwrap(), "old");
    }

    #[test]
    fn folders_made_for_a_dropped_one_go_with_it_unless_others_use_them() {
        let place = tempfile::tempdir().unwrap();
        drop(ResultsFolder::create(&place.path().join("deep/down/results")).unwrap());
        assert!(names(place.path()).is_empty());
        let folder = ResultsFolder::create(&place.path().join("deep/down/results")).unwrap();
        fs::write(place.path().join("deep/note"), "").unwrap();
        drop(folder);
        assert_eq!(names(&place.path().join("deep")), ["note"]);
    }

    #[test]
    fn a_folder_that_is_not_ours_is_never_touched() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("thesis");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("chapter1.tex"), "years of work").unwrap();
        let message = ResultsFolder::create(&target).unwrap_err().to_string();
        assert!(message.contains("thesis") && message.contains("\nhint: "), "{message}");
        assert_eq!(names(place.path()), ["thesis"]);
        assert_eq!(names(&target), ["chapter1.tex"]);
    }

    #[test]
    fn a_folder_that_stops_being_ours_meanwhile_is_not_touched_either() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("results");
        let folder = ResultsFolder::create(&target).unwrap();
        fs::create_dir(&target).unwrap();
        fs::write(target.join("mine.txt"), "mine").unwrap();
        assert!(matches!(folder.commit(), Err(ReportError::NotOurs { .. })));
        assert_eq!(names(place.path()), ["results"]);
        assert_eq!(names(&target), ["mine.txt"]);
    }

    #[test]
    fn files_and_impossible_names_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(matches!(ResultsFolder::create(&file), Err(ReportError::NotOurs { .. })));
        assert!(matches!(ResultsFolder::create(Path::new("/")), Err(ReportError::NotAFolderName { .. })));
        assert!(matches!(ResultsFolder::create(&file.join("below")), Err(ReportError::Io { .. })));
        let folder = ResultsFolder::create(&place.path().join("results")).unwrap();
        for name in ["../escape", "a/b", "..", "", "notes.md"] {
            assert!(matches!(folder.write(name, ""), Err(ReportError::FileName { .. })), "{name}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link() {
        let place = tempfile::tempdir().unwrap();
        let (real, link) = (place.path().join("real"), place.path().join("link"));
        fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let folder = ResultsFolder::create(&link).unwrap();
        folder.write("summary.json", "{}").unwrap();
        folder.commit().unwrap();
        assert!(link.is_symlink());
        assert_eq!(names(&real), ["summary.json"]);
    }
}
