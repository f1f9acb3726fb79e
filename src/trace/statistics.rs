//! What a trace looks like in numbers: enough to compare markets, and to check a generated one against real ones.
//!
//! The definitions are those that reproduce what is known of Bamboo's traces of AWS:
//!
//! - **Observed** is the time from the first event to the end of the trace.
//! - **Capacity** is the most nodes that were up at once, and mean availability is the time-mean of the nodes up, over it.
//! - A **loss event** is all losses of one time, whatever the zone.
//! - **Percentiles** interpolate linearly between the two nearest values (the p-th of n values lies at index p (n − 1)).
//! - An **up-time** is counted when it is over; those that the end of the trace cut off are only counted in number.
//! - The **cv** of the time between loss events is its standard deviation (of the population) over its mean: 1 for a
//!   Poisson stream, more for bursts.

use super::{Trace, TraceEventKind};
use crate::units::SimTime;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// The numbers of one trace; see the module for the definitions.
///
/// ```
/// use autohet::trace::{TraceStatistics, parse};
/// let trace = parse("time_s,event,node\n0,up,a\n0,up,b\n1800,down,b\n3600,end,\n", "mine.csv")?;
/// let statistics = TraceStatistics::of(&trace);
/// assert_eq!((statistics.peak_nodes_up, statistics.loss_count, statistics.mean_availability), (2, 1, 0.75));
/// # Ok::<(), autohet::trace::TraceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceStatistics {
    /// Distinct names of nodes.
    pub node_count: usize,
    /// The most nodes up at once: the capacity.
    pub peak_nodes_up: usize,
    /// The time observed.
    pub span_s: f64,
    /// Node-hours of nodes that were up.
    pub node_hours: f64,
    /// Time-mean of the nodes up over the capacity, from 0 to 1.
    pub mean_availability: f64,
    /// Times that a node came up.
    pub up_count: usize,
    /// Times that a node went down.
    pub loss_count: usize,
    /// Losses over node-hours; zero where no node was up for any time.
    pub losses_per_node_hour: f64,
    /// Times at which at least one node was lost.
    pub loss_event_count: usize,
    /// Loss events that took two nodes or more.
    pub bulk_loss_event_count: usize,
    /// Nodes lost per loss event.
    pub nodes_lost_per_loss_event: Option<Spread>,
    /// The up-times that were over before the trace was.
    pub up_time_s: Option<Spread>,
    /// The up-times that the end of the trace cut off.
    pub censored_up_time_count: usize,
    /// The coefficient of variation of the time between loss events; absent with fewer than three of them.
    pub loss_interval_cv: Option<f64>,
    /// Notices.
    pub notice_count: usize,
    /// Losses of nodes that had been warned.
    pub losses_with_notice: usize,
    /// Losses of nodes that hadn't.
    pub losses_without_notice: usize,
}

/// The middle and the upper end of a set of numbers, in their own unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The arithmetic mean.
    pub mean: f64,
    /// The 50th percentile.
    pub median: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// The spread of `values`; nothing of nothing.
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let max = *values.last()?;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Some(Self { mean, median: percentile(&values, 0.5), p90: percentile(&values, 0.9), max })
    }
}

/// The percentile of sorted values, by linear interpolation.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let index = share * (sorted.len() - 1) as f64;
    let low = sorted[index as usize];
    let high = sorted[index.ceil() as usize];
    low + index.fract() * (high - low)
}

/// Standard deviation of the population over the mean.
fn coefficient_of_variation(values: &[f64]) -> Option<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    if values.len() < 2 || mean <= 0.0 {
        return None;
    }
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
    Some(variance.sqrt() / mean)
}

