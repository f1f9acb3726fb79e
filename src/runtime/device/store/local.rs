//! Objects as files of a folder.

use super::{Object, ObjectStore, StoreError};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// How the names of unfinished files begin.
const TEMPORARY: &str = ".tmp-";
/// How often a put begins again: its folder may be deleted, or its temporary name taken, by others.
const ATTEMPTS: u32 = 100;
/// Threads that wait for the disk at once.
const SYNCS_AT_ONCE: usize = 8;

/// A folder whose files are objects: `a/b` is the file `b` in its folder `a`.
///
/// Files are written under a temporary name in their folder, synced to the disk and renamed; then the folder is synced.
#[derive(Clone, Debug)]
pub struct LocalDirectory {
    root: PathBuf,
}

impl LocalDirectory {
    /// The store in this folder, which is made when the first object is put.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn path(&self, name: &str) -> Result<PathBuf, StoreError> {
        let is_word = |word: &str| !word.is_empty() && !word.starts_with('.') && !word.contains(['\\', ':', '\0']);
        let is_fine = name.split('/').all(is_word);
        if is_fine { Ok(self.root.join(name)) } else { Err(StoreError::Name { name: name.to_owned() }) }
    }

    /// The object under its temporary name, on its way to the disk.
    fn written(&self, name: &str, parts: &[&[u8]]) -> Result<Unfinished, StoreError> {
        let target = self.path(name)?;
        let folder = target.parent().unwrap_or(&self.root);
        let failed = StoreError::io("create a file in", folder.display().to_string());
        let (temporary, file) = create_beside(&target, folder).map_err(failed)?;
        let mut unfinished = Unfinished { file, temporary: Some(temporary), target };
        let written = parts.iter().try_for_each(|part| unfinished.file.write_all(part));
        written.map_err(|source| unfinished.failed(source))?;
        Ok(unfinished)
    }

    /// The file of something to be deleted, or the folder where the name ends with a slash.
    fn deletable(&self, name: &str) -> Result<PathBuf, StoreError> {
        match name.rsplit_once('/') {
            Some((folder, "")) => self.path(folder),
            Some((folder, file)) if file.starts_with(TEMPORARY) => Ok(self.path(folder)?.join(file)),
            None if name.starts_with(TEMPORARY) && !name.contains('\\') => Ok(self.root.join(name)),
            _ => self.path(name),
        }
    }

    /// Visits all that is in a folder and below: names with sizes; of empty folders a name that ends with a slash.
    fn walk(&self, folder: &str, found: &mut Vec<Object>) -> Result<(), StoreError> {
        let path = self.root.join(folder);
        let failed = |source| StoreError::Io { action: "look into", place: path.display().to_string(), source };
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        let mut is_empty = true;
        for entry in entries {
            let entry = entry.map_err(failed)?;
            is_empty = false;
            // Names that aren't UTF-8 aren't ours.
            let Ok(file) = entry.file_name().into_string() else { continue };
            let name = if folder.is_empty() { file } else { format!("{folder}/{file}") };
            match entry.metadata() {
                Ok(data) if data.is_dir() => self.walk(&name, found)?,
                Ok(data) => found.push(Object { name, bytes: data.len() }),
                // It went while we looked.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
        }
        if is_empty && !folder.is_empty() {
            found.push(Object { name: format!("{folder}/"), bytes: 0 });
        }
        Ok(())
    }

    fn below(&self, prefix: &str) -> Result<Vec<Object>, StoreError> {
        let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
        if !folder.is_empty() {
            self.path(folder)?;
        }
        let mut found = Vec::new();
        self.walk(folder, &mut found)?;
        found.retain(|object| object.name.starts_with(prefix));
        found.sort();
        Ok(found)
    }
}

/// A file under its temporary name. Dropped before it is renamed, it leaves nothing behind.
struct Unfinished {
    file: File,
    temporary: Option<PathBuf>,
    target: PathBuf,
}

impl Unfinished {
    fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_all().map_err(|source| self.failed(source))
    }

    fn rename(&mut self) -> Result<(), StoreError> {
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.target).map_err(|source| self.failed(source))?;
            self.temporary = None;
        }
        Ok(())
    }

    fn failed(&self, source: io::Error) -> StoreError {
        StoreError::io("write", self.target.display().to_string())(source)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // There may be no way to remove it; a leftover is deleted when older checkpoints are.
            drop(fs::remove_file(temporary));
        }
    }
}

impl ObjectStore for LocalDirectory {
    fn put(&self, name: &str, parts: &[&[u8]]) -> Result<(), StoreError> {
        self.put_all(&[(name.to_owned(), parts.to_vec())])
    }

