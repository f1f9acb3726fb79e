//! Lowering: compute order first, then communication, then gradient reduction, then what waits for what.
//!
//! Each pass takes a rank's operations and gives them back with more between them. Dependencies come last, from where
//! an operation stands ([`with_dependencies`]), so that no pass has to keep indices right for the next.

use super::buckets::in_buckets;
use super::layout::{Layout, Neighbours};
use super::point_to_point::Exchanges;
use super::schedules::compute_order;
use super::share::{Share, lcm};
use super::{Direction, Gradients, Group, Op, Part, Program, RankProgram};
use crate::cost::{CostModel, Framework, OptimizerState, ReductionTime};
use crate::ids::{ChunkId, ReplicaId, StageId};
use crate::model::Block;
use crate::plan::{Plan, StagePosition};
use indexmap::IndexMap;

/// What lowering has to know beside the plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LowerOptions {
    /// The head shares the embedding's matrix, so that first and last stages reduce its gradient together.
    pub tie_word_embeddings: bool,
    /// What the framework does with the plan.
    pub framework: Framework,
    /// Parameters of the embedding, of a layer and of the head, by which gradients are put in buckets; as many as there
    /// are where buckets aren't counted in parameters.
    pub block_parameters: [u64; 3],
}

impl LowerOptions {
    /// Those of the model and the framework that a cost model prices.
    pub fn of(cost: &CostModel) -> Self {
        let model = cost.model();
        let layer = Block::Layer(crate::ids::LayerId(0));
        Self {
            tie_word_embeddings: model.tie_word_embeddings,
            framework: cost.framework(),
            block_parameters: [Block::Embedding, layer, Block::Head].map(|block| model.block_parameters(block)),
        }
    }

    pub(super) fn parameters(&self, block: Block) -> u64 {
        match block {
            Block::Embedding => self.block_parameters[0],
            Block::Layer(_) => self.block_parameters[1],
            Block::Head => self.block_parameters[2],
        }
    }
}

impl Program {
    /// Lowers a valid plan. Ranks are numbered replica by replica, stage by stage, then along the tensor-parallel group.
    pub fn lower(plan: &Plan, options: LowerOptions) -> Self {
        let partitioned = plan.sequence_parallel || options.framework.partitioned_boundaries;
        let layout = Layout::new(plan, partitioned);
        let groups = gradient_groups(plan, &layout, options);
        let is_sharded = options.framework.optimizer == OptimizerState::Sharded && plan.replicas.len() > 1;
        let mut ranks = Vec::with_capacity(plan.world_size());
        for (j, replica) in plan.replicas.iter().enumerate() {
            for (p, stage) in replica.stages.iter().enumerate() {
                let position = replica.position(p);
                let order = compute_order(plan.schedule, position);
                let exchanges = Exchanges::new(options.framework.point_to_point, plan.schedule, position);
                let blocks = replica.blocks(p);
                let chunks: Vec<Vec<Block>> =
                    (0..position.chunks).map(|chunk| replica.chunk_blocks(p, ChunkId::from(chunk))).collect();
                let tensor_parallel_size = stage.tensor_parallel_size();
                for tensor_rank in 0..tensor_parallel_size {
                    let ops = with_communication(&order, position, layout.neighbours(layout.rank(j, p, tensor_rank)));
                    let held = Share::of_rank(tensor_rank, tensor_parallel_size);
                    let mut reduced = groups.reduced(&blocks, held, options);
                    if is_sharded {
                        for (_, op) in &mut reduced {
                            *op = scattered(*op);
                        }
                    }
                    let ops = with_gradient_reduction(ops, &chunks, &reduced, options.framework.reduction);
                    ranks.push(RankProgram {
                        replica: ReplicaId::from(j),
                        stage: StageId::from(p),
                        tensor_rank,
                        tensor_parallel_size,
                        is_partitioned: partitioned,
                        instructions: exchanges.with_dependencies(ops),
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
    /// By block, the number of its first slice and of its slices; one follows the other.
    of_block: IndexMap<Block, (u32, u32)>,
    /// By slice, the group that is reduced after its block; none where the block waits for others of its bucket.
    of_slice: Vec<Option<u32>>,
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
    let mut groups = Groups { all: Vec::new(), of_block: IndexMap::new(), of_slice: Vec::new() };
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
            groups.all.push(Group { blocks: vec![block], share: Share::of_rank(slice, slices), ranks });
        }
    }
    (groups.all, groups.of_slice) = in_buckets(&groups.all, options);
    groups
}

impl Groups {
    /// The groups of what a rank holds of a block.
    fn of(&self, block: Block, held: Share) -> impl Iterator<Item = u32> {
        let (first, slices) = self.of_block.get(&block).copied().unwrap_or_default();
        let slices = if slices == 0 { 0..0 } else { held.in_parts(slices) };
        slices.filter_map(move |slice| self.of_slice[(first + slice) as usize])
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
            Op::Backward { gradients: Gradients::Weights, .. } | Op::RedundantForward { .. } => {
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

/// A reduction of which each member gets its share only.
fn scattered(op: Op) -> Op {
    let Op::AllReduce { group, block } = op else { unreachable!("gradients are all-reduced at first") };
    Op::ReduceScatter { group, block }
}

/// Puts reductions behind the backward passes of their blocks, for which the last pass that adds to a chunk's gradients is
/// cut into them, or all of them behind the last pass; then the optimizer step, and what it takes to give everybody the
/// weights.
fn with_gradient_reduction(
    ops: Vec<Op>,
    chunks: &[Vec<Block>],
    reduced: &[(Block, Op)],
    time: ReductionTime,
) -> Vec<Op> {
    let mut ops = match time {
        ReductionTime::Overlapped if !reduced.is_empty() => cut_into_blocks(&ops, chunks, reduced),
        _ => ops.into_iter().chain(reduced.iter().map(|(_, reduce)| *reduce)).collect(),
    };
    ops.push(Op::OptimizerStep);
    let gathered = |(_, op): &(Block, Op)| match *op {
        Op::ReduceScatter { group, block } => Some(Op::AllGather { group, block }),
        _ => None,
    };
    ops.extend(reduced.iter().rev().filter_map(gathered));
    ops
}

/// Cuts the last pass that adds to each chunk's gradients into blocks, each followed by its reduction.
fn cut_into_blocks(ops: &[Op], chunks: &[Vec<Block>], reduced: &[(Block, Op)]) -> Vec<Op> {
    let adds = |op: &Op, of: usize| matches!(op, Op::Backward { chunk, gradients, .. } if chunk.index() == of && *gradients != Gradients::Inputs);
    let last: Vec<Option<usize>> = (0..chunks.len()).map(|of| ops.iter().rposition(|op| adds(op, of))).collect();
    let mut cut = Vec::with_capacity(ops.len());
    let mut rest = ops.iter().copied().enumerate().peekable();
    while let Some((index, op)) = rest.next() {
        let Op::Backward { micro_batch, chunk, gradients, .. } = op else {
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
    cut
}
