//! From what logs say of machines to events: repeats, gaps and beginnings that nobody wrote down are settled in one place.
//!
//! Logs come in any order, repeat themselves, and start when machines are long up. So sightings are sorted by time; a node
//! that is warned or lost before it was seen to come was up from the start of the file; a second `up`, notice or loss
//! without its opposite in between is dropped. What was settled so is counted and said.

use super::calendar::Zero;
use super::cells::LATEST;
use super::error::TraceError;
use super::{NodeOffer, Trace, TraceEvent, TraceEventKind, TraceFormat};
use crate::units::SimTime;
use indexmap::IndexMap;
use jiff::Timestamp;

/// What was seen of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sighting {
    /// It is there.
    Up,
    /// It will be taken in so long; that it was, need not be seen.
    Notice(SimTime),
    /// That it will be taken is no longer so.
    Cancelled,
    /// It is gone.
    Down,
}

/// Everything that a file says.
#[derive(Default)]
pub(super) struct Sightings {
    nodes: IndexMap<String, Node>,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    count: usize,
}

#[derive(Default)]
struct Node {
    offer: NodeOffer,
    /// Time, place in the file, what.
    seen: Vec<(Timestamp, usize, Sighting)>,
}

/// What had to be settled.
#[derive(Default)]
struct Settled {
    from_the_start: usize,
    gone_at_the_start: usize,
    repeated: usize,
    after_the_end: usize,
    unconfirmed: usize,
}

impl Sightings {
    /// The file covers this time.
    pub fn cover(&mut self, time: Timestamp) {
        self.first = Some(self.first.map_or(time, |first| first.min(time)));
        self.last = Some(self.last.map_or(time, |last| last.max(time)));
    }

    /// The last time that the file covers.
    pub fn last(&self) -> Option<Timestamp> {
        self.last
    }

    /// `node` was seen at a time that the file covers.
    pub fn push(&mut self, time: Timestamp, node: &str, sighting: Sighting) {
        self.cover(time);
        let index = self.count;
        self.count += 1;
        self.nodes.entry(node.to_owned()).or_default().seen.push((time, index, sighting));
    }

    /// What is known of `node`.
    pub fn offer(&mut self, node: &str) -> &mut NodeOffer {
        &mut self.nodes.entry(node.to_owned()).or_default().offer
    }

    /// The trace, from the first time covered to the last.
    pub fn into_trace(self, file: &str, format: TraceFormat, mut notes: Vec<String>) -> Result<Trace, TraceError> {
        let (Some(first), Some(last)) = (self.first, self.last) else {
            return Err(TraceError::Empty { file: file.to_owned() });
        };
        let since = |time: Timestamp| {
            // More than the clock has, since nothing is earlier than the first.
            u64::try_from(time.as_nanosecond() - first.as_nanosecond()).map_or(SimTime::MAX, SimTime)
        };
        let span = since(last);
        if span > LATEST {
            return Err(TraceError::Element {
                file: file.to_owned(),
                at: String::new(),
                expected: "times within 100 years of each other".to_owned(),
                found: format!("`{first}` to `{last}`"),
                hint: "look for a time that stands for none, such as `1970-01-01T00:00:00Z`".to_owned(),
            });
        }
        let mut settled = Settled::default();
        let mut events: Vec<(SimTime, usize, TraceEvent)> = Vec::new();
        for (name, mut node) in self.nodes {
            node.seen.sort_by_key(|(time, index, _)| (*time, *index));
            let seen: Vec<_> = node.seen.iter().map(|(time, index, what)| (since(*time), *index, *what)).collect();
            for (time, index, kind) in settle(&seen, &node.offer, span, &mut settled) {
                events.push((time, index, TraceEvent { time, node: name.clone(), kind }));
            }
        }
        events.sort_by_key(|(time, index, _)| (*time, *index));
        if events.is_empty() {
            let hint = "the file has none of the entries in which nodes come and go".to_owned();
            return Err(TraceError::NoNodes { file: file.to_owned(), format: format.to_string(), hint });
        }
        settled.say(&mut notes);
        let events = events.into_iter().map(|(_, _, event)| event).collect();
        Ok(Trace::assemble(format, &format!("calendar time counted from {first}"), events, span, notes)
            .starting(Some(Zero::new(first, true))))
    }
}

impl Sighting {
    /// Whether it changes anything for a node that is up or not, and warned or not.
    fn is_new(self, is_up: bool, is_warned: bool) -> bool {
        match self {
            Self::Up => !is_up,
            Self::Notice(_) => is_up && !is_warned,
            Self::Cancelled => is_up && is_warned,
            Self::Down => is_up,
        }
    }
}

