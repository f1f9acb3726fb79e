//! Spot requests as `aws ec2 describe-spot-instance-requests` prints them: one answer, or several one after the other.
//!
//! Each request carries only its latest status, so one that was fulfilled and then ended says when it ended and not when
//! it was fulfilled; then its instance is taken to have come when the request was made, unless an earlier answer in the
//! file, or another request, says more.

use super::error::TraceError;
use super::json::{Document, Element};
use super::sightings::{Sighting, Sightings};
use super::{Trace, TraceFormat};
use crate::units::{SimTime, format_seconds};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// The notice that AWS gives before it takes a spot instance.
const NOTICE: SimTime = SimTime(120_000_000_000);

/// Whether the file is of this format.
pub(super) fn fits(document: &Document) -> bool {
    document.has(&["SpotInstanceRequests"]) || document.has(&["SpotInstanceRequestId"])
}

/// What the answers say of one instance.
#[derive(Default)]
struct Instance {
    created: Option<Timestamp>,
    fulfilled: Option<Timestamp>,
    warned: Option<Timestamp>,
    ended: Option<Timestamp>,
    zone: Option<String>,
}

/// Reads the whole file.
pub(super) fn parse(document: &Document, name: &str) -> Result<Trace, TraceError> {
    let mut instances: BTreeMap<String, Instance> = BTreeMap::new();
    let mut sightings = Sightings::default();
    let mut without_instance = BTreeSet::new();
    let mut count = 0_usize;
    for element in document.elements(name) {
        let list = element.get("SpotInstanceRequests");
        let requests = if list.is_absent() { vec![element] } else { list.list("a list of requests")? };
        for request in &requests {
            count += 1;
            if !read(request, &mut instances, &mut sightings)? {
                without_instance
                    .insert(request.get("SpotInstanceRequestId").as_text().map_or(count.to_string(), str::to_owned));
            }
        }
    }
    let mut notes = Vec::new();
    let delays_s: Vec<f64> = instances.values().filter_map(Instance::delay_s).collect();
    if !delays_s.is_empty() {
        let mean = format_seconds(delays_s.iter().sum::<f64>() / delays_s.len() as f64);
        notes
            .push(format!("{} requests show how long they waited to be fulfilled: {mean} in the mean", delays_s.len()));
    }
    let guessed = instances.values().filter(|instance| instance.fulfilled.is_none()).count();
    if guessed > 0 {
        notes.push(format!(
            "{guessed} requests don't say when they were fulfilled: taken to be up since they were made"
        ));
    }
    if !without_instance.is_empty() {
        notes.push(format!("{} requests have no instance: left out", without_instance.len()));
    }
    for (id, instance) in &instances {
        instance.tell(id, &mut sightings);
    }
    sightings.into_trace(name, TraceFormat::SpotRequests, notes)
}

/// Takes one request in; whether it has an instance.
fn read(
    request: &Element,
    instances: &mut BTreeMap<String, Instance>,
    sightings: &mut Sightings,
) -> Result<bool, TraceError> {
    let created = request.get("CreateTime").time()?;
    let updated = request.get("Status.UpdateTime").time()?;
    let code = request.get("Status.Code").text("the code of a request's status")?;
    sightings.cover(created);
    sightings.cover(updated);
    if request.get("InstanceId").as_text().is_none() {
        return Ok(false);
    }
    let id = request.get("InstanceId").text("the instance's name")?;
    let instance = instances.entry(id.to_owned()).or_default();
    instance.created = Some(instance.created.map_or(created, |other| other.min(created)));
    instance.zone = request.get("LaunchedAvailabilityZone").as_name().or(instance.zone.take());
    let slot = match code {
        "fulfilled" => &mut instance.fulfilled,
        code if code.starts_with("marked-for-") => &mut instance.warned,
        // `request-canceled-and-instance-running`, and codes of requests that still wait, end nothing.
        code if code.contains("instance-terminated") || code.contains("instance-stopped") => &mut instance.ended,
        _ => return Ok(true),
    };
    *slot = Some(slot.map_or(updated, |other| other.min(updated)));
    Ok(true)
}

