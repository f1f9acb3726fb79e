//! How long things last in a trace, with those that its end cut off: up-times of nodes, and times between losses.

use super::{Trace, TraceEventKind};
use crate::units::SimTime;
use std::collections::HashMap;

/// Durations, some of which are known to have lasted at least so long.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Durations {
    /// Those that ended, ascending, seconds.
    pub ended_s: Vec<f64>,
    /// Those that the end of the trace cut off, ascending, seconds: they would have lasted longer.
    pub censored_s: Vec<f64>,
    /// Those of no time at all, which no distribution over times above zero has: left out.
    pub zeros: usize,
}

/// A corner of a survival curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Corner {
    /// Duration.
    pub at_s: f64,
    /// The share that lasts longer.
    pub share: f64,
}

impl Durations {
    /// From each coming of a node to its loss.
    pub fn up_times(trace: &Trace) -> Self {
        let mut durations = Self::default();
        let mut since: HashMap<&str, SimTime> = HashMap::new();
        for event in &trace.events {
            match &event.kind {
                TraceEventKind::Up(_) => drop(since.insert(&event.node, event.time)),
                TraceEventKind::Down => {
                    if let Some(start) = since.remove(event.node.as_str()) {
                        durations.push(event.time.saturating_sub(start), false);
                    }
                }
                TraceEventKind::Notice { .. } | TraceEventKind::Cancelled => {}
            }
        }
        for start in since.into_values() {
            durations.push(trace.span.saturating_sub(start), true);
        }
        durations.sorted()
    }

    /// From one loss, of however many nodes, to the next; after the last one the end of the trace cuts off.
    pub fn between_losses(trace: &Trace) -> Self {
        let is_loss = |event: &&super::TraceEvent| event.kind == TraceEventKind::Down;
        let mut times: Vec<SimTime> = trace.events.iter().filter(is_loss).map(|event| event.time).collect();
        times.dedup();
        let mut durations = Self::default();
        for pair in times.windows(2) {
            durations.push(pair[1] - pair[0], false);
        }
        if let Some(last) = times.last() {
            durations.push(trace.span.saturating_sub(*last), true);
        }
        durations.sorted()
    }

    fn push(&mut self, time: SimTime, is_censored: bool) {
        match (time, is_censored) {
            (SimTime::ZERO, _) => self.zeros += 1,
            (time, false) => self.ended_s.push(time.as_seconds()),
            (time, true) => self.censored_s.push(time.as_seconds()),
        }
    }

    fn sorted(mut self) -> Self {
        self.ended_s.sort_by(f64::total_cmp);
        self.censored_s.sort_by(f64::total_cmp);
        self
    }

    /// The longest that was seen, ended or not; zero of nothing.
    pub fn longest_s(&self) -> f64 {
        let last = |durations: &[f64]| durations.last().copied().unwrap_or_default();
        last(&self.ended_s).max(last(&self.censored_s))
    }

    /// The share that lasts longer than each duration that was seen to end (Kaplan and Meier 1958): what was cut off counts
    /// among those that last until then, and not after.
    pub fn survival(&self) -> Vec<Corner> {
        let mut corners: Vec<Corner> = Vec::new();
        let mut share = 1.0;
        let mut place = 0;
        while let Some(&at_s) = self.ended_s.get(place) {
            let ended = self.ended_s.partition_point(|other| *other <= at_s) - place;
            // Who is cut off at the very time was there until then.
            let cut = self.censored_s.partition_point(|other| *other < at_s);
            let lasting = self.ended_s.len() - place + self.censored_s.len() - cut;
            share *= 1.0 - ended as f64 / lasting as f64;
            corners.push(Corner { at_s, share });
            place += ended;
        }
        corners
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::parse;

    #[test]
    fn what_the_end_cuts_off_is_known_to_last_longer() {
        let text = "time_s,event,node\n0,up,a\n0,up,b\n10,up,c\n60,down,a\n60,down,b\n100,up,a\n100,up,d\n100,down,d\n160,down,c\n200,end,\n";
        let trace = parse(text, "t").unwrap();
        let up = Durations::up_times(&trace);
        assert_eq!((up.ended_s, up.censored_s, up.zeros), (vec![60.0, 60.0, 150.0], vec![100.0], 1));
        // Losses at 60, 100 and 160, and 40 s until the end.
        let between = Durations::between_losses(&trace);
        assert_eq!((between.ended_s, between.censored_s), (vec![40.0, 60.0], vec![40.0]));
    }

    #[test]
    fn survival_by_hand() {
        // Six: at 1 five of six are left, 2 is cut off, at 3 two of the four left end, at 5 one of two, 7 is cut off.
        let durations = Durations { ended_s: vec![1.0, 3.0, 3.0, 5.0], censored_s: vec![2.0, 7.0], zeros: 0 };
        let corners = durations.survival();
        let expected = [(1.0, 5.0 / 6.0), (3.0, 5.0 / 12.0), (5.0, 5.0 / 24.0)];
        assert_eq!(corners.len(), expected.len());
        for (corner, (at_s, share)) in corners.iter().zip(expected) {
            approx::assert_relative_eq!(corner.at_s, at_s);
            approx::assert_relative_eq!(corner.share, share, max_relative = 1e-12);
        }
        assert!(Durations::default().survival().is_empty());
    }
}
