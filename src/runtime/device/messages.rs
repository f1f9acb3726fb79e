//! What the coordinator and its workers say to each other.

mod state;

pub use state::{BytesRead, Delivery, Saved, SavedPlace, ShardOrigin, ShardSource, SnapshotOrder};

use super::optimizer::gradient_scale;
use super::transport::{Transport, TransportError};
use super::{AdamW, BlockTime, Conditions, DataOrigin, DeviceError, DeviceKind, LearningRate, VaultPlaces};
use crate::ids::Rank;
use crate::model::ModelSpec;
use crate::plan::Plan;
use crate::units::SimTime;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
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
    /// Its step size.
    pub learning_rate: LearningRate,
    /// Largest norm of the whole model's gradient; a larger one is scaled down to it.
    pub clip_norm: Option<f32>,
    /// What computes.
    pub device: DeviceKind,
    /// What the ranks are made to meet.
    pub conditions: Conditions,
}

impl Job {
    /// A job with the optimizer's defaults, on this machine's cores as they are.
    pub fn new(plan: Plan, model: ModelSpec, steps: u32) -> Self {
        Self {
            plan,
            model,
            seed: 0,
            steps,
            optimizer: AdamW::default(),
            learning_rate: LearningRate::default(),
            clip_norm: None,
            device: DeviceKind::default(),
            conditions: Conditions::default(),
        }
    }

    /// What gradients are multiplied by, given the square of their norm over the whole model.
    pub fn gradient_scale(&self, squared_norm: f64) -> f32 {
        gradient_scale(squared_norm, self.clip_norm)
    }
}

/// One worker process: one device of one node, from its start to its end. A node that comes again has new ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WorkerId(pub u32);

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {}", self.0)
    }
}

/// How a worker calls itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum WorkerName {
    /// As the coordinator called it that started it.
    Given(WorkerId),
    /// By its place: it was started by somebody else, maybe on another machine.
    Place {
        /// Name of the node.
        node: String,
        /// Index of the device in the node.
        gpu: u32,
    },
}

/// From the coordinator.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToWorker {
    /// First of all. Where it says so, the next message is the data.
    Begin(Box<Begin>),
    /// Take this part in a plan: get the state together, connect to the peers, and wait.
    Assign(Box<Assignment>),
    /// All are ready: the part counts from now on, and what was held before is let go.
    Adopt {
        /// Optimizer steps done. Copies of later checkpoints are let go too.
        step: u64,
    },
    /// Let go of the copies of all checkpoints but these.
    Keep {
        /// The step of an earlier one, if it is still of use.
        earlier: Option<u64>,
        /// The step from which on they are.
        from: u64,
    },
    /// Run one iteration.
    Step,
    /// Every rank has its gradients: move the parameters.
    Commit(Commit),
    /// Copy the state and write the copy.
    Snapshot(Box<SnapshotOrder>),
    /// Leave whatever is under way and hold the state of the last step for others to read.
    Park {
        /// Comes back in [`FromWorker::Parked`].
        epoch: u64,
    },
    /// There is nothing more to do.
    End,
}

/// What stays the same for as long as a worker runs.
#[derive(Debug, Serialize, Deserialize)]
pub struct Begin {
    /// Origin of the common time axis, since the epoch.
    pub origin: Duration,
    /// What the coordinator's clock says as it sends this, since the epoch: that of another machine may say something else.
    pub now: Duration,
    /// Where the data is.
    pub data: DataOrigin,
    /// Where checkpoints are kept; nowhere where there are none.
    pub vaults: Option<VaultPlaces>,
}

/// A worker's part in a plan.
#[derive(Debug, Serialize, Deserialize)]
pub struct Assignment {
    /// Number of this change of plan; connections of older ones are turned away.
    pub epoch: u64,
    /// The job, with the plan.
    pub job: Job,
    /// The rank that this worker plays.
    pub rank: Rank,
    /// Where the ranks' workers listen, by rank.
    pub addresses: Vec<SocketAddr>,
    /// Optimizer steps done.
    pub step: u64,
    /// Where each shard of the rank's state comes from, block by block, slices in order.
    pub shards: Vec<ShardSource>,
    /// Where to stand still, to be killed there.
    pub stop_at: Option<StopPoint>,
}

/// The coordinator's word that a step counts. From then on every surviving rank completes it, whoever is lost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Commit {
    /// What gradients are multiplied by.
    pub gradient_scale: f32,
}