    /// Writes all, then waits until the disk has all, then renames all: the disk waits once, not once a file.
    fn put_all(&self, objects: &[(String, Vec<&[u8]>)]) -> Result<(), StoreError> {
        let mut unfinished =
            objects.iter().map(|(name, parts)| self.written(name, parts)).collect::<Result<Vec<_>, _>>()?;
        sync_files(&unfinished)?;
        unfinished.iter_mut().try_for_each(Unfinished::rename)?;
        let folders: BTreeSet<&Path> = unfinished.iter().filter_map(|file| file.target.parent()).collect();
        let sync = |folder: &Path| sync_folder(folder).map_err(StoreError::io("sync", folder.display().to_string()));
        folders.into_iter().try_for_each(sync)
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.path(name)?;
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io("read", path.display().to_string())(error)),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<Object>, StoreError> {
        let mut found = self.below(prefix)?;
        found.retain(|object| !is_leftover(&object.name));
        Ok(found)
    }

    fn delete(&self, names: &[&str]) -> Result<(), StoreError> {
        let mut touched: Vec<PathBuf> = Vec::new();
        for name in names {
            let path = self.deletable(name)?;
            let removed = if name.ends_with('/') { remove_if_empty(&path) } else { fs::remove_file(&path) };
            match removed {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(StoreError::io("delete", path.display().to_string())(error)),
            }
            let folder = path.parent().unwrap_or(&self.root);
            if touched.last().is_none_or(|last| last != folder) {
                touched.push(folder.to_owned());
            }
        }
        for folder in touched {
            let failed = StoreError::io("sync", folder.display().to_string());
            forget_if_empty(&folder, &self.root).map_err(failed)?;
        }
        Ok(())
    }

    fn leftovers(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let found = self.below(prefix)?;
        Ok(found.into_iter().map(|object| object.name).filter(|name| is_leftover(name)).collect())
    }

    fn place(&self, name: &str) -> String {
        self.root.join(name).display().to_string()
    }
}

fn is_leftover(name: &str) -> bool {
    let (_, file) = name.rsplit_once('/').unwrap_or(("", name));
    file.is_empty() || file.starts_with(TEMPORARY)
}

/// A new file under a temporary name in the target's folder, which is made where it is missing.
fn create_beside(target: &Path, folder: &Path) -> io::Result<(PathBuf, File)> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let file = target.file_name().unwrap_or_default().to_string_lossy();
    let mut last = ErrorKind::AlreadyExists.into();
    for _ in 0..ATTEMPTS {
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let temporary = folder.join(format!("{TEMPORARY}{}-{count}-{file}", std::process::id()));
        let created = make_folders(folder).and_then(|()| File::create_new(&temporary));
        match created {
            Ok(file) => return Ok((temporary, file)),
            // The folder was deleted just now, being empty; or the leftover of an earlier process is in the way.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// Makes a folder and those above it, each synced into the one that it is in.
fn make_folders(folder: &Path) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    let parent = folder.parent().unwrap_or(Path::new(""));
    make_folders(parent)?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        Err(_) if folder.is_dir() => Ok(()),
        // A file; or another's folder that has gone again.
        Err(_) => Err(if folder.exists() { ErrorKind::NotADirectory } else { ErrorKind::NotFound }.into()),
        Ok(()) => sync_folder(parent),
    }
}

/// Waits until the disk has all files. Several threads wait at once: the file system then settles several files together.
fn sync_files(files: &[Unfinished]) -> Result<(), StoreError> {
    let share = files.len().div_ceil(SYNCS_AT_ONCE).max(1);
    std::thread::scope(|scope| {
        let sync = |share| scope.spawn(move || <[Unfinished]>::iter(share).try_for_each(Unfinished::sync));
        let threads: Vec<_> = files.chunks(share).map(sync).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("waiting for the disk doesn't panic"))
    })
}

/// Sees to it that what was renamed, made or deleted in a folder stays so.
fn sync_folder(folder: &Path) -> io::Result<()> {
    // Elsewhere folders can't be opened, and need not be.
    if !cfg!(unix) {
        return Ok(());
    }
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(folder)?.sync_all()
}

/// Removes a folder if there is nothing in it.
fn remove_if_empty(folder: &Path) -> io::Result<()> {
    match fs::remove_dir(folder) {
        // Others have come to use it.
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(()),
        other => other,
    }
}

