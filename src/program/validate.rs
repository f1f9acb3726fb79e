//! Proof that a program can run: pairing, order, waits, absence of deadlock, and the bound on micro batches in flight.
//!
//! The makespan alone doesn't catch a wrong 1F1B: GPipe has the same one.

mod compute;
mod shares;
mod waits;

use super::{Op, Program, Stream};
use crate::ids::{MicroBatch, Rank};
use crate::plan::Plan;

/// What is wrong with a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// A channel's sends and receives differ in number or order.
    #[error("channel {channel} from {from} to {to}: sends {sends:?}, receives {receives:?}")]
    Unpaired {
        /// Channel.
        channel: usize,
        /// Sender.
        from: Rank,
        /// Receiver.
        to: Rank,
        /// Micro batches and the boundaries that they cross, in order of sending.
        sends: Vec<(MicroBatch, u32)>,
        /// The same in order of receiving.
        receives: Vec<(MicroBatch, u32)>,
    },
    /// A rank doesn't compute each micro batch forward once and then backward once, the gradients of weights behind those of
    /// the input, in each of its chunks and all of their blocks.
    #[error("{rank}: {op} is missing, repeated or out of order")]
    ComputeOrder {
        /// The rank.
        rank: Rank,
        /// Where it was noticed.
        op: String,
    },
    /// A rank has more passes of chunks in flight than its schedule allows.
    #[error("{rank} has {found} micro batches in flight, the schedule allows {allowed}")]
    InFlight {
        /// The rank.
        rank: Rank,
        /// Most micro batches in flight.
        found: u32,
        /// As of [`ScheduleKind::in_flight`](crate::plan::ScheduleKind::in_flight).
        allowed: u32,
    },
    /// Members of a group reduce it a different number of times.
    #[error("group {group}: {rank} reduces {found} times, or doesn't gather what it scatters; expected once each")]
    Group {
        /// The group.
        group: usize,
        /// The member.
        rank: Rank,
        /// How often it reduces.
        found: usize,
    },
    /// A rank that gets or reduces too little, too much, or what isn't there.
    #[error("{rank}: {what}")]
    Share {
        /// The rank.
        rank: Rank,
        /// What is wrong.
        what: &'static str,
    },
    /// An instruction that doesn't wait for what it needs, or waits for what comes later.
    #[error("{rank}: {op} may begin before {before} has ended")]
    Unordered {
        /// The rank.
        rank: Rank,
        /// What begins too early.
        op: String,
        /// What must come before it.
        before: String,
    },
    /// Instructions that wait for each other in a circle.
    #[error("deadlock: {rank} can never start {op}")]
    Deadlock {
        /// One of the ranks that wait.
        rank: Rank,
        /// What it waits to start.
        op: String,
    },
}

impl Program {
    /// Checks everything that can be checked without times.
    pub fn validate(&self, plan: &Plan) -> Result<(), ProgramError> {
        self.validate_pairing()?;
        self.validate_transfers(plan)?;
        self.validate_groups()?;
        self.validate_reductions(plan)?;
        for index in 0..self.ranks.len() {
            compute::validate(self, plan, Rank::from(index))?;
            waits::validate(self, plan, Rank::from(index))?;
        }
        self.validate_progress()
    }

    fn validate_pairing(&self) -> Result<(), ProgramError> {
        let mut sends = vec![Vec::new(); self.channels.len()];
        let mut receives = sends.clone();
        for instruction in self.ranks.iter().flat_map(|rank| &rank.instructions) {
            match instruction.op {
                Op::Send { micro_batch, boundary, channel, .. } => {
                    sends[channel as usize].push((micro_batch, boundary));
                }
                Op::Receive { micro_batch, boundary, channel, .. } => {
                    receives[channel as usize].push((micro_batch, boundary));
                }
                _ => {}
            }
        }
        for (channel, (sends, receives)) in sends.into_iter().zip(receives).enumerate() {
            if sends != receives {
                let ends = self.channels[channel];
                return Err(ProgramError::Unpaired { channel, from: ends.from, to: ends.to, sends, receives });
            }
        }
        Ok(())
    }

