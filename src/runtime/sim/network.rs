//! A network whose links are shared fairly: every transfer in progress gets its weighted max-min fair rate.
//!
//! A transfer crosses one or more links at once, as a fluid: no packets, no queues. A collective is one transfer over
//! all links of its ring. When a transfer begins or ends, only the rates of those that share links with it, directly or
//! through others, are computed again; and not even those where it takes nothing away from others, or leaves them nothing
//! that they could use.

use super::queue::EventQueue;
use crate::units::SimTime;
use std::collections::VecDeque;
use std::ops::Range;

/// Index of a link.
pub type LinkIndex = u32;

/// Links and the transfers in progress on them; `T` says what a transfer is for.
#[derive(Clone, Debug, Default)]
pub struct Network<T> {
    links: Vec<LinkState>,
    routes: Vec<RouteState>,
    /// The links of all routes, one route behind the other: of thousands of them, few are in the processor's cache.
    crossings: Vec<(LinkIndex, f64)>,
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

/// A route's part of `crossings`.
#[derive(Clone, Copy, Debug)]
struct RouteState {
    first: u32,
    count: u32,
    latency: SimTime,
}

impl RouteState {
    fn range(self) -> Range<usize> {
        self.first as usize..(self.first + self.count) as usize
    }
}

#[derive(Clone, Debug)]
struct LinkState {
    bytes_per_s: f64,
    active: Vec<u32>,
    /// What the active transfers take of it, those without a rate left out.
    used_bytes_per_s: f64,
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
    /// Routes on which something began or ended that concerns others.
    changed: Vec<u32>,
    /// Transfers that have just begun.
    begun: Vec<u32>,
    epoch: u32,
    link_seen: Vec<u32>,
    transfer_seen: Vec<u32>,
    links: Vec<LinkIndex>,
    transfers: Vec<u32>,
    /// By link of the component.
    spare: Vec<Spare>,
    link_slot: Vec<u32>,
}

/// A link while rates are given out.
#[derive(Clone, Copy, Debug)]
struct Spare {
    /// Bandwidth not yet given away.
    bytes_per_s: f64,
    /// Crossings of the transfers without a rate.
    weight: f64,
    /// Number of those transfers.
    open: u32,
}

impl<T> Network<T> {
    /// A network without links.
    pub fn new() -> Self {
        Self {
            links: Vec::new(),
            routes: Vec::new(),
            crossings: Vec::new(),
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
        self.links.push(LinkState { bytes_per_s, active: Vec::new(), used_bytes_per_s: 0.0 });
        self.scratch.link_seen.push(0);
        self.scratch.link_slot.push(0);
        self.links.len() as LinkIndex - 1
    }

    /// Adds a route that transfers can take; its index is for [`Network::start`].
    pub fn add_route(&mut self, route: Route) -> u32 {
        let (first, count) = (self.crossings.len() as u32, route.links.len() as u32);
        self.crossings.extend(route.links);
        self.routes.push(RouteState { first, count, latency: route.latency });
        self.routes.len() as u32 - 1
    }

    /// Has a route cross one more link, and take so much longer before its first byte moves.
    pub fn extend_route(&mut self, route: u32, link: LinkIndex, times: f64, longer: SimTime) {
        let state = &mut self.routes[route as usize];
        let range = state.range();
        if range.end < self.crossings.len() {
            // There is no place behind it: it goes to the end.
            state.first = self.crossings.len() as u32;
            self.crossings.extend_from_within(range);
        }
        self.crossings.push((link, times));
        state.count += 1;
        state.latency = state.latency.saturating_add(longer);
    }

    /// The links that a route crosses, and how often.
    fn crossed(&self, route: u32) -> &[(LinkIndex, f64)] {
        &self.crossings[self.routes[route as usize].range()]
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
        let mut begun = std::mem::take(&mut self.scratch.begun);
        while self.events.next_time() == Some(now) {
            match self.events.pop()?.1 {
                Event::Begin { transfer } => {
                    self.begin(now, transfer);
                    begun.push(transfer);
                }
                Event::End { transfer, version } if self.transfers[transfer as usize].version == version => {
                    if self.end(transfer) {
                        changed.push(self.transfers[transfer as usize].route);
                    }
                }
                Event::End { .. } => {}
            }
        }
        for transfer in begun.drain(..) {
            if !self.take_spare(now, transfer) {
                changed.push(self.transfers[transfer as usize].route);
            }
        }
        self.scratch.begun = begun;
        let before = self.scratch.epoch;
        for route in changed.drain(..) {
            if self.crossed(route).iter().any(|(link, _)| self.scratch.link_seen[*link as usize] <= before) {
                self.share_around(now, route);
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
        for &(link, _) in &self.crossings[self.routes[state.route as usize].range()] {
            self.links[link as usize].active.push(transfer);
        }
    }

    /// Takes a transfer off its links and says whether others can make use of what it leaves: those on a link that was
    /// full.
    fn end(&mut self, transfer: u32) -> bool {
        let state = &mut self.transfers[transfer as usize];
        self.ended.extend(state.tag.take());
        let mut concerns_others = false;
        for &(link, weight) in &self.crossings[self.routes[state.route as usize].range()] {
            let link = &mut self.links[link as usize];
            link.active.retain(|&other| other != transfer);
            if link.active.is_empty() {
                link.used_bytes_per_s = 0.0;
                continue;
            }
            concerns_others |= link.spare_bytes_per_s() <= link.bytes_per_s * FULL;
            if state.rate_bytes_per_s.is_finite() {
                link.used_bytes_per_s = (link.used_bytes_per_s - weight * state.rate_bytes_per_s).max(0.0);
            }
        }
        self.free.push(transfer);
        concerns_others
    }

    /// Gives a transfer what its links have to spare, where that is all that it could ever get: where its tightest link is
    /// its own. Then nobody else's rate depends on it.
    fn take_spare(&mut self, now: SimTime, transfer: u32) -> bool {
        let crossed = self.routes[self.transfers[transfer as usize].route as usize].range();
        let mut rate = f64::INFINITY;
        let mut is_own = false;
        for &(link, weight) in &self.crossings[crossed.clone()] {
            let link = &self.links[link as usize];
            let share = link.spare_bytes_per_s() / weight;
            if share < rate {
                (rate, is_own) = (share, link.active.len() == 1);
            }
        }
        if !is_own || rate <= 0.0 {
            return false;
        }
        for &(link, weight) in &self.crossings[crossed] {
            self.links[link as usize].used_bytes_per_s += weight * rate;
        }
        self.set_rate(now, transfer, rate);
        true
    }

    /// Gives new rates to all transfers that share links, directly or through others, with the links of `route`.
    fn share_around(&mut self, now: SimTime, route: u32) {
        self.collect_component(route);
        let transfers = std::mem::take(&mut self.scratch.transfers);
        let mut left = transfers.len();
        while left > 0 {
            let spare = &self.scratch.spare;
            let shares = spare.iter().filter(|link| link.open > 0).map(|link| link.bytes_per_s / link.weight);
            let rate = shares.fold(f64::INFINITY, f64::min);
            let bottleneck = spare.iter().position(|link| link.open > 0 && link.bytes_per_s / link.weight <= rate);
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
            self.scratch.spare[bottleneck].open = 0;
        }
        self.scratch.transfers = transfers;
        for (&link, spare) in self.scratch.links.iter().zip(&self.scratch.spare) {
            let link = &mut self.links[link as usize];
            if link.bytes_per_s.is_finite() {
                link.used_bytes_per_s = link.bytes_per_s - spare.bytes_per_s;
            }
        }
    }

    /// Takes a transfer's share from its links.
    fn give(&mut self, transfer: u32, rate: f64) {
        for &(link, weight) in &self.crossings[self.routes[self.transfers[transfer as usize].route as usize].range()] {
            let spare = &mut self.scratch.spare[self.scratch.link_slot[link as usize] as usize];
            if rate.is_finite() {
                spare.bytes_per_s = (spare.bytes_per_s - weight * rate).max(0.0);
            }
            // What is left of sums of fractions isn't told from zero; the number of transfers is.
            spare.weight -= weight;
            spare.open = spare.open.saturating_sub(1);
        }
    }

    /// Finds the links and transfers connected to the links of `route`.
    fn collect_component(&mut self, route: u32) {
        let Self { links, routes, crossings, transfers, scratch, .. } = self;
        let crossed = |route: u32| &crossings[routes[route as usize].range()];
        scratch.epoch += 1;
        scratch.links.clear();
        scratch.transfers.clear();
        scratch.spare.clear();
        let visit = |scratch: &mut Scratch, link: LinkIndex| {
            if scratch.link_seen[link as usize] != scratch.epoch {
                scratch.link_seen[link as usize] = scratch.epoch;
                scratch.link_slot[link as usize] = scratch.links.len() as u32;
                scratch.links.push(link);
                scratch.spare.push(Spare { bytes_per_s: links[link as usize].bytes_per_s, weight: 0.0, open: 0 });
            }
        };
        for &(link, _) in crossed(route) {
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
                for &(link, weight) in crossed(transfers[transfer as usize].route) {
                    visit(scratch, link);
                    let slot = scratch.link_slot[link as usize] as usize;
                    scratch.spare[slot].weight += weight;
                    scratch.spare[slot].open += 1;
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

impl LinkState {
    fn spare_bytes_per_s(&self) -> f64 {
        if self.bytes_per_s.is_finite() { (self.bytes_per_s - self.used_bytes_per_s).max(0.0) } else { f64::INFINITY }
    }
}

/// A link of which no larger share is to spare is full.
const FULL: f64 = 1e-9;

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests;
