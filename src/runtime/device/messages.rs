//! What coordinator and ranks say to each other.

use super::transport::{Transport, TransportError};
use super::{AdamW, DeviceError};
use crate::model::ModelSpec;
use crate::plan::Plan;
use crate::units::SimTime;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::Duration;

/// What is to be trained, and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// What goes where.
    pub plan: Plan,
    /// The model.
    pub model: ModelSpec,
    /// Seed of weights and samples.
    pub seed: u64,
    /// Optimizer steps.
    pub steps: u32,
    /// The optimizer.
    pub optimizer: AdamW,
}

/// From the coordinator.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToRank {
    /// Get ready. Where `has_text`, the next message is the text.
    Start(Box<Start>),
    /// Run one iteration.
    Step,
    /// There is nothing more to do.
    End,
}

/// All that a rank has to know.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Start {
    pub(super) job: Job,
    /// Listeners of all ranks.
    pub(super) addresses: Vec<SocketAddr>,
    /// Origin of the common time axis, since the epoch.
    pub(super) origin: Duration,
    pub(super) has_text: bool,
}

/// From a rank.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromRank {
    /// A process is there, and listens.
    Joined { rank: u32, address: SocketAddr },
    /// It is connected to its peers and has its weights.
    Ready,
    /// It has run an iteration.
    Stepped(RankStep),
    /// It can't go on.
    Failed { message: String },
}

/// A rank's part of an iteration.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RankStep {
    /// Sum of the losses of its micro batches.
    pub(super) loss: f64,
    /// Instruction, start and end on the common time axis, in the order in which they ended.
    pub(super) spans: Vec<(u32, SimTime, SimTime)>,
}

/// Sends a message.
pub(super) fn tell(to: &mut impl Transport, message: &impl Serialize) -> Result<(), TransportError> {
    to.send(&serde_json::to_vec(message).expect("messages have string keys only"))
}

/// The next message; `from` is how errors call the sender.
pub(super) fn hear<T: DeserializeOwned>(from: &mut impl Transport, name: &str) -> Result<T, DeviceError> {
    serde_json::from_slice(&from.receive()?).map_err(|_| DeviceError::Protocol { from: name.to_owned() })
}
