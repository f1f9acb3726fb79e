//! A network whose links are shared fairly: every transfer in progress gets its weighted max-min fair rate.
//!
//! A transfer crosses one or more links at once, as a fluid: no packets, no queues. A collective is one transfer over
//! all links of its ring. When a transfer begins or ends, only the rates of those that share links with it, directly or
//! through others, are computed again.

use super::queue::EventQueue;
use crate::units::SimTime;
use std::collections::VecDeque;

/// Index of a link.
pub type LinkIndex = u32;

/// Links and the transfers in progress on them; `T` says what a transfer is for.
#[derive(Clone, Debug, Default)]
pub struct Network<T> {
    links: Vec<LinkState>,
    routes: Vec<Route>,
    transfers: Vec<Transfer<T>>,
    free: Vec<u32>,
    events: EventQueue<Event>,
    ended: VecDeque<T>,
    now: SimTime,
    scratch: Scratch,
}

/// A way through the network.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Links and how many times the transfer's bytes cross each.
    pub links: Vec<(LinkIndex, f64)>,
    /// Time before the first byte moves.
    pub latency: SimTime,
}

#[derive(Clone, Debug)]
struct LinkState {
    bytes_per_s: f64,
    active: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Transfer<T> {
    route: u32,
    tag: Option<T>,
    remaining_bytes: f64,
    rate_bytes_per_s: f64,
    settled: SimTime,
    /// Counts rate changes, so that an end foreseen under an older rate is recognised.
    version: u32,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Begin { transfer: u32 },
    End { transfer: u32, version: u32 },
}

/// Buffers of the rate computation, kept between calls.
#[derive(Clone, Debug, Default)]
struct Scratch {
    /// Routes on which something began or ended.
    changed: Vec<u32>,
    epoch: u32,
    link_seen: Vec<u32>,
    transfer_seen: Vec<u32>,
    links: Vec<LinkIndex>,
    transfers: Vec<u32>,
    /// Per link of the component: bandwidth not yet given away, and weight of the transfers without a rate.
    spare: Vec<(f64, f64)>,
    link_slot: Vec<u32>,
}

impl<T> Network<T> {
    /// A network without links.
    pub fn new() -> Self {
        Self {
            links: Vec::new(),
            routes: Vec::new(),
            transfers: Vec::new(),
            free: Vec::new(),
            events: EventQueue::default(),
            ended: VecDeque::new(),
            now: SimTime::ZERO,
            scratch: Scratch::default(),
        }
    }

    /// Adds a link.
    pub fn add_link(&mut self, bytes_per_s: f64) -> LinkIndex {
        self.links.push(LinkState { bytes_per_s, active: Vec::new() });
        self.scratch.link_seen.push(0);
        self.scratch.link_slot.push(0);
        self.links.len() as LinkIndex - 1
    }

    /// Adds a route that transfers can take; its index is for [`Network::start`].
    pub fn add_route(&mut self, route: Route) -> u32 {
        self.routes.push(route);
        self.routes.len() as u32 - 1
    }

    /// Has a route cross one more link, and take so much longer before its first byte moves.
    pub fn extend_route(&mut self, route: u32, link: LinkIndex, times: f64, longer: SimTime) {
        let route = &mut self.routes[route as usize];
        route.links.push((link, times));
        route.latency = route.latency.saturating_add(longer);
    }

    /// Starts a transfer of `bytes`; `tag` comes back when it ends.
    pub fn start(&mut self, now: SimTime, route: u32, bytes: f64, tag: T) {
        let fresh =
            Transfer { route, tag: Some(tag), remaining_bytes: bytes, rate_bytes_per_s: 0.0, settled: now, version: 0 };
        let transfer = if let Some(index) = self.free.pop() {
            let version = self.transfers[index as usize].version + 1;
            self.transfers[index as usize] = Transfer { version, ..fresh };
            index
        } else {
            self.transfers.push(fresh);
            self.scratch.transfer_seen.push(0);
            self.transfers.len() as u32 - 1
        };
        let latency = self.routes[route as usize].latency;
        self.events.push(now.saturating_add(latency), Event::Begin { transfer });
    }

    /// When something happens next in the network.
    pub fn next_time(&self) -> Option<SimTime> {
        self.events.next_time()
    }

