//! What can go wrong between a report and the disk.

use std::io;
use std::path::PathBuf;

/// Why results weren't written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The target can't be the name of a folder.
    #[error("`{path}` doesn't name a folder\nhint: name one, for example `--out results/aws-spot`")]
    NotAFolderName {
        /// What was given.
        path: PathBuf,
    },
    /// The target is there, and has something that no results folder has.
    #[error(
        "`{path}` is there already and isn't a results folder: {why}\nhint: name another folder with `--out`, or move this one away"
    )]
    NotOurs {
        /// The target.
        path: PathBuf,
        /// What it has that isn't ours.
        why: String,
    },
    /// No results folder has such a file: it would be taken for somebody else's later.
    #[error("`{name}` isn't a file of a results folder")]
    FileName {
        /// The name.
        name: String,
    },
    /// The operating system refused.
    #[error("cannot {action} `{path}`: {source}\nhint: {hint}")]
    Io {
        /// What was tried: "create", "write", "rename", …
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
        /// What would help.
        hint: &'static str,
    },
}

impl ReportError {
    /// An operating system's error, with the hint that fits its kind.
    pub(super) fn io(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        let hint = match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "check who may write there, or name another folder with `--out`"
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some disk space",
            io::ErrorKind::NotADirectory => "a part of this path is a file; name another folder with `--out`",
            _ => "name another folder with `--out`",
        };
        Self::Io { action, path: path.into(), source, hint }
    }
}
