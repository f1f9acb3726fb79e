//! What a rank can be told to do.

use crate::ids::{ChunkId, MicroBatch};
use crate::model::Block;
use std::fmt;

/// An instruction's place in its rank's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstructionId(pub u32);

impl InstructionId {
    /// The id as an index into [`RankProgram::instructions`](super::RankProgram::instructions).
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One operation and the instructions of other streams that must have ended before it starts. Order within a stream is
/// implied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// What to do.
    pub op: Op,
    /// What it waits for, beside its predecessor in its own stream.
    pub after: Option<InstructionId>,
    /// A second such instruction: where sends and receives block, a pass waits for both.
    pub also_after: Option<InstructionId>,
}

/// An operation of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Forward pass of a chunk's blocks, tensor-parallel collectives included.
    Forward {
        /// The micro batch.
        micro_batch: MicroBatch,
        /// The chunk.
        chunk: ChunkId,
    },
    /// Forward pass of the layers of the stage that this one could stand in for (redundant computation).
    RedundantForward {
        /// The micro batch.
        micro_batch: MicroBatch,
    },
    /// Backward pass, recomputation and tensor-parallel collectives included.
    Backward {
        /// The micro batch.
        micro_batch: MicroBatch,
        /// The chunk.
        chunk: ChunkId,
        /// The whole chunk, or one block of it.
        part: Part,
        /// What is computed: all, or one half of it.
        gradients: Gradients,
    },
    /// Sends a micro batch's activation to the next stage, or its gradient to the previous one.
    Send {
        /// The micro batch.
        micro_batch: MicroBatch,
        /// Towards which neighbour.
        direction: Direction,
        /// The boundary that it crosses: the virtual stage on its input side, stage `p` of chunk `c` being the `c P + p`-th.
        boundary: u32,
        /// Index into [`Program::channels`](super::Program::channels).
        channel: u32,
    },
    /// Receives a micro batch's activation from the previous stage, or its gradient from the next one.
    Receive {
        /// The micro batch.
        micro_batch: MicroBatch,
        /// The way the data travels: activations `Downstream`, gradients `Upstream`.
        direction: Direction,
        /// The boundary that it crosses, as of the send.
        boundary: u32,
        /// Index into [`Program::channels`](super::Program::channels).
        channel: u32,
    },
    /// Sums the gradient of a group's blocks over its members, each weighted by its share of the global batch.
    AllReduce {
        /// Index into [`Program::groups`](super::Program::groups).
        group: u32,
        /// The block, or of several the one that goes backward last.
        block: Block,
    },
    /// The same, but each member gets the sum of its share of the group only, whose optimizer state it holds (ZeRO-1).
    ReduceScatter {
        /// Index into [`Program::groups`](super::Program::groups).
        group: u32,
        /// As in [`Op::AllReduce`].
        block: Block,
    },
    /// Gives all members the weights that each has updated its share of.
    AllGather {
        /// Index into [`Program::groups`](super::Program::groups).
        group: u32,
        /// As in [`Op::AllReduce`].
        block: Block,
    },
    /// Updates the weights.
    OptimizerStep,
}

/// What a backward pass computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gradients {
    /// Everything, layer by layer.
    All,
    /// The gradient of the input alone, for which the stage before waits.
    Inputs,
    /// The gradients of the weights, from what the pass for the input has left.
    Weights,
}

/// How much of a chunk a backward pass covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// All blocks of the chunk.
    Chunk,
    /// One block. The last micro batch's backward pass, or that for the gradients of weights, is cut into these, so that each
    /// block's gradient can be reduced while the blocks before it are still computing.
    Block(Block),
}

/// The way data travels along a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Activations, from a stage to the next.
    Downstream,
    /// Gradients, from a stage to the previous.
    Upstream,
}

/// The queues of a rank: each runs its instructions in order, and different queues overlap.
///
/// Every neighbour and direction has a queue of its own, so that a late gradient never holds up an activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// Forward and backward passes, optimizer step.
    Compute,
    /// Activations out.
    SendDownstream,
    /// Gradients out.
    SendUpstream,
    /// Activations in.
    ReceiveDownstream,
    /// Gradients in.
    ReceiveUpstream,
    /// Gradient reduction, and what gathers weights after it.
    Collective,
}

impl Stream {
    /// Number of streams of a rank.
    pub const COUNT: usize = 6;
}

impl Instruction {
    /// The queue that it runs in.
    pub fn stream(&self) -> Stream {
        self.op.stream()
    }

    /// What it waits for in other queues.
    pub fn waits_for(&self) -> impl Iterator<Item = InstructionId> + use<> {
        self.after.into_iter().chain(self.also_after)
    }
}

impl Op {
    /// The group that it takes part in, where it is a collective.
    pub fn group(&self) -> Option<u32> {
        match *self {
            Self::AllReduce { group, .. } | Self::ReduceScatter { group, .. } | Self::AllGather { group, .. } => {
                Some(group)
            }
            Self::Forward { .. }
            | Self::RedundantForward { .. }
            | Self::Backward { .. }
            | Self::Send { .. }
            | Self::Receive { .. }
            | Self::OptimizerStep => None,
        }
    }

    /// The queue that it runs in.
    pub fn stream(&self) -> Stream {
        match self {
            Self::Forward { .. } | Self::RedundantForward { .. } | Self::Backward { .. } | Self::OptimizerStep => {
                Stream::Compute
            }
            Self::Send { direction: Direction::Downstream, .. } => Stream::SendDownstream,
            Self::Send { direction: Direction::Upstream, .. } => Stream::SendUpstream,
            Self::Receive { direction: Direction::Downstream, .. } => Stream::ReceiveDownstream,
            Self::Receive { direction: Direction::Upstream, .. } => Stream::ReceiveUpstream,
            Self::AllReduce { .. } | Self::ReduceScatter { .. } | Self::AllGather { .. } => Stream::Collective,
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forward { micro_batch, chunk } => write!(f, "forward of {micro_batch}{}", Later(*chunk)),
            Self::RedundantForward { micro_batch } => write!(f, "redundant forward of {micro_batch}"),
            Self::Backward { micro_batch, chunk, part, gradients } => {
                let half = match gradients {
                    Gradients::All => "",
                    Gradients::Inputs => " for the input",
                    Gradients::Weights => " for the weights",
                };
                write!(f, "backward{half} of {micro_batch}{}", Later(*chunk))?;
                match part {
                    Part::Chunk => Ok(()),
                    Part::Block(block) => write!(f, ", {block}"),
                }
            }
            Self::Send { micro_batch, direction: Direction::Downstream, .. } => {
                write!(f, "send activation of {micro_batch}")
            }
            Self::Send { micro_batch, .. } => write!(f, "send gradient of {micro_batch}"),
            Self::Receive { micro_batch, direction: Direction::Downstream, .. } => {
                write!(f, "receive activation of {micro_batch}")
            }
            Self::Receive { micro_batch, .. } => write!(f, "receive gradient of {micro_batch}"),
            Self::AllReduce { block, .. } => write!(f, "all_reduce gradient of {block}"),
            Self::ReduceScatter { block, .. } => write!(f, "reduce_scatter gradient of {block}"),
            Self::AllGather { block, .. } => write!(f, "all_gather weights of {block}"),
            Self::OptimizerStep => f.write_str("optimizer step"),
        }
    }
}

/// A chunk for people, where it isn't the first one.
struct Later(ChunkId);

impl fmt::Display for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.0 == 0 { Ok(()) } else { write!(f, ", {}", self.0) }
    }
}