    /// Lets everything happen that happens at the next time in the network, and returns that time. What ended is given
    /// by [`Network::take_ended`].
    ///
    /// Transfers that begin or end together, as those of a tensor-parallel group do, change the rates once, not once
    /// each.
    pub fn step(&mut self) -> Option<SimTime> {
        let now = self.events.next_time()?;
        let mut changed = std::mem::take(&mut self.scratch.changed);
        while self.events.next_time() == Some(now) {
            match self.events.pop()?.1 {
                Event::Begin { transfer } => {
                    self.begin(now, transfer);
                    changed.push(self.transfers[transfer as usize].route);
                }
                Event::End { transfer, version } if self.transfers[transfer as usize].version == version => {
                    self.end(transfer);
                    changed.push(self.transfers[transfer as usize].route);
                }
                Event::End { .. } => {}
            }
        }
        let before = self.scratch.epoch;
        for route in changed.drain(..) {
            let links = &self.routes[route as usize].links;
            if links.iter().any(|(link, _)| self.scratch.link_seen[*link as usize] <= before) {
                self.share_around(now, route as usize);
            }
        }
        self.scratch.changed = changed;
        Some(now)
    }

    /// The tag of a transfer that has ended, in the order in which they ended.
    pub fn take_ended(&mut self) -> Option<T> {
        self.ended.pop_front()
    }

    /// Runs until the next transfer ends.
    pub fn next_end(&mut self) -> Option<(SimTime, T)> {
        loop {
            if let Some(tag) = self.take_ended() {
                return Some((self.now, tag));
            }
            self.now = self.step()?;
        }
    }

    fn begin(&mut self, now: SimTime, transfer: u32) {
        let state = &mut self.transfers[transfer as usize];
        state.settled = now;
        for &(link, _) in &self.routes[state.route as usize].links {
            self.links[link as usize].active.push(transfer);
        }
    }

    fn end(&mut self, transfer: u32) {
        let state = &mut self.transfers[transfer as usize];
        self.ended.extend(state.tag.take());
        for &(link, _) in &self.routes[state.route as usize].links {
            self.links[link as usize].active.retain(|&other| other != transfer);
        }
        self.free.push(transfer);
    }

    /// Gives new rates to all transfers that share links, directly or through others, with the links of `route`.
    fn share_around(&mut self, now: SimTime, route: usize) {
        self.collect_component(route);
        let transfers = std::mem::take(&mut self.scratch.transfers);
        let mut left = transfers.len();
        while left > 0 {
            let spare = &self.scratch.spare;
            let shares =
                spare.iter().filter(|(_, weight)| *weight > WEIGHT_EPSILON).map(|(spare, weight)| spare / weight);
            let rate = shares.fold(f64::INFINITY, f64::min);
            let bottleneck =
                spare.iter().position(|&(spare, weight)| weight > WEIGHT_EPSILON && spare / weight <= rate);
            let Some(bottleneck) = bottleneck else { break };
            let link = self.scratch.links[bottleneck] as usize;
            for index in 0..self.links[link].active.len() {
                let transfer = self.links[link].active[index];
                if self.scratch.transfer_seen[transfer as usize] == self.scratch.epoch {
                    self.scratch.transfer_seen[transfer as usize] = 0;
                    self.give(transfer, rate);
                    self.set_rate(now, transfer, rate);
                    left -= 1;
                }
            }
            self.scratch.spare[bottleneck].1 = 0.0;
        }
        self.scratch.transfers = transfers;
    }

    /// Takes a transfer's share from its links.
    fn give(&mut self, transfer: u32, rate: f64) {
        let route = self.transfers[transfer as usize].route as usize;
        for &(link, weight) in &self.routes[route].links {
            let (spare, open) = &mut self.scratch.spare[self.scratch.link_slot[link as usize] as usize];
            if rate.is_finite() {
                *spare = (*spare - weight * rate).max(0.0);
            }
            *open -= weight;
        }
    }

    /// Finds the links and transfers connected to the links of `route`.
    fn collect_component(&mut self, route: usize) {
        let Self { links, routes, transfers, scratch, .. } = self;
        scratch.epoch += 1;
        scratch.links.clear();
        scratch.transfers.clear();
        scratch.spare.clear();
        let visit = |scratch: &mut Scratch, link: LinkIndex| {
            if scratch.link_seen[link as usize] != scratch.epoch {
                scratch.link_seen[link as usize] = scratch.epoch;
                scratch.link_slot[link as usize] = scratch.links.len() as u32;
                scratch.links.push(link);
                scratch.spare.push((links[link as usize].bytes_per_s, 0.0));
            }
        };
        for &(link, _) in &routes[route].links {
            visit(scratch, link);
        }
        let mut next = 0;
        while next < scratch.links.len() {
            let link = scratch.links[next];
            next += 1;
            for &transfer in &links[link as usize].active {
                if scratch.transfer_seen[transfer as usize] == scratch.epoch {
                    continue;
                }
                scratch.transfer_seen[transfer as usize] = scratch.epoch;
                scratch.transfers.push(transfer);
                for &(link, weight) in &routes[transfers[transfer as usize].route as usize].links {
                    visit(scratch, link);
                    let slot = scratch.link_slot[link as usize] as usize;
                    scratch.spare[slot].1 += weight;
                }
            }
        }
    }