impl Instance {
    fn delay_s(&self) -> Option<f64> {
        let nanoseconds = self.fulfilled?.as_nanosecond() - self.created?.as_nanosecond();
        Some(nanoseconds as f64 / 1e9)
    }

    fn tell(&self, id: &str, sightings: &mut Sightings) {
        sightings.offer(id).zone.clone_from(&self.zone);
        if let Some(up) = self.fulfilled.or(self.created) {
            sightings.push(up, id, Sighting::Up);
        }
        if let Some(warned) = self.warned {
            sightings.push(warned, id, Sighting::Notice(NOTICE));
        }
        if let Some(ended) = self.ended {
            sightings.push(ended, id, Sighting::Down);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::parse;
    use rstest::rstest;

    fn request(id: &str, created: &str, code: &str, updated: &str) -> String {
        let instance = if id.is_empty() { String::new() } else { format!("\"InstanceId\":\"{id}\",") };
        format!(
            "{{\"SpotInstanceRequestId\":\"sir-{id}\",{instance}\"CreateTime\":\"2026-01-01T{created}:00Z\",\
             \"LaunchedAvailabilityZone\":\"us-east-1a\",\
             \"Status\":{{\"Code\":\"{code}\",\"UpdateTime\":\"2026-01-01T{updated}:00Z\"}}}}"
        )
    }

    fn answer(requests: &[String]) -> String {
        format!("{{\"SpotInstanceRequests\":[{}]}}", requests.join(","))
    }

    #[test]
    fn the_latest_status_makes_ups_and_downs() {
        let text = answer(&[
            request("i-1", "00:00", "instance-terminated-no-capacity", "02:00"),
            request("i-2", "00:30", "fulfilled", "00:40"),
            request("i-3", "00:30", "request-canceled-and-instance-running", "00:50"),
            request("", "00:30", "capacity-not-available", "03:00"),
        ]);
        let trace = parse(&text, "t").unwrap();
        let story: Vec<(f64, &str)> =
            trace.events.iter().map(|e| (e.time.as_seconds() / 60.0, e.node.as_str())).collect();
        assert_eq!(story, [(0.0, "i-1"), (30.0, "i-3"), (40.0, "i-2"), (120.0, "i-1")]);
        assert_eq!((trace.format, trace.span), (TraceFormat::SpotRequests, SimTime::SECOND * 10_800));
        let said = ["1 requests show how long", "2 requests don't say", "1 requests have no instance"];
        assert!(said.iter().all(|start| trace.notes.iter().any(|note| note.starts_with(start))), "{:?}", trace.notes);
    }

    #[test]
    fn an_earlier_answer_says_when_the_request_was_fulfilled() {
        let first = answer(&[request("i-1", "00:00", "fulfilled", "00:10")]);
        let second = answer(&[request("i-1", "00:00", "marked-for-termination", "01:00")]);
        let third = answer(&[request("i-1", "00:00", "instance-terminated-by-service", "01:02")]);
        let trace = parse(&[first, second, third].join("\n"), "t").unwrap();
        let times: Vec<f64> = trace.events.iter().map(|event| event.time.as_seconds() / 60.0).collect();
        assert_eq!(times, [10.0, 60.0, 62.0]);
    }

    #[rstest]
    #[case("{\"SpotInstanceRequests\":{}}", "key `SpotInstanceRequests`: expected a list of requests")]
    #[case("{\"SpotInstanceRequests\":[{}]}", "key `SpotInstanceRequests[0].CreateTime`: expected an ISO 8601 time")]
    #[case("{\"SpotInstanceRequests\":[]}", "found none")]
    fn errors_say_where_and_what(#[case] text: &str, #[case] part: &str) {
        let message = parse(text, "t.json").unwrap_err().to_string();
        assert!(message.contains(part) && message.contains("\nhint: "), "{message}");
    }
}
