//! The event queue: earliest first, first come first served on ties.

use crate::units::SimTime;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events ordered by time, then by the order in which they were pushed.
///
/// ```
/// use autohet::{runtime::sim::queue::EventQueue, units::SimTime};
/// let mut queue = EventQueue::default();
/// queue.push(SimTime(2), "late");
/// queue.push(SimTime(1), "early");
/// queue.push(SimTime(1), "early too");
/// assert_eq!(queue.pop(), Some((SimTime(1), "early")));
/// assert_eq!(queue.pop(), Some((SimTime(1), "early too")));
/// ```
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    pushed: u64,
}

#[derive(Clone, Debug)]
struct Entry<E> {
    time: SimTime,
    sequence: u64,
    event: E,
}

impl<E> EventQueue<E> {
    /// Adds an event.
    pub fn push(&mut self, time: SimTime, event: E) {
        self.heap.push(Reverse(Entry { time, sequence: self.pushed, event }));
        self.pushed += 1;
    }

    /// Takes the earliest event.
    pub fn pop(&mut self) -> Option<(SimTime, E)> {
        self.heap.pop().map(|Reverse(entry)| (entry.time, entry.event))
    }

    /// Time of the earliest event.
    pub fn next_time(&self) -> Option<SimTime> {
        self.heap.peek().map(|Reverse(entry)| entry.time)
    }

    /// Events waiting.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether none wait.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), pushed: 0 }
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time, self.sequence).cmp(&(other.time, other.sequence))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        (self.time, self.sequence) == (other.time, other.sequence)
    }
}

impl<E> Eq for Entry<E> {}
