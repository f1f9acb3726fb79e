//! Google Cloud's audit log of Compute Engine: preemptions are its entries `compute.instances.preempted`.
//!
//! The entry is written when the instance goes. Google gives at most 30 s of notice and doesn't log it, so the losses have
//! none. Instances come with `insert` and `start`; where an operation has a first and a last entry, the last one counts.

use super::error::TraceError;
use super::json::{Document, Element};
use super::sightings::{Sighting, Sightings};
use super::{Trace, TraceFormat};

/// Whether the file is of this format.
pub(super) fn fits(document: &Document) -> bool {
    document.has(&["protoPayload"])
}

/// Reads the whole file.
pub(super) fn parse(document: &Document, name: &str) -> Result<Trace, TraceError> {
    let mut sightings = Sightings::default();
    let mut others = 0_usize;
    for element in document.elements(name) {
        let time = element.get("timestamp").time()?;
        sightings.cover(time);
        let Some(sighting) = sighting(&element)? else {
            others += 1;
            continue;
        };
        let instance = element.get("resource.labels.instance_id").text("the instance's number as a string")?;
        sightings.push(time, instance, sighting);
        if let Some(zone) = element.get("resource.labels.zone").as_name() {
            sightings.offer(instance).zone = Some(zone);
        }
    }
    let mut notes = vec!["the log has no notices: an instance has at most 30 s, which aren't counted on".to_owned()];
    if others > 0 {
        notes.push(format!("{others} entries are of no instance that comes or goes: left out"));
    }
    sightings.into_trace(name, TraceFormat::GcpAuditLog, notes)
}

/// What an entry says, if it is about an instance that comes or goes.
fn sighting(element: &Element) -> Result<Option<Sighting>, TraceError> {
    let method = element.get("protoPayload.methodName").text("the method's name")?;
    // Versions come before the name: `v1.compute.instances.insert`, `beta.compute.…`.
    let Some((_, verb)) = method.split_once("compute.instances.") else {
        return Ok(None);
    };
    let is_only_first = element.get("operation.first").is_true() && !element.get("operation.last").is_true();
    Ok(match verb {
        "insert" | "start" | "startWithEncryptionKey" | "resume" if !is_only_first => Some(Sighting::Up),
        "preempted" | "delete" | "stop" | "suspend" | "guestTerminate" | "hostError" => Some(Sighting::Down),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{TraceEventKind, parse};
    use crate::units::SimTime;
    use rstest::rstest;

    fn entry(time: &str, method: &str, id: &str, rest: &str) -> String {
        format!(
            "{{\"protoPayload\":{{\"methodName\":\"{method}\"}},\"timestamp\":\"2026-01-01T{time}Z\"{rest},\
             \"resource\":{{\"labels\":{{\"instance_id\":\"{id}\",\"zone\":\"us-central1-a\"}}}}}}"
        )
    }

    #[test]
    fn preemptions_are_losses_without_notice() {
        let first = ",\"operation\":{\"first\":true}";
        let last = ",\"operation\":{\"last\":true}";
        let log = [
            entry("03:00:00", "compute.instances.preempted", "12", ""),
            entry("02:00:00", "compute.instances.preempted", "11", ""),
            entry("01:00:30", "v1.compute.instances.insert", "11", last),
            entry("01:00:00", "v1.compute.instances.insert", "11", first),
            entry("01:00:00", "v1.compute.disks.insert", "9", ""),
        ];
        let trace = parse(&format!("[{}]", log.join(",")), "t").unwrap();
        let story: Vec<(f64, &str)> = trace.events.iter().map(|e| (e.time.as_seconds(), e.node.as_str())).collect();
        assert_eq!(story, [(0.0, "12"), (30.0, "11"), (3600.0, "11"), (7200.0, "12")]);
        assert_eq!((trace.format, trace.span), (TraceFormat::GcpAuditLog, SimTime::SECOND * 7200));
        let TraceEventKind::Up(offer) = &trace.events[0].kind else { panic!() };
        assert_eq!(offer.zone.as_deref(), Some("us-central1-a"));
        assert!(trace.notes.iter().any(|note| note.starts_with("2 entries are of no instance")), "{:?}", trace.notes);
    }

    #[rstest]
    #[case("[{\"protoPayload\":{}}]", "element 1, key `timestamp`: expected an ISO 8601 time")]
    #[case(
        "[{\"protoPayload\":{},\"timestamp\":\"2026-01-01T00:00:00Z\"}]",
        "key `protoPayload.methodName`: expected the method's name"
    )]
    #[case(&format!("[{}]", entry("00:00:00", "compute.instances.preempted", "", "")), "key `resource.labels.instance_id`")]
    #[case(&format!("[{}]", entry("00:00:00", "compute.disks.insert", "1", "")), "none of the entries")]
    fn errors_say_where_and_what(#[case] text: &str, #[case] part: &str) {
        let message = parse(text, "t.json").unwrap_err().to_string();
        assert!(message.contains(part) && message.contains("\nhint: "), "{message}");
    }
}
