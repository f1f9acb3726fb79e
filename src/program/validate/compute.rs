//! Proof that a rank computes what it is to compute, in an order that makes sense, with no more in flight than its schedule
//! allows.

use super::ProgramError;
use crate::ids::{ChunkId, MicroBatch, Rank};
use crate::model::Block;
use crate::plan::{Plan, Replica, ScheduleKind, StagePosition};
use crate::program::{Direction, Gradients, Op, Part, Program};
use std::collections::{BTreeMap, BTreeSet};

/// How far a micro batch is in a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Progress {
    #[default]
    Forward,
    /// The backward pass for the input has ended, that for the weights hasn't begun.
    Inputs,
    /// A pass that is cut into blocks, so many of which are left.
    Cut(Gradients, usize),
    /// Nothing is left.
    Done,
}

/// Every micro batch goes through every chunk forward once and backward once: at once, or the gradient of the input before
/// those of the weights. Where a backward pass is cut, it covers all blocks of the chunk, from the output side on and with
/// no other pass in between. What a pass starts from is received before it, and what it gives is sent behind it.
pub(super) fn validate(program: &Program, plan: &Plan, rank: Rank) -> Result<(), ProgramError> {
    let place = &program.ranks()[rank.index()];
    let replica = &plan.replicas[place.replica.index()];
    let mut run = Run::new(replica, place.stage.index());
    for instruction in &place.instructions {
        let is_right = match instruction.op {
            Op::Forward { micro_batch, chunk } => run.forward(micro_batch, chunk),
            Op::Backward { micro_batch, chunk, part, gradients } => run.backward((chunk, micro_batch), part, gradients),
            Op::Receive { micro_batch, direction, boundary, .. } => {
                run.received.insert((direction, boundary, micro_batch));
                true
            }
            Op::Send { micro_batch, direction, boundary, .. } => run.has_to_send(direction, boundary, micro_batch),
            Op::RedundantForward { micro_batch } => run.redundant_forward(micro_batch),
            Op::AllReduce { .. } | Op::ReduceScatter { .. } | Op::AllGather { .. } | Op::OptimizerStep => true,
        };
        if !is_right {
            return Err(ProgramError::ComputeOrder { rank, op: instruction.op.to_string() });
        }
    }
    let position = run.position;
    let is_complete = run.progress.len() == position.chunk_passes() as usize
        && run.progress.values().all(|state| *state == Progress::Done);
    if !is_complete {
        return Err(ProgramError::ComputeOrder { rank, op: "a backward pass".to_owned() });
    }
    let redundant = plan.stands_in_for(replica, place.stage.index()).map_or(0, |_| position.micro_batches);
    if run.redundant.len() != redundant as usize {
        return Err(ProgramError::ComputeOrder { rank, op: "a redundant forward pass".to_owned() });
    }
    let allowed = plan.schedule.in_flight(position);
    // Activations that are whole: no more than under 1F1B.
    let allowed_whole = match plan.schedule {
        ScheduleKind::ZeroBubbleH1 => ScheduleKind::OneForwardOneBackward.in_flight(position),
        _ => allowed,
    };
    for (found, allowed) in [(run.in_flight[1], allowed), (run.whole[1], allowed_whole)] {
        if found > allowed {
            return Err(ProgramError::InFlight { rank, found, allowed });
        }
    }
    Ok(())
}

/// A rank's passes, one after the other.
struct Run {
    position: StagePosition,
    /// Blocks of each chunk.
    chunks: Vec<Vec<Block>>,
    progress: BTreeMap<(ChunkId, MicroBatch), Progress>,
    received: BTreeSet<(Direction, u32, MicroBatch)>,
    /// The neighbour's forward passes that are done.
    redundant: BTreeSet<MicroBatch>,
    /// The pass that is cut into blocks and hasn't ended.
    cut: Option<(ChunkId, MicroBatch)>,
    /// Passes of chunks of which something is left, now and at most.
    in_flight: [u32; 2],
    /// Those whose activations are whole.
    whole: [u32; 2],
}