/// A place in the course of training where a rank can be told to stand still, so that it is lost there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopPoint {
    /// Iteration, from one.
    pub step: u64,
    /// Where in it.
    pub phase: StopPhase,
}

/// Where in an iteration, or beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopPhase {
    /// At the first forward pass.
    WarmUp,
    /// At the first backward pass.
    Steady,
    /// When a gradient is to be reduced.
    AllReduce,
    /// Between the coordinator's word that the step counts and the optimizer.
    Optimizer,
    /// In the middle of writing the next checkpoint.
    Checkpoint,
    /// While getting its state in the next change of plan.
    Recovery,
}

/// From a worker.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromWorker {
    /// It is there, and listens.
    Joined {
        /// Who it is.
        who: WorkerName,
        /// Where it listens.
        address: SocketAddr,
    },
    /// It has its state and its connections.
    Ready {
        /// Of which change of plan.
        epoch: u64,
        /// Bytes of state that it read, by where they came from.
        read: BytesRead,
    },
    /// Its gradients are reduced.
    GradientsReady {
        /// Its part of the squared norm of its replica's gradient.
        #[serde(with = "exact")]
        squared_norm: f64,
        /// Sum of the losses of its micro batches, so that the loss of a step that counts is known whoever is lost.
        #[serde(with = "exact")]
        loss: f64,
    },
    /// It has run an iteration.
    Stepped(RankStep),
    /// It has a copy of the state.
    Snapshotted {
        /// Of this step.
        step: u64,
    },
    /// Its part of a checkpoint is written.
    Saved(Saved),
    /// Its part of a checkpoint can't be written.
    NotSaved {
        /// Optimizer steps done.
        step: u64,
        /// Why.
        message: String,
    },
    /// Its part of a checkpoint can't be sent to those who are to keep it; it is written all the same.
    NotCopied {
        /// Optimizer steps done.
        step: u64,
        /// Why.
        message: String,
    },
    /// It holds the state of its last step and does nothing else.
    Parked {
        /// As asked.
        epoch: u64,
    },
    /// It stands where it was told to.
    AtStopPoint,
    /// A peer is gone.
    PeerLost {
        /// In which change of plan.
        epoch: u64,
        /// What was noticed.
        message: String,
    },
    /// State isn't where it was told to read it.
    CopyLost {
        /// In which change of plan.
        epoch: u64,
        /// Where it isn't.
        origin: ShardOrigin,
        /// What was found there.
        message: String,
    },
    /// A sign of life, so that one that hangs, or whose machine is gone, is told from one that works for long.
    Alive,
    /// It can't go on.
    Failed {
        /// Why.
        message: String,
    },
}

/// Numbers by their bits: JSON has none that aren't finite, and a run that diverges has.
mod exact {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        value.to_bits().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        u64::deserialize(deserializer).map(f64::from_bits)
    }
}

/// A rank's part of an iteration.
#[derive(Debug, Serialize, Deserialize)]
pub struct RankStep {
    /// How long each block's passes took.
    pub block_times: Vec<BlockTime>,
    /// Bytes sent to other ranks, without frames.
    pub sent_bytes: u64,
    /// Its process.
    pub process_id: u32,
    /// Instruction, start and end on the common time axis, in the order in which they ended.
    pub spans: Vec<(u32, SimTime, SimTime)>,
}

/// Sends a message.
pub fn tell(to: &mut impl Transport, message: &impl Serialize) -> Result<(), TransportError> {
    to.send(&serde_json::to_vec(message).expect("messages have string keys only"))
}

/// The next message; `name` is how errors call the sender.
pub fn hear<T: DeserializeOwned>(from: &mut impl Transport, name: &str) -> Result<T, DeviceError> {
    serde_json::from_slice(&from.receive()?).map_err(|_| DeviceError::Protocol { from: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_arrive_as_they_are_whatever_they_are() {
        for sent in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1.0 / 3.0] {
            let text = serde_json::to_vec(&FromWorker::GradientsReady { squared_norm: sent, loss: -sent }).unwrap();
            let FromWorker::GradientsReady { squared_norm, loss } = serde_json::from_slice(&text).unwrap() else {
                panic!("it is another message");
            };
            assert_eq!((squared_norm.to_bits(), loss.to_bits()), (sent.to_bits(), (-sent).to_bits()));
        }
    }
}
