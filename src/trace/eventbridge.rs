//! What AWS `EventBridge` says of EC2 instances: interruption warnings of spot instances, and changes of state.
//!
//! A warning is a notice, and the loss comes 120 s later (at once where the instance hibernates) unless a change of state
//! says when. Instances come with `running`, and go with `shutting-down`, `terminated`, `stopping` or `stopped`. The events
//! stand in an array or one a line; those of other kinds are counted and left out.

use super::error::TraceError;
use super::json::{Document, Element};
use super::sightings::{Sighting, Sightings};
use super::{Trace, TraceFormat};
use crate::units::SimTime;

const WARNING: &str = "EC2 Spot Instance Interruption Warning";
const CHANGE: &str = "EC2 Instance State-change Notification";
/// The notice that AWS gives before it terminates or stops a spot instance.
const NOTICE: SimTime = SimTime(120_000_000_000);

/// Whether the file is of this format.
pub(super) fn fits(document: &Document) -> bool {
    document.has(&["detail-type"])
}

/// Reads the whole file.
pub(super) fn parse(document: &Document, name: &str) -> Result<Trace, TraceError> {
    let mut sightings = Sightings::default();
    let mut others = 0_usize;
    for element in document.elements(name) {
        let kind = element.get("detail-type").text("the kind of event")?;
        let time = element.get("time").time()?;
        if kind != WARNING && kind != CHANGE {
            others += 1;
            sightings.cover(time);
            continue;
        }
        let instance = element.get("detail.instance-id").text("the instance's name")?;
        let sighting = if kind == WARNING { Some(warning(&element)?) } else { change(&element)? };
        match sighting {
            Some(sighting) => sightings.push(time, instance, sighting),
            None => sightings.cover(time),
        }
        if let Some(zone) = zone(&element) {
            sightings.offer(instance).zone = Some(zone);
        }
    }
    let mut notes = Vec::new();
    if others > 0 {
        notes.push(format!("{others} events are neither interruption warnings nor changes of state: left out"));
    }
    sightings.into_trace(name, TraceFormat::EventBridge, notes)
}

fn warning(element: &Element) -> Result<Sighting, TraceError> {
    let action = element.get("detail.instance-action");
    match action.text("`terminate`, `stop` or `hibernate`")? {
        "terminate" | "stop" => Ok(Sighting::Notice(NOTICE)),
        "hibernate" => Ok(Sighting::Notice(SimTime::ZERO)),
        _ => Err(action.wrong("`terminate`, `stop` or `hibernate`", "these are the actions that AWS knows")),
    }
}

/// What a change of state says; nothing while the instance boots.
fn change(element: &Element) -> Result<Option<Sighting>, TraceError> {
    let state = element.get("detail.state");
    let expected = "a state of EC2: `pending`, `running`, `shutting-down`, `terminated`, `stopping` or `stopped`";
    match state.text(expected)? {
        "pending" => Ok(None),
        "running" => Ok(Some(Sighting::Up)),
        "shutting-down" | "terminated" | "stopping" | "stopped" => Ok(Some(Sighting::Down)),
        _ => Err(state.wrong(expected, "these are the states that AWS knows")),
    }
}

/// The availability zone in the instance's resource name, where it has one rather than only the region.
fn zone(element: &Element) -> Option<String> {
    let resources = element.get("resources").list("resource names").ok()?;
    let name = resources.first()?.as_name()?;
    let zone = name.split(':').nth(3)?;
    let mut end = zone.chars().rev();
    let is_zone = end.next()?.is_ascii_lowercase() && end.next()?.is_ascii_digit();
    is_zone.then(|| zone.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{TraceEventKind, parse};
    use rstest::rstest;

    fn change(time: &str, id: &str, state: &str) -> String {
        format!(
            "{{\"detail-type\":\"{CHANGE}\",\"time\":\"2026-01-01T00:{time}Z\",\"detail\":{{\"instance-id\":\"{id}\",\"state\":\"{state}\"}}}}"
        )
    }

    fn warning(time: &str, id: &str, action: &str) -> String {
        format!(
            "{{\"detail-type\":\"{WARNING}\",\"time\":\"2026-01-01T00:{time}Z\",\"resources\":[\"arn:aws:ec2:us-east-2a:instance/{id}\"],\
             \"detail\":{{\"instance-id\":\"{id}\",\"instance-action\":\"{action}\"}}}}"
        )
    }

    #[test]
    fn warnings_and_changes_become_events_in_arrays_and_lines() {
        let events = [
            change("00:00", "i-1", "pending"),
            change("00:30", "i-1", "running"),
            warning("10:00", "i-1", "terminate"),
            change("11:50", "i-1", "shutting-down"),
            change("12:10", "i-1", "terminated"),
            warning("20:00", "i-2", "hibernate"),
            "{\"detail-type\":\"EC2 Instance Rebalance Recommendation\",\"time\":\"2026-01-01T00:30:00Z\"}".to_owned(),
        ];
        let trace = parse(&format!("[{}]", events.join(",\n")), "t").unwrap();
        let story: Vec<(f64, &str)> = trace.events.iter().map(|e| (e.time.as_seconds(), e.node.as_str())).collect();
        let expected = [(0.0, "i-2"), (30.0, "i-1"), (600.0, "i-1"), (710.0, "i-1"), (1200.0, "i-2"), (1200.0, "i-2")];
        assert_eq!(story, expected);
        assert_eq!(trace.events[2].kind, TraceEventKind::Notice { notice: SimTime::SECOND * 110 });
        assert_eq!((trace.format, trace.span), (TraceFormat::EventBridge, SimTime::SECOND * 1800));
        let TraceEventKind::Up(offer) = &trace.events[1].kind else { panic!() };
        assert_eq!(offer.zone.as_deref(), Some("us-east-2a"));
        assert!(trace.notes.iter().any(|note| note.starts_with("1 events are neither")), "{:?}", trace.notes);
        assert_eq!(parse(&events.join("\n"), "t").unwrap(), trace);
    }

    #[rstest]
    #[case(warning("10:00", "i-1", "explode"), "element 1, key `detail.instance-action`: expected `terminate`")]
    #[case(change("10:00", "i-1", "gone"), "element 1, key `detail.state`: expected a state of EC2")]
    #[case(change("1:0", "i-1", "running"), "element 1, key `time`: expected an ISO 8601 time")]
    #[case(change("10:00", "", "running"), "element 1, key `detail.instance-id`: expected the instance's name")]
    #[case(change("10:00", "i-1", "pending"), "none of the entries")]
    fn errors_say_where_and_what(#[case] event: String, #[case] part: &str) {
        let message = parse(&format!("[{event}]"), "t.json").unwrap_err().to_string();
        assert!(message.contains(part) && message.contains("\nhint: "), "{message}");
    }
}
