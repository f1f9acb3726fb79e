//! The connections of a rank to its peers: one for each channel, one for each edge of each ring. Gradient groups have
//! rings, and so have those who share a stage.
//!
//! The sender of a channel connects to the receiver, and each member of a ring to the next one. All connect first and
//! accept then: what is connected waits in the listener's queue, so that the order doesn't matter.

use super::DeviceError;
use super::all_reduce::Ring;
use super::interrupt::Interrupt;
use super::peers::{Peers, Wish};
use super::transport::Transport;
use super::transport::throttle::Links;
use crate::ids::Rank;
use crate::program::{Op, Program, Share, Stream};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Number of streams of transfers, one for each neighbour and direction.
const WIRES: usize = 4;

/// The connections of the streams of transfers, in the order of [`Stream`]; none where a pipeline ends, and several where
/// the neighbouring stage is shared by more ranks.
pub(super) type Wires = [Vec<Wire>; WIRES];

/// A connection to a rank of a neighbouring stage.
pub(super) struct Wire {
    /// Index into the program's channels.
    pub(super) channel: u32,
    /// What it carries.
    pub(super) share: Share,
    /// The connection.
    pub(super) transport: Box<dyn Transport>,
}

/// A rank's connections.
pub(super) struct Mesh {
    /// To neighbouring stages.
    pub(super) wires: Wires,
    /// Those of the groups, by number.
    pub(super) rings: BTreeMap<u32, Ring>,
    /// That of those who share the rank's stage, if there are any.
    pub(super) tensor_ring: Option<Ring>,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    Channel(u32),
    Ring(u32),
    /// Between those who share a stage, by the first of them.
    Tensor(u32),
}

impl Lane {
    /// As a peer says it when it connects.
    fn wish(self) -> (u8, u32) {
        match self {
            Self::Channel(number) => (0, number),
            Self::Ring(number) => (1, number),
            Self::Tensor(number) => (2, number),
        }
    }
}

/// What connecting takes.
pub(super) struct Meeting<'a> {
    /// Addresses of the ranks' workers, by rank.
    pub(super) addresses: &'a [SocketAddr],
    /// Number of the change of plan.
    pub(super) epoch: u64,
    /// Where peers come in.
    pub(super) peers: &'a Peers,
    /// How fast connections are.
    pub(super) links: &'a Links,
    /// What ends the waiting.
    pub(super) interrupt: &'a Interrupt,
}

/// Connects a rank to all its peers, which do the same.
pub(super) fn mesh(program: &Program, rank: Rank, meeting: &Meeting<'_>) -> Result<Mesh, DeviceError> {
    let mut outgoing = BTreeMap::new();
    let mut expected = BTreeMap::new();
    // Channels of each stream of transfers, in the order in which each micro batch takes them.
    let mut slots: [Vec<u32>; WIRES] = Default::default();
    for instruction in &program.ranks()[rank.index()].instructions {
        let slot = (instruction.stream() as usize).wrapping_sub(Stream::SendDownstream as usize);
        if let Op::Send { channel, .. } | Op::Receive { channel, .. } = instruction.op
            && !slots[slot].contains(&channel)
        {
            slots[slot].push(channel);
        }
        match instruction.op {
            Op::Send { channel, .. } => {
                outgoing.insert(Lane::Channel(channel), program.channels()[channel as usize].to);
            }
            Op::Receive { channel, .. } => {
                expected.insert(Lane::Channel(channel), program.channels()[channel as usize].from);
            }
            Op::AllReduce { group, .. } => {
                let (_, previous, next) = neighbours(&program.groups()[group as usize].ranks, rank);
                outgoing.insert(Lane::Ring(group), next);
                expected.insert(Lane::Ring(group), previous);
            }
            Op::Forward { .. } | Op::RedundantForward { .. } | Op::Backward { .. } | Op::OptimizerStep => {}
            // A device lowers its plan as the plain framework, which all-reduces.
            op @ (Op::ReduceScatter { .. } | Op::AllGather { .. }) => unreachable!("{op} isn't lowered to"),
        }
    }
    let sharing: Vec<Rank> = program.stage_ranks(rank).map(Rank::from).collect();
    let tensor_lane = Lane::Tensor(sharing[0].0);
    if sharing.len() > 1 {
        let (_, previous, next) = neighbours(&sharing, rank);
        outgoing.insert(tensor_lane, next);
        expected.insert(tensor_lane, previous);
    }
    let Meeting { addresses, epoch, peers, links, interrupt } = *meeting;
    let mut connected: BTreeMap<Lane, Box<dyn Transport>> = BTreeMap::new();
    for (&lane, &to) in &outgoing {
        let wish = Wish::Lane { epoch, lane: lane.wish() };
        let transport = peers.connect(addresses[to.index()], wish, &to.to_string(), interrupt)?;
        connected.insert(lane, links.wrap(transport, to)?);
    }
    let mut accepted: BTreeMap<Lane, Box<dyn Transport>> = BTreeMap::new();
    for (&lane, &from) in &expected {
        let transport = peers.await_lane(epoch, lane.wish(), &from.to_string(), interrupt)?;
        accepted.insert(lane, links.wrap(transport, from)?);
    }
    let mut ring = |lane, ranks: &[Rank]| {
        let (place, _, _) = neighbours(ranks, rank);
        let (next, previous) = (connected.remove(&lane)?, accepted.remove(&lane)?);
        Some(Ring { place, members: ranks.len(), next, previous })
    };
    let mut rings = BTreeMap::new();
    for &lane in outgoing.keys() {
        let Lane::Ring(group) = lane else { continue };
        rings.extend(ring(lane, &program.groups()[group as usize].ranks).map(|ring| (group, ring)));
    }
    let tensor_ring = ring(tensor_lane, &sharing);
    let mut wire = |channel: u32| {
        let lane = Lane::Channel(channel);
        let transport = connected.remove(&lane).or_else(|| accepted.remove(&lane))?;
        Some(Wire { channel, share: program.channels()[channel as usize].share, transport })
    };
    let wires = slots.map(|channels| channels.into_iter().filter_map(&mut wire).collect());
    Ok(Mesh { wires, rings, tensor_ring })
}

/// Place among these ranks, and those before and behind.
fn neighbours(ranks: &[Rank], rank: Rank) -> (usize, Rank, Rank) {
    let place = ranks.iter().position(|&member| member == rank).expect("a rank reduces with its own groups only");
    (place, ranks[(place + ranks.len() - 1) % ranks.len()], ranks[(place + 1) % ranks.len()])
}
