//! What the connections of one process share: the way out, and the way in.

use super::{Interface, pass_in_turn};
use crate::cluster::Link;
use crate::runtime::device::clock::Clock;
use crate::runtime::sim::network::{LinkIndex, Network, Route};
use crate::units::SimTime;
use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The interface of a process on a clock.
pub(super) struct Road {
    clock: Clock,
    traffic: Mutex<Traffic>,
    changed: Condvar,
}

/// A message on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// What is on the road. It is told the time, and has none of its own.
pub(super) struct Traffic {
    network: Network<Ticket>,
    /// Out to other nodes, and to GPUs of this one.
    exits: (LinkIndex, LinkIndex),
    ended: BTreeSet<Ticket>,
    next_ticket: u64,
    /// Up to when the network has run.
    settled: SimTime,
    interface: Interface,
    /// From when the way in is free: from other nodes, and from GPUs of this one.
    entries_free_at: (SimTime, SimTime),
}

impl Road {
    pub(super) fn new(interface: &Interface, clock: Clock) -> Self {
        Self { clock, traffic: Mutex::new(Traffic::new(interface)), changed: Condvar::new() }
    }

    pub(super) fn now(&self) -> SimTime {
        self.clock.now()
    }

    pub(super) fn add_route(&self, path: Link, is_within_node: bool) -> u32 {
        self.traffic().add_route(path, is_within_node)
    }

    /// A message sets out.
    pub(super) fn depart(&self, route: u32, bytes: f64) -> Ticket {
        let ticket = self.traffic().depart(self.now(), route, bytes);
        self.changed.notify_all();
        ticket
    }

    /// Waits until it has arrived.
    pub(super) fn wait(&self, ticket: Ticket) {
        let mut traffic = self.traffic();
        loop {
            let now = self.now();
            if traffic.has_ended(now, ticket) {
                // Others may be faster now.
                self.changed.notify_all();
                return;
            }
            let next =
                traffic.next_time().map_or(Duration::MAX, |time| Duration::from_nanos(time.saturating_sub(now).0));
            let waited = self.changed.wait_timeout(traffic, next).unwrap_or_else(PoisonError::into_inner);
            traffic = waited.0;
        }
    }

    /// A message has come whose time at the sender is up: when it has passed the way in.
    pub(super) fn arrive(&self, bytes: f64, is_within_node: bool) -> SimTime {
        self.traffic().arrive(self.now(), bytes, is_within_node)
    }

    fn traffic(&self) -> MutexGuard<'_, Traffic> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Traffic {
    pub(super) fn new(interface: &Interface) -> Self {
        let mut network = Network::new();
        let exits = (network.add_link(interface.nic.bytes_per_s), network.add_link(interface.port.bytes_per_s));
        Self {
            network,
            exits,
            ended: BTreeSet::new(),
            next_ticket: 0,
            settled: SimTime::ZERO,
            interface: interface.clone(),
            entries_free_at: (SimTime::ZERO, SimTime::ZERO),
        }
    }

    /// A route crosses the exit that it shares with others, and whatever else bounds its path.
    pub(super) fn add_route(&mut self, path: Link, is_within_node: bool) -> u32 {
        let exit = if is_within_node { self.exits.1 } else { self.exits.0 };
        let bound = self.network.add_link(path.bytes_per_s);
        let latency = SimTime::from_seconds(path.latency_s);
        self.network.add_route(Route { links: vec![(exit, 1.0), (bound, 1.0)], latency })
    }

    pub(super) fn depart(&mut self, now: SimTime, route: u32, bytes: f64) -> Ticket {
        self.advance(now);
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.network.start(now.max(self.settled), route, bytes, ticket);
        ticket
    }

    /// Says so once.
    pub(super) fn has_ended(&mut self, now: SimTime, ticket: Ticket) -> bool {
        self.advance(now);
        self.ended.remove(&ticket)
    }

    pub(super) fn next_time(&self) -> Option<SimTime> {
        self.network.next_time()
    }

    pub(super) fn arrive(&mut self, now: SimTime, bytes: f64, is_within_node: bool) -> SimTime {
        let Self { interface, entries_free_at: (from_nodes, from_gpus), .. } = self;
        let (free_at, link) = if is_within_node { (from_gpus, interface.port) } else { (from_nodes, interface.nic) };
        *free_at = pass_in_turn(*free_at, now, bytes, link.bytes_per_s);
        *free_at
    }

    fn advance(&mut self, now: SimTime) {
        while self.network.next_time().is_some_and(|time| time <= now) {
            self.settled = self.network.step().unwrap_or(now);
            while let Some(ticket) = self.network.take_ended() {
                self.ended.insert(ticket);
            }
        }
    }
}
