//! Lowering: compute order first, then communication, then gradient reduction, then what waits for what.
//!
//! Each pass takes a rank's operations and gives them back with more between them. Dependencies come last, from where
//! an operation stands ([`with_dependencies`]), so that no pass has to keep indices right for the next.

use super::schedules::{StagePosition, compute_order};
use super::{Channel, Direction, Group, Instruction, InstructionId, Op, Part, Program, RankProgram, Stream};
use crate::ids::{Rank, ReplicaId, StageId};
use crate::model::Block;
use crate::plan::Plan;
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
            let depth = replica.stages.len();
            for p in 0..depth {
                let position = StagePosition { stage: p, depth, micro_batches: replica.micro_batches };
                let order = compute_order(plan.schedule, position);
                let blocks = replica.blocks(p);
                for tensor_rank in 0..plan.tensor_parallel_size {
                    let ops = with_communication(&order, &layout.neighbours(j, position, tensor_rank));
                    let reduced = reduced_blocks(&blocks, &groups, tensor_rank, options);
                    let ops = with_gradient_reduction(ops, &blocks, &reduced);
                    ranks.push(RankProgram {
                        replica: ReplicaId::from(j),
                        stage: StageId::from(p),
                        tensor_rank,
                        instructions: with_dependencies(&ops),
                    });
                }
            }
        }
        let program = Self { ranks, channels: layout.channels, groups: groups.into_values().collect() };
        debug_assert_eq!(program.validate(plan), Ok(()));
        program
    }
}

/// Numbers of ranks and channels.
struct Layout {
    /// First rank of each stage of each replica.
    first_rank: Vec<Vec<u32>>,
    /// Per rank, the channel to its counterpart in the next stage; the way back is the channel after it.
    to_next: Vec<Option<u32>>,
    channels: Vec<Channel>,
}

/// A rank's channels: where it receives from and sends to, `None` at the pipeline's ends.
struct Neighbours {
    receive_activation: Option<u32>,
    send_activation: Option<u32>,
    receive_gradient: Option<u32>,
    send_gradient: Option<u32>,
}

impl Layout {
    fn new(plan: &Plan) -> Self {
        let mut layout = Self { first_rank: Vec::new(), to_next: Vec::new(), channels: Vec::new() };
        let mut next_rank = 0;
        for replica in &plan.replicas {
            let mut first = Vec::with_capacity(replica.stages.len());
            for p in 0..replica.stages.len() {
                first.push(next_rank);
                for rank in next_rank..next_rank + plan.tensor_parallel_size {
                    let is_last = p + 1 == replica.stages.len();
                    layout.to_next.push((!is_last).then_some(layout.channels.len() as u32));
                    if !is_last {
                        let (from, to) = (Rank(rank), Rank(rank + plan.tensor_parallel_size));
                        layout.channels.extend([Channel { from, to }, Channel { from: to, to: from }]);
                    }
                }
                next_rank += plan.tensor_parallel_size;
            }
            layout.first_rank.push(first);
        }
        layout
    }

    fn rank(&self, replica: usize, stage: usize, tensor_rank: u32) -> Rank {
        Rank(self.first_rank[replica][stage] + tensor_rank)
    }

    fn neighbours(&self, replica: usize, position: StagePosition, tensor_rank: u32) -> Neighbours {
        let to_next = |stage| self.to_next[self.rank(replica, stage, tensor_rank).index()];
        let from_previous = position.stage.checked_sub(1).and_then(to_next);
        let next = to_next(position.stage);
        Neighbours {
            receive_activation: from_previous,
            send_activation: next,
            receive_gradient: next.map(|channel| channel + 1),
            send_gradient: from_previous.map(|channel| channel + 1),
        }
    }
}

/// Groups of more than one rank, by block and tensor-parallel rank. A ring goes node by node, so that it leaves each
/// node once.
fn gradient_groups(plan: &Plan, layout: &Layout, options: LowerOptions) -> IndexMap<(Block, u32), Group> {
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
    let mut groups = IndexMap::new();
    for (block, mut stages) in holders {
        if stages.len() < 2 {
            continue;
        }
        let device = |&(j, p): &(usize, usize)| (&plan.replicas[j].stages[p].node, plan.replicas[j].stages[p].gpus[0]);
        stages.sort_by(|a, b| device(a).cmp(&device(b)));
        for tensor_rank in 0..plan.tensor_parallel_size {
            let ranks = stages.iter().map(|&(j, p)| layout.rank(j, p, tensor_rank)).collect();
            groups.insert((block, tensor_rank), Group { block, ranks });
        }
    }
    groups
}

/// What a rank reduces: after the backward of which of its blocks, which group. In the one order that all ranks share,
/// from the head to the embedding, without which collectives of different groups could wait for each other in a circle.
fn reduced_blocks(
    blocks: &[Block],
    groups: &IndexMap<(Block, u32), Group>,
    tensor_rank: u32,
    options: LowerOptions,
) -> Vec<(Block, Op)> {
    let mut reduced = Vec::new();
    let mut tied_head = None;
    for &block in blocks.iter().rev() {
        if options.tie_word_embeddings && block == Block::Head {
            tied_head = groups.get_index_of(&(Block::Embedding, tensor_rank));
        } else if let Some(group) = groups.get_index_of(&(block, tensor_rank)) {
            reduced.push((block, Op::AllReduce { group: group as u32, block }));
        }
    }
    if let (Some(group), false) = (tied_head, blocks.contains(&Block::Embedding)) {
        reduced.push((blocks[0], Op::AllReduce { group: group as u32, block: Block::Embedding }));
    }
    reduced
}

/// Puts each pass's receive before it and its send after it.
fn with_communication(order: &[Op], neighbours: &Neighbours) -> Vec<Op> {
    let mut ops = Vec::with_capacity(order.len() * 3);
    for &op in order {
        let (micro_batch, direction, receive, send) = match op {
            Op::Forward { micro_batch } => {
                (micro_batch, Direction::Downstream, neighbours.receive_activation, neighbours.send_activation)
            }
            Op::Backward { micro_batch, .. } => {
                (micro_batch, Direction::Upstream, neighbours.receive_gradient, neighbours.send_gradient)
            }
            _ => unreachable!("a schedule orders forward and backward passes only"),
        };
        ops.extend(receive.map(|channel| Op::Receive { micro_batch, direction, channel }));
        ops.push(op);
        ops.extend(send.map(|channel| Op::Send { micro_batch, direction, channel }));
    }
    ops
}

/// Cuts the last backward into blocks, each followed by its reduction, and ends with the optimizer step.
fn with_gradient_reduction(mut ops: Vec<Op>, blocks: &[Block], reduced: &[(Block, Op)]) -> Vec<Op> {
    let last = ops.iter().rposition(|op| matches!(op, Op::Backward { .. }));
    if let (Some(at), false) = (last, reduced.is_empty()) {
        let Op::Backward { micro_batch, .. } = ops[at] else { unreachable!("found as a backward pass") };
        let send = ops.split_off(at + 1);
        ops.pop();
        for &block in blocks.iter().rev() {
            ops.push(Op::Backward { micro_batch, part: Part::Block(block) });
            if block == blocks[0] {
                ops.extend_from_slice(&send);
            }
            ops.extend(reduced.iter().filter(|(after, _)| *after == block).map(|(_, reduce)| *reduce));
        }
    }
    ops.push(Op::OptimizerStep);
    ops
}

/// What waits for what, from where it stands: a pass for the receive right before it; a send or a reduction for the
/// last pass before it; the optimizer for the last reduction.
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
