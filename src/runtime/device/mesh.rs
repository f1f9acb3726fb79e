//! The connections of a rank to its peers: one for each channel, one for each edge of each ring.
//!
//! The sender of a channel connects to the receiver, and each member of a ring to the next one. All connect first and
//! accept then: what is connected waits in the listener's queue, so that the order doesn't matter.

use super::all_reduce::Ring;
use super::transport::{Transport, TransportError, accept, connect};
use super::{DeviceError, Secret};
use crate::ids::Rank;
use crate::program::{Op, Program, Stream};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

/// How long peers may take to connect.
const PATIENCE: Duration = Duration::from_mins(1);
/// Pause between looks at the listener.
const PAUSE: Duration = Duration::from_millis(1);

/// Number of streams of transfers, one for each neighbour and direction.
const WIRES: usize = 4;

/// The connections of the streams of transfers, in the order of [`Stream`]; none where a pipeline ends.
pub(super) type Wires = [Option<Box<dyn Transport>>; WIRES];

/// A rank's connections.
pub(super) struct Mesh {
    /// To neighbouring stages.
    pub(super) wires: Wires,
    /// Those of the groups, by number.
    pub(super) rings: BTreeMap<u32, Ring>,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    Channel(u32),
    Ring(u32),
}

impl Lane {
    fn greeting(self) -> [u8; 5] {
        let (kind, number) = match self {
            Self::Channel(number) => (0, number),
            Self::Ring(number) => (1, number),
        };
        let [a, b, c, d] = number.to_le_bytes();
        [kind, a, b, c, d]
    }
}

/// Connects a rank to all its peers, which do the same. `addresses` are those of the ranks' listeners, by rank.
pub(super) fn mesh(
    program: &Program,
    rank: Rank,
    addresses: &[SocketAddr],
    listener: &TcpListener,
    secret: &Secret,
) -> Result<Mesh, DeviceError> {
    let mut outgoing = BTreeMap::new();
    let mut expected = BTreeMap::new();
    // Each stream of transfers has one channel, as a stage has one neighbour on each side.
    let mut slots: [Option<Lane>; WIRES] = [None; WIRES];
    for instruction in &program.ranks()[rank.index()].instructions {
        let slot = (instruction.stream() as usize).wrapping_sub(Stream::SendDownstream as usize);
        match instruction.op {
            Op::Send { channel, .. } => {
                slots[slot] = Some(Lane::Channel(channel));
                outgoing.insert(Lane::Channel(channel), program.channels()[channel as usize].to);
            }
            Op::Receive { channel, .. } => {
                slots[slot] = Some(Lane::Channel(channel));
                expected.insert(Lane::Channel(channel), program.channels()[channel as usize].from);
            }
            Op::AllReduce { group, .. } => {
                let (_, previous, next) = neighbours(program, group, rank);
                outgoing.insert(Lane::Ring(group), next);
                expected.insert(Lane::Ring(group), previous);
            }
            Op::Forward { .. } | Op::Backward { .. } | Op::OptimizerStep => {}
        }
    }
    let mut connected: BTreeMap<Lane, Box<dyn Transport>> = BTreeMap::new();
    for (&lane, &to) in &outgoing {
        let transport = connect(addresses[to.index()], secret, &lane.greeting(), &to.to_string())?;
        connected.insert(lane, Box::new(transport));
    }
    let mut accepted = accept_all(&expected, listener, secret)?;
    let rings = outgoing.keys().filter_map(|&lane| {
        let Lane::Ring(group) = lane else { return None };
        let (place, _, _) = neighbours(program, group, rank);
        let members = program.groups()[group as usize].ranks.len();
        let (next, previous) = (connected.remove(&lane)?, accepted.remove(&lane)?);
        Some((group, Ring { place, members, next, previous }))
    });
    let rings = rings.collect();
    let wires = slots.map(|lane| lane.and_then(|lane| connected.remove(&lane).or_else(|| accepted.remove(&lane))));
    Ok(Mesh { wires, rings })
}

/// Place in a group, and the ranks before and behind.
fn neighbours(program: &Program, group: u32, rank: Rank) -> (usize, Rank, Rank) {
    let ranks = &program.groups()[group as usize].ranks;
    let place = ranks.iter().position(|&member| member == rank).expect("a rank reduces with its own groups only");
    (place, ranks[(place + ranks.len() - 1) % ranks.len()], ranks[(place + 1) % ranks.len()])
}

/// Accepts until each expected peer is there. Strangers are turned away without further ado.
fn accept_all(
    expected: &BTreeMap<Lane, Rank>,
    listener: &TcpListener,
    secret: &Secret,
) -> Result<BTreeMap<Lane, Box<dyn Transport>>, TransportError> {
    let mut accepted: BTreeMap<Lane, Box<dyn Transport>> = BTreeMap::new();
    let deadline = Instant::now() + PATIENCE;
    while let Some((_, missing)) = expected.iter().find(|(lane, _)| !accepted.contains_key(lane)) {
        if Instant::now() > deadline {
            return Err(TransportError::TimedOut { peer: missing.to_string() });
        }
        let Ok(Some((transport, greeting))) = accept(listener, secret) else {
            thread::sleep(PAUSE);
            continue;
        };
        if let Some((&lane, from)) = expected.iter().find(|(lane, _)| lane.greeting() == *greeting) {
            accepted.insert(lane, Box::new(transport.named(from)));
        }
    }
    Ok(accepted)
}
