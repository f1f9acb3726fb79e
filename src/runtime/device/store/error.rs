//! What can go wrong with checkpoints.

use std::io;

/// Why a checkpoint can't be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The system refused.
    #[error("cannot {action} `{place}`: {source}{}", hint_of(.source))]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        place: String,
        /// What the system said.
        source: io::Error,
    },
    /// A file that should be there isn't.
    #[error(
        "`{place}` is missing, expected {expected}\nhint: copy the file back, or remove the folder of this step to resume from an older one"
    )]
    Missing {
        /// The file.
        place: String,
        /// What should be there.
        expected: String,
    },
    /// A file that isn't what was written.
    #[error(
        "`{place}` is damaged: expected {expected}, found {found}\nhint: copy the file back, or remove the folder of this step to resume from an older one"
    )]
    Damaged {
        /// The file.
        place: String,
        /// What should be there.
        expected: String,
        /// What is.
        found: String,
    },
    /// A checkpoint of another model or seed.
    #[error(
        "`{place}` is of another run: its {what} is `{found}`, expected `{expected}`\nhint: resume with that run's plan and seed, or keep this run's checkpoints in a folder of their own"
    )]
    OtherRun {
        /// The manifest.
        place: String,
        /// What differs.
        what: &'static str,
        /// What this run has.
        expected: String,
        /// What the checkpoint has.
        found: String,
    },
    /// A manifest in a format of another time.
    #[error("`{place}` has schema version {found}, expected {expected}\nhint: read it with the release that wrote it")]
    Version {
        /// The manifest.
        place: String,
        /// The version that is read here.
        expected: u32,
        /// The version that it has.
        found: u32,
    },
    /// A step that was never committed.
    #[error("there is no checkpoint of step {step}: `{place}` is missing\nhint: {}", steps_there(.there))]
    NoStep {
        /// The step.
        step: u64,
        /// Its manifest.
        place: String,
        /// The steps that there are.
        there: Vec<u64>,
    },
    /// A shard that the checkpoint hasn't got.
    #[error(
        "the checkpoint of step {step} has no `{file}`: `{place}` doesn't list it\nhint: read it from the store of a node that holds it"
    )]
    NotListed {
        /// The step.
        step: u64,
        /// The shard's file.
        file: String,
        /// The manifest.
        place: String,
    },
    /// A step that would be written below or over a committed one.
    #[error(
        "step {step} can't be written: `{place}` has a checkpoint of step {newest}\nhint: resume from it, or give another folder"
    )]
    NotNewest {
        /// The step.
        step: u64,
        /// The newest one there.
        newest: u64,
        /// The newest one's manifest.
        place: String,
    },
    /// Two writers of one shard wrote different things.
    #[error(
        "two ranks wrote `{file}` of step {step} differently: {one}, {other}\nhint: replicas have drifted apart; remove the folder of this step to resume from an older one"
    )]
    Disagreement {
        /// The step.
        step: u64,
        /// The shard's file.
        file: String,
        /// What one of them wrote.
        one: String,
        /// What the other wrote.
        other: String,
    },
    /// A name that a store can't hold.
    #[error("`{name}` can't name an object: expected words between single slashes, none of which begins with a dot")]
    Name {
        /// The name.
        name: String,
    },
}

impl StoreError {
    /// Makes an error of what the system said.
    pub(super) fn io(action: &'static str, place: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let place = place.into();
        move |source| Self::Io { action, place, source }
    }
}

fn hint_of(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "\nhint: free some space, or choose another `--checkpoint-dir`"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "\nhint: give a folder that this user may write"
        }
        io::ErrorKind::NotADirectory => "\nhint: give a folder, not a file",
        _ => "",
    }
}

fn steps_there(steps: &[u64]) -> String {
    let listed = steps.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if listed.is_empty() { "nothing has been committed there".into() } else { format!("there is {listed}") }
}
