//! Why training ends early.

use crate::plan::PlanError;
use crate::runtime::device::messages::WorkerId;
use crate::runtime::device::{DeviceError, EmulationError, StoreError, TransportError};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why training can't start, or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainingError {
    /// The job can't be trained, or something failed that has nothing to do with losses.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The coordinator's own connections failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// A process couldn't be started.
    #[error("cannot start the process of {worker}: {source}")]
    Spawn {
        /// The worker.
        worker: WorkerId,
        /// What the system said.
        source: std::io::Error,
    },
    /// The ranks of another plan can't be emulated.
    #[error(transparent)]
    Emulation(#[from] EmulationError),
    /// A checkpoint can't be read or committed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Checkpoints can't be kept where they were to be.
    #[error("cannot keep checkpoints in `{}`: {source}\nhint: choose a `--checkpoint-dir` that is yours to write", folder.display())]
    CheckpointFolder {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Two runs would write over each other's checkpoints.
    #[error("another run keeps its checkpoints in `{}`\nhint: wait for its end, or choose another `--checkpoint-dir`", folder.display())]
    CheckpointFolderTaken {
        /// The folder.
        folder: PathBuf,
    },
    /// The coordinator can't listen where it was told to.
    #[error(
        "cannot listen on `{address}`: {source}\nhint: give `--listen` the address of an interface of this machine, and a port that is free"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: TransportError,
    },
    /// What is left of a lost node's disk can't be cleared.
    #[error("cannot clear `{}`: {source}\nhint: delete it, or choose another `--checkpoint-dir`", folder.display())]
    Disk {
        /// The folder that stands for the disk.
        folder: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A worker said that it can't go on.
    #[error("{who} failed: {message}")]
    Failed {
        /// Its node and device.
        who: String,
        /// Its own words.
        message: String,
    },
    /// A plan can't be made, for a reason that more nodes wouldn't mend.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Nothing fits on the nodes that are left, and no others will come.
    #[error("training can't go on with the nodes that are left: {reason}\nhint: {hint}")]
    NothingLeft {
        /// What happened last.
        reason: String,
        /// What to do.
        hint: &'static str,
    },
    /// Workers that don't answer.
    #[error(
        "no worker has answered for {waited_s} s while {during}, though all are alive\nhint: this is a fault of the program; start again, from a checkpoint if there are some"
    )]
    Silent {
        /// How long was waited.
        waited_s: u64,
        /// For what.
        during: &'static str,
    },
    /// The loss, or the gradient, became infinite or not a number.
    #[error(
        "training has diverged: the {what} of step {step} is `{value}`\nhint: lower the learning rate, or let it rise over some steps with `--warmup-steps`"
    )]
    Diverged {
        /// Step, from one.
        step: u64,
        /// Loss or gradient norm.
        what: &'static str,
        /// What it is.
        value: f64,
    },
    /// Whoever is told of each step couldn't take it.
    #[error("{0}")]
    Observer(String),
}

impl TrainingError {
    /// Whether the error is about the run, not about what was asked for.
    pub fn happened_while_training(&self) -> bool {
        !matches!(
            self,
            Self::Device(
                DeviceError::Plan(_)
                    | DeviceError::Unsupported { .. }
                    | DeviceError::Data { .. }
                    | DeviceError::Token { .. }
                    | DeviceError::TooLittleData { .. }
                    | DeviceError::Vocabulary { .. }
            ) | Self::Store(StoreError::OtherRun { .. } | StoreError::Damaged { .. })
                | Self::CheckpointFolder { .. }
                | Self::CheckpointFolderTaken { .. }
                | Self::Listen { .. }
        )
    }
}
