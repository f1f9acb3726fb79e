//! The interpreter: issues what may start, records what has ended.

use super::{Backend, Span, Timeline};
use crate::ids::Rank;
use crate::program::{InstructionId, Op, Program, Stream};
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

/// Progress of one rank.
#[derive(Clone)]
struct RankState {
    /// Instructions of each stream, in order.
    queues: [Vec<InstructionId>; Stream::COUNT],
    /// How many instructions of each stream have ended.
    ended: [usize; Stream::COUNT],
    /// Whether a stream's next instruction has been issued.
    busy: [bool; Stream::COUNT],
    done: Vec<bool>,
}

impl RankState {
    fn new(program: &Program, rank: Rank) -> Self {
        let instructions = &program.ranks()[rank.index()].instructions;
        let mut queues: [Vec<InstructionId>; Stream::COUNT] = Default::default();
        for (index, instruction) in instructions.iter().enumerate() {
            queues[instruction.stream() as usize].push(InstructionId(index as u32));
        }
        Self { queues, ended: [0; Stream::COUNT], busy: [false; Stream::COUNT], done: vec![false; instructions.len()] }
    }

    fn issue_ready<B: Backend>(
        &mut self,
        program: &Program,
        rank: Rank,
        backend: &mut B,
    ) -> Result<(), DriveError<B::Error>> {
        for stream in 0..Stream::COUNT {
            if self.busy[stream] {
                continue;
            }
            let Some(&id) = self.queues[stream].get(self.ended[stream]) else { continue };
            let instruction = program.instruction(rank, id);
            if instruction.waits_for().all(|after| self.done[after.index()]) {
                self.busy[stream] = true;
                backend.issue(rank, id, instruction).map_err(DriveError::Backend)?;
            }
        }
        Ok(())
    }

    fn complete(&mut self, program: &Program, rank: Rank, id: InstructionId) {
        let stream = program.instruction(rank, id).stream() as usize;
        self.done[id.index()] = true;
        self.busy[stream] = false;
        self.ended[stream] += 1;
    }
}

/// Per rank, the oldest instruction that hasn't ended.
fn waiting(program: &Program, hosted: &[Option<RankState>]) -> Vec<Waiting> {
    let mut all = Vec::new();
    for (index, state) in hosted.iter().enumerate() {
        let oldest = state.as_ref().and_then(|state| {
            let heads = (0..Stream::COUNT).filter_map(|s| state.queues[s].get(state.ended[s]));
            heads.min().copied()
        });
        if let Some(id) = oldest {
            let rank = Rank::from(index);
            all.push(Waiting { rank, op: program.instruction(rank, id).op });
        }
    }
    all
}
