//! Lowering: compute order first, then communication, then gradient reduction, then what waits for what.
//!
//! Each pass takes a rank's operations and gives them back with more between them. Dependencies come last, from where
//! an operation stands ([`with_dependencies`]), so that no pass has to keep indices right for the next.

use super::layout::{Layout, Neighbours};
use super::schedules::compute_order;
use super::share::{Share, lcm};
use super::{Direction, Gradients, Group, Instruction, InstructionId, Op, Part, Program, RankProgram, Stream};
use crate::ids::{ChunkId, ReplicaId, StageId};
use crate::model::Block;
use crate::plan::{Plan, StagePosition};
use indexmap::IndexMap;

/// What lowering has to know of the model beside the plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LowerOptions {
    /// The head shares the embedding's matrix, so that first and last stages reduce its gradient together.
    pub tie_word_embeddings: bool,
}

impl Program {
    /// Lowers a valid plan. Ranks are numbered replica by replica, stage by stage, then along the tensor-parallel group.
    pub fn lower(plan: &Plan, options: LowerOptions) -> Self {
        let layout = Layout::new(plan);
        let groups = gradient_groups(plan, &layout, options);
        let mut ranks = Vec::with_capacity(plan.world_size());
        for (j, replica) in plan.replicas.iter().enumerate() {
            for (p, stage) in replica.stages.iter().enumerate() {
                let position = replica.position(p);
                let order = compute_order(plan.schedule, position);
                let blocks = replica.blocks(p);
                let chunks: Vec<Vec<Block>> =
                    (0..position.chunks).map(|chunk| replica.chunk_blocks(p, ChunkId::from(chunk))).collect();
                let tensor_parallel_size = stage.tensor_parallel_size();
                for tensor_rank in 0..tensor_parallel_size {
                    let ops = with_communication(&order, position, layout.neighbours(layout.rank(j, p, tensor_rank)));
                    let held = Share::of_rank(tensor_rank, tensor_parallel_size);
                    let ops = with_gradient_reduction(&ops, &chunks, &groups.reduced(&blocks, held, options));
                    ranks.push(RankProgram {
                        replica: ReplicaId::from(j),
                        stage: StageId::from(p),
                        tensor_rank,
                        tensor_parallel_size,
                        instructions: with_dependencies(&ops),
                    });
                }
            }
        }
        let program = Self { ranks, channels: layout.channels, groups: groups.all };
        debug_assert_eq!(program.validate(plan), Ok(()));
        program
    }
}

/// Groups of more than one rank.
struct Groups {
    all: Vec<Group>,
    /// By block, the number of its first group and of its slices; one group follows the other.
    of_block: IndexMap<Block, (u32, u32)>,
}

/// The groups of all slices of all blocks that several stages hold. A ring goes node by node, so that it leaves each node
/// once.
fn gradient_groups(plan: &Plan, layout: &Layout, options: LowerOptions) -> Groups {
    let mut holders: IndexMap<Block, Vec<(usize, usize)>> = IndexMap::new();
    for (j, replica) in plan.replicas.iter().enumerate() {
        for p in 0..replica.stages.len() {
            for block in replica.blocks(p) {
                let shared = if options.tie_word_embeddings && block == Block::Head { Block::Embedding } else { block };
                let stages = holders.entry(shared).or_default();
                if !stages.contains(&(j, p)) {
                    stages.push((j, p));
                }
            }
        }
    }
    let stage = |(j, p): (usize, usize)| &plan.replicas[j].stages[p];
    let mut groups = Groups { all: Vec::new(), of_block: IndexMap::new() };
    for (block, mut stages) in holders {
        if stages.len() < 2 {
            continue;
        }
        let device = |place| (&stage(place).node, stage(place).gpus[0]);
        stages.sort_by(|&a, &b| device(a).cmp(&device(b)));
        let slices = stages.iter().map(|&place| stage(place).tensor_parallel_size()).fold(1, lcm);
        groups.of_block.insert(block, (groups.all.len() as u32, slices));
        for slice in 0..slices {
            let holder =
                |&(j, p): &(usize, usize)| layout.rank(j, p, slice * stage((j, p)).tensor_parallel_size() / slices);
            let ranks = stages.iter().map(holder).collect();
            groups.all.push(Group { block, share: Share::of_rank(slice, slices), ranks });
        }
    }
    groups
}

impl Groups {
    /// The groups of what a rank holds of a block.
    fn of(&self, block: Block, held: Share) -> impl Iterator<Item = u32> + use<> {
        let (first, slices) = self.of_block.get(&block).copied().unwrap_or_default();
        let slices = if slices == 0 { 0..0 } else { held.in_parts(slices) };
        slices.map(move |slice| first + slice)
    }