impl Run {
    fn new(replica: &Replica, stage: usize) -> Self {
        let position = replica.position(stage);
        let chunks = (0..position.chunks).map(|chunk| replica.chunk_blocks(stage, ChunkId::from(chunk)));
        Self {
            position,
            chunks: chunks.collect(),
            progress: BTreeMap::new(),
            received: BTreeSet::new(),
            redundant: BTreeSet::new(),
            cut: None,
            in_flight: [0; 2],
            whole: [0; 2],
        }
    }

    /// The virtual stage that a chunk is.
    fn place(&self, chunk: ChunkId) -> u32 {
        (chunk.index() * self.position.depth + self.position.stage) as u32
    }

    fn forward(&mut self, micro_batch: MicroBatch, chunk: ChunkId) -> bool {
        let is_known = chunk.index() < self.position.chunks && micro_batch.0 < self.position.micro_batches;
        let before = self.place(chunk).checked_sub(1);
        let has_input = before.is_none_or(|b| self.received.contains(&(Direction::Downstream, b, micro_batch)));
        let again = self.progress.insert((chunk, micro_batch), Progress::Forward).is_some();
        for count in [&mut self.in_flight, &mut self.whole] {
            count[0] += 1;
            count[1] = count[1].max(count[0]);
        }
        is_known && has_input && !again && self.cut.is_none()
    }

    /// A stage has a neighbour's input once it has done its own forward pass; the last one has that of the first.
    fn redundant_forward(&mut self, micro_batch: MicroBatch) -> bool {
        let has_input = self.progress.contains_key(&(ChunkId(0), micro_batch));
        self.position.depth > 1 && has_input && self.redundant.insert(micro_batch)
    }

    fn backward(&mut self, at: (ChunkId, MicroBatch), part: Part, gradients: Gradients) -> bool {
        let own = self.place(at.0);
        let is_last = own + 1 == (self.position.depth * self.position.chunks) as u32;
        let has_input =
            gradients == Gradients::Weights || is_last || self.received.contains(&(Direction::Upstream, own, at.1));
        let state = self.progress.get_mut(&at).filter(|_| self.cut.is_none_or(|open| open == at));
        let (Some(state), Some(blocks), true) = (state, self.chunks.get(at.0.index()), has_input) else { return false };
        let Some(next) = after(*state, part, gradients, blocks) else { return false };
        *state = next;
        self.cut = matches!(next, Progress::Cut(..)).then_some(at);
        self.in_flight[0] -= u32::from(next == Progress::Done);
        self.whole[0] -= u32::from(ends_inputs(next, gradients));
        true
    }

    /// Whether the pass that gives what is sent over a boundary has ended.
    fn has_to_send(&self, direction: Direction, boundary: u32, micro_batch: MicroBatch) -> bool {
        let depth = self.position.depth as u32;
        let chunk = |place: u32| ChunkId(place / depth);
        match direction {
            Direction::Downstream => self.progress.contains_key(&(chunk(boundary), micro_batch)),
            Direction::Upstream => {
                let state = self.progress.get(&(chunk(boundary + 1), micro_batch));
                state.is_some_and(|state| matches!(state, Progress::Inputs | Progress::Done))
            }
        }
    }
}

/// How far a micro batch is after a backward pass, or a part of one; `None` where it can't come now.
fn after(state: Progress, part: Part, gradients: Gradients, blocks: &[Block]) -> Option<Progress> {
    let ended = if gradients == Gradients::Inputs { Progress::Inputs } else { Progress::Done };
    let is_next = match gradients {
        Gradients::All | Gradients::Inputs => state == Progress::Forward,
        Gradients::Weights => state == Progress::Inputs,
    };
    match (part, state) {
        (Part::Chunk, _) => is_next.then_some(ended),
        (Part::Block(block), Progress::Cut(begun, left)) => {
            let goes_on = begun == gradients && left > 0 && blocks[left - 1] == block;
            goes_on.then_some(if left == 1 { ended } else { Progress::Cut(gradients, left - 1) })
        }
        (Part::Block(block), _) => {
            let begins = is_next && blocks.last() == Some(&block);
            begins.then_some(if blocks.len() == 1 { ended } else { Progress::Cut(gradients, blocks.len() - 1) })
        }
    }
}

