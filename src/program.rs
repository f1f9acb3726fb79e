//! In what order: a [`Plan`](crate::plan::Plan) lowered to one instruction stream per rank.
//!
//! This is the only room that knows a schedule. A [`Program`] has no times and no bytes in it: the simulator prices it,
//! a real process executes it, and both through the same [driver](crate::runtime::drive).

mod instruction;
mod lower;
pub mod schedules;
mod validate;

pub use instruction::{Direction, Instruction, InstructionId, Op, Part, Stream};
pub use lower::LowerOptions;
pub use validate::ProgramError;

use crate::ids::{Rank, ReplicaId, StageId};
use crate::model::Block;

/// One iteration of a plan: what every rank does, in order. Made by [`Program::lower`] only.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    ranks: Vec<RankProgram>,
    channels: Vec<Channel>,
    groups: Vec<Group>,
}

/// The instructions of one rank.
#[derive(Clone, Debug, PartialEq)]
pub struct RankProgram {
    /// Replica that the rank belongs to.
    pub replica: ReplicaId,
    /// Stage within the replica.
    pub stage: StageId,
    /// Place in the tensor-parallel group.
    pub tensor_rank: u32,
    /// In program order; [`Instruction::stream`] deals them out to the rank's streams, each of which runs in order.
    pub instructions: Vec<Instruction>,
}

/// A one-way connection between two ranks. The `n`-th send on it meets the `n`-th receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Sending rank.
    pub from: Rank,
    /// Receiving rank.
    pub to: Rank,
}

/// The ranks that hold one tensor-parallel shard of one block, one per replica (two, where tied embeddings sit at both
/// ends of a pipeline): they reduce its gradient together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The block; [`Block::Embedding`] stands for the tied head too.
    pub block: Block,
    /// The members, in ring order.
    pub ranks: Vec<Rank>,
}

impl Program {
    /// The ranks' programs, indexed by [`Rank`].
    pub fn ranks(&self) -> &[RankProgram] {
        &self.ranks
    }

    /// Connections, indexed by the ids in [`Op::Send`] and [`Op::Receive`].
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// Gradient-reduction groups, indexed by the ids in [`Op::AllReduce`].
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// One instruction.
    pub fn instruction(&self, rank: Rank, id: InstructionId) -> Instruction {
        self.ranks[rank.index()].instructions[id.index()]
    }

    /// Instructions of all ranks.
    pub fn len(&self) -> usize {
        self.ranks.iter().map(|rank| rank.instructions.len()).sum()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