    /// What a rank reduces: after the backward of which of its blocks, which group. In the one order that all ranks
    /// share, from the head to the embedding and slice by slice, without which collectives of different groups could wait
    /// for each other in a circle.
    fn reduced(&self, blocks: &[Block], held: Share, options: LowerOptions) -> Vec<(Block, Op)> {
        let mut reduced = Vec::new();
        let is_tied = |block: Block| options.tie_word_embeddings && block == Block::Head;
        for &block in blocks.iter().rev().filter(|block| !is_tied(**block)) {
            reduced.extend(self.of(block, held).map(|group| (block, Op::AllReduce { group, block })));
        }
        if blocks.iter().any(|block| is_tied(*block)) && !blocks.contains(&Block::Embedding) {
            let block = Block::Embedding;
            reduced.extend(self.of(block, held).map(|group| (blocks[0], Op::AllReduce { group, block })));
        }
        reduced
    }
}

/// Puts each pass's receives before it and its sends after it. Virtual stages stand in a row, all first chunks before all
/// second ones; nothing comes from before the first of them, and nothing goes behind the last.
fn with_communication(order: &[Op], position: StagePosition, neighbours: &Neighbours) -> Vec<Op> {
    let StagePosition { stage, depth, chunks, .. } = position;
    let last = (depth * chunks) as u32 - 1;
    let mut ops = Vec::with_capacity(order.len() * 3);
    for &op in order {
        let place = |chunk: ChunkId| (chunk.index() * depth + stage) as u32;
        // The boundaries on the input side and on the output side.
        let around = |chunk| (place(chunk).checked_sub(1), Some(place(chunk)).filter(|own| *own < last));
        let (micro_batch, direction, (from, to), receive, send) = match op {
            Op::Forward { micro_batch, chunk } => {
                let (receive, send) = (&neighbours.receive_activation, &neighbours.send_activation);
                (micro_batch, Direction::Downstream, around(chunk), receive, send)
            }
            Op::Backward { gradients: Gradients::Weights, .. } => {
                ops.push(op);
                continue;
            }
            Op::Backward { micro_batch, chunk, .. } => {
                let (before, behind) = around(chunk);
                let (receive, send) = (&neighbours.receive_gradient, &neighbours.send_gradient);
                (micro_batch, Direction::Upstream, (behind, before), receive, send)
            }
            _ => unreachable!("a schedule orders forward and backward passes only"),
        };
        if let Some(boundary) = from {
            ops.extend(receive.iter().map(|&channel| Op::Receive { micro_batch, direction, boundary, channel }));
        }
        ops.push(op);
        if let Some(boundary) = to {
            ops.extend(send.iter().map(|&channel| Op::Send { micro_batch, direction, boundary, channel }));
        }
    }
    ops
}

/// Cuts the last pass that adds to each chunk's gradients into blocks, each followed by its reduction, and ends with the
/// optimizer step.
fn with_gradient_reduction(ops: &[Op], chunks: &[Vec<Block>], reduced: &[(Block, Op)]) -> Vec<Op> {
    let completes = |op: &Op, of: usize| matches!(op, Op::Backward { chunk, gradients, .. } if chunk.index() == of && *gradients != Gradients::Inputs);
    let last: Vec<Option<usize>> = (0..chunks.len()).map(|of| ops.iter().rposition(|op| completes(op, of))).collect();
    let mut cut = Vec::with_capacity(ops.len());
    let mut rest = ops.iter().copied().enumerate().peekable();
    while let Some((index, op)) = rest.next() {
        let (Op::Backward { micro_batch, chunk, gradients, .. }, false) = (op, reduced.is_empty()) else {
            cut.push(op);
            continue;
        };
        if last[chunk.index()] != Some(index) {
            cut.push(op);
            continue;
        }
        let blocks = &chunks[chunk.index()];
        for &block in blocks.iter().rev() {
            cut.push(Op::Backward { micro_batch, chunk, part: Part::Block(block), gradients });
            if block == blocks[0] {
                while let Some((_, send)) = rest.next_if(|(_, op)| matches!(op, Op::Send { .. })) {
                    cut.push(send);
                }
            }
            cut.extend(reduced.iter().filter(|(after, _)| *after == block).map(|(_, reduce)| *reduce));
        }
    }
    cut.push(Op::OptimizerStep);
    cut
}

/// What waits for what, from where it stands: a pass for the receive right before it, and with that for those before it
/// in the same stream; a send or a reduction for the last pass before it; the optimizer for the last reduction.
fn with_dependencies(ops: &[Op]) -> Vec<Instruction> {
    let mut last_compute = None;
    let mut last_reduction = None;
    let mut received = None;
    let mut instructions = Vec::with_capacity(ops.len());
    for (index, &op) in ops.iter().enumerate() {
        let id = Some(InstructionId(index as u32));
        let after = match op {
            Op::Forward { .. } | Op::Backward { .. } => received.take(),
            Op::Send { .. } | Op::AllReduce { .. } => last_compute,
            Op::Receive { .. } => None,
            Op::OptimizerStep => last_reduction,
        };
        match op.stream() {
            Stream::Compute => last_compute = id,
            Stream::Collective => last_reduction = id,
            Stream::ReceiveDownstream | Stream::ReceiveUpstream => received = id,
            Stream::SendDownstream | Stream::SendUpstream => {}
        }
        instructions.push(Instruction { op, after });
    }
    instructions
}
