//! What traces are like, side by side.

use super::Screen;
use super::grid::{Best, Grid};
use crate::report::figures::{count, figure, percent};
use crate::report::records::Records;
use crate::trace::statistics::Spread;
use crate::trace::{TraceFormat, TraceStatistics};
use crate::units::format_seconds;
use serde_json::json;

/// A row for each trace: its file, the format that was recognised, and its statistics.
pub fn statistics_records(traces: &[(String, TraceFormat, TraceStatistics)]) -> Records {
    let row = |(file, format, statistics): &(String, TraceFormat, TraceStatistics)| json!({ "file": file, "format": format, "statistics": statistics });
    Records::of_json(&traces.iter().map(row).collect::<Vec<_>>())
}

/// One column a trace: its file, the format that was recognised, and its statistics.
pub fn statistics_table(traces: &[(String, TraceFormat, TraceStatistics)], screen: Screen) -> String {
    let of =
        |figure: &dyn Fn(&TraceStatistics) -> Option<f64>| traces.iter().map(|(_, _, s)| figure(s)).collect::<Vec<_>>();
    let whole = |value: f64| count(value as u64);
    let bulk = |part: fn(&Spread) -> f64| move |s: &TraceStatistics| s.nodes_lost_per_loss_event.as_ref().map(part);
    let up_time = |part: fn(&Spread) -> f64| move |s: &TraceStatistics| s.up_time_s.as_ref().map(part);
    let mut grid =
        Grid { corner: "trace", names: traces.iter().map(|(file, _, _)| file.clone()).collect(), rows: Vec::new() };
    grid.text_row("format", traces.iter().map(|(_, format, _)| format.to_string()).collect());
    grid.row("observed", Best::Neither, &of(&|s| Some(s.span_s)), format_seconds);
    grid.row("nodes, distinct", Best::Neither, &of(&|s| Some(s.node_count as f64)), whole);
    grid.row("most nodes up at once", Best::Neither, &of(&|s| Some(s.peak_nodes_up as f64)), whole);
    grid.row("mean availability", Best::Neither, &of(&|s| Some(s.mean_availability)), percent);
    grid.row("losses", Best::Neither, &of(&|s| Some(s.loss_count as f64)), whole);
    grid.row("losses per node-hour", Best::Neither, &of(&|s| Some(s.losses_per_node_hour)), figure);
    grid.row("loss events", Best::Neither, &of(&|s| Some(s.loss_event_count as f64)), whole);
    grid.row("nodes lost per event, mean", Best::Neither, &of(&bulk(|spread| spread.mean)), figure);
    grid.row("nodes lost per event, p90", Best::Neither, &of(&bulk(|spread| spread.p90)), figure);
    grid.row("nodes lost per event, max", Best::Neither, &of(&bulk(|spread| spread.max)), figure);
    grid.row("up-time, mean", Best::Neither, &of(&up_time(|spread| spread.mean)), format_seconds);
    grid.row("up-time, median", Best::Neither, &of(&up_time(|spread| spread.median)), format_seconds);
    grid.row("up-time, p90", Best::Neither, &of(&up_time(|spread| spread.p90)), format_seconds);
    grid.row("cv of time between losses", Best::Neither, &of(&|s| s.loss_interval_cv), figure);
    grid.row("losses without notice", Best::Neither, &of(&|s| Some(s.losses_without_notice as f64)), whole);
    grid.render(screen)
}
