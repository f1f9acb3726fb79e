//! The rules of Chrome's trace-event format, which ui.perfetto.dev reads, on files that `iteration --perfetto` writes.

use crate::support::Sandbox;
use rstest::rstest;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The events of an iteration of a plan for this cluster.
fn events(cluster: &str, schedule: &str) -> Vec<Value> {
    let sandbox = Sandbox::new();
    let job = ["plan", "--cluster", cluster, "--model", "gpt3-1.3b", "--global-batch-size", "24"];
    let ran = sandbox.run(&[&job[..], &["--schedule", schedule, "--out", "plan.json"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let ran = sandbox.run(&["iteration", "--plan", "plan.json", "--perfetto", "p.json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let mut file: Value = serde_json::from_str(&sandbox.read("p.json")).unwrap();
    assert!(file["displayTimeUnit"] == "ms" && file["otherData"].is_object());
    let Value::Array(events) = file["traceEvents"].take() else { panic!("no events") };
    events
}

fn number(event: &Value, key: &str) -> f64 {
    event[key].as_f64().unwrap_or_else(|| panic!("`{key}` is no number: {event}"))
}

fn text<'a>(event: &'a Value, key: &str) -> &'a str {
    event[key].as_str().unwrap_or_else(|| panic!("`{key}` is no text: {event}"))
}

fn track(event: &Value) -> (u64, u64) {
    (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap())
}

/// When the slices of each track begin and end.
fn slices(events: &[Value]) -> BTreeMap<(u64, u64), Vec<(f64, f64)>> {
    let mut slices: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        let (start, duration) = (number(event, "ts"), number(event, "dur"));
        assert!(start >= 0.0 && duration >= 0.0 && !text(event, "name").is_empty(), "{event}");
        slices.entry(track(event)).or_default().push((start, start + duration));
    }
    slices
}

/// Ends of arrows lie in slices, and each has one other end, on another track and not before it.
fn check_flows(events: &[Value], slices: &BTreeMap<(u64, u64), Vec<(f64, f64)>>) -> usize {
    let mut ends: [BTreeMap<u64, &Value>; 2] = Default::default();
    for event in events.iter().filter(|event| event["ph"] == "s" || event["ph"] == "f") {
        let is_finish = event["ph"] == "f";
        let at = number(event, "ts");
        let around = |&(start, end): &(f64, f64)| (start..end).contains(&at);
        assert!(slices[&track(event)].iter().any(around), "outside of its slice: {event}");
        assert!(!is_finish || event["bp"] == "e", "{event}");
        let known = &mut ends[usize::from(is_finish)];
        assert!(known.insert(event["id"].as_u64().unwrap(), event).is_none(), "a second {event}");
    }
    let [starts, finishes] = ends;
    assert!(starts.keys().eq(finishes.keys()));
    for (start, end) in starts.values().zip(finishes.values()) {
        assert!(start["name"] == end["name"] && start["cat"] == end["cat"], "{start} {end}");
        assert!(number(start, "ts") <= number(end, "ts") && track(start) != track(end), "{start} {end}");
    }
    starts.len()
}

/// Counters have one figure, never below zero, in the order of time; every stage has its memory and its micro batches.
fn check_counters(events: &[Value]) {
    let mut last: BTreeMap<(u64, &str), f64> = BTreeMap::new();
    for event in events.iter().filter(|event| event["ph"] == "C") {
        let figures: Vec<f64> =
            event["args"].as_object().unwrap().values().map(|figure| figure.as_f64().unwrap()).collect();
        assert!(figures.len() == 1 && figures[0] >= 0.0, "{event}");
        let before = last.insert((event["pid"].as_u64().unwrap(), text(event, "name")), number(event, "ts"));
        assert!(before.is_none_or(|before| before < number(event, "ts")), "{event}");
    }
    let of = |part: &str| last.keys().filter(|(_, name)| name.contains(part)).count();
    assert!(of(" memory, GB") > 0 && of(" memory, GB") == of(" in flight"), "{last:?}");
}

#[rstest]
#[case::unlike_gpus("1x2xA100-80+3x1xV100-16", "1f1b")]
#[case::halves("4x1xV100-16", "zb-h1")]
#[case::chunks("4x1xV100-16", "interleaved:2")]
#[case::one_gpu("1x1xA100-80", "gpipe")]
fn a_timeline_keeps_to_the_format(#[case] cluster: &str, #[case] schedule: &str) {
    let events = events(cluster, schedule);
    let slices = slices(&events);
    let named: BTreeSet<(u64, u64)> = events.iter().filter(|event| event["name"] == "thread_name").map(track).collect();
    assert!(named.iter().eq(slices.keys()));
    for (track, slices) in &slices {
        // What a thread does follows on each other, to half a nanosecond: microseconds are floats.
        assert!(slices.windows(2).all(|pair| pair[1].0 >= pair[0].1 - 5e-4), "{track:?}");
    }
    for event in &events {
        let kind = text(event, "ph");
        assert!(["X", "M", "C", "s", "f"].contains(&kind), "{event}");
        let about = &event["args"];
        assert!(kind != "M" || about["name"].is_string() || about["sort_index"].is_u64(), "{event}");
    }
    check_counters(&events);
    assert_eq!(check_flows(&events, &slices) == 0, cluster.starts_with("1x1x"));
}
