//! Answers of Prometheus to a range query: `{"data":{"result":[{"metric":{"node":"a"},"values":[[1717000000,"1"],…]}]}}`.
//!
//! One series a node; a node is up while its value isn't 0. Values are strings. A gap says nothing, least of all that the
//! node is down: a node keeps the state of its last sample, also after the end of its series.

use super::error::TraceError;
use super::json::{Document, Element};
use super::sightings::{Sighting, Sightings};
use super::{Trace, TraceFormat};
use crate::units::format_seconds;
use jiff::Timestamp;
use std::collections::HashSet;

/// Labels that may name the node, best first.
const NODE_LABELS: [&str; 8] =
    ["node", "nodename", "kubernetes_node", "hostname", "Hostname", "host", "exported_instance", "instance"];
/// The latest time, the year 9999.
const LATEST_S: f64 = 253_402_300_000.0;
/// How much longer than the usual step a gap is.
const GAP_IN_STEPS: f64 = 1.5;

/// Whether the file is of this format.
pub(super) fn fits(document: &Document) -> bool {
    document.has(&["data.result"]) || document.has(&["resultType", "result"])
}

/// Samples of one node: the time in seconds since 1970, and whether it is up; nothing where the value is no number.
type Samples = Vec<(f64, Option<bool>)>;

/// Reads the whole file.
pub(super) fn parse(document: &Document, name: &str) -> Result<Trace, TraceError> {
    let mut sightings = Sightings::default();
    let mut names = HashSet::new();
    let (mut gaps, mut unknown, mut longest_s, mut ends) = (0_usize, 0_usize, 0.0_f64, Vec::new());
    for root in document.elements(name) {
        let inner = root.get("data.result");
        let result = if inner.is_absent() { root.get("result") } else { inner };
        for series in result.list("a list of series")? {
            let node = node(&series)?;
            if !names.insert(node) {
                let hint = "ask for one series a node, for example `max by (node) (up)`";
                return Err(series.get("metric").wrong(format!("one series for the node `{node}`"), hint));
            }
            let samples = samples(&series)?;
            let step_s = usual_step_s(&samples);
            let gaps_s =
                samples.windows(2).map(|pair| pair[1].0 - pair[0].0).filter(|gap_s| *gap_s > GAP_IN_STEPS * step_s);
            for gap_s in gaps_s {
                gaps += 1;
                longest_s = longest_s.max(gap_s);
            }
            let mut is_up = false;
            for &(time_s, state) in &samples {
                let time = timestamp(time_s);
                sightings.cover(time);
                match state {
                    None => unknown += 1,
                    Some(up) if up == is_up => {}
                    Some(up) => {
                        sightings.push(time, node, if up { Sighting::Up } else { Sighting::Down });
                        is_up = up;
                    }
                }
            }
            ends.extend(samples.last().filter(|_| is_up).map(|(time_s, _)| time_s + GAP_IN_STEPS * step_s));
        }
    }
    let end_s = sightings.last().map_or(0.0, |last| last.as_nanosecond() as f64 / 1e9);
    let early = ends.iter().filter(|end| **end < end_s).count();
    let mut notes = Vec::new();
    if gaps > 0 {
        let longest = format_seconds(longest_s);
        notes.push(format!(
            "{gaps} gaps in the samples, the longest of {longest}: nodes are taken to be as before in them"
        ));
    }
    if unknown > 0 {
        notes.push(format!("{unknown} values are no numbers: nothing is known of their nodes then"));
    }
    if early > 0 {
        notes.push(format!("{early} series end early while their node is up: taken to stay up until the trace ends"));
    }
    sightings.into_trace(name, TraceFormat::PrometheusRange, notes)
}

/// The node that a series is about.
fn node<'a>(series: &Element<'a>) -> Result<&'a str, TraceError> {
    let metric = series.get("metric");
    let named = NODE_LABELS.iter().map(|label| metric.get(label)).find(|label| label.as_text().is_some());
    match named {
        Some(label) => label.text("the node's name"),
        None => {
            Err(metric.wrong("a label that names the node", format!("known labels are {}", NODE_LABELS.join(", "))))
        }
    }
}