impl TraceStatistics {
    /// Measures `trace`.
    ///
    /// ```
    /// use autohet::trace::{TraceStatistics, parse};
    /// let trace = parse("time_s,event,node\n0,up,a\n0,up,b\n3600,down,a\n7200,down,b\n", "example").unwrap();
    /// let statistics = TraceStatistics::of(&trace);
    /// assert_eq!(statistics.mean_availability, 0.75);
    /// assert_eq!(statistics.losses_per_node_hour, 2.0 / 3.0);
    /// ```
    pub fn of(trace: &Trace) -> Self {
        let mut walk = Walk::default();
        for event in &trace.events {
            walk.advance(event.time);
            walk.apply(&event.node, &event.kind);
        }
        walk.advance(trace.span);
        let start = trace.events.first().map_or(SimTime::ZERO, |event| event.time);
        walk.finish(trace, trace.span.saturating_sub(start))
    }
}

/// What is counted while the events pass.
#[derive(Default)]
struct Walk {
    now: SimTime,
    /// Since when each node is up, and whether it has been warned.
    up: HashMap<String, (SimTime, bool)>,
    peak: usize,
    up_count: usize,
    notice_count: usize,
    losses_with_notice: usize,
    up_node_s: f64,
    up_times_s: Vec<f64>,
    /// Time and nodes of each loss event.
    loss_events: Vec<(SimTime, usize)>,
}

impl Walk {
    fn advance(&mut self, time: SimTime) {
        self.up_node_s += self.up.len() as f64 * time.saturating_sub(self.now).as_seconds();
        self.now = time;
    }

    fn apply(&mut self, node: &str, kind: &TraceEventKind) {
        match kind {
            TraceEventKind::Up(_) => {
                self.up.insert(node.to_owned(), (self.now, false));
                self.up_count += 1;
                self.peak = self.peak.max(self.up.len());
            }
            TraceEventKind::Notice { .. } => {
                self.notice_count += 1;
                if let Some((_, is_warned)) = self.up.get_mut(node) {
                    *is_warned = true;
                }
            }
            TraceEventKind::Cancelled => {
                if let Some((_, is_warned)) = self.up.get_mut(node) {
                    *is_warned = false;
                }
            }
            TraceEventKind::Down => {
                let Some((since, is_warned)) = self.up.remove(node) else { return };
                self.losses_with_notice += usize::from(is_warned);
                self.up_times_s.push(self.now.saturating_sub(since).as_seconds());
                match self.loss_events.last_mut() {
                    Some((time, nodes)) if *time == self.now => *nodes += 1,
                    _ => self.loss_events.push((self.now, 1)),
                }
            }
        }
    }

