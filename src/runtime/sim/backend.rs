//! The simulated backend: passes take their price, transfers take what the shared network gives them.

use super::network::Network;
use super::pricing::PricedProgram;
use super::queue::EventQueue;
use super::variance::Draws;
use crate::cost::CostError;
use crate::ids::Rank;
use crate::program::{Instruction, InstructionId, Op, Program};
use crate::runtime::{Backend, Completion};
use crate::units::SimTime;
use std::collections::{BTreeMap, VecDeque};

/// Why an iteration can't be simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The plan names a node that the cluster doesn't have.
    #[error("the plan uses node `{0}`, which isn't in the cluster\nhint: plan again for this cluster")]
    UnknownNode(String),
    /// Something has no price.
    #[error(transparent)]
    Cost(#[from] CostError),
}

/// One iteration of all ranks in simulated time.
pub struct SimBackend<'a> {
    program: &'a Program,
    priced: &'a PricedProgram,
    now: SimTime,
    passes: EventQueue<Issued>,
    network: Network<Meeting>,
    /// Per channel, the end that was issued first and waits for the other.
    channels: Vec<Option<Issued>>,
    /// Per group, the members that were issued.
    groups: Vec<Vec<Issued>>,
    /// Per rank, whether those who share its stage get their messages one after the other: they begin each pass together.
    in_step: Vec<bool>,
    /// Per first rank of a stage, the passes that were issued and wait for those of the others.
    waiting: BTreeMap<usize, Vec<Issued>>,
    ended: VecDeque<Completion>,
    /// What prices are multiplied by, where they vary.
    draws: Option<Draws>,
}

/// An instruction under way.
#[derive(Clone, Copy, Debug)]
struct Issued {
    rank: Rank,
    id: InstructionId,
    at: SimTime,
}

/// A transfer all of whose ends are there.
#[derive(Clone, Copy, Debug)]
pub struct Meeting {
    kind: MeetingKind,
    start: SimTime,
}

#[derive(Clone, Copy, Debug)]
enum MeetingKind {
    Channel([(Rank, InstructionId); 2]),
    /// The group and the phase of its collective.
    Group(u32, usize),
}

impl Meeting {
    /// Of a transfer that is no part of a program.
    pub(super) fn alone(start: SimTime) -> Self {
        Self { kind: MeetingKind::Group(0, 0), start }
    }
}

impl<'a> SimBackend<'a> {
    /// A world at time zero in which nothing was issued.
    pub fn new(program: &'a Program, priced: &'a PricedProgram) -> Self {
        Self {
            program,
            priced,
            now: SimTime::ZERO,
            passes: EventQueue::default(),
            network: priced.network.clone(),
            channels: vec![None; program.channels().len()],
            groups: vec![Vec::new(); program.groups().len()],
            in_step: in_step(program),
            waiting: BTreeMap::new(),
            ended: VecDeque::new(),
            draws: None,
        }
    }

    /// The same with prices that vary. Those who share a stage then wait for each other.
    pub(super) fn with_draws(mut self, draws: Draws) -> Self {
        self.in_step.iter_mut().zip(self.program.ranks()).for_each(|(in_step, rank)| {
            *in_step |= rank.tensor_parallel_size > 1;
        });
        self.draws = Some(draws);
        self
    }

    /// Starts a transfer of so many bytes, more or less.
    fn transfer(&mut self, route: u32, bytes: f64, meeting: Meeting) {
        let factor = self.draws.as_mut().map_or(1.0, Draws::transfer);
        self.network.start(self.now, route, bytes * factor, meeting);
    }

    /// Starts what a rank computes.
    fn begin(&mut self, issued: Issued, op: Op) {
        let time = match op {
            Op::Forward { chunk, .. } => self.priced.forward(issued.rank, chunk).total,
            Op::Backward { chunk, part, gradients, .. } => {
                self.priced.backward(issued.rank, chunk, part, gradients).total
            }
            Op::RedundantForward { .. } => self.priced.ranks[issued.rank.index()].redundant_forward.total,
            Op::OptimizerStep => self.priced.ranks[issued.rank.index()].optimizer,
            _ => unreachable!("{op} isn't computed"),
        };
        let time = self.draws.as_mut().map_or(time, |draws| draws.pass(issued.rank, time));
        self.passes.push(self.now + time, issued);
    }