/// Whether what was stored for the gradient of the input is no longer needed.
fn ends_inputs(next: Progress, gradients: Gradients) -> bool {
    match gradients {
        Gradients::All => next == Progress::Done,
        Gradients::Inputs => next == Progress::Inputs,
        Gradients::Weights => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Precision, Recompute};
    use crate::plan::{SCHEMA_VERSION, ScheduleChoice, Stage};
    use crate::program::{Instruction, LowerOptions};

    /// Two stages of four layers under this schedule.
    fn lowered(schedule: &str, micro_batches: u32) -> (Plan, Program) {
        let stage = |p: u32| Stage {
            node: format!("n{p}"),
            gpus: vec![0],
            gpu_type: "T4".to_owned(),
            first_layer: 4 * p,
            num_layers: 4,
            later_chunks: Vec::new(),
        };
        let plan = Plan {
            schema_version: SCHEMA_VERSION,
            planner: "test".to_owned(),
            model: "test".into(),
            global_batch_size: micro_batches,
            micro_batch_size: 1,
            sequence_parallel: false,
            recompute: Recompute::None,
            precision: Precision::Fp16,
            schedule: ScheduleKind::default(),
            replicas: vec![Replica { micro_batches, stages: vec![stage(0), stage(1)] }],
        };
        let plan = plan.rescheduled(schedule.parse::<ScheduleChoice>().unwrap()).unwrap();
        let program = Program::lower(&plan, LowerOptions { tie_word_embeddings: true, ..LowerOptions::default() });
        (plan, program)
    }

    /// What is said of a rank whose operations were changed.
    fn complaint(schedule: &str, rank: usize, change: impl Fn(&mut Vec<Instruction>)) -> String {
        let (plan, mut program) = lowered(schedule, 4);
        assert_eq!(program.validate(&plan), Ok(()));
        change(&mut program.ranks[rank].instructions);
        validate(&program, &plan, Rank::from(rank)).unwrap_err().to_string()
    }

    fn place(instructions: &[Instruction], what: &str) -> usize {
        instructions.iter().position(|instruction| instruction.op.to_string() == what).unwrap()
    }

    #[test]
    fn weights_come_after_the_input() {
        let found = complaint("zb-h1", 0, |ops| {
            let (input, weights) = (
                place(ops, "backward for the input of micro batch 1"),
                place(ops, "backward for the weights of micro batch 1"),
            );
            ops.swap(input, weights);
        });
        assert_eq!(found, "rank 0: backward for the weights of micro batch 1 is missing, repeated or out of order");
        let found = complaint("zb-h1", 0, |ops| {
            let at = place(ops, "backward for the weights of micro batch 2");
            ops.remove(at);
        });
        assert_eq!(found, "rank 0: a backward pass is missing, repeated or out of order");
    }

    #[test]
    fn a_cut_pass_covers_every_block_of_its_chunk_once() {
        let piece = "backward for the weights of micro batch 3, layer 6";
        let found = complaint("zb-h1", 1, |ops| {
            let at = place(ops, piece);
            ops.remove(at);
        });
        assert_eq!(
            found,
            "rank 1: backward for the weights of micro batch 3, layer 5 is missing, repeated or out of order"
        );
    }

    #[test]
    fn passes_have_what_they_start_from() {
        let found = complaint("interleaved:2", 1, |ops| {
            let (receive, pass) =
                (place(ops, "receive activation of micro batch 2"), place(ops, "forward of micro batch 2"));
            ops.swap(receive, pass);
        });
        assert_eq!(found, "rank 1: forward of micro batch 2 is missing, repeated or out of order");
        let found = complaint("interleaved:2", 0, |ops| {
            let (pass, send) =
                (place(ops, "backward of micro batch 0, chunk 1"), place(ops, "send gradient of micro batch 0"));
            ops.swap(pass, send);
        });
        assert_eq!(found, "rank 0: send gradient of micro batch 0 is missing, repeated or out of order");
    }

    #[test]
    fn more_in_flight_than_the_schedule_allows_is_noticed() {
        for schedule in ["1f1b", "zb-h1"] {
            let found = complaint(schedule, 1, |ops| {
                let forward = ops.remove(place(ops, "forward of micro batch 1"));
                let receive = ops.remove(place(ops, "receive activation of micro batch 1"));
                let first = place(ops, "forward of micro batch 0");
                ops.splice(first..first, [receive, forward]);
            });
            assert!(found.starts_with("rank 1 has 2 micro batches in flight, the schedule allows 1"), "{found}");
        }
    }
}
