//! What plain files say, read in another way: rows by splitting lines, counts by the last one of each time.

use super::*;
use std::collections::BTreeMap;

/// Compares what was read with what the lines say, where they can be told without a reader: no quotes, no comments. Returns
/// whether there was anything to compare.
pub(super) fn check(text: &str, trace: &Trace, options: &ReadOptions) -> bool {
    match trace.format {
        TraceFormat::BambooEvents => check_bamboo(text, trace),
        TraceFormat::ParcaeCounts | TraceFormat::StepCounts if options.polarity != Some(Polarity::Preempted) => {
            check_counts(text, trace)
        }
        TraceFormat::SkyPilot => check_ticks(text, trace, options),
        TraceFormat::Canonical => check_canonical(text, trace),
        _ => false,
    }
}

/// The cells of lines with content.
fn lines(text: &str) -> Option<Vec<Vec<&str>>> {
    let is_plain = !text.contains(['"', '#']) && !text.replace("\r\n", "\n").contains('\r');
    let cells = |line: &str| -> bool { !line.trim_matches([',', ' ', '\t', '\u{b}']).trim().is_empty() };
    is_plain.then(|| {
        let rows = text.lines().filter(|line| cells(line));
        rows.map(|line| line.split(',').map(str::trim).collect()).collect()
    })
}

/// Every row is an event.
fn check_bamboo(text: &str, trace: &Trace) -> bool {
    let Some(rows) = lines(text) else { return false };
    assert_eq!(rows.len(), trace.events.len());
    for node in rows.iter().map(|row| row[2]) {
        let said = rows.iter().filter(|row| row[2] == node).count();
        assert_eq!(trace.events.iter().filter(|event| event.node == node).count(), said, "{node}");
    }
    true
}

/// Every row is an event, but for the header and `end`; a loss may have its notice with it.
fn check_canonical(text: &str, trace: &Trace) -> bool {
    let Some(rows) = lines(text) else { return false };
    let Some(column) = rows[0].iter().position(|name| name.eq_ignore_ascii_case("event")) else { return false };
    let ends = rows.iter().filter(|row| row.get(column).is_some_and(|word| word.eq_ignore_ascii_case("end"))).count();
    let said = rows.len() - 1 - ends;
    let losses = trace.events.iter().filter(|event| event.kind == TraceEventKind::Down).count();
    assert!((said..=said + losses).contains(&trace.events.len()), "{said} rows, {} events", trace.events.len());
    true
}

/// Nodes that are up after each time at which something happens.
fn levels(trace: &Trace) -> Vec<i64> {
    let mut levels: BTreeMap<u64, i64> = BTreeMap::new();
    let mut up = 0;
    for event in &trace.events {
        up += i64::from(matches!(event.kind, TraceEventKind::Up(_))) - i64::from(event.kind == TraceEventKind::Down);
        levels.insert(event.time.0, up);
    }
    levels.into_values().collect()
}

/// The counts where they change, of each time the last one.
fn changes(counts: impl Iterator<Item = i64>) -> Vec<i64> {
    let mut changes: Vec<i64> = Vec::new();
    for count in counts {
        if changes.last().copied().unwrap_or_default() != count {
            changes.push(count);
        }
    }
    changes
}

fn check_counts(text: &str, trace: &Trace) -> bool {
    let Some(rows) = lines(text) else { return false };
    let mut last: Vec<(f64, i64)> = Vec::new();
    for row in &rows {
        let (time, count): (f64, i64) = (row[0].parse().expect("it was read"), row[1].parse().expect("it was read"));
        // Times nearer than a nanosecond are one.
        if last.last().is_some_and(|(before, _)| (time - before).abs() < 1e-5 * time.abs().max(1e-3)) {
            if last.last().is_some_and(|(before, _)| before.to_bits() != time.to_bits()) {
                return false;
            }
            last.pop();
        }
        last.push((time, count));
    }
    assert_eq!(levels(trace), changes(last.into_iter().map(|(_, count)| count)));
    true
}

fn check_ticks(text: &str, trace: &Trace, options: &ReadOptions) -> bool {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(text) else { return false };
    let root = value.as_array().map_or(&value, |values| &values[0]);
    let counts: Vec<i64> = root["data"]
        .as_array()
        .expect("it was read")
        .iter()
        .map(|count| count.as_f64().expect("it was read") as i64)
        .collect();
    let most = counts.iter().copied().max().unwrap_or_default();
    let is_turned = options.polarity == Some(Polarity::Preempted);
    let counts = counts.into_iter().map(|count| if is_turned { most - count } else { count });
    assert_eq!(levels(trace), changes(counts));
    true
}
