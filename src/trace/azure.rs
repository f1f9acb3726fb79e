//! Azure's scheduled events: answers of the metadata service, polled again and again, one object a line or in an array.
//!
//! An event is a notice for the machines among its resources, first seen in some poll, and the loss comes at its
//! `NotBefore`. The answer carries no clock: put the time of the poll under `time` (ISO 8601) when you log it. With it, the
//! notice starts where the event was first seen, and an event that is gone from a poll before its `NotBefore` is
//! cancelled by then: its machines stay. Without it, the notice is the 30 s that Azure gives at least. Only `Preempt` and `Terminate` take machines.

use super::cells::LATEST;
use super::error::TraceError;
use super::json::{Document, Element};
use super::sightings::{Sighting, Sightings};
use super::{Trace, TraceFormat};
use crate::units::SimTime;
use indexmap::IndexMap;
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;

/// Where the time of a poll may stand.
const POLL_TIMES: [&str; 5] = ["time", "Time", "timestamp", "Timestamp", "polled_at"];
/// The least notice of a preemption.
const LEAST_NOTICE: SignedDuration = SignedDuration::from_secs(30);

/// Whether the file is of this format.
pub(super) fn fits(document: &Document) -> bool {
    document.has(&["Events"])
}

struct Event {
    machines: Vec<String>,
    first_seen: Option<Timestamp>,
    loss: Timestamp,
    /// The poll from which it was gone before its time.
    cancelled: Option<Timestamp>,
}

/// Reads the whole file.
pub(super) fn parse(document: &Document, name: &str) -> Result<Trace, TraceError> {
    let mut events: IndexMap<String, Event> = IndexMap::new();
    let mut others = BTreeSet::new();
    let mut sightings = Sightings::default();
    let mut polls_without_time = 0_usize;
    for poll in document.elements(name) {
        let time = poll_time(&poll)?;
        match time {
            Some(time) => sightings.cover(time),
            None => polls_without_time += 1,
        }
        let mut seen = BTreeSet::new();
        for event in poll.get("Events").list("a list of events")? {
            let id = event.get("EventId").text("the event's name")?;
            if !matches!(event.get("EventType").text("the kind of event")?, "Preempt" | "Terminate") {
                others.insert(id);
                continue;
            }
            seen.insert(id);
            let loss = loss(&event, time)?;
            if let Some(known) = events.get_mut(id) {
                (known.loss, known.cancelled) = (loss, None);
            } else {
                let machines = machines(&event)?;
                events.insert(id.to_owned(), Event { machines, first_seen: time, loss, cancelled: None });
            }
        }
        for (id, event) in &mut events {
            let early = time.filter(|time| *time < event.loss && !seen.contains(id.as_str()));
            event.cancelled = event.cancelled.or(early);
        }
    }
    tell(&events, &mut sightings);
    sightings.into_trace(name, TraceFormat::AzureScheduledEvents, notes(&events, others.len(), polls_without_time))
}

fn poll_time(poll: &Element) -> Result<Option<Timestamp>, TraceError> {
    let at = POLL_TIMES.iter().map(|key| poll.get(key)).find(|at| !at.is_absent());
    at.map(|at| at.time()).transpose()
}

/// When the machines go.
fn loss(event: &Element, poll: Option<Timestamp>) -> Result<Timestamp, TraceError> {
    let at = event.get("NotBefore");
    let Some(written) = at.as_text() else {
        // It is empty once the event has started.
        let hint = "an event without it has started: log the time of the poll under `time`";
        return poll.ok_or_else(|| at.wrong("a time like `Mon, 19 Jan 2026 18:29:47 GMT`", hint));
    };
    let parser = DateTimeParser::new().relaxed_weekday(true);
    let parsed = parser.parse_timestamp(written).or_else(|_| written.parse());
    let hint = "leave it as the service gives it";
    let parsed: Timestamp = parsed.map_err(|_| at.wrong("a time like `Mon, 19 Jan 2026 18:29:47 GMT`", hint))?;
    let is_far = poll.is_some_and(|poll| notice_between(poll, parsed) > LATEST);
    if is_far { Err(at.wrong("a time within 100 years of the poll", hint)) } else { Ok(parsed) }
}

fn notice_between(seen: Timestamp, loss: Timestamp) -> SimTime {
    SimTime(u64::try_from((loss.as_nanosecond() - seen.as_nanosecond()).max(0)).unwrap_or(u64::MAX))
}

fn machines(event: &Element) -> Result<Vec<String>, TraceError> {
    let resources = event.get("Resources");
    let list = resources.list("a list of machines")?;
    if list.is_empty() {
        return Err(resources.wrong("at least one machine", "leave the event out if it is about none"));
    }
    list.iter().map(|machine| machine.text("a machine's name").map(str::to_owned)).collect()
}

fn tell(events: &IndexMap<String, Event>, sightings: &mut Sightings) {
    for event in events.values() {
        let seen = event.first_seen.unwrap_or_else(|| {
            sightings.cover(event.loss);
            event.loss.saturating_sub(LEAST_NOTICE).unwrap_or(event.loss)
        });
        let notice = notice_between(seen, event.loss).min(LATEST);
        for machine in &event.machines {
            sightings.push(seen, machine, Sighting::Notice(notice));
            if let Some(cancelled) = event.cancelled {
                sightings.push(cancelled, machine, Sighting::Cancelled);
            }
        }
    }
}

