//! Why a sweep can't be done. That a run fails is no reason: it is a row.

use std::io;
use std::path::PathBuf;

/// What is wrong with a sweep's input or its files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// A file can't be read or written.
    #[error("cannot {what} `{path}`: {source}\nhint: {hint}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
        /// What to do.
        hint: &'static str,
    },
    /// Something in the sweep file isn't what was expected.
    #[error("{place}: {problem}\nhint: {hint}")]
    File {
        /// The file, and the line where it is known.
        place: String,
        /// What was found and what was expected.
        problem: String,
        /// What to do.
        hint: String,
    },
    /// A run's settings can't be used.
    #[error("{place}: {run}{problem}")]
    Run {
        /// The file.
        place: String,
        /// The values of the run's axes, as the sentence begins.
        run: String,
        /// What is wrong, with its hint.
        problem: String,
    },
    /// What is given of a shard makes no sense.
    #[error("{problem}\nhint: write `--shard 2/4`, the second of four")]
    Shard {
        /// What was found.
        problem: String,
    },
    /// Rows on disk that aren't of this sweep.
    #[error("`{path}` {problem}\nhint: {hint}")]
    Rows {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What to do.
        hint: &'static str,
    },
}

impl SweepError {
    pub(super) fn read(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io { what: "read", path: path.into(), source, hint: "check the path" }
    }

    pub(super) fn write(path: impl Into<PathBuf>, source: io::Error) -> Self {
        let hint = "name a place that exists and is yours, with space left";
        Self::Io { what: "write", path: path.into(), source, hint }
    }
}
