//! Panel (a): nodes up over time, by type, with a mark for each loss.

use super::title;
use crate::report::canvas::{Anchor, Canvas, INK};
use crate::report::capacity_panel::{Capacity, LOSS_STRIP};
use crate::report::figures::percent;
use crate::report::panel::{Axis, Panel};
use crate::trace::{Trace, TraceEventKind, TraceStatistics};
use std::collections::HashMap;

/// What nodes without a type are called.
const UNNAMED: &str = "nodes";

pub(super) fn draw(canvas: &Canvas<'_>, panel: &Panel, trace: &Trace) {
    let capacity = capacity(trace);
    let statistics = TraceStatistics::of(trace);
    let what = if capacity.types.len() > 1 { "Nodes up, by type" } else { "Nodes up" };
    let share = percent(statistics.mean_availability);
    let heading = format!("{what} ({share} of {} on average)", statistics.peak_nodes_up);
    title(canvas, (panel.left, panel.top - LOSS_STRIP - 11), 'a', &heading);
    let time = Axis::of_time(trace.span.as_seconds());
    capacity.draw(canvas, panel, &time);
    for (value, label) in time.ticks() {
        canvas.text((panel.x(&time, value), panel.bottom + 14), Anchor::Center, INK, &label);
    }
    let unit = format!("time in {}", time.unit());
    canvas.text((i32::midpoint(panel.left, panel.right), panel.bottom + 32), Anchor::Center, INK, &unit);
}

/// Nodes up by type from each change on, and the nodes lost at each loss.
fn capacity(trace: &Trace) -> Capacity {
    let mut found = Capacity { types: Vec::new(), changes: Vec::new(), losses: Vec::new() };
    let mut up: HashMap<&str, usize> = HashMap::new();
    let mut counts: Vec<u32> = Vec::new();
    for event in &trace.events {
        let time_s = event.time.as_seconds();
        match &event.kind {
            TraceEventKind::Up(offer) => {
                let name = offer.gpu_type.as_deref().unwrap_or(UNNAMED);
                let known = found.types.iter().position(|other| other == name);
                let place = known.unwrap_or_else(|| {
                    found.types.push(name.to_owned());
                    counts.push(0);
                    counts.len() - 1
                });
                counts[place] += 1;
                up.insert(&event.node, place);
            }
            TraceEventKind::Down => {
                let Some(place) = up.remove(event.node.as_str()) else { continue };
                counts[place] -= 1;
                match found.losses.last_mut() {
                    Some((at_s, lost)) if at_s.to_bits() == time_s.to_bits() => *lost += 1,
                    _ => found.losses.push((time_s, 1)),
                }
            }
            TraceEventKind::Notice { .. } | TraceEventKind::Cancelled => continue,
        }
        if found.changes.last().is_some_and(|(at_s, _)| at_s.to_bits() == time_s.to_bits()) {
            found.changes.pop();
        }
        found.changes.push((time_s, counts.clone()));
    }
    found
}
