//! Files that the user names, written whole or not at all.

use super::voice;
use crate::units::format_bytes;
use anyhow::anyhow;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use tempfile::NamedTempFile;

/// Most links that are followed one after the other, as many as Linux follows.
const MOST_LINKS: usize = 40;

/// Where bytes go that are meant for a path.
enum Target {
    /// A file that is there whole or not at all: a new one takes the place of what stood there.
    Whole(PathBuf),
    /// A pipe or a device, or a file that is already open: written into, since a file in its place wouldn't reach whoever
    /// has it open.
    Stream(PathBuf),
    /// What our stdout goes to.
    Stdout,
}

/// Refuses two options that name one place, or a place and one in it: what is written there would overwrite the other, or
/// be deleted with it.
pub(super) fn check_distinct(options: &[(&str, Option<&Path>)]) -> anyhow::Result<()> {
    let mut named: Vec<(&str, &Path, PathBuf)> = Vec::new();
    for (option, path) in options.iter().filter_map(|(option, path)| Some((*option, (*path)?))) {
        let place = place_of(path);
        for (other, earlier_path, earlier) in &named {
            let (path, earlier_path) = (path.display(), earlier_path.display());
            if place == *earlier {
                return Err(anyhow!("`{other}` and `{option}` both name `{path}`\nhint: give each a place of its own"));
            }
            if place.starts_with(earlier) || earlier.starts_with(&place) {
                return Err(anyhow!(
                    "`{other}` is `{earlier_path}`, `{option}` is `{path}`: one lies in the other\nhint: give each a place of its own"
                ));
            }
        }
        named.push((option, path, place));
    }
    Ok(())
}

/// Refuses outputs in the place of what is read, or with what is read in them: it would be gone.
pub(super) fn check_kept(inputs: &[&Path], outputs: &[(&str, Option<&Path>)]) -> anyhow::Result<()> {
    for input in inputs.iter().filter(|input| input.exists()) {
        let place = place_of(input);
        for (option, output) in outputs.iter().filter_map(|(option, path)| Some((*option, (*path)?))) {
            if place.starts_with(place_of(output)) {
                return Err(anyhow!(
                    "`{option}` is `{}`, which would replace the input `{}`\nhint: give it a place of its own",
                    output.display(),
                    input.display()
                ));
            }
        }
    }
    Ok(())
}

/// A path in one spelling, whether or not there is something, from the root.
fn place_of(path: &Path) -> PathBuf {
    let path = follow(path).unwrap_or_else(|_| path.to_owned());
    let path = std::path::absolute(&path).unwrap_or(path);
    let found = path.ancestors().find_map(|there| Some((fs::canonicalize(there).ok()?, there)));
    let Some((mut place, there)) = found else { return path };
    for part in path.strip_prefix(there).unwrap_or(Path::new("")).components() {
        match part {
            // Of folders that aren't there, none is a link.
            Component::ParentDir => drop(place.pop()),
            part => place.push(part),
        }
    }
    place
}

/// Refuses a file that couldn't be written, before the work is done whose outcome it is for. Nothing is made.
pub(super) fn check_writable(path: &Path) -> anyhow::Result<()> {
    let refused = |error: io::Error| failed(path, &error);
    match Target::of(path).map_err(refused)? {
        // A file without a name, where the system has such: who may make it may make another. Of the error only the kind is
        // told, because the message names a file that nobody has asked for.
        Target::Whole(target) => {
            let folder = folder_of(&target);
            fs::metadata(folder).map_err(refused)?;
            tempfile::tempfile_in(folder).map(drop).map_err(|error| refused(error.kind().into()))
        }
        // Pipes would wait for a reader. What the system makes is opened, which changes nothing.
        Target::Stream(target) => {
            let is_made = fs::metadata(&target).map_err(refused)?.is_file();
            let opened = if is_made { OpenOptions::new().write(true).open(&target).map(drop) } else { Ok(()) };
            opened.map_err(refused)
        }
        Target::Stdout => Ok(()),
    }
}

/// Writes files, all of them or none: each under a temporary name first. Links are followed; pipes and devices are
/// written into, before any file takes its place.
pub(super) fn write_files(files: &[(&Path, &[u8])]) -> anyhow::Result<()> {
    let mut written = Vec::new();
    let mut streams = Vec::new();
    for (path, bytes) in files {
        let refused = |error| failed(path, &error);
        match Target::of(path).map_err(refused)? {
            Target::Whole(target) => {
                let file = write_beside(&target, bytes).map_err(refused)?;
                written.push((path, target, file));
            }
            stream => streams.push((path, stream, bytes)),
        }
    }
    for (path, stream, bytes) in streams {
        stream.write(bytes).map_err(|error| match error.kind() {
            // Whoever read has gone, as in a pipe to `head`: what that means is for the caller to say.
            io::ErrorKind::BrokenPipe => error.into(),
            _ => failed(path, &error),
        })?;
    }
    for (path, target, file) in written {
        file.persist(&target).map_err(|error| failed(path, &error.error))?;
    }
    for (path, bytes) in files {
        voice::tell(|| format!("wrote {}, {}", path.display(), format_bytes(bytes.len() as u64)));
    }
    Ok(())
}

