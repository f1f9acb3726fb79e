//! What is told of a run while it goes on.

use crate::elastic::{Cause, CheckpointPlace};
use crate::ids::Rank;
use crate::plan::Plan;
use crate::program::{InstructionId, LowerOptions, Program};
use crate::runtime::device::BlockTime;
use crate::runtime::device::messages::{BytesRead, Job, RankStep};
use crate::runtime::{Span, Timeline};
use crate::units::SimTime;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Something that happened.
#[derive(Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// Workers that somebody else starts can join.
    Listening {
        /// Where the coordinator listens.
        address: SocketAddr,
    },
    /// A worker that somebody else has started wasn't let in.
    TurnedAway {
        /// Who, and why.
        message: &'a str,
    },
    /// Training goes on from the checkpoint of a run that had another setting.
    OtherSetting {
        /// Which it is, and which it was.
        message: &'a str,
    },
    /// The checkpoint from which training would go on has all steps already.
    NothingLeft {
        /// Its step.
        step: u64,
    },
    /// Training is over, and these nodes were to be killed at a moment that never came.
    NotKilled {
        /// Their names.
        nodes: &'a [String],
    },
    /// An optimizer step was done.
    Step(&'a StepReport),
    /// Nodes joined.
    Joined {
        /// Their names.
        nodes: &'a [String],
    },
    /// Nodes are about to be lost.
    Noticed {
        /// Their names.
        nodes: &'a [String],
    },
    /// A node was lost.
    Lost {
        /// Its name.
        node: &'a str,
        /// How its process ended.
        how: &'a str,
    },
    /// Nothing fits on the nodes that are there: waiting for others.
    Waiting {
        /// Why.
        reason: &'a str,
        /// The step from which training will go on: later ones are lost.
        resume_step: u64,
    },
    /// A change of plan is complete; the first is the start.
    Reconfigured(&'a RecoveryReport),
    /// A checkpoint, or a part of it, can't be written or read; training goes on without it.
    CheckpointFailed {
        /// Optimizer steps done.
        step: u64,
        /// Who can't write, or what can't be read.
        who: &'a str,
        /// Why.
        message: &'a str,
    },
    /// A checkpoint is whole.
    Checkpoint {
        /// Optimizer steps done.
        step: u64,
        /// Where.
        place: CheckpointPlace,
    },
}

/// One optimizer step, measured.
#[derive(Clone, Debug)]
pub struct StepReport {
    /// Its number, from one.
    pub step: u64,
    /// Mean loss over the tokens of the global batch, before the step, in nats.
    pub loss: f64,
    /// Norm of the gradient, before it was clipped.
    pub gradient_norm: f64,
    /// Tokens of the global batch.
    pub tokens: u64,
    /// Seconds of an iteration of this plan, by the simulator.
    pub predicted_iteration_s: f64,
    /// The plan that it was done with.
    pub plan: Arc<Plan>,
    /// What each rank did when, from the first instruction's start. Ranks that were lost right after have no part in it.
    pub timeline: Timeline,
    /// Resident set of each rank's process after the step, where the system says.
    pub memory_bytes: Vec<Option<u64>>,
    /// What each rank measured beside, by rank.
    pub ranks: Vec<RankReport>,
}

/// What a rank measured of one step, beside the times of its instructions. Nothing of a rank that was lost right after.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankReport {
    /// How long each block's passes took, one by one.
    pub block_times: Vec<BlockTime>,
    /// Bytes sent to other ranks, without frames.
    pub sent_bytes: u64,
    /// Its process.
    pub process_id: u32,
}

impl StepReport {
    /// From the start of the first instruction to the end of the last.
    pub fn iteration_s(&self) -> f64 {
        self.timeline.makespan().as_seconds()
    }
}

/// A change of plan, measured.
#[derive(Clone, Debug)]
pub struct RecoveryReport {
    /// Why.
    pub cause: Cause,
    /// The plan that is in force now.
    pub plan: Arc<Plan>,
    /// The step from which training goes on.
    pub resume_step: u64,
    /// Steps that have to be done again.
    pub lost_steps: u64,
    /// From the stop of training until all ranks were ready. It stops with the first loss, or at the end of the iteration
    /// after a notice or a join; where it was waiting for nodes, the time begins with the one that came.
    pub total: Duration,
    /// Of that, what the controller took to decide and to plan.
    pub planning: Duration,
    /// Of that, from the orders to the last rank's being ready: state and connections.
    pub gather: Duration,
    /// How long the controller thought that it would take.
    pub predicted: Duration,
    /// State that the ranks read.
    pub read: BytesRead,
}

/// The lowered program of a plan: what the spans of its steps refer to.
pub fn program(job: &Job, plan: &Plan) -> Program {
    Program::lower(plan, LowerOptions { tie_word_embeddings: job.model.tie_word_embeddings, ..LowerOptions::default() })
}

/// What the ranks measured beside their spans.
pub(super) fn reports(parts: Vec<Option<RankStep>>) -> Vec<RankReport> {
    let report = |part: RankStep| RankReport {
        block_times: part.block_times,
        sent_bytes: part.sent_bytes,
        process_id: part.process_id,
    };
    parts.into_iter().map(|part| part.map_or_else(RankReport::default, report)).collect()
}

/// Puts the ranks' parts of an iteration together.
pub(super) fn timeline(parts: &[Option<RankStep>]) -> Timeline {
    let starts = parts.iter().flatten().flat_map(|part| &part.spans).map(|&(_, start, _)| start);
    let origin = starts.min().unwrap_or_default();
    let from_origin = |time: SimTime| time.saturating_sub(origin);
    let mut spans = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        spans.extend(part.iter().flat_map(|part| &part.spans).map(|&(id, start, end)| Span {
            rank: Rank::from(index),
            id: InstructionId(id),
            start: from_origin(start),
            end: from_origin(end),
        }));
    }
    spans.sort_by_key(|span| (span.end, span.rank, span.id));
    Timeline { spans }
}
