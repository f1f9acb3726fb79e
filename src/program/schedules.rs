//! Schedules as data: the order in which one stage computes its micro batches.

mod gpipe;
mod interleaved;
mod one_forward_one_backward;
mod redundant;
mod zero_bubble;

pub use crate::plan::StagePosition;

use super::{Gradients, Op, Part};
use crate::ids::{ChunkId, MicroBatch};
use crate::plan::ScheduleKind;

/// Forward and backward passes of one stage, in order, redundant ones among them.
pub fn compute_order(kind: ScheduleKind, position: StagePosition) -> Vec<Op> {
    match kind {
        ScheduleKind::Interleaved if position.chunks > 1 => interleaved::compute_order(position),
        ScheduleKind::OneForwardOneBackward | ScheduleKind::Interleaved => {
            one_forward_one_backward::compute_order(position)
        }
        ScheduleKind::GPipe => gpipe::compute_order(position),
        ScheduleKind::ZeroBubbleH1 => zero_bubble::compute_order(position),
        ScheduleKind::Redundant => redundant::compute_order(position),
    }
}

const FIRST: ChunkId = ChunkId(0);

fn forward(micro_batch: u32) -> Op {
    Op::Forward { micro_batch: MicroBatch(micro_batch), chunk: FIRST }
}

fn backward(micro_batch: u32) -> Op {
    backward_of(micro_batch, Gradients::All)
}

fn backward_of(micro_batch: u32, gradients: Gradients) -> Op {
    Op::Backward { micro_batch: MicroBatch(micro_batch), chunk: FIRST, part: Part::Chunk, gradients }
}

#[cfg(test)]
mod tests;
