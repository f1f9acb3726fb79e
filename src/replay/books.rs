//! The books of one policy's replay: who was paid for, what it did, what came of it.

use super::outcome::{Phase, Segment};
use crate::cluster::Node;
use crate::metrics::{Activity, GpuTime, IterationBreakdown, Ledger};
use crate::units::SimTime;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the GPUs of the plan are doing; all others that are up are idle by plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Booking {
    /// Iterations are booked when they end.
    Deferred,
    /// Time is booked in this row as it passes.
    As(Activity),
}

/// Ledger, payments and segments.
pub(super) struct Books {
    nodes: BTreeMap<String, (SimTime, Node)>,
    gpus_up: u32,
    until: SimTime,
    ledger: Ledger,
    paid: GpuTime,
    /// The iterations that count, as what they went into: runs of equal ones, since a long trace has millions.
    counted: Vec<(Arc<IterationBreakdown>, u64)>,
    iterations: u64,
    segments: Vec<Segment>,
}

/// The end of the books.
pub(super) struct Closed {
    pub(super) ledger: Ledger,
    pub(super) paid: GpuTime,
    pub(super) iterations: u64,
    pub(super) rolled_back: u64,
    pub(super) segments: Vec<Segment>,
}

impl Books {
    pub(super) fn new() -> Self {
        let waiting = Segment {
            start: SimTime::ZERO,
            end: SimTime::ZERO,
            phase: Phase::Waiting,
            plan: None,
            iterations: 0,
            rolled_back: 0,
        };
        Self {
            nodes: BTreeMap::new(),
            gpus_up: 0,
            until: SimTime::ZERO,
            ledger: Ledger::default(),
            paid: GpuTime::default(),
            counted: Vec::new(),
            iterations: 0,
            segments: vec![waiting],
        }
    }

    /// The nodes that are up.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values().map(|(_, node)| node)
    }

    /// Books the time since the last call: `in_use` GPUs are in the plan.
    pub(super) fn advance(&mut self, now: SimTime, in_use: u32, booking: Booking) {
        let passed = now - self.until;
        if passed == SimTime::ZERO {
            // Of a node that goes now, training may not have been told yet.
            return;
        }
        self.until = now;
        if let Booking::As(activity) = booking {
            self.ledger.add(activity, GpuTime::of(in_use, passed));
        }
        self.ledger.add(Activity::IdleByPlan, GpuTime::of(self.gpus_up - in_use, passed));
    }

    /// All GPUs wait, for the time since the last call.
    pub(super) fn advance_waiting(&mut self, now: SimTime) {
        self.ledger.add(Activity::Waiting, GpuTime::of(self.gpus_up, now - self.until));
        self.until = now;
    }

    /// The GPUs of a plan do what they do in its iterations, for the time since the last call, in which so many iterations
    /// ended; all others that are up are idle. What can't be divided evenly is in the largest row.
    pub(super) fn advance_ideal(&mut self, now: SimTime, breakdown: &IterationBreakdown, iterations: u64) {
        let passed = GpuTime::of(breakdown.gpus, now - self.until);
        let whole = breakdown.ledger.total().0.max(1);
        let mut left = passed;
        let mut largest = Activity::Useful;
        for activity in Activity::ALL {
            let of_row = breakdown.ledger.get(activity);
            // Two steps, so that no product leaves 128 bits.
            let share = GpuTime(passed.0 / whole * of_row.0 + passed.0 % whole * of_row.0 / whole);
            self.ledger.add(activity, share);
            left.0 -= share.0;
            if of_row > breakdown.ledger.get(largest) {
                largest = activity;
            }
        }
        self.ledger.add(largest, left);
        self.ledger.add(Activity::IdleByPlan, GpuTime::of(self.gpus_up - breakdown.gpus, now - self.until));
        self.until = now;
        self.iterations += iterations;
        self.segments.last_mut().expect("there is always a segment").iterations += iterations;
    }

    /// A node starts to cost.
    pub(super) fn node_up(&mut self, now: SimTime, node: Node) {
        self.gpus_up += node.gpu_count;
        self.nodes.insert(node.name.clone(), (now, node));
    }

    /// A node ceases to cost.
    pub(super) fn node_down(&mut self, now: SimTime, name: &str) {
        if let Some((since, node)) = self.nodes.remove(name) {
            self.gpus_up -= node.gpu_count;
            self.pay(now - since, &node);
        }
    }

    fn pay(&mut self, time: SimTime, node: &Node) {
        self.paid += GpuTime::of(node.gpu_count, time);
    }

    /// An iteration has ended.
    pub(super) fn count_iteration(&mut self, breakdown: &Arc<IterationBreakdown>) {
        match self.counted.last_mut() {
            Some((last, count)) if Arc::ptr_eq(last, breakdown) => *count += 1,
            _ => self.counted.push((Arc::clone(breakdown), 1)),
        }
        self.iterations += 1;
        self.segments.last_mut().expect("there is always a segment").iterations += 1;
    }

    /// An iteration of `gpus` GPUs was cut off `after` its start.
    pub(super) fn cut_off_iteration(&mut self, gpus: u32, after: SimTime) {
        self.ledger.add(Activity::LostWork, GpuTime::of(gpus, after));
    }

    /// Training goes back to `step`; returns how many iterations are lost.
    pub(super) fn roll_back(&mut self, step: u64) -> u64 {
        let lost = self.iterations.saturating_sub(step);
        self.iterations -= lost;
        let mut left = lost;
        while let Some((breakdown, count)) = self.counted.last_mut().filter(|_| left > 0) {
            let taken = left.min(*count);
            self.ledger.add_all_as(Activity::LostWork, &breakdown.ledger.times(taken));
            left -= taken;
            *count -= taken;
            if *count == 0 {
                self.counted.pop();
            }
        }
        self.segments.last_mut().expect("there is always a segment").rolled_back += lost;
        lost
    }

    /// From now on, this goes on.
    pub(super) fn enter(&mut self, now: SimTime, phase: Phase, plan: Option<usize>) {
        let open = self.segments.last_mut().expect("there is always a segment");
        if (open.phase, open.plan) == (phase, plan) {
            return;
        }
        open.end = now;
        let fresh = Segment { start: now, end: now, phase, plan, iterations: 0, rolled_back: 0 };
        if open.start == now {
            *open = Segment { rolled_back: open.rolled_back, ..fresh };
        } else {
            self.segments.push(fresh);
        }
    }

    /// Closes the books, which must balance.
    pub(super) fn close(mut self, span: SimTime) -> Closed {
        for (_, (since, node)) in std::mem::take(&mut self.nodes) {
            self.pay(span - since, &node);
        }
        for (breakdown, count) in &self.counted {
            self.ledger.add_all(&breakdown.ledger.times(*count));
        }
        assert_eq!(self.ledger.total(), self.paid, "the ledger's rows must add up to the GPU time paid for");
        self.segments.last_mut().expect("there is always a segment").end = span;
        if self.segments.len() > 1 {
            self.segments.retain(|segment| segment.start < segment.end || segment.rolled_back > 0);
        }
        Closed {
            ledger: self.ledger,
            paid: self.paid,
            iterations: self.iterations,
            rolled_back: self.segments.iter().map(|segment| segment.rolled_back).sum(),
            segments: self.segments,
        }
    }
}
