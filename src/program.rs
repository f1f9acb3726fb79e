//! In what order: a [`Plan`](crate::plan::Plan) lowered to one instruction stream per rank.
//!
//! This is the only room that knows a schedule. A [`Program`] has no times and no bytes in it: the simulator prices it,
//! a real process executes it, and both through the same [driver](crate::runtime::drive).

mod buckets;
mod instruction;
mod layout;
mod lower;
mod point_to_point;
pub mod schedules;
mod share;
mod validate;

pub use instruction::{Direction, Gradients, Instruction, InstructionId, Op, Part, Stream};
pub use lower::LowerOptions;
pub use share::Share;
pub use validate::ProgramError;

use crate::ids::{Rank, ReplicaId, StageId};
use crate::model::Block;
use std::ops::Range;

/// One iteration of a plan: what every rank does, in order. Made by [`Program::lower`] only.
///
/// ```
/// # use autohet::cluster::{Cluster, NodeDefaults};
/// # use autohet::cost::{CostModel, CostSettings};
/// # use autohet::model::ModelSpec;
/// # use autohet::plan::{PlanLimits, PlanRequest, TrainingSettings};
/// # use autohet::runtime::sim::Simulator;
/// #
/// # let cluster = Cluster::parse_mix("1x2xT4+1x1xV100-16", &NodeDefaults::default())?;
/// # let cost = CostModel::new(ModelSpec::preset("opt-350m")?, CostSettings::default(), None);
/// # let training = TrainingSettings { global_batch_size: 16, ..TrainingSettings::default() };
/// # let limits = PlanLimits::default();
/// # let request = PlanRequest { cluster: &cluster, cost: &cost, training: &training, judge: &Simulator, limits };
/// # let plan = autohet::planner::by_name("megatron").unwrap().plan(&request)?.plan;
/// use autohet::program::{LowerOptions, Program};
///
/// let program = Program::lower(&plan, LowerOptions::of(&cost));
/// assert_eq!(program.ranks().len(), plan.world_size());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// Ranks of that group: the stage's degree.
    pub tensor_parallel_size: u32,
    /// Whether it sends and receives its own part of an activation only.
    pub is_partitioned: bool,
    /// In program order; [`Instruction::stream`] deals them out to the rank's streams, each of which runs in order.
    pub instructions: Vec<Instruction>,
}

impl RankProgram {
    /// What the rank holds of each block of its stage.
    pub fn block_share(&self) -> Share {
        Share::of_rank(self.tensor_rank, self.tensor_parallel_size)
    }

    /// What the rank receives of an activation between two stages, and of its gradient: its rows where boundaries are
    /// partitioned, as under sequence parallelism, else all.
    pub fn activation_share(&self) -> Share {
        if self.is_partitioned { self.block_share() } else { Share::WHOLE }
    }
}

/// A one-way connection between two ranks. The `n`-th send on it meets the `n`-th receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Sending rank.
    pub from: Rank,
    /// Receiving rank.
    pub to: Rank,
    /// What it carries of a micro batch's activation or gradient.
    pub share: Share,
}

/// The ranks that hold one slice of one block, one per replica (two, where tied embeddings sit at both ends of a
/// pipeline): they reduce its gradient together, and with it that of other blocks of which they all hold that slice, where
/// gradients are put in buckets.
///
/// Where all holders of a block are of one tensor-parallel degree, its slices are what their ranks hold. Otherwise there
/// are as many as the largest degree has ranks, and a rank of a smaller degree holds several of them, each of which it
/// reduces with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The blocks, in the order in which they go backward; [`Block::Embedding`] stands for the tied head too.
    pub blocks: Vec<Block>,
    /// The slice.
    pub share: Share,
    /// The members, in ring order.
    pub ranks: Vec<Rank>,
}

impl Group {
    /// Its block, or of several the one that goes backward last.
    pub fn block(&self) -> Block {
        *self.blocks.last().expect("a group has a block")
    }
}

impl Program {
    /// The ranks' programs, indexed by [`Rank`].
    pub fn ranks(&self) -> &[RankProgram] {
        &self.ranks
    }

    /// The ranks that share a rank's stage, itself included.
    pub fn stage_ranks(&self, rank: Rank) -> Range<usize> {
        let place = &self.ranks[rank.index()];
        let first = rank.index() - place.tensor_rank as usize;
        first..first + place.tensor_parallel_size as usize
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