    fn validate_groups(&self) -> Result<(), ProgramError> {
        for (index, group) in self.groups.iter().enumerate() {
            for &rank in &group.ranks {
                let ops = || self.ranks[rank.index()].instructions.iter().map(|instruction| instruction.op);
                let of_group = |op: &Op| op.group().is_some_and(|group| group as usize == index);
                let gathers = |op: &Op| matches!(op, Op::AllGather { .. });
                let found = ops().filter(|op| of_group(op) && !gathers(op)).count();
                let is_scattered = ops().any(|op| of_group(&op) && matches!(op, Op::ReduceScatter { .. }));
                let gathered = ops().filter(|op| of_group(op) && gathers(op)).count();
                if found != 1 || gathered != usize::from(is_scattered) {
                    return Err(ProgramError::Group { group: index, rank, found });
                }
            }
        }
        Ok(())
    }

    /// Runs the program without times: whatever can start, ends. What never starts is in a deadlock.
    fn validate_progress(&self) -> Result<(), ProgramError> {
        let mut run = UntimedRun::new(self);
        while run.step() {}
        run.stuck().map_or(Ok(()), |(rank, op)| Err(ProgramError::Deadlock { rank, op: op.to_string() }))
    }
}

/// Execution without times: queues advance as far as dependencies let them.
struct UntimedRun<'a> {
    program: &'a Program,
    /// Per rank and stream, the instructions still to run, last first.
    queues: Vec<[Vec<u32>; Stream::COUNT]>,
    done: Vec<Vec<bool>>,
    /// Receives that wait at each channel, members that wait at each group, and ranks that wait at each pass for those
    /// who share their stage (by the first of them), as its collectives take them all.
    arrived: Vec<Vec<(usize, usize)>>,
}

impl<'a> UntimedRun<'a> {
    fn new(program: &'a Program) -> Self {
        let queue = |instructions: &[super::Instruction]| {
            let mut streams: [Vec<u32>; Stream::COUNT] = Default::default();
            for (id, instruction) in instructions.iter().enumerate().rev() {
                streams[instruction.stream() as usize].push(id as u32);
            }
            streams
        };
        Self {
            program,
            queues: program.ranks.iter().map(|rank| queue(&rank.instructions)).collect(),
            done: program.ranks.iter().map(|rank| vec![false; rank.instructions.len()]).collect(),
            arrived: vec![Vec::new(); program.channels.len() + program.groups.len() + program.ranks.len()],
        }
    }

    /// Lets every queue go as far as it can once; says whether anything moved.
    fn step(&mut self) -> bool {
        let mut moved = false;
        for rank in 0..self.queues.len() {
            for stream in 0..Stream::COUNT {
                while self.advance(rank, stream) {
                    moved = true;
                }
            }
        }
        moved
    }

    fn advance(&mut self, rank: usize, stream: usize) -> bool {
        let Some(&id) = self.queues[rank][stream].last() else { return false };
        let instruction = self.program.ranks[rank].instructions[id as usize];
        if instruction.waits_for().any(|after| !self.done[rank][after.index()]) {
            return false;
        }
        let (meeting, needed) = match instruction.op {
            Op::Send { channel, .. } | Op::Receive { channel, .. } => (channel as usize, 2),
            Op::AllReduce { group, .. } | Op::ReduceScatter { group, .. } | Op::AllGather { group, .. } => {
                (self.program.channels.len() + group as usize, self.program.groups[group as usize].ranks.len())
            }
            Op::Forward { .. } | Op::Backward { .. } => {
                let sharing = self.program.stage_ranks(Rank::from(rank));
                (self.program.channels.len() + self.program.groups.len() + sharing.start, sharing.len())
            }
            Op::RedundantForward { .. } | Op::OptimizerStep => {
                self.finish(rank, stream, id);
                return true;
            }
        };
        let waiting = &mut self.arrived[meeting];
        if waiting.contains(&(rank, stream)) {
            return false;
        }
        waiting.push((rank, stream));
        if waiting.len() == needed {
            for (rank, stream) in std::mem::take(waiting) {
                let id = *self.queues[rank][stream].last().expect("a queue that waits has a head");
                self.finish(rank, stream, id);
            }
        }
        true
    }

    fn finish(&mut self, rank: usize, stream: usize, id: u32) {
        self.queues[rank][stream].pop();
        self.done[rank][id as usize] = true;
    }

    fn stuck(&self) -> Option<(Rank, Op)> {
        self.queues.iter().enumerate().find_map(|(rank, streams)| {
            let id = *streams.iter().find_map(|queue| queue.last())?;
            Some((Rank::from(rank), self.program.ranks[rank].instructions[id as usize].op))
        })
    }
}