    /// Starts a pass of a stage whose ranks wait for each other once all of them are there: its collectives, which are
    /// part of its price, take them all.
    fn meet_in_stage(&mut self, issued: Issued) {
        let ranks = self.program.stage_ranks(issued.rank);
        let arrived = self.waiting.entry(ranks.start).or_default();
        arrived.push(issued);
        if arrived.len() == ranks.len() {
            for Issued { rank, id, .. } in std::mem::take(arrived) {
                self.begin(Issued { rank, id, at: self.now }, self.program.instruction(rank, id).op);
            }
        }
    }

    fn meet_on_channel(&mut self, channel: u32, issued: Issued) {
        let Some(first) = self.channels[channel as usize].take() else {
            self.channels[channel as usize] = Some(issued);
            return;
        };
        let kind = MeetingKind::Channel([(first.rank, first.id), (issued.rank, issued.id)]);
        let route = self.priced.channel_routes[channel as usize];
        let bytes = self.priced.channel_bytes[channel as usize] as f64;
        self.transfer(route, bytes, Meeting { kind, start: self.now });
    }

    fn meet_in_group(&mut self, group: u32, issued: Issued, op: Op) {
        let members = &mut self.groups[group as usize];
        members.push(issued);
        if members.len() == self.program.groups()[group as usize].ranks.len() {
            let price = &self.priced.groups[group as usize];
            let meeting = Meeting { kind: MeetingKind::Group(group, 0), start: self.now };
            let bytes = if matches!(op, Op::AllGather { .. }) { price.gathered_bytes } else { price.ring_bytes };
            self.transfer(price.route, bytes, meeting);
        }
    }

    fn end_meeting(&mut self, meeting: Meeting) {
        let completion = |rank, id| Completion { rank, id, start: meeting.start, end: self.now };
        match meeting.kind {
            MeetingKind::Channel(ends) => self.ended.extend(ends.map(|(rank, id)| completion(rank, id))),
            MeetingKind::Group(group, phase) => {
                if let Some(&(route, bytes)) = self.priced.groups[group as usize].then.get(phase) {
                    let kind = MeetingKind::Group(group, phase + 1);
                    self.transfer(route, bytes, Meeting { kind, ..meeting });
                    return;
                }
                let members = std::mem::take(&mut self.groups[group as usize]);
                self.ended.extend(members.iter().map(|member| completion(member.rank, member.id)));
            }
        }
    }
}

/// Whether the ranks of each rank's stage have to wait for each other: beside a stage of another degree one rank gets its
/// message before the next one, or sends one while the next one doesn't. Elsewhere they do the same at the same time.
fn in_step(program: &Program) -> Vec<bool> {
    let degree = |rank: Rank| program.ranks()[rank.index()].tensor_parallel_size;
    let mut in_step = vec![false; program.ranks().len()];
    for channel in program.channels() {
        if degree(channel.from) != degree(channel.to) {
            for rank in [channel.from, channel.to].into_iter().flat_map(|rank| program.stage_ranks(rank)) {
                in_step[rank] = true;
            }
        }
    }
    in_step
}

impl Backend for SimBackend<'_> {
    type Error = SimError;

    fn issue(&mut self, rank: Rank, id: InstructionId, instruction: Instruction) -> Result<(), SimError> {
        let issued = Issued { rank, id, at: self.now };
        match instruction.op {
            Op::Forward { .. } | Op::Backward { .. } if self.in_step[rank.index()] => self.meet_in_stage(issued),
            Op::Forward { .. } | Op::RedundantForward { .. } | Op::Backward { .. } | Op::OptimizerStep => {
                self.begin(issued, instruction.op);
            }
            Op::Send { channel, .. } | Op::Receive { channel, .. } => self.meet_on_channel(channel, issued),
            Op::AllReduce { group, .. } | Op::ReduceScatter { group, .. } | Op::AllGather { group, .. } => {
                self.meet_in_group(group, issued, instruction.op);
            }
        }
        Ok(())
    }

    fn next_completion(&mut self) -> Result<Option<Completion>, SimError> {
        loop {
            if let Some(completion) = self.ended.pop_front() {
                return Ok(Some(completion));
            }
            match (self.passes.next_time(), self.network.next_time()) {
                (None, None) => return Ok(None),
                (Some(pass), network) if network.is_none_or(|time| pass <= time) => {
                    let (time, Issued { rank, id, at }) = self.passes.pop().expect("its time was just read");
                    self.now = time;
                    return Ok(Some(Completion { rank, id, start: at, end: time }));
                }
                _ => {
                    self.now = self.network.step().expect("its time was just read");
                    while let Some(meeting) = self.network.take_ended() {
                        self.end_meeting(meeting);
                    }
                }
            }
        }
    }
}
