//! The coordinator: starts the ranks, has them step together, gathers what they report.

mod ranks;

use super::messages::{FromRank, Job, RankStep, ToRank};
use super::processes::RankCommand;
use super::{DataSet, DeviceError, check_job};
use crate::ids::Rank;
use crate::program::{InstructionId, LowerOptions, Program};
use crate::runtime::{Span, Timeline};
use crate::units::SimTime;
use ranks::Ranks;

/// One optimizer step, measured.
#[derive(Clone, Debug)]
pub struct StepReport {
    /// Its number, from one.
    pub step: u32,
    /// Mean loss over the tokens of the global batch, before the step, in nats.
    pub loss: f64,
    /// Tokens of the global batch.
    pub tokens: u64,
    /// What each rank did when, from the first instruction's start.
    pub timeline: Timeline,
}

impl StepReport {
    /// From the start of the first instruction to the end of the last.
    pub fn iteration_s(&self) -> f64 {
        self.timeline.makespan().as_seconds()
    }
}

/// Trains: one process per rank of the plan, each started by `command`, on this machine. Calls `observe` after each step.
///
/// # Errors
/// At the first thing that goes wrong in any process; all of them have ended when it returns.
pub fn train(
    job: &Job,
    data: &DataSet,
    command: &RankCommand,
    observe: &mut dyn FnMut(&StepReport) -> Result<(), String>,
) -> Result<(), DeviceError> {
    check_job(job, data)?;
    let world_size = job.plan.world_size();
    let mut ranks = Ranks::start(job, data, command, world_size)?;
    ranks.gather("connecting", |message| matches!(message, FromRank::Ready).then_some(()))?;
    for step in 1..=job.steps {
        ranks.tell_all(&ToRank::Step)?;
        let parts = ranks.gather("training", |message| match message {
            FromRank::Stepped(part) => Some(part),
            _ => None,
        })?;
        let report = report(job, step, &parts);
        if !report.loss.is_finite() {
            return Err(DeviceError::Diverged { step, loss: report.loss });
        }
        observe(&report).map_err(DeviceError::Observer)?;
    }
    ranks.end()
}

/// The lowered program of a job: what the spans of its steps refer to.
pub fn program(job: &Job) -> Program {
    Program::lower(&job.plan, LowerOptions { tie_word_embeddings: job.model.tie_word_embeddings })
}

/// Puts the ranks' parts together.
fn report(job: &Job, step: u32, parts: &[RankStep]) -> StepReport {
    let micro_batches = f64::from(job.plan.global_batch_size / job.plan.micro_batch_size);
    let loss = parts.iter().map(|part| part.loss).sum::<f64>() / micro_batches;
    let starts = parts.iter().flat_map(|part| &part.spans).map(|&(_, start, _)| start);
    let origin = starts.min().unwrap_or_default();
    let from_origin = |time: SimTime| time.saturating_sub(origin);
    let mut spans = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        spans.extend(part.spans.iter().map(|&(id, start, end)| Span {
            rank: Rank::from(index),
            id: InstructionId(id),
            start: from_origin(start),
            end: from_origin(end),
        }));
    }
    spans.sort_by_key(|span| (span.end, span.rank, span.id));
    let tokens = u64::from(job.plan.global_batch_size) * u64::from(job.model.seq_length);
    StepReport { step, loss, tokens, timeline: Timeline { spans } }
}
