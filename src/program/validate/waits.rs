//! Proof that what must come before an instruction does, across the queues of its rank: a pass waits for what it receives, a
//! send for the pass that makes what it sends, a reduction for the last gradient that it sums, the optimizer for all reductions.
//!
//! Without it a program could have everything in the right order and yet start a pass before its input is there, since queues
//! overlap.

use super::ProgramError;
use crate::ids::{ChunkId, MicroBatch, Rank};
use crate::model::Block;
use crate::plan::{Plan, Replica};
use crate::program::{Direction, Gradients, Instruction, InstructionId, Op, Part, Program, Stream};
use std::collections::HashMap;

/// How many instructions of each queue have ended when one begins.
type Ended = [u32; Stream::COUNT];

/// Checks the waits of one rank.
pub(super) fn validate(program: &Program, plan: &Plan, rank: Rank) -> Result<(), ProgramError> {
    let place = &program.ranks()[rank.index()];
    let replica = &plan.replicas[place.replica.index()];
    let made = Made::by(&place.instructions, replica, place.stage.index());
    let ended = ended_before(&place.instructions, rank)?;
    let places = places_in_queues(&place.instructions);
    for (instruction, ended) in place.instructions.iter().zip(&ended) {
        for needed in made.needed_by(program, instruction.op) {
            let needed_op = place.instructions[needed.index()].op;
            if ended[needed_op.stream() as usize] <= places[needed.index()] {
                return Err(unordered(rank, instruction.op, needed_op));
            }
        }
    }
    Ok(())
}

fn unordered(rank: Rank, op: Op, before: Op) -> ProgramError {
    ProgramError::Unordered { rank, op: op.to_string(), before: before.to_string() }
}

/// Each instruction's place in its queue.
fn places_in_queues(instructions: &[Instruction]) -> Vec<u32> {
    let mut lengths: Ended = [0; Stream::COUNT];
    let place = |instruction: &Instruction| {
        let length = &mut lengths[instruction.stream() as usize];
        *length += 1;
        *length - 1
    };
    instructions.iter().map(place).collect()
}

/// What has ended for certain when each instruction begins. An instruction waits for earlier ones only.
fn ended_before(instructions: &[Instruction], rank: Rank) -> Result<Vec<Ended>, ProgramError> {
    let mut ended: Vec<Ended> = Vec::with_capacity(instructions.len());
    let mut last: [Option<usize>; Stream::COUNT] = [None; Stream::COUNT];
    let places = places_in_queues(instructions);
    for (index, instruction) in instructions.iter().enumerate() {
        let mut now: Ended = [0; Stream::COUNT];
        let predecessor = last[instruction.stream() as usize];
        for before in predecessor.into_iter().chain(instruction.waits_for().map(InstructionId::index)) {
            let Some(earlier) = ended.get(before) else {
                return Err(unordered(rank, instruction.op, instructions[before].op));
            };
            for (now, earlier) in now.iter_mut().zip(earlier) {
                *now = (*now).max(*earlier);
            }
            let queue = instructions[before].stream() as usize;
            now[queue] = now[queue].max(places[before] + 1);
        }
        last[instruction.stream() as usize] = Some(index);
        ended.push(now);
    }
    Ok(ended)
}

/// Which instructions of a rank make what others need.
#[derive(Default)]
struct Made {
    depth: u32,
    stage: u32,
    last_place: u32,
    received: HashMap<(Direction, u32, MicroBatch), Vec<InstructionId>>,
    activations: HashMap<(ChunkId, MicroBatch), InstructionId>,
    /// The last part of the pass that gives the gradient of a chunk's input.
    input_gradients: HashMap<(ChunkId, MicroBatch), InstructionId>,
    /// The last pass that adds to the gradient of a block's weights.
    weight_gradients: HashMap<Block, InstructionId>,
    reductions: Vec<InstructionId>,
    optimizer: Option<InstructionId>,
}