fn failed(path: &Path, error: &io::Error) -> anyhow::Error {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some disk space, or name a file elsewhere",
        _ => "name a file in a folder that exists and is yours",
    };
    anyhow!("cannot write `{}`: {error}\nhint: {hint}", path.display())
}

impl Target {
    fn of(path: &Path) -> io::Result<Self> {
        let target = follow(path)?;
        let found = match fs::metadata(&target) {
            Ok(found) => found,
            // The system makes what stands there; files can't be moved to it.
            Err(_) if is_in_proc(&target) => return Ok(Self::Stream(target)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Whole(target)),
            Err(error) => return Err(error),
        };
        if found.is_dir() {
            Err(io::ErrorKind::IsADirectory.into())
        } else if is_stdout(&found) {
            Ok(Self::Stdout)
        } else if found.is_file() && !is_in_proc(&target) {
            Ok(Self::Whole(target))
        } else {
            Ok(Self::Stream(target))
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Whole(path) | Self::Stream(path) => {
                // A file that others have open may be longer than what it shall hold.
                OpenOptions::new().write(true).truncate(true).open(path)?.write_all(bytes)
            }
            Self::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(bytes)?;
                stdout.flush()
            }
        }
    }
}

/// The path that stands at the end of links, whether or not there is something, in one spelling. Links of `/proc`, such as
/// those that `/dev/stdout` leads to, stand for open files and are left to the system.
fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        if let (Ok(folder), Some(name)) = (fs::canonicalize(folder_of(&path)), path.file_name()) {
            path = folder.join(name);
        }
        if is_in_proc(&path) || !path.is_symlink() {
            return Ok(path);
        }
        path = folder_of(&path).join(fs::read_link(&path)?);
    }
    Err(io::Error::other("too many links lead from one to the next"))
}

fn is_in_proc(path: &Path) -> bool {
    path.starts_with("/proc")
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether a file is the one that stdout goes to.
#[cfg(unix)]
fn is_stdout(found: &Metadata) -> bool {
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;
    let stdout = io::stdout().as_fd().try_clone_to_owned().and_then(|stdout| File::from(stdout).metadata());
    stdout.is_ok_and(|stdout| (stdout.dev(), stdout.ino()) == (found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn is_stdout(_: &Metadata) -> bool {
    false
}

/// A temporary file in the folder of `path`, which vanishes unless it's given that name. It may be read and written by
/// whom the file that stands there may, or any new file.
fn write_beside(path: &Path, bytes: &[u8]) -> io::Result<NamedTempFile> {
    // Opened here: errors of a file that `tempfile` opens name it, and nobody has asked for that one.
    let make = |temporary: &Path| OpenOptions::new().write(true).create_new(true).open(temporary);
    let mut file = tempfile::Builder::new().make_in(folder_of(path), make)?;
    if let Ok(found) = fs::metadata(path) {
        file.as_file().set_permissions(found.permissions())?;
    }
    file.as_file_mut().write_all(bytes)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_overlap_are_refused_however_they_are_spelled() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("there")).unwrap();
        let place = |name: &str| root.path().join(name);
        let refused = |one: &str, other: &str| {
            let (one, other) = (place(one), place(other));
            check_distinct(&[("--out", Some(&one)), ("--other", None), ("--plan-out", Some(&other))]).is_err()
        };
        assert!(refused("new", "new") && refused("new/", "there/../new"));
        assert!(refused("new", "new/deep/file") && refused("new/deep/file", "new"));
        assert!(refused("there", "there/file") && refused("new/deep/../folder/file", "new/folder"));
        assert!(!refused("new", "newer") && !refused("there/one", "there/other"));
    }

    #[test]
    fn files_that_could_not_be_written_are_refused_and_none_is_made() {
        let root = tempfile::tempdir().unwrap();
        check_writable(&root.path().join("file")).unwrap();
        let message = check_writable(&root.path().join("none/file")).unwrap_err().to_string();
        assert!(message.contains("none/file") && message.contains("\nhint: "), "{message}");
        assert!(check_writable(root.path()).is_err());
        if Path::new("/proc/version").exists() {
            let refused = |path: &str| check_writable(Path::new(path)).unwrap_err().to_string();
            assert!(
                refused("/proc/nothing").contains("cannot write `/proc/nothing`: "),
                "{}",
                refused("/proc/nothing")
            );
            check_writable(Path::new("/dev/null")).unwrap();
        }
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }
}