    fn set_rate(&mut self, now: SimTime, transfer: u32, rate: f64) {
        let state = &mut self.transfers[transfer as usize];
        if state.rate_bytes_per_s.to_bits() == rate.to_bits() {
            return;
        }
        let moved = state.rate_bytes_per_s * (now - state.settled).as_seconds();
        state.remaining_bytes = (state.remaining_bytes - moved).max(0.0);
        state.settled = now;
        state.rate_bytes_per_s = rate;
        state.version += 1;
        let end = now.saturating_add(SimTime::from_seconds(state.remaining_bytes / rate));
        self.events.push(end, Event::End { transfer, version: state.version });
    }
}

/// Below this a link has no transfer left without a rate; weights are whole numbers.
const WEIGHT_EPSILON: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    fn network(bandwidths: &[f64], routes: &[&[(LinkIndex, f64)]]) -> Network<u32> {
        let mut network = Network::new();
        for &bandwidth in bandwidths {
            network.add_link(bandwidth);
        }
        for links in routes {
            network.add_route(Route { links: links.to_vec(), latency: SimTime::ZERO });
        }
        network
    }

    fn ends(mut network: Network<u32>) -> Vec<(u32, f64)> {
        std::iter::from_fn(|| network.next_end()).map(|(time, tag)| (tag, time.as_seconds())).collect()
    }

    #[test]
    fn one_transfer_takes_latency_and_bytes_over_bandwidth() {
        let mut network = Network::new();
        let link = network.add_link(100.0);
        let route = network.add_route(Route { links: vec![(link, 1.0)], latency: SimTime::from_seconds(0.5) });
        network.start(SimTime::ZERO, route, 200.0, 7);
        assert_eq!(ends(network), [(7, 2.5)]);
    }

    #[test]
    fn two_transfers_halve_a_link_and_the_longer_gets_the_rest() {
        let mut network = network(&[100.0], &[&[(0, 1.0)]]);
        network.start(SimTime::ZERO, 0, 100.0, 1);
        network.start(SimTime::ZERO, 0, 200.0, 2);
        // Both at 50 until 2 s, when 100 bytes of the second are left for the whole link.
        assert_eq!(ends(network), [(1, 2.0), (2, 3.0)]);
    }

    #[test]
    fn a_transfer_limited_elsewhere_leaves_its_share_to_others() {
        // The first is held to 20 by link 1, so the second gets 80 on link 0, not 50.
        let mut network = network(&[100.0, 20.0], &[&[(0, 1.0), (1, 1.0)], &[(0, 1.0)]]);
        network.start(SimTime::ZERO, 0, 20.0, 1);
        network.start(SimTime::ZERO, 1, 80.0, 2);
        assert_eq!(ends(network), [(1, 1.0), (2, 1.0)]);
    }

    #[test]
    fn a_route_that_crosses_a_link_twice_uses_it_twice() {
        let mut network = network(&[100.0], &[&[(0, 2.0)], &[(0, 1.0)]]);
        network.start(SimTime::ZERO, 0, 100.0, 1);
        assert_eq!(ends(network.clone()), [(1, 2.0)]);
        network.start(SimTime::ZERO, 1, 100.0, 2);
        // A third of the link each per crossing: 33.3 a second for both.
        let ends = ends(network);
        assert!((ends[0].1 - 3.0).abs() < 1e-8 && (ends[1].1 - 3.0).abs() < 1e-8, "{ends:?}");
    }

    #[test]
    fn a_late_comer_slows_the_first_from_its_arrival_on() {
        let mut network = network(&[100.0], &[&[(0, 1.0)]]);
        network.start(SimTime::ZERO, 0, 150.0, 1);
        network.start(SimTime::SECOND, 0, 100.0, 2);
        // 100 bytes are through after 1 s; 50 left at half speed: 2 s. The second then has 50 left: 2.5 s.
        assert_eq!(ends(network), [(1, 2.0), (2, 2.5)]);
    }

    #[test]
    fn an_infinite_link_takes_no_time() {
        let mut network = network(&[f64::INFINITY, f64::INFINITY], &[&[(0, 1.0), (1, 1.0)], &[(1, 1.0)]]);
        network.start(SimTime::ZERO, 0, 1e12, 1);
        network.start(SimTime::ZERO, 1, 1e12, 2);
        assert_eq!(ends(network), [(1, 0.0), (2, 0.0)]);
    }
}
