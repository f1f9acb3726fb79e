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
    let mut left = ranks.iter().map(|rank| program.ranks()[rank.index()].instructions.len()).sum::<usize>();
    let mut steps = Vec::with_capacity(left + ranks.len() * Stream::COUNT);
    for &rank in ranks {
        hosted[rank.index()] = Some(RankState::new(program, rank, &mut steps));
    }
    let mut spans = Vec::with_capacity(left);
    for &rank in ranks {
        let state = hosted[rank.index()].as_mut().expect("hosted ranks have a state");
        state.issue_ready(program, &steps, rank, backend)?;
    }
    while left > 0 {
        let Some(done) = backend.next_completion().map_err(DriveError::Backend)? else {
            return Err(DriveError::Deadlock(waiting(program, &hosted)));
        };
        let state = hosted[done.rank.index()].as_mut().expect("a backend completes only what was issued to it");
        state.complete(&steps, done.id);
        state.issue_ready(program, &steps, done.rank, backend)?;
        spans.push(Span { rank: done.rank, id: done.id, start: done.start, end: done.end });
        left -= 1;
    }
    Ok(Timeline { spans })
}

/// What of an instruction decides when it may start. The steps of a stream of a rank stand one behind the other, and behind
/// the last of them one with no instruction: with thousands of ranks, an event costs what has to be fetched for it.
#[derive(Clone, Copy)]
struct Step {
    id: InstructionId,
    /// What it waits for, and in which streams.
    waits_for: [Option<(Stream, InstructionId)>; 2],
}

/// What stands behind the last instruction of a stream.
const NONE: InstructionId = InstructionId(u32::MAX);

/// Progress of one rank: of each stream the first instruction that hasn't ended, and where its step stands. One cache line.
#[derive(Clone)]
#[repr(align(64))]
struct RankState {
    heads: [InstructionId; Stream::COUNT],
    places: [u32; Stream::COUNT],
    is_issued: [bool; Stream::COUNT],
}

impl RankState {
    /// The beginning of a rank's program, whose steps are put behind the others.
    fn new(program: &Program, rank: Rank, steps: &mut Vec<Step>) -> Self {
        let instructions = &program.ranks()[rank.index()].instructions;
        let stream_of = |id: InstructionId| (instructions[id.index()].stream(), id);
        let mut places = [0; Stream::COUNT];
        let mut counts = [0; Stream::COUNT];
        for instruction in instructions {
            counts[instruction.stream() as usize] += 1;
        }
        let mut next = steps.len();
        for (place, count) in places.iter_mut().zip(counts) {
            *place = u32::try_from(next).expect("fewer than 2^32 instructions");
            next += count + 1;
        }
        steps.resize(next, Step { id: NONE, waits_for: [None; 2] });
        let mut free = places;
        for (index, &Instruction { op, after, also_after }) in instructions.iter().enumerate() {
            let place = &mut free[op.stream() as usize];
            let waits_for = [after.map(stream_of), also_after.map(stream_of)];
            steps[*place as usize] = Step { id: InstructionId(index as u32), waits_for };
            *place += 1;
        }
        Self { heads: places.map(|place| steps[place as usize].id), places, is_issued: [false; Stream::COUNT] }
    }

    fn issue_ready<B: Backend>(
        &mut self,
        program: &Program,
        steps: &[Step],
        rank: Rank,
        backend: &mut B,
    ) -> Result<(), DriveError<B::Error>> {
        for stream in 0..Stream::COUNT {
            let id = self.heads[stream];
            if id == NONE || self.is_issued[stream] {
                continue;
            }
            let Step { waits_for, .. } = steps[self.places[stream] as usize];
            if waits_for.iter().flatten().all(|&(stream, id)| self.heads[stream as usize] > id) {
                self.is_issued[stream] = true;
                backend.issue(rank, id, program.instruction(rank, id)).map_err(DriveError::Backend)?;
            }
        }
        Ok(())
    }

    /// Streams run in the order of the program, so that what ends is the head of one.
    fn complete(&mut self, steps: &[Step], id: InstructionId) {
        let stream = self.heads.iter().position(|&head| head == id).expect("only heads are issued");
        self.places[stream] += 1;
        self.heads[stream] = steps[self.places[stream] as usize].id;
        self.is_issued[stream] = false;
    }
}

/// Per rank, the oldest instruction that hasn't ended.
fn waiting(program: &Program, hosted: &[Option<RankState>]) -> Vec<Waiting> {
    let mut all = Vec::new();
    for (index, state) in hosted.iter().enumerate() {
        let oldest = state.as_ref().and_then(|state| state.heads.iter().copied().min());
        if let Some(id) = oldest.filter(|id| *id != NONE) {
            let rank = Rank::from(index);
            all.push(Waiting { rank, op: program.instruction(rank, id).op });
        }
    }
    all
}
