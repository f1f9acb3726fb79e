//! What the driver asks of a world.

use crate::ids::Rank;
use crate::program::{Instruction, InstructionId};
use crate::units::SimTime;
use std::error::Error;

/// Executes instructions, in simulated time or for real.
pub trait Backend {
    /// What can go wrong in this world.
    type Error: Error;

    /// Starts an instruction whose dependencies have ended. A send, a receive or an all-reduce begins once its other
    /// ends have been issued too.
    fn issue(&mut self, rank: Rank, id: InstructionId, instruction: Instruction) -> Result<(), Self::Error>;

    /// The next instruction to end, in order of time; `None` where nothing that was issued can end.
    fn next_completion(&mut self) -> Result<Option<Completion>, Self::Error>;
}

/// An instruction that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Rank that executed it.
    pub rank: Rank,
    /// The instruction.
    pub id: InstructionId,
    /// When it began: for communication, when all its ends were there, not when it was issued.
    pub start: SimTime,
    /// When it ended.
    pub end: SimTime,
}
