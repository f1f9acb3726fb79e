//! What can go wrong while training.

use super::TransportError;
use crate::ids::Rank;
use crate::plan::PlanViolation;

/// Why training can't start, or ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The plan contradicts itself or its model.
    #[error("the plan can't run: {}\nhint: plan again for this model", list(.0))]
    Plan(Vec<PlanViolation>),
    /// Something that this program doesn't train.
    #[error("{what} can't be trained here\nhint: {hint}")]
    Unsupported {
        /// What was asked for.
        what: String,
        /// What can be.
        hint: &'static str,
    },
    /// Text that yields no sample.
    #[error(
        "the data has {found} bytes, a sample takes {needed}\nhint: give a longer text, or leave `--data` out for the synthetic set"
    )]
    TooLittleData {
        /// Bytes of the text.
        found: usize,
        /// Tokens of one sample and the one that follows.
        needed: usize,
    },
    /// The vocabulary lacks some of the tokens.
    #[error(
        "a text has 256 different bytes, the model's vocabulary has {vocab_size} tokens\nhint: train a model with 256 tokens or more"
    )]
    Vocabulary {
        /// Tokens of the model.
        vocab_size: u32,
    },
    /// A connection failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// A process couldn't be started.
    #[error("cannot start the process of {rank}: {source}")]
    Spawn {
        /// The rank.
        rank: Rank,
        /// What the system said.
        source: std::io::Error,
    },
    /// A rank said what went wrong.
    #[error("{rank} failed: {message}")]
    Failed {
        /// The rank.
        rank: Rank,
        /// Its own words.
        message: String,
    },
    /// A rank ended without a word.
    #[error("{rank} is gone: its process {how}\nhint: start again; nothing of this run was kept")]
    Gone {
        /// The rank.
        rank: Rank,
        /// How its process ended.
        how: String,
    },
    /// Ranks that don't answer.
    #[error("no rank has answered for {waited_s} s while {during}")]
    Silent {
        /// How long was waited.
        waited_s: u64,
        /// For what.
        during: &'static str,
    },
    /// A message that makes no sense where it came.
    #[error("unexpected message from {from}")]
    Protocol {
        /// The sender.
        from: String,
    },
    /// The loss became infinite or not a number.
    #[error("the loss of step {step} is `{loss}`\nhint: lower the learning rate")]
    Diverged {
        /// Step, from one.
        step: u32,
        /// The loss.
        loss: f64,
    },
    /// The environment that a rank's process needs.
    #[error("`{variable}` isn't set or can't be used\nhint: ranks are started by `autohet-run --plan`, not by hand")]
    Environment {
        /// The variable.
        variable: &'static str,
    },
    /// A thread of this process panicked.
    #[error("the {thread} thread of this process panicked")]
    Panicked {
        /// Its name.
        thread: &'static str,
    },
    /// The program waits for itself.
    #[error("{0}")]
    Deadlock(String),
    /// The system gave no random bytes.
    #[error("the system gives no random bytes: {0}")]
    Random(String),
    /// Whoever is told of each step couldn't take it.
    #[error("{0}")]
    Observer(String),
}

fn list(violations: &[PlanViolation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
