//! Ring all-reduce (Patarasuk and Yuan 2009): a reduce-scatter, then an all-gather, over any number of members.
//!
//! Each piece is summed on its way round the ring and then handed on as it is, so that all members end with the same
//! bits.

use super::clock::Clock;
use super::numbers::{receive_into, to_bytes};
use super::transport::{Transport, TransportError};
use crate::units::SimTime;
use std::ops::Range;

/// One member's place in a ring.
pub(super) struct Ring {
    /// Place of this member, from zero.
    pub(super) place: usize,
    /// Number of members, at least two.
    pub(super) members: usize,
    /// The connection to the next member.
    pub(super) next: Box<dyn Transport>,
    /// The connection from the previous one.
    pub(super) previous: Box<dyn Transport>,
}

impl Ring {
    /// Replaces `values` by their sum over all members, all of which bring as many. Returns when all of them were there.
    pub(super) fn sum(&mut self, values: &mut [f32], clock: &Clock) -> Result<SimTime, TransportError> {
        self.barrier()?;
        let start = clock.now();
        self.combine(values, |value, other| *value += other)?;
        Ok(start)
    }

    /// Returns once all members have called it: after n - 1 empty messages from member to member, each has heard of all
    /// others.
    pub(super) fn barrier(&mut self) -> Result<(), TransportError> {
        (1..self.members).try_for_each(|_| self.exchange(&[]).map(drop))
    }

    /// Replaces each of `values` by what `combine` makes of all members' ones, two by two and in any order.
    pub(super) fn combine(
        &mut self,
        values: &mut [f32],
        combine: impl Fn(&mut f32, f32),
    ) -> Result<(), TransportError> {
        let (n, length) = (self.members, values.len());
        let pieces = |member: usize| length * member / n..length * (member + 1) / n;
        self.reduce_scatter(values, pieces, combine)?;
        self.all_gather(values, pieces)
    }

    /// Leaves in this member's own piece of `values` what `combine` makes of all members' ones; the others are then of no
    /// use.
    pub(super) fn reduce_scatter(
        &mut self,
        values: &mut [f32],
        pieces: impl Fn(usize) -> Range<usize>,
        combine: impl Fn(&mut f32, f32),
    ) -> Result<(), TransportError> {
        let n = self.members;
        for round in 1..n {
            let received = self.exchange(&to_bytes(&values[pieces((self.place + n - round) % n)]))?;
            let into = &mut values[pieces((self.place + 2 * n - round - 1) % n)];
            receive_into(into, &received, &combine)?;
        }
        Ok(())
    }

    /// Fills in the pieces of the other members, who fill in this one's.
    pub(super) fn all_gather(
        &mut self,
        values: &mut [f32],
        pieces: impl Fn(usize) -> Range<usize>,
    ) -> Result<(), TransportError> {
        let n = self.members;
        for round in 0..n - 1 {
            let received = self.exchange(&to_bytes(&values[pieces((self.place + n - round) % n)]))?;
            let into = &mut values[pieces((self.place + 2 * n - round - 1) % n)];
            receive_into(into, &received, |value, other| *value = other)?;
        }
        Ok(())
    }

    /// Sends to the next member and receives from the previous one. Members at odd places receive first: if all sent
    /// first, all could wait for room in the next one's buffer.
    fn exchange(&mut self, message: &[u8]) -> Result<Vec<u8>, TransportError> {
        if self.place % 2 == 1 {
            let received = self.previous.receive()?;
            self.next.send(message)?;
            return Ok(received);
        }
        self.next.send(message)?;
        self.previous.receive()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::TcpTransport;
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    /// The members of a ring, connected over loopback.
    pub(in super::super) fn rings(members: usize) -> Vec<Ring> {
        let silence = Duration::from_secs(20);
        let wrap = |stream| -> Box<dyn Transport> { Box::new(TcpTransport::new(stream, "peer", silence).unwrap()) };
        let mut ends: Vec<_> = (0..members)
            .map(|_| {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let out = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                (wrap(out), Some(wrap(listener.accept().unwrap().0)))
            })
            .collect();
        // Edge p leads from member p to member p + 1.
        let incoming: Vec<_> = (0..members).map(|p| ends[(p + members - 1) % members].1.take().unwrap()).collect();
        let outgoing = ends.into_iter().map(|(out, _)| out);
        outgoing
            .zip(incoming)
            .enumerate()
            .map(|(place, (next, previous))| Ring { place, members, next, previous })
            .collect()
    }

    #[test]
    fn all_members_end_with_the_same_sum() {
        // Large pieces fill the sockets' buffers; lengths that don't divide leave unlike and empty pieces.
        for (members, length) in [(2, 5), (3, 1), (3, 10), (5, 2_000_003)] {
            let sums: Vec<Vec<f32>> = std::thread::scope(|scope| {
                let running: Vec<_> = rings(members)
                    .into_iter()
                    .map(|mut ring| {
                        scope.spawn(move || {
                            let value = |i: usize| (i % 1000) as f32 + 1000.0 * ring.place as f32;
                            let mut values: Vec<f32> = (0..length).map(value).collect();
                            ring.sum(&mut values, &Clock::start().0).unwrap();
                            values
                        })
                    })
                    .collect();
                running.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let places = (members * (members - 1) / 2) as f32;
            let expected: Vec<f32> =
                (0..length).map(|i| (i % 1000) as f32 * members as f32 + 1000.0 * places).collect();
            assert!(sums.iter().all(|sum| *sum == expected), "{members} members, {length} values");
        }
    }

    #[test]
    fn nobody_leaves_a_barrier_before_the_last_has_come() {
        for members in [2, 3, 5] {
            let arrived = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for mut ring in rings(members) {
                    let arrived = &arrived;
                    scope.spawn(move || {
                        // The members come one after another; whoever leaves must see that all have come.
                        std::thread::sleep(Duration::from_millis(20 * ring.place as u64));
                        arrived.fetch_add(1, Ordering::SeqCst);
                        ring.barrier().unwrap();
                        assert_eq!(arrived.load(Ordering::SeqCst), members);
                    });
                }
            });
        }
    }
}
