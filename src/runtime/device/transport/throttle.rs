//! Links made slower than they are: each message takes the latency of its path and its bytes over the path's bandwidth,
//! and the connections of one process share its interface.
//!
//! What leaves shares its interface max-min fairly, by the simulator's own [`Network`]. What comes in passes the
//! receiver's interface one message after the other, which takes as long in sum. Processes don't share: GPUs of one node,
//! each a process, have each an interface as fast as the node's, so that more than one of them sending to other nodes at
//! the same time is faster than on the node that is emulated.
//!
//! The bytes go over the socket at once, while their time runs; an empty message behind them tells the receiver that
//! it is up. Empty messages themselves are the runtime's own and pass freely.

mod interface;
mod road;

pub use interface::Interface;

use super::{TcpTransport, Transport, TransportError};
use crate::cluster::Link;
use crate::ids::Rank;
use crate::runtime::device::clock::Clock;
use crate::units::SimTime;
use road::{Road, Ticket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// The links of one rank: counts what it sends, and slows it down where that is wanted.
pub(in super::super) struct Links {
    sent_bytes: Arc<AtomicU64>,
    throttle: Option<Throttle>,
}

struct Throttle {
    rank: Rank,
    interfaces: Vec<Interface>,
    road: Arc<Road>,
}

impl Links {
    /// The links of `rank`, throttled where there are interfaces.
    pub(in super::super) fn new(rank: Rank, interfaces: &[Interface], clock: Clock) -> Self {
        let throttle = interfaces.get(rank.index()).map(|own| Throttle {
            rank,
            interfaces: interfaces.to_vec(),
            road: Arc::new(Road::new(own, clock)),
        });
        Self { sent_bytes: Arc::default(), throttle }
    }

    /// Bytes sent since they were last taken, without frames.
    pub(in super::super) fn take_sent_bytes(&self) -> u64 {
        self.sent_bytes.swap(0, Ordering::Relaxed)
    }

    /// The connection to `peer`, as these links have it.
    pub(in super::super) fn wrap(
        &self,
        transport: TcpTransport,
        peer: Rank,
    ) -> Result<Box<dyn Transport>, TransportError> {
        let sent_bytes = Arc::clone(&self.sent_bytes);
        let Some(Throttle { rank, interfaces, road }) = &self.throttle else {
            return Ok(Box::new(Counted { inner: transport, sent_bytes }));
        };
        let (own, other) = (&interfaces[rank.index()], &interfaces[peer.index()]);
        let inner = Throttled::new(transport, own.path(other), own.node == other.node, Arc::clone(road))?;
        Ok(Box::new(Counted { inner, sent_bytes }))
    }
}

/// A connection whose bytes are counted.
struct Counted<T> {
    inner: T,
    sent_bytes: Arc<AtomicU64>,
}

impl<T: Transport> Transport for Counted<T> {
    fn send(&mut self, message: &[u8]) -> Result<(), TransportError> {
        self.sent_bytes.fetch_add(message.len() as u64, Ordering::Relaxed);
        self.inner.send(message)
    }

    fn receive(&mut self) -> Result<Vec<u8>, TransportError> {
        self.inner.receive()
    }

    fn flush(&mut self) -> Result<(), TransportError> {
        self.inner.flush()
    }
}

/// A connection over a slow path. A thread of its own sends, so that sending and receiving overlap.
struct Throttled {
    /// Receives, and sends what needs no time.
    direct: TcpTransport,
    is_within_node: bool,
    road: Arc<Road>,
    route: u32,
    queue: Sender<(Vec<u8>, Option<Ticket>)>,
    sent: Receiver<Result<(), TransportError>>,
    under_way: usize,
}

impl Throttled {
    fn new(transport: TcpTransport, path: Link, is_within_node: bool, road: Arc<Road>) -> Result<Self, TransportError> {
        let mut sender = transport.duplicate()?;
        let route = road.add_route(path, is_within_node);
        let (queue, queued) = channel::<(Vec<u8>, Option<Ticket>)>();
        let (done, sent) = channel();
        let waiting = Arc::clone(&road);
        thread::spawn(move || {
            for (message, ticket) in queued {
                let outcome = sender.send(&message).and_then(|()| {
                    let Some(ticket) = ticket else { return Ok(()) };
                    waiting.wait(ticket);
                    sender.send(&[])
                });
                let is_over = outcome.is_err();
                if done.send(outcome).is_err() || is_over {
                    return;
                }
            }
        });
        Ok(Self { direct: transport, is_within_node, road, route, queue, sent, under_way: 0 })
    }

    /// Takes down what has been sent; waits for it where `all` has to be.
    fn settle(&mut self, all: bool) -> Result<(), TransportError> {
        while self.under_way > 0 {
            let outcome = if all { self.sent.recv().ok() } else { self.sent.try_recv().ok() };
            let Some(outcome) = outcome else { break };
            self.under_way -= 1;
            outcome?;
        }
        Ok(())
    }
}

impl Transport for Throttled {
    /// Returns at once; [`flush`](Transport::flush) waits for the end of the message's time.
    fn send(&mut self, message: &[u8]) -> Result<(), TransportError> {
        self.settle(false)?;
        if message.is_empty() && self.under_way == 0 {
            // Nothing is before it: no need to wake the other thread.
            return self.direct.send(message);
        }
        let ticket = (!message.is_empty()).then(|| self.road.depart(self.route, message.len() as f64));
        self.under_way += 1;
        // Where the thread is gone, its error is there to be read.
        if self.queue.send((message.to_vec(), ticket)).is_err() {
            self.settle(true)?;
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<Vec<u8>, TransportError> {
        let message = self.direct.receive()?;
        if !message.is_empty() {
            self.direct.receive()?;
            let until = self.road.arrive(message.len() as f64, self.is_within_node);
            thread::sleep(std::time::Duration::from_nanos(until.saturating_sub(self.road.now()).0));
        }
        Ok(message)
    }

    fn flush(&mut self) -> Result<(), TransportError> {
        self.settle(true)
    }
}

/// When a message of so many bytes has passed an interface that is free from `free_at` on and carries one after the
/// other, if its last byte came at `now`: right then, unless another message was in its way.
fn pass_in_turn(free_at: SimTime, now: SimTime, bytes: f64, bytes_per_s: f64) -> SimTime {
    let takes = SimTime::from_seconds(bytes / bytes_per_s);
    now.saturating_sub(takes).max(free_at).saturating_add(takes)
}

#[cfg(test)]
mod tests;
