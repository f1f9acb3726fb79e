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
    let mut hosted: Vec<Option<RankState>> = vec![None; program.ranks().len()];
    let mut left = 0;
    for &rank in ranks {
        hosted[rank.index()] = Some(RankState::new(program, rank));
        left += program.ranks()[rank.index()].instructions.len();
    }
    let mut spans = Vec::with_capacity(left);
    for &rank in ranks {
        let state = hosted[rank.index()].as_mut().expect("hosted ranks have a state");
        state.issue_ready(program, rank, backend)?;
    }
    while left > 0 {
        let Some(done) = backend.next_completion().map_err(DriveError::Backend)? else {
            return Err(DriveError::Deadlock(waiting(program, &hosted)));
        };
        let state = hosted[done.rank.index()].as_mut().expect("a backend completes only what was issued to it");
        state.complete(program, done.rank, done.id);
        state.issue_ready(program, done.rank, backend)?;
        spans.push(Span { rank: done.rank, id: done.id, start: done.start, end: done.end });
        left -= 1;
    }
    Ok(Timeline { spans })
}

/// Progress of one rank. It says of each stream how far it is and of its next instruction what that waits for, in one place:
/// with thousands of ranks, an event costs what has to be fetched for it.
#[derive(Clone)]
struct RankState {
    heads: [Head; Stream::COUNT],
    /// After each instruction the next one of its stream.
    next: Vec<Option<InstructionId>>,
}

/// The first instruction of a stream that hasn't ended; none once all have.
#[derive(Clone, Copy, Default)]
struct Head {
    id: Option<InstructionId>,
    /// What it waits for, and in which streams.
    waits_for: [Option<(Stream, InstructionId)>; 2],
    is_issued: bool,
}

impl RankState {
    fn new(program: &Program, rank: Rank) -> Self {
        let instructions = &program.ranks()[rank.index()].instructions;
        let mut first: [Option<InstructionId>; Stream::COUNT] = [None; Stream::COUNT];
        let mut next = vec![None; instructions.len()];
        for (index, instruction) in instructions.iter().enumerate().rev() {
            next[index] = first[instruction.stream() as usize].replace(InstructionId(index as u32));
        }
        Self { heads: first.map(|id| Head::new(program, rank, id)), next }
    }

    fn issue_ready<B: Backend>(
        &mut self,
        program: &Program,
        rank: Rank,
        backend: &mut B,
    ) -> Result<(), DriveError<B::Error>> {
        for stream in 0..Stream::COUNT {
            let Head { id: Some(id), waits_for, is_issued: false } = self.heads[stream] else { continue };
            if waits_for.iter().flatten().all(|&(stream, id)| self.has_ended(stream, id)) {
                self.heads[stream].is_issued = true;
                backend.issue(rank, id, program.instruction(rank, id)).map_err(DriveError::Backend)?;
            }
        }
        Ok(())
    }

    /// Streams run in the order of the program.
    fn has_ended(&self, stream: Stream, id: InstructionId) -> bool {
        self.heads[stream as usize].id.is_none_or(|head| head > id)
    }

    fn complete(&mut self, program: &Program, rank: Rank, id: InstructionId) {
        let stream = program.instruction(rank, id).stream();
        self.heads[stream as usize] = Head::new(program, rank, self.next[id.index()]);
    }
}

impl Head {
    fn new(program: &Program, rank: Rank, id: Option<InstructionId>) -> Self {
        let Some(id) = id else { return Self::default() };
        let Instruction { after, also_after, .. } = program.instruction(rank, id);
        let in_stream = |id: InstructionId| (program.instruction(rank, id).stream(), id);
        Self { id: Some(id), waits_for: [after.map(in_stream), also_after.map(in_stream)], is_issued: false }
    }
}

/// Per rank, the oldest instruction that hasn't ended.
fn waiting(program: &Program, hosted: &[Option<RankState>]) -> Vec<Waiting> {
    let mut all = Vec::new();
    for (index, state) in hosted.iter().enumerate() {
        let oldest = state.as_ref().and_then(|state| state.heads.iter().filter_map(|head| head.id).min());
        if let Some(id) = oldest {
            let rank = Rank::from(index);
            all.push(Waiting { rank, op: program.instruction(rank, id).op });
        }
    }
    all
}