/// Syncs a folder in which something was deleted, or removes it if nothing is left.
fn forget_if_empty(folder: &Path, root: &Path) -> io::Result<()> {
    let synced = match sync_folder(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    };
    synced?;
    if folder != root && fs::remove_dir(folder).is_ok() {
        return sync_folder(folder.parent().unwrap_or(root));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(objects: &[Object]) -> Vec<&str> {
        objects.iter().map(|object| object.name.as_str()).collect()
    }

    #[test]
    fn objects_are_put_listed_read_and_deleted() {
        let place = tempfile::tempdir().unwrap();
        let store = LocalDirectory::new(place.path().join("deep/below"));
        assert_eq!(store.list("").unwrap(), []);
        assert_eq!(store.get("a/x").unwrap(), None);
        store.put("a/x", &[b"12", b"", b"345"]).unwrap();
        store.put("a/y", &[b"older"]).unwrap();
        store.put("a/y", &[b"newer!"]).unwrap();
        store.put("b", &[]).unwrap();
        assert_eq!(store.get("a/x").unwrap().unwrap(), b"12345");
        assert_eq!(store.get("a/y").unwrap().unwrap(), b"newer!");
        let sized = |name: &str, bytes| Object { name: name.into(), bytes };
        assert_eq!(store.list("").unwrap(), [sized("a/x", 5), sized("a/y", 6), sized("b", 0)]);
        assert_eq!(names(&store.list("a/").unwrap()), ["a/x", "a/y"]);
        assert_eq!(names(&store.list("a/y").unwrap()), ["a/y"]);
        store.delete(&["a/x", "a/y", "a/never"]).unwrap();
        assert_eq!(names(&store.list("").unwrap()), ["b"]);
        assert!(!place.path().join("deep/below/a").exists(), "folders don't outlive what is in them");
        assert!(place.path().join("deep/below").exists());
    }

    #[test]
    fn leftovers_are_no_objects_and_can_be_deleted() {
        let place = tempfile::tempdir().unwrap();
        let store = LocalDirectory::new(place.path());
        store.put("a/x", &[b"1"]).unwrap();
        fs::write(place.path().join("a/.tmp-1-0-y"), "half").unwrap();
        fs::write(place.path().join(".tmp-1-1-z"), "half").unwrap();
        fs::create_dir(place.path().join("empty")).unwrap();
        assert_eq!(names(&store.list("").unwrap()), ["a/x"]);
        assert_eq!(store.leftovers("").unwrap(), [".tmp-1-1-z", "a/.tmp-1-0-y", "empty/"]);
        assert_eq!(store.leftovers("a/").unwrap(), ["a/.tmp-1-0-y"]);
        let all = store.leftovers("").unwrap();
        store.delete(&all.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        assert_eq!(store.leftovers("").unwrap(), Vec::<String>::new());
        assert_eq!(names(&store.list("").unwrap()), ["a/x"]);
    }

    #[test]
    fn a_folder_that_is_in_use_is_not_deleted() {
        let place = tempfile::tempdir().unwrap();
        let store = LocalDirectory::new(place.path());
        store.put("a/x", &[b"1"]).unwrap();
        store.delete(&["a/"]).unwrap();
        assert_eq!(names(&store.list("").unwrap()), ["a/x"]);
    }

    #[test]
    fn names_stay_within_the_folder() {
        let place = tempfile::tempdir().unwrap();
        let store = LocalDirectory::new(place.path());
        for name in ["", "/a", "a/", "a//b", "../a", "a/../../b", ".", ".tmp-1-2-x", "a/.hidden", "a\\b", "c:x"] {
            assert!(matches!(store.put(name, &[b"1"]), Err(StoreError::Name { .. })), "{name}");
            assert!(store.get(name).is_err(), "{name}");
        }
        for name in ["", "../a", "..", "../", "../.tmp-1-2-x", "/etc/.tmp-x"] {
            assert!(matches!(store.delete(&[name]), Err(StoreError::Name { .. })), "{name}");
        }
    }

    #[test]
    fn what_the_system_refuses_is_told_with_the_place() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("file"), "1").unwrap();
        let store = LocalDirectory::new(place.path().join("file"));
        let message = store.put("a/x", &[b"1"]).unwrap_err().to_string();
        assert!(message.contains("file/a`") && message.contains("hint: give a folder"), "{message}");
        assert!(store.list("").unwrap_err().to_string().contains("cannot look into"));
    }

    #[test]
    fn threads_that_put_and_delete_in_one_folder_dont_fail_each_other() {
        let place = tempfile::tempdir().unwrap();
        let store = LocalDirectory::new(place.path());
        std::thread::scope(|scope| {
            for name in ["a/x", "a/y"] {
                let store = &store;
                scope.spawn(move || {
                    for _ in 0..50 {
                        store.put(name, &[b"1"]).unwrap();
                        store.delete(&[name]).unwrap();
                    }
                });
            }
        });
        assert_eq!(store.list("").unwrap(), []);
        assert_eq!(store.leftovers("").unwrap(), Vec::<String>::new());
    }
}
