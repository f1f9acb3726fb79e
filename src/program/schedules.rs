//! Schedules as data: the order in which one stage computes its micro batches.

mod gpipe;
mod one_forward_one_backward;

use super::{Op, Part};
use crate::ids::MicroBatch;
use crate::plan::ScheduleKind;

/// A stage's place in its pipeline, all that a schedule may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagePosition {
    /// Place of the stage, from the input side.
    pub stage: usize,
    /// Stages of the pipeline.
    pub depth: usize,
    /// Micro batches per iteration.
    pub micro_batches: u32,
}

/// Forward and backward passes of one stage, in order.
pub fn compute_order(kind: ScheduleKind, position: StagePosition) -> Vec<Op> {
    match kind {
        ScheduleKind::OneForwardOneBackward => one_forward_one_backward::compute_order(position),
        ScheduleKind::GPipe => gpipe::compute_order(position),
    }
}

fn forward(micro_batch: u32) -> Op {
    Op::Forward { micro_batch: MicroBatch(micro_batch) }
}

fn backward(micro_batch: u32) -> Op {
    Op::Backward { micro_batch: MicroBatch(micro_batch), part: Part::Stage }
}