/// The events of one node. Its sightings are in order of time.
fn settle(
    seen: &[(SimTime, usize, Sighting)],
    offer: &NodeOffer,
    span: SimTime,
    settled: &mut Settled,
) -> Vec<(SimTime, usize, TraceEventKind)> {
    let mut events = Vec::new();
    let mut is_up = false;
    let mut is_warned = false;
    let mut latest = 0;
    for (place, &(time, index, sighting)) in seen.iter().enumerate() {
        // A log may be written newest first: among entries of one time the order of the story counts, not that of the file.
        latest = index.max(latest);
        let index = latest;
        if time > span {
            settled.after_the_end += 1;
            continue;
        }
        if place == 0 && sighting == Sighting::Down && time == SimTime::ZERO {
            settled.gone_at_the_start += 1;
            continue;
        }
        if place == 0 && sighting != Sighting::Up {
            settled.from_the_start += 1;
            events.push((SimTime::ZERO, 0, TraceEventKind::Up(offer.clone())));
            is_up = true;
        }
        if !sighting.is_new(is_up, is_warned) {
            settled.repeated += 1;
            continue;
        }
        match sighting {
            Sighting::Up => {
                events.push((time, index, TraceEventKind::Up(offer.clone())));
                (is_up, is_warned) = (true, false);
            }
            Sighting::Down => {
                events.push((time, index, TraceEventKind::Down));
                is_up = false;
            }
            Sighting::Cancelled => {
                events.push((time, index, TraceEventKind::Cancelled));
                is_warned = false;
            }
            Sighting::Notice(notice) => {
                let next = seen[place + 1..].iter().find(|(_, _, next)| !matches!(next, Sighting::Notice(_)));
                is_warned = true;
                if matches!(next, Some((_, _, Sighting::Cancelled))) {
                    events.push((time, index, TraceEventKind::Notice { notice }));
                    continue;
                }
                let (loss, is_seen) = announced(time.saturating_add(notice), next);
                // Nobody is warned for longer than a trace may last.
                let left = loss.saturating_sub(time).min(LATEST);
                events.push((time, index, TraceEventKind::Notice { notice: left }));
                if !is_seen && loss <= span {
                    settled.unconfirmed += 1;
                    events.push((loss, index, TraceEventKind::Down));
                    is_up = false;
                } else if !is_seen {
                    settled.after_the_end += 1;
                }
            }
        }
    }
    events
}

/// When a node goes whose loss is announced for a time, and whether it is seen to go; `next` is what is seen of it next.
fn announced(time: SimTime, next: Option<&(SimTime, usize, Sighting)>) -> (SimTime, bool) {
    let Some(&(seen, _, sighting)) = next else { return (time, false) };
    // A node that is seen to come again was gone by then.
    if sighting == Sighting::Down { (seen, true) } else { (time.min(seen), false) }
}

impl Settled {
    fn say(&self, notes: &mut Vec<String>) {
        let said = [
            (self.from_the_start, "nodes were never seen to come: taken to be up from the start of the file"),
            (
                self.gone_at_the_start,
                "nodes go with the first entry and were up for none of the time: that loss is left out",
            ),
            (self.unconfirmed, "announced losses have no entry of their own: taken to happen when announced"),
            (self.after_the_end, "announced losses lie after the last entry, where the trace ends: left out"),
            (self.repeated, "entries repeat what was known of their node: dropped"),
        ];
        notes.extend(said.iter().filter(|(count, _)| *count > 0).map(|(count, text)| format!("{count} {text}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(seen: &[(i64, &str, Sighting)]) -> (String, Vec<String>) {
        let mut sightings = Sightings::default();
        for (second, node, sighting) in seen {
            sightings.push(Timestamp::from_second(1_700_000_000 + second).unwrap(), node, *sighting);
        }
        let trace = sightings.into_trace("t", TraceFormat::EventBridge, Vec::new()).unwrap();
        let kind = |kind: &TraceEventKind| match kind {
            TraceEventKind::Up(_) => "up".to_owned(),
            TraceEventKind::Notice { notice } => format!("notice {}", notice.as_seconds()),
            TraceEventKind::Cancelled => "cancelled".to_owned(),
            TraceEventKind::Down => "down".to_owned(),
        };
        let story = trace.events.iter().map(|e| format!("{} {} {}; ", e.time.as_seconds(), e.node, kind(&e.kind)));
        (story.collect(), trace.notes)
    }

    const WARNED: Sighting = Sighting::Notice(SimTime(120_000_000_000));

    #[test]
    fn entries_in_any_order_become_a_story() {
        let (story, notes) =
            told(&[(90, "a", Sighting::Down), (0, "a", Sighting::Up), (30, "a", WARNED), (500, "a", Sighting::Up)]);
        assert_eq!(story, "0 a up; 30 a notice 60; 90 a down; 500 a up; ");
        assert_eq!(notes.len(), 1, "{notes:?}");
    }

    #[test]
    fn what_was_not_written_down_is_settled_and_said() {
        let (story, notes) = told(&[
            (10, "a", WARNED),
            (5, "b", Sighting::Down),
            (6, "b", Sighting::Down),
            (7, "c", Sighting::Up),
            (200, "c", WARNED),
        ]);
        assert_eq!(story, "0 a up; 2 c up; 5 a notice 120; 125 a down; 195 c notice 120; ");
        let said = [
            "1 nodes were never seen",
            "1 nodes go with the first entry",
            "1 announced losses have no entry",
            "1 announced losses lie after",
            "1 entries repeat",
        ];
        assert!(said.iter().all(|start| notes.iter().any(|note| note.starts_with(start))), "{notes:?}");
    }

    #[test]
    fn times_farther_apart_than_the_clock_reaches_are_refused() {
        let mut sightings = Sightings::default();
        for time in ["2026-01-01T00:00:00Z", "6026-01-01T00:00:00Z"] {
            sightings.push(time.parse().unwrap(), "a", Sighting::Up);
        }
        let message = sightings.into_trace("t", TraceFormat::EventBridge, Vec::new()).unwrap_err().to_string();
        assert!(message.contains("within 100 years") && message.contains("\nhint: "), "{message}");
    }

    #[test]
    fn a_node_that_comes_again_was_gone() {
        let (story, _) =
            told(&[(0, "a", Sighting::Up), (10, "a", WARNED), (60, "a", Sighting::Up), (99, "a", Sighting::Up)]);
        assert_eq!(story, "0 a up; 10 a notice 50; 60 a down; 60 a up; ");
    }
}
