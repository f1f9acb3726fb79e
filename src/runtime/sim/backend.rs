//! The simulated backend: passes take their price, transfers take what the shared network gives them.

use super::network::Network;
use super::pricing::PricedProgram;
use super::queue::EventQueue;
use crate::cost::CostError;
use crate::ids::Rank;
use crate::program::{Instruction, InstructionId, Op, Program};
use crate::runtime::{Backend, Completion};
use crate::units::SimTime;
use std::collections::VecDeque;

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
    ended: VecDeque<Completion>,
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
    Group(u32),
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
            ended: VecDeque::new(),
        }
    }

    fn meet_on_channel(&mut self, channel: u32, issued: Issued) {
        let Some(first) = self.channels[channel as usize].take() else {
            self.channels[channel as usize] = Some(issued);
            return;
        };
        let kind = MeetingKind::Channel([(first.rank, first.id), (issued.rank, issued.id)]);
        let route = self.priced.channel_routes[channel as usize];
        let bytes = self.priced.boundary_bytes as f64;
        self.network.start(self.now, route, bytes, Meeting { kind, start: self.now });
    }

    fn meet_in_group(&mut self, group: u32, issued: Issued) {
        let members = &mut self.groups[group as usize];
        members.push(issued);
        if members.len() == self.program.groups()[group as usize].ranks.len() {
            let price = self.priced.groups[group as usize];
            let meeting = Meeting { kind: MeetingKind::Group(group), start: self.now };
            self.network.start(self.now, price.route, price.ring_bytes, meeting);
        }
    }

    fn end_meeting(&mut self, meeting: Meeting) {
        let completion = |rank, id| Completion { rank, id, start: meeting.start, end: self.now };
        match meeting.kind {
            MeetingKind::Channel(ends) => self.ended.extend(ends.map(|(rank, id)| completion(rank, id))),
            MeetingKind::Group(group) => {
                let members = std::mem::take(&mut self.groups[group as usize]);
                self.ended.extend(members.iter().map(|member| completion(member.rank, member.id)));
            }
        }
    }
}

impl Backend for SimBackend<'_> {
    type Error = SimError;

    fn issue(&mut self, rank: Rank, id: InstructionId, instruction: Instruction) -> Result<(), SimError> {
        let issued = Issued { rank, id, at: self.now };
        let price = &self.priced.ranks[rank.index()];
        match instruction.op {
            Op::Forward { .. } => self.passes.push(self.now + price.forward.total, issued),
            Op::Backward { part, .. } => self.passes.push(self.now + self.priced.backward(rank, part).total, issued),
            Op::OptimizerStep => self.passes.push(self.now + price.optimizer, issued),
            Op::Send { channel, .. } | Op::Receive { channel, .. } => self.meet_on_channel(channel, issued),
            Op::AllReduce { group, .. } => self.meet_in_group(group, issued),
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