impl Made {
    fn by(instructions: &[Instruction], replica: &Replica, stage: usize) -> Self {
        let position = replica.position(stage);
        let mut made = Self {
            depth: position.depth as u32,
            stage: stage as u32,
            last_place: (position.depth * position.chunks) as u32 - 1,
            ..Self::default()
        };
        let chunks: Vec<Vec<Block>> =
            (0..position.chunks).map(|chunk| replica.chunk_blocks(stage, ChunkId::from(chunk))).collect();
        for (index, instruction) in instructions.iter().enumerate() {
            made.note(instruction.op, InstructionId(index as u32), &chunks);
        }
        made
    }

    fn note(&mut self, op: Op, id: InstructionId, chunks: &[Vec<Block>]) {
        match op {
            Op::Receive { micro_batch, direction, boundary, .. } => {
                self.received.entry((direction, boundary, micro_batch)).or_default().push(id);
            }
            Op::Forward { micro_batch, chunk } => {
                self.activations.insert((chunk, micro_batch), id);
            }
            Op::Backward { micro_batch, chunk, part, gradients } => {
                if gradients != Gradients::Weights {
                    self.input_gradients.insert((chunk, micro_batch), id);
                }
                if gradients != Gradients::Inputs {
                    let whole = chunks.get(chunk.index()).into_iter().flatten();
                    match part {
                        Part::Chunk => self.weight_gradients.extend(whole.map(|block| (*block, id))),
                        Part::Block(block) => {
                            self.weight_gradients.insert(block, id);
                        }
                    }
                }
            }
            Op::AllReduce { .. } | Op::ReduceScatter { .. } => self.reductions.push(id),
            Op::OptimizerStep => self.optimizer = Some(id),
            Op::Send { .. } | Op::AllGather { .. } | Op::RedundantForward { .. } => {}
        }
    }

    /// What must have ended before `op` begins.
    fn needed_by(&self, program: &Program, op: Op) -> Vec<InstructionId> {
        let received = |direction, boundary, micro_batch| {
            self.received.get(&(direction, boundary, micro_batch)).cloned().unwrap_or_default()
        };
        let chunk_of = |place: u32| ChunkId(place / self.depth);
        match op {
            Op::Forward { micro_batch, chunk } => match self.place(chunk).checked_sub(1) {
                Some(boundary) => received(Direction::Downstream, boundary, micro_batch),
                None => Vec::new(),
            },
            // A redundant pass stands behind the stage's own in its queue, which has what it needs.
            Op::Backward { gradients: Gradients::Weights, .. } | Op::RedundantForward { .. } | Op::Receive { .. } => {
                Vec::new()
            }
            Op::Backward { micro_batch, chunk, .. } if self.place(chunk) < self.last_place => {
                received(Direction::Upstream, self.place(chunk), micro_batch)
            }
            Op::Backward { .. } => Vec::new(),
            Op::Send { micro_batch, direction: Direction::Downstream, boundary, .. } => {
                self.activations.get(&(chunk_of(boundary), micro_batch)).copied().into_iter().collect()
            }
            Op::Send { micro_batch, boundary, .. } => {
                self.input_gradients.get(&(chunk_of(boundary + 1), micro_batch)).copied().into_iter().collect()
            }
            Op::AllReduce { group, .. } | Op::ReduceScatter { group, .. } => self.summed_in(program, group),
            Op::OptimizerStep => self.reductions.clone(),
            Op::AllGather { .. } => self.optimizer.into_iter().collect(),
        }
    }

    /// The virtual stage that a chunk is.
    fn place(&self, chunk: ChunkId) -> u32 {
        chunk.0 * self.depth + self.stage
    }

