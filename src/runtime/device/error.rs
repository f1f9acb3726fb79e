//! What can go wrong while training.

use super::messages::ShardOrigin;
use super::{StoreError, TransportError};
use crate::model::Block;
use crate::plan::PlanViolation;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why training can't start, or ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The plan contradicts itself or its model.
    #[error("the plan can't run: {}\nhint: plan again for this model and these nodes", list(.0))]
    Plan(Vec<PlanViolation>),
    /// Something that this program doesn't train.
    #[error("{what} can't be trained here\nhint: {hint}")]
    Unsupported {
        /// What was asked for.
        what: String,
        /// What can be.
        hint: &'static str,
    },
    /// A data file that can't be used.
    #[error("`{}` {problem}\nhint: {hint}", file.display())]
    Data {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What to do.
        hint: &'static str,
    },
    /// A token that the model doesn't have.
    #[error(
        "token {position} of {data}, counted from 0, is `{token}`, the model's vocabulary has {vocab_size} tokens\nhint: give tokens of a vocabulary of this size, or name the format with `--data-format`"
    )]
    Token {
        /// The file, for people.
        data: String,
        /// Where it stands, in tokens from the first.
        position: u64,
        /// The token.
        token: u32,
        /// Tokens of the model.
        vocab_size: u32,
    },
    /// Data that yields no sample.
    #[error(
        "{data} has {found} tokens, a sample takes {needed}\nhint: give more data, or leave `--data` out for the synthetic set"
    )]
    TooLittleData {
        /// The file, for people.
        data: String,
        /// Tokens of the data.
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
    /// A checkpoint can't be written or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The coordinator told this rank to leave what it was doing.
    #[error("interrupted by the coordinator")]
    Interrupted,
    /// A shard that should be here, and isn't.
    #[error("slice {slice} of the {block} isn't held here")]
    NotHeld {
        /// The block.
        block: Block,
        /// The slice.
        slice: u8,
    },
    /// A shard of a checkpoint that can't be read where it should be.
    #[error("{problem}")]
    CopyLost {
        /// Where that is.
        origin: ShardOrigin,
        /// What was found there.
        problem: String,
    },
    /// A message that makes no sense where it came.
    #[error("unexpected message from {from}")]
    Protocol {
        /// The sender.
        from: String,
    },
    /// The environment that a worker's process needs.
    #[error(
        "`{variable}` isn't set or can't be used\nhint: a worker that you start yourself takes `--coordinator`, `--node` and `--secret-file`"
    )]
    Environment {
        /// The variable.
        variable: &'static str,
    },
    /// Nobody listens where the coordinator should.
    #[error(
        "no coordinator answers at `{coordinator}`: {problem}\nhint: start it first, with `--hosts` and `--listen {coordinator}`"
    )]
    NoCoordinator {
        /// Where it should listen.
        coordinator: SocketAddr,
        /// What the system said.
        problem: String,
    },
    /// The coordinator has no place for this worker.
    #[error(
        "the coordinator at `{coordinator}` hasn't let this worker in\nhint: it says why; the secret has to be its own, and `--node` and `--gpu` a device of its `--hosts` that no other worker plays"
    )]
    NotLetIn {
        /// Where it listens.
        coordinator: SocketAddr,
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
}

fn list(violations: &[PlanViolation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
