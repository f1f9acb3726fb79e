//! What waits for what, from where operations stand: the last pass of lowering.
//!
//! Where sends and receives don't block, a pass waits for the receive right before it and nothing else. Where they do, what
//! stands between two passes of a rank is an exchange: it begins when the pass before it has ended, and the pass behind it
//! begins when all of it is done.

use super::schedules::{StagePosition, compute_order};
use super::{Direction, Gradients, Instruction, InstructionId, Op, Stream};
use crate::cost::PointToPoint;
use crate::ids::MicroBatch;
use crate::plan::ScheduleKind;
use std::collections::HashMap;

/// How one stage sends and receives.
pub(super) struct Exchanges {
    kind: PointToPoint,
    /// Where the passes of the next stage stand in its order; empty where that doesn't matter.
    next_stage: HashMap<(bool, MicroBatch), usize>,
}

/// What waits for the operations since the last pass.
#[derive(Default)]
struct Progress {
    compute: Option<InstructionId>,
    reduction: Option<InstructionId>,
    optimizer: Option<InstructionId>,
    /// The last operation of each of an exchange's sides, with the queue that it is in: at most two.
    sides: Vec<(Stream, InstructionId)>,
}

impl Exchanges {
    /// Where stages have several chunks, sends and receives never block: in a circle of stages nobody could be first.
    pub(super) fn new(kind: PointToPoint, schedule: ScheduleKind, position: StagePosition) -> Self {
        let kind = if position.chunks > 1 { PointToPoint::Asynchronous } else { kind };
        let mut next_stage = HashMap::new();
        if kind == PointToPoint::Sequential && position.stage + 1 < position.depth {
            let next = StagePosition { stage: position.stage + 1, ..position };
            for (at, op) in compute_order(schedule, next).into_iter().enumerate() {
                match op {
                    Op::Forward { micro_batch, .. } => next_stage.insert((true, micro_batch), at),
                    Op::Backward { gradients: Gradients::Weights, .. } => None,
                    Op::Backward { micro_batch, .. } => next_stage.insert((false, micro_batch), at),
                    _ => None,
                };
            }
        }
        Self { kind, next_stage }
    }

    /// The operations with what they wait for: a pass for what it receives; a send or a reduction for the last pass before
    /// it; the optimizer for the last reduction; what is gathered for the optimizer.
    pub(super) fn with_dependencies(&self, mut ops: Vec<Op>) -> Vec<Instruction> {
        if self.kind == PointToPoint::Sequential {
            self.put_in_turns(&mut ops);
        }
        let mut progress = Progress::default();
        let mut instructions = Vec::with_capacity(ops.len());
        for (index, op) in ops.into_iter().enumerate() {
            let (after, also_after) = self.waits_for(op, &progress);
            instructions.push(Instruction { op, after, also_after });
            progress.note(op, InstructionId(index as u32));
        }
        instructions
    }

    fn waits_for(&self, op: Op, progress: &Progress) -> (Option<InstructionId>, Option<InstructionId>) {
        let blocks = self.kind != PointToPoint::Asynchronous;
        let side = |index: usize| progress.sides.get(index).map(|(_, id)| *id);
        match op {
            Op::Forward { .. } | Op::Backward { .. } if blocks => (side(0), side(1)),
            Op::Forward { .. } | Op::Backward { .. } => (progress.received(), None),
            Op::Send { .. } | Op::Receive { .. } if blocks => {
                let other = progress.sides.first().filter(|(stream, _)| *stream != op.stream());
                let comes_first = |&&(stream, _): &&(Stream, InstructionId)| {
                    self.kind == PointToPoint::Sequential || travels(stream) == travels(op.stream())
                };
                (progress.compute, other.filter(comes_first).map(|(_, id)| *id))
            }
            Op::Receive { .. } | Op::RedundantForward { .. } => (None, None),
            Op::AllReduce { .. } | Op::ReduceScatter { .. } if blocks => (progress.compute, progress.last_side()),
            Op::Send { .. } | Op::AllReduce { .. } | Op::ReduceScatter { .. } => (progress.compute, None),
            Op::OptimizerStep if blocks => (progress.reduction, progress.last_side()),
            Op::OptimizerStep => (progress.reduction, None),
            Op::AllGather { .. } => (progress.optimizer, None),
        }
    }

    /// Where a stage sends an activation and then receives a gradient, the next one has sent that gradient first if its
    /// backward pass comes before the forward pass that the activation is for. Then it is received first, or both stages
    /// would wait for the other to receive.
    fn put_in_turns(&self, ops: &mut [Op]) {
        let is_exchanged = |op: &Op| matches!(op, Op::Send { .. } | Op::Receive { .. });
        let mut start = 0;
        while start < ops.len() {
            let length = ops[start..].iter().take_while(|op| is_exchanged(op)).count();
            let exchange = &mut ops[start..start + length];
            let sent = exchange.iter().find_map(|op| match *op {
                Op::Send { micro_batch, direction: Direction::Downstream, .. } => Some(micro_batch),
                _ => None,
            });
            let received = exchange.iter().find_map(|op| match *op {
                Op::Receive { micro_batch, direction: Direction::Upstream, .. } => Some(micro_batch),
                _ => None,
            });
            if let (Some(sent), Some(received)) = (sent, received)
                && self.next_stage.get(&(false, received)) < self.next_stage.get(&(true, sent))
            {
                // Stable, so that the channels of each side stay in order.
                exchange.sort_by_key(|op| matches!(op, Op::Send { .. }));
            }
            start += length.max(1);
        }
    }
}

impl Progress {
    fn note(&mut self, op: Op, id: InstructionId) {
        match op {
            Op::Forward { .. } | Op::Backward { .. } => {
                self.compute = Some(id);
                self.sides.clear();
            }
            // Nobody waits for it.
            Op::RedundantForward { .. } => {}
            Op::OptimizerStep => self.optimizer = Some(id),
            Op::AllReduce { .. } | Op::ReduceScatter { .. } | Op::AllGather { .. } => self.reduction = Some(id),
            Op::Send { .. } | Op::Receive { .. } => {
                match self.sides.iter_mut().find(|(stream, _)| *stream == op.stream()) {
                    Some((_, last)) => *last = id,
                    None => self.sides.push((op.stream(), id)),
                }
            }
        }
    }

    fn received(&self) -> Option<InstructionId> {
        let is_received = |stream| matches!(stream, Stream::ReceiveDownstream | Stream::ReceiveUpstream);
        self.sides.iter().rev().find(|(stream, _)| is_received(*stream)).map(|(_, id)| *id)
    }

    fn last_side(&self) -> Option<InstructionId> {
        self.sides.last().map(|(_, id)| *id)
    }
}

/// The way that the data of a queue travels; none of a queue within the stage.
fn travels(stream: Stream) -> Option<Direction> {
    match stream {
        Stream::SendDownstream | Stream::ReceiveDownstream => Some(Direction::Downstream),
        Stream::SendUpstream | Stream::ReceiveUpstream => Some(Direction::Upstream),
        Stream::Compute | Stream::Collective => None,
    }
}