    /// The last passes that add to what a group sums; the embedding of a group stands for a tied head too.
    fn summed_in(&self, program: &Program, group: u32) -> Vec<InstructionId> {
        let blocks = &program.groups()[group as usize].blocks;
        let tied = blocks.contains(&Block::Embedding).then_some(Block::Head);
        blocks.iter().chain(&tied).filter_map(|block| self.weight_gradients.get(block).copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{Framework, PointToPoint};
    use crate::model::{Precision, Recompute};
    use crate::plan::{SCHEMA_VERSION, ScheduleChoice, ScheduleKind, Stage};
    use crate::program::LowerOptions;
    use rstest::rstest;

    /// Two replicas of two stages of four layers, tensor parallel, so that frameworks differ in what they send.
    fn plan() -> Plan {
        let stage = |replica: u32, p: u32| Stage {
            node: format!("n{replica}"),
            gpus: vec![2 * p, 2 * p + 1],
            gpu_type: "T4".to_owned(),
            first_layer: 4 * p,
            num_layers: 4,
            later_chunks: Vec::new(),
        };
        let replica = |index| Replica { micro_batches: 4, stages: vec![stage(index, 0), stage(index, 1)] };
        Plan {
            schema_version: SCHEMA_VERSION,
            planner: "test".to_owned(),
            model: "test".into(),
            global_batch_size: 8,
            micro_batch_size: 1,
            sequence_parallel: false,
            recompute: Recompute::None,
            precision: Precision::Fp16,
            schedule: ScheduleKind::default(),
            replicas: vec![replica(0), replica(1)],
        }
    }

    const SCHEDULES: [&str; 4] = ["1f1b", "gpipe", "interleaved:2", "zb-h1"];

    fn lowered(schedule: &str, framework: &str) -> (Plan, Program) {
        let plan = plan().rescheduled(schedule.parse::<ScheduleChoice>().unwrap()).unwrap();
        let framework = Framework::preset(framework).unwrap();
        let options = LowerOptions { tie_word_embeddings: true, framework, ..LowerOptions::default() };
        let program = Program::lower(&plan, options);
        (plan, program)
    }

    #[test]
    fn programs_of_all_schedules_and_frameworks_wait_for_what_they_need() {
        for schedule in SCHEDULES {
            for framework in ["plain", "megatron-lm", "deepspeed"] {
                let (plan, program) = lowered(schedule, framework);
                for rank in 0..program.ranks().len() {
                    assert_eq!(validate(&program, &plan, Rank::from(rank)), Ok(()), "{schedule}, {framework}");
                }
            }
        }
        assert_ne!(Framework::preset("megatron-lm").unwrap().point_to_point, PointToPoint::Asynchronous);
    }

    /// Without any one of its waits, an instruction of the plain framework begins too early: none of them is for nothing. A
    /// reduction may wait through the one before it, and a part of a pass through the part before.
    #[rstest]
    fn every_wait_is_needed(#[values("1f1b", "gpipe", "interleaved:2", "zb-h1")] schedule: &str) {
        let (plan, program) = lowered(schedule, "plain");
        let mut seen = 0;
        for rank in 0..program.ranks().len() {
            let mut reduces = false;
            for index in 0..program.ranks()[rank].instructions.len() {
                let mut changed = program.clone();
                let instruction = &mut changed.ranks[rank].instructions[index];
                let is_part = matches!(instruction.op, Op::Backward { part: Part::Block(_), .. });
                let is_reduction = instruction.op.group().is_some();
                if instruction.after.take().is_none() || is_part || is_reduction && reduces {
                    continue;
                }
                seen += 1;
                reduces |= is_reduction;
                let op = instruction.op;
                let found = validate(&changed, &plan, Rank::from(rank));
                assert!(matches!(found, Err(ProgramError::Unordered { .. })), "{schedule}, rank {rank}: {op}");
            }
        }
        assert!(seen > 20, "{seen}");
    }

    #[test]
    fn nothing_waits_for_what_comes_later() {
        let (plan, mut program) = lowered("1f1b", "plain");
        let instructions = &mut program.ranks[2].instructions;
        instructions[0].after = Some(InstructionId(instructions.len() as u32 - 1));
        let found = validate(&program, &plan, Rank(2)).unwrap_err().to_string();
        assert_eq!(found, "rank 2: receive activation of micro batch 0 may begin before optimizer step has ended");
    }
}