    fn finish(self, trace: &Trace, observed: SimTime) -> TraceStatistics {
        let (span_s, node_hours, loss_count) = (observed.as_seconds(), self.up_node_s / 3600.0, self.up_times_s.len());
        let over = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let gap_s = |pair: &[(SimTime, usize)]| (pair[1].0 - pair[0].0).as_seconds();
        let gaps_s: Vec<f64> = self.loss_events.windows(2).map(gap_s).collect();
        TraceStatistics {
            node_count: trace.events.iter().map(|event| event.node.as_str()).collect::<HashSet<_>>().len(),
            peak_nodes_up: self.peak,
            span_s,
            node_hours,
            mean_availability: over(self.up_node_s, span_s * self.peak as f64),
            up_count: self.up_count,
            loss_count,
            losses_per_node_hour: over(loss_count as f64, node_hours),
            loss_event_count: self.loss_events.len(),
            bulk_loss_event_count: self.loss_events.iter().filter(|(_, nodes)| *nodes > 1).count(),
            nodes_lost_per_loss_event: Spread::of(self.loss_events.iter().map(|(_, nodes)| *nodes as f64).collect()),
            up_time_s: Spread::of(self.up_times_s),
            censored_up_time_count: self.up.len(),
            loss_interval_cv: coefficient_of_variation(&gaps_s),
            notice_count: self.notice_count,
            losses_with_notice: self.losses_with_notice,
            losses_without_notice: loss_count - self.losses_with_notice,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{parse, read};
    use approx::assert_relative_eq;
    use std::path::Path;

    #[test]
    fn a_small_trace_by_hand() {
        // Four nodes; a and b are lost together at 1 h (a warned), c at 2 h, a again at 4 h; the trace ends at 5 h with b's return.
        let text = "time_s,event,node\n0,up,a\n0,up,b\n0,up,c\n0,up,d\n3480,notice,a\n3600,down,a\n3600,down,b\n\
                    7200,down,c\n10800,up,a\n14400,down,a\n18000,up,b\n";
        let statistics = TraceStatistics::of(&parse(text, "t").unwrap());
        assert_eq!((statistics.node_count, statistics.peak_nodes_up), (4, 4));
        assert_eq!((statistics.up_count, statistics.loss_count, statistics.loss_event_count), (6, 4, 3));
        assert_eq!((statistics.bulk_loss_event_count, statistics.censored_up_time_count), (1, 2));
        assert_eq!(
            (statistics.notice_count, statistics.losses_with_notice, statistics.losses_without_notice),
            (1, 1, 3)
        );
        // Node-hours: 4 + 2 + 1 + 2 + 1 = 10 of 4 × 5.
        assert_relative_eq!(statistics.node_hours, 10.0);
        assert_relative_eq!(statistics.mean_availability, 0.5);
        assert_relative_eq!(statistics.losses_per_node_hour, 0.4);
        // Up-times: 1, 1, 1, 2 h; gaps between loss events: 1 and 2 h, so sd 0.5 over mean 1.5.
        let up_time_s = statistics.up_time_s.unwrap();
        assert_relative_eq!(up_time_s.mean, 4500.0);
        assert_relative_eq!(up_time_s.median, 3600.0);
        assert_relative_eq!(up_time_s.p90, 3600.0 * 1.7);
        assert_relative_eq!(statistics.loss_interval_cv.unwrap(), 1.0 / 3.0);
    }

    #[test]
    fn nothing_gives_zeros_and_absences() {
        let statistics = TraceStatistics::of(&parse("time_s,event,node\n5,up,a\n", "t").unwrap());
        assert_eq!((statistics.node_count, statistics.peak_nodes_up, statistics.loss_count), (1, 1, 0));
        assert!(statistics.span_s.abs() < f64::EPSILON && statistics.losses_per_node_hour.abs() < f64::EPSILON);
        assert_eq!((statistics.up_time_s, statistics.loss_interval_cv), (None, None));
    }

    /// The published statistics of two real traces, where the files are at hand.
    #[test]
    fn real_traces_have_their_known_statistics() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/traces");
        // Capacity, availability, losses per node-hour, nodes per loss event (mean, p90, max), up-time (min, min, h).
        let known = [
            ("bamboo-p3-trace.csv", 32, 0.75, 0.61, [2.1, 4.0, 6.0], [88.0, 59.0, 3.2]),
            ("bamboo-g4dn-trace.csv", 24, 0.53, 0.55, [1.5, 2.0, 5.0], [99.0, 61.0, 4.0]),
        ];
        for (file, capacity, availability, rate, bulk, up_time) in known {
            let path = folder.join(file);
            if !path.exists() {
                continue;
            }
            let statistics = TraceStatistics::of(&read(&path).unwrap());
            let (lost, up_time_s) = (statistics.nodes_lost_per_loss_event.unwrap(), statistics.up_time_s.unwrap());
            assert_eq!(statistics.peak_nodes_up, capacity);
            assert_relative_eq!(statistics.mean_availability, availability, epsilon = 0.005);
            assert_relative_eq!(statistics.losses_per_node_hour, rate, epsilon = 0.005);
            assert_relative_eq!(lost.mean, bulk[0], epsilon = 0.05);
            assert_relative_eq!(lost.p90.round(), bulk[1]);
            assert_relative_eq!(lost.max, bulk[2]);
            assert_relative_eq!(up_time_s.mean / 60.0, up_time[0], epsilon = 0.5);
            assert_relative_eq!(up_time_s.median / 60.0, up_time[1], epsilon = 0.5);
            assert_relative_eq!(up_time_s.p90 / 3600.0, up_time[2], epsilon = 0.05);
        }
    }
}
