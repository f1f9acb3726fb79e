//! The interpreter: issues what may start, records what has ended.

use super::{Backend, Span, Timeline};
use crate::ids::Rank;
use crate::program::{Instruction, InstructionId, Op, Program, Stream};
use std::error::Error;
use std::fmt;

/// Why a program didn't run to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriveError<E: Error> {
    /// The backend failed.
    #[error(transparent)]
    Backend(E),
    /// Nothing that was issued can end, and nothing else can start.
    #[error("deadlock: {}", .0.iter().map(Waiting::to_string).collect::<Vec<_>>().join("; "))]
    Deadlock(Vec<Waiting>),
}

/// A rank that waits, in a deadlock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The rank.
    pub rank: Rank,
    /// What it was told to do, and hasn't finished.
    pub op: Op,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} waits in {}", self.rank, self.op)
    }
}

/// Runs one iteration of the hosted ranks and returns what happened when.
///
/// Every stream of a rank runs its instructions in order; an instruction starts when its stream is free and the
/// instructions that it [waits for](crate::program::Instruction::waits_for) have ended.
pub fn drive<B: Backend>(program: &Program, ranks: &[Rank], backend: &mut B) -> Result<Timeline, DriveError<B::Error>> {
    let mut left = ranks.iter().map(|rank| program.ranks()[rank.index()].instructions.len()).sum::<usize>();
    let mut steps = Vec::with_capacity(left);
    let mut hosted = vec![RankState::IDLE; program.ranks().len()];
    for &rank in ranks {
        hosted[rank.index()] = RankState::new(&program.ranks()[rank.index()].instructions, &mut steps);
    }
    let mut spans = Vec::with_capacity(left);
    for &rank in ranks {
        hosted[rank.index()].issue_ready(&steps, rank, backend)?;
    }
    while left > 0 {
        let Some(done) = backend.next_completion().map_err(DriveError::Backend)? else {
            return Err(DriveError::Deadlock(waiting(program, &hosted)));
        };
        let state = &mut hosted[done.rank.index()];
        state.complete(&steps, done.id);
        state.issue_ready(&steps, done.rank, backend)?;
        spans.push(Span { rank: done.rank, id: done.id, start: done.start, end: done.end });
        left -= 1;
    }
    Ok(Timeline { spans })
}

/// An instruction with what is read when it is issued and when it ends. The steps of a rank stand in the order of its program,
/// in which all of its streams get on at about the same pace: with thousands of ranks, an event costs what has to be fetched
/// for it.
#[derive(Clone, Copy)]
struct Step {
    instruction: Instruction,
    /// Streams of what it waits for.
    streams: [Stream; 2],
    /// The next one of its stream.
    next: InstructionId,
}

/// What stands behind the last instruction of a stream.
const NONE: InstructionId = InstructionId(u32::MAX);

/// Progress of one rank: of each stream the first instruction that hasn't ended, and where the rank's steps begin. Two of them
/// are a cache line.
#[derive(Clone, Copy)]
#[repr(align(32))]
struct RankState {
    heads: [InstructionId; Stream::COUNT],
    first: u32,
    /// A bit for each stream whose head was issued.
    issued: u8,
}

impl RankState {
    /// A rank that isn't hosted, and one that has done everything.
    const IDLE: Self = Self { heads: [NONE; Stream::COUNT], first: 0, issued: 0 };

    /// The beginning of a rank's program, whose steps are put behind the others.
    fn new(instructions: &[Instruction], steps: &mut Vec<Step>) -> Self {
        let first = u32::try_from(steps.len()).expect("fewer than 2^32 instructions");
        let stream_of = |id: Option<InstructionId>| id.map_or(Stream::Compute, |id| instructions[id.index()].stream());
        steps.extend(instructions.iter().map(|&instruction| Step {
            instruction,
            streams: [stream_of(instruction.after), stream_of(instruction.also_after)],
            next: NONE,
        }));
        let mut heads = [NONE; Stream::COUNT];
        for (index, instruction) in instructions.iter().enumerate().rev() {
            let head = &mut heads[instruction.stream() as usize];
            steps[first as usize + index].next = *head;
            *head = InstructionId(index as u32);
        }
        Self { heads, first, issued: 0 }
    }

    fn issue_ready<B: Backend>(
        &mut self,
        steps: &[Step],
        rank: Rank,
        backend: &mut B,
    ) -> Result<(), DriveError<B::Error>> {
        for stream in 0..Stream::COUNT {
            let id = self.heads[stream];
            if id == NONE || self.issued & (1 << stream) != 0 {
                continue;
            }
            let Step { instruction, streams: [of_first, of_second], .. } = &steps[self.first as usize + id.index()];
            let has_ended = |id: Option<InstructionId>, of: Stream| id.is_none_or(|id| self.heads[of as usize] > id);
            if has_ended(instruction.after, *of_first) && has_ended(instruction.also_after, *of_second) {
                self.issued |= 1 << stream;
                backend.issue(rank, id, *instruction).map_err(DriveError::Backend)?;
            }
        }
        Ok(())
    }

    /// Streams run in the order of the program, so that what ends is the head of one.
    fn complete(&mut self, steps: &[Step], id: InstructionId) {
        let stream =
            self.heads.iter().position(|&head| head == id).expect("a backend completes only what was issued to it");
        self.heads[stream] = steps[self.first as usize + id.index()].next;
        self.issued &= !(1 << stream);
    }
}

/// Per rank, the oldest instruction that hasn't ended.
fn waiting(program: &Program, hosted: &[RankState]) -> Vec<Waiting> {
    let mut all = Vec::new();
    for (index, state) in hosted.iter().enumerate() {
        let oldest = state.heads.iter().copied().min();
        if let Some(id) = oldest.filter(|id| *id != NONE) {
            let rank = Rank::from(index);
            all.push(Waiting { rank, op: program.instruction(rank, id).op });
        }
    }
    all
}