fn notes(events: &IndexMap<String, Event>, others: usize, polls_without_time: usize) -> Vec<String> {
    let cancelled = events.values().filter(|event| event.cancelled.is_some()).count();
    let said = [
        (cancelled, "events were gone from a poll before their `NotBefore`: cancelled"),
        (others, "events neither preempt nor terminate: left out"),
        (polls_without_time, "polls have no `time` of their own: notices in them are taken for the least, 30 s"),
    ];
    said.iter().filter(|(count, _)| *count > 0).map(|(count, text)| format!("{count} {text}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{TraceEventKind, parse};
    use rstest::rstest;

    fn event(id: &str, kind: &str, machine: &str, not_before: &str) -> String {
        format!(
            "{{\"EventId\":\"{id}\",\"EventType\":\"{kind}\",\"ResourceType\":\"VirtualMachine\",\"Resources\":[\"{machine}\"],\
             \"EventStatus\":\"Scheduled\",\"NotBefore\":\"{not_before}\"}}"
        )
    }

    fn poll(time: &str, events: &[String]) -> String {
        let time = if time.is_empty() { String::new() } else { format!("\"time\":\"2026-01-19T{time}Z\",") };
        format!("{{{time}\"DocumentIncarnation\":1,\"Events\":[{}]}}", events.join(","))
    }

    fn story(trace: &Trace) -> String {
        let kind = |kind: &TraceEventKind| match kind {
            TraceEventKind::Up(_) => "up".to_owned(),
            TraceEventKind::Notice { notice } => format!("notice {}", notice.as_seconds()),
            TraceEventKind::Cancelled => "cancelled".to_owned(),
            TraceEventKind::Down => "down".to_owned(),
        };
        let told = |e: &crate::trace::TraceEvent| format!("{} {} {}; ", e.time.as_seconds(), e.node, kind(&e.kind));
        trace.events.iter().map(told).collect()
    }

    #[test]
    fn polls_with_times_show_notices_losses_and_what_was_cancelled() {
        let a = event("1", "Preempt", "vm-a", "Mon, 19 Jan 2026 18:01:00 GMT");
        let b = event("2", "Preempt", "vm-b", "Mon, 19 Jan 2026 18:05:00 GMT");
        let freeze = event("3", "Freeze", "vm-c", "Mon, 19 Jan 2026 18:05:00 GMT");
        let polls = [
            poll("18:00:00", &[]),
            poll("18:00:20", &[a.clone(), b.clone(), freeze]),
            poll("18:00:30", &[a, b]),
            poll("18:02:00", &[]),
        ];
        let trace = parse(&polls.join("\n"), "t").unwrap();
        assert_eq!(
            story(&trace),
            "0 vm-a up; 0 vm-b up; 20 vm-a notice 40; 20 vm-b notice 280; 60 vm-a down; 120 vm-b cancelled; "
        );
        assert_eq!((trace.format, trace.span), (TraceFormat::AzureScheduledEvents, SimTime::SECOND * 120));
        let said = ["1 events were gone from a poll", "1 events neither preempt"];
        assert!(said.iter().all(|start| trace.notes.iter().any(|note| note.starts_with(start))), "{:?}", trace.notes);
    }

    #[test]
    fn without_the_time_of_the_poll_the_notice_is_the_least() {
        // The day of the week in the example is wrong, as happens in documents.
        let a = event("1", "Preempt", "vm-a", "Tue, 19 Jan 2026 18:01:00 GMT");
        let b = event("2", "Terminate", "vm-b", "Mon, 19 Jan 2026 18:02:00 GMT");
        let trace = parse(&poll("", &[a, b]), "t").unwrap();
        assert_eq!(
            story(&trace),
            "0 vm-a up; 0 vm-a notice 30; 0 vm-b up; 30 vm-a down; 60 vm-b notice 30; 90 vm-b down; "
        );
        assert!(trace.notes.iter().any(|note| note.starts_with("1 polls have no `time`")), "{:?}", trace.notes);
    }

    #[rstest]
    #[case(
        &poll("18:00:00", &[event("1", "Preempt", "a", "Mon, 19 Jan 2326 18:29:47 GMT")]),
        "key `Events[0].NotBefore`: expected a time within 100 years of the poll"
    )]
    #[case(&poll("18:00:00", &[event("1", "Preempt", "a", "soon")]), "key `Events[0].NotBefore`: expected a time like")]
    #[case(&poll("", &[event("1", "Preempt", "a", "")]), "log the time of the poll")]
    #[case(&poll("18:00:00", &[event("1", "Preempt", "", "")]), "key `Events[0].Resources[0]`: expected a machine's name")]
    #[case(&poll("18:00", &[event("1", "Freeze", "a", "")]), "none of the entries")]
    #[case("{\"Events\":5}", "key `Events`: expected a list of events, found `5`")]
    fn errors_say_where_and_what(#[case] text: &str, #[case] part: &str) {
        let message = parse(text, "t.json").unwrap_err().to_string();
        assert!(message.contains(part) && message.contains("\nhint: "), "{message}");
    }
}