fn samples(series: &Element) -> Result<Samples, TraceError> {
    let mut samples: Samples = Vec::new();
    let hint = "ask `/api/v1/query_range`, or `/api/v1/query` for `up[1d]`";
    let values = series.get("values");
    if values.is_absent() {
        return Err(values.wrong("the samples of a range query", hint));
    }
    for sample in values.list("a list of samples")? {
        let pair = sample.list("a pair of time and value")?;
        let [time, value] = pair.as_slice() else {
            return Err(sample.wrong("a pair of time and value", hint));
        };
        let time_s = time.number("seconds since 1970")?;
        let earliest_s = samples.last().map_or(0.0, |(time_s, _)| *time_s);
        if !(earliest_s..=LATEST_S).contains(&time_s) {
            return Err(time.wrong(format!("seconds since 1970, no fewer than {earliest_s} before it"), hint));
        }
        let number = value.as_text().and_then(|text| text.parse::<f64>().ok());
        let number = number.ok_or_else(|| value.wrong("a number as a string, like `\"1\"`", hint))?;
        samples.push((time_s, (!number.is_nan()).then_some(number != 0.0)));
    }
    Ok(samples)
}

/// The median time between samples.
fn usual_step_s(samples: &Samples) -> f64 {
    let mut steps_s: Vec<f64> = samples.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    steps_s.sort_by(f64::total_cmp);
    steps_s.get(steps_s.len() / 2).copied().unwrap_or_default()
}

fn timestamp(time_s: f64) -> Timestamp {
    // To the microsecond: a float of today's seconds holds no more.
    Timestamp::from_microsecond((time_s * 1e6).round() as i64).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use crate::trace::parse;
    use rstest::rstest;

    fn answer(series: &[(&str, &str)]) -> String {
        let one = |(node, values): &(&str, &str)| {
            format!("{{\"metric\":{{\"job\":\"x\",\"node\":\"{node}\"}},\"values\":[{values}]}}")
        };
        let all: Vec<String> = series.iter().map(one).collect();
        format!("{{\"status\":\"success\",\"data\":{{\"resultType\":\"matrix\",\"result\":[{}]}}}}", all.join(","))
    }

    #[test]
    fn values_are_strings_and_gaps_say_nothing() {
        let text = answer(&[
            (
                "a",
                "[1717000000,\"1\"],[1717000060,\"1\"],[1717000300.5,\"1\"],[1717000360.5,\"0\"],[1717000420.5,\"NaN\"]",
            ),
            ("b", "[1717000060,\"0\"],[1717000120,\"1\"]"),
        ]);
        let trace = parse(&text, "t").unwrap();
        let story: Vec<(f64, &str)> = trace.events.iter().map(|e| (e.time.as_seconds(), e.node.as_str())).collect();
        assert_eq!(story, [(0.0, "a"), (120.0, "b"), (360.5, "a")]);
        approx::assert_relative_eq!(trace.span.as_seconds(), 420.5);
        let said = ["1 gaps in the samples, the longest of", "1 values are no numbers", "1 series end early"];
        assert!(said.iter().all(|start| trace.notes.iter().any(|note| note.starts_with(start))), "{:?}", trace.notes);
    }

    #[rstest]
    #[case(&answer(&[("a", "[1717000000,1]")]), "key `data.result[0].values[0][1]`: expected a number as a string")]
    #[case(&answer(&[("a", "[1717000000]")]), "key `data.result[0].values[0]`: expected a pair")]
    #[case(&answer(&[("a", "[9,\"1\"],[8,\"1\"]")]), "key `data.result[0].values[1][0]`: expected seconds since 1970")]
    #[case(&answer(&[("a", "[9,\"1\"]"), ("a", "[9,\"1\"]")]), "expected one series for the node `a`")]
    #[case(&answer(&[("", "[9,\"1\"]")]), "key `data.result[0].metric`: expected a label that names the node")]
    #[case(&answer(&[("a", "[9,\"0\"]")]), "none of the entries")]
    #[case(&answer(&[]), "found none")]
    #[case(
        "{\"data\":{\"result\":[{\"metric\":{\"node\":\"a\"},\"value\":[9,\"1\"]}]}}",
        "expected the samples of a range query, found nothing"
    )]
    fn errors_say_where_and_what(#[case] text: &str, #[case] part: &str) {
        let message = parse(text, "t.json").unwrap_err().to_string();
        assert!(message.contains(part) && message.contains("\nhint: "), "{message}");
    }
}
