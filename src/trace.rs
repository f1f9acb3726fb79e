//! Availability traces: when spot nodes come, are warned, and go.
//!
//! A trace is a list of [`TraceEvent`]s in order of time. [`read`] recognises the format of a file by its content, never by
//! its name; each format has a file of its own and is reached through [`TraceFormat`]. Every reader checks that the story
//! holds together (nobody leaves who hasn't come), and says in [`Trace::notes`] what it understood. Where a file alone
//! leaves something open, [`ReadOptions`] tell it.
//!
//! [`generator`] makes traces that look like real ones, [`TraceStatistics`] measures either kind, and [`write_canonical`]
//! writes them for a next run.

mod azure;
mod bamboo;
mod calendar;
mod canonical;
mod cells;
mod cluster_events;
mod counts;
pub mod durations;
mod error;
mod eventbridge;
pub mod fits;
mod gcp_audit;
mod gcp_counts;
pub mod generator;
mod json;
mod levels;
mod membership;
mod options;
mod ping;
pub mod prices;
mod prometheus;
mod recognise;
mod rows;
mod sailor_csv;
mod sailor_levels;
mod several;
mod sightings;
mod skypilot;
mod slurm;
mod source;
mod spot_requests;
pub mod statistics;
mod window;
mod writer;

pub use calendar::Zero;
pub use cluster_events::{NodeEvent, NodeEventKind, OfferDefaults, OfferError};
pub use error::TraceError;
pub use options::{Polarity, ReadOptions, TimeUnit, UnknownWord, WhichNode};
pub use recognise::TraceFormat;
pub use several::{Align, read_all};
pub use source::TraceSource;
pub use statistics::TraceStatistics;
pub use writer::write_canonical;

use crate::units::SimTime;
use json::Document;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What happened to a set of nodes, from the file's own zero to its last row.
///
/// ```
/// use autohet::trace::{TraceEventKind, parse};
/// let trace = parse("time_s,event,node,gpu_type\n0,up,a,T4\n60,notice,a,\n180,down,a,\n", "example").unwrap();
/// assert_eq!(trace.span.as_seconds(), 180.0);
/// assert!(matches!(trace.events[1].kind, TraceEventKind::Notice { notice } if notice.as_seconds() == 120.0));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// The format that was recognised.
    pub format: TraceFormat,
    /// In order of time; events of one time keep the order of the file.
    pub events: Vec<TraceEvent>,
    /// The time of the last row. The trace is censored there: of later times it says nothing, least of all that the nodes
    /// of its last row stay up.
    pub span: SimTime,
    /// What time its zero stands for, where the file has calendar times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero: Option<Zero>,
    /// What was understood, repaired or dropped, one sentence each, for stderr.
    pub notes: Vec<String>,
}

/// One change of one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceEvent {
    /// When, from the file's own zero (or from the first row where the file has calendar times).
    pub time: SimTime,
    /// The node's name. A name that comes up again after it went down is a new, empty node in the same slot.
    pub node: String,
    /// What happened.
    pub kind: TraceEventKind,
}

/// What happens to a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceEventKind {
    /// The node is there from now on, with nothing on its disk.
    Up(NodeOffer),
    /// The provider says that it will take the node.
    Notice {
        /// The time from this event until the announced loss.
        notice: SimTime,
    },
    /// The provider takes that back: the node stays.
    Cancelled,
    /// The node is gone.
    Down,
}

/// What a trace says of a node that comes; whatever it leaves open is for the cluster to fill in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeOffer {
    /// The GPU's name as the trace spells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_type: Option<String>,
    /// GPUs in the node, at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_count: Option<u32>,
    /// The availability zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The price of the whole node, zero or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_usd_per_hour: Option<f64>,
}

/// Reads a trace file of any known format.
///
/// # Errors
///
/// [`TraceError`] names the file, the line and the column, what was expected and what was found.
pub fn read(path: &Path) -> Result<Trace, TraceError> {
    read_with(path, &ReadOptions::default())
}

/// Reads a trace file of which `options` say more than its content does.
///
/// # Errors
///
/// As [`read`]; and where an option means nothing for the format.
pub fn read_with(path: &Path, options: &ReadOptions) -> Result<Trace, TraceError> {
    read_file(path, options, true)
}

/// The same; options that mean nothing for the format are refused, or left for whoever has further files.
fn read_file(path: &Path, options: &ReadOptions, is_strict: bool) -> Result<Trace, TraceError> {
    let name = path.display().to_string();
    let bytes = crate::input::read_bytes(path, crate::input::MOST_TRACE_BYTES)
        .map_err(|source| TraceError::Read { file: name.clone(), source })?;
    parse_bytes(&bytes, &name, options, is_strict)
}

fn parse_bytes(bytes: &[u8], name: &str, options: &ReadOptions, is_strict: bool) -> Result<Trace, TraceError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => parse_text(text, name, options, is_strict),
        Err(error) => Err(TraceError::not_utf8(name, bytes, error.valid_up_to())),
    }
}

/// Reads a trace from text; `name` stands for the file in messages.
///
/// # Errors
///
/// As [`read`].
pub fn parse(text: &str, name: &str) -> Result<Trace, TraceError> {
    parse_with(text, name, &ReadOptions::default())
}

/// Reads a trace from text, of which `options` say more than its content does.
///
/// ```
/// use autohet::trace::{Polarity, ReadOptions, TraceStatistics, parse_with};
/// let text = "{\"metadata\": {\"gap_seconds\": 600}, \"data\": [0, 1, 0, 0, 0]}";
/// let options = ReadOptions { polarity: Some(Polarity::Preempted), ..ReadOptions::default() };
/// let trace = parse_with(text, "example", &options).unwrap();
/// assert_eq!(TraceStatistics::of(&trace).mean_availability, 0.75);
/// ```
///
/// # Errors
///
/// As [`read_with`].
pub fn parse_with(text: &str, name: &str, options: &ReadOptions) -> Result<Trace, TraceError> {
    parse_text(text, name, options, true)
}

fn parse_text(text: &str, name: &str, options: &ReadOptions, is_strict: bool) -> Result<Trace, TraceError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    recognise::check_is_text(text, name)?;
    let (format, document) = match options.format {
        None => recognise::recognise(text, name)?,
        Some(format) if format.is_json() => (format, Some(Document::parse(text, name)?)),
        Some(format) => (format, None),
    };
    if let Some((option, why)) = idle_options(format, options).into_iter().next().filter(|_| is_strict) {
        return Err(TraceError::Option { file: name.to_owned(), option, format: format.to_string(), why });
    }
    let mut trace = match (format, &document) {
        (_, Some(document)) => parse_json(format, document, name, options),
        (TraceFormat::BambooEvents, _) => bamboo::parse(text, name, options),
        (TraceFormat::ParcaeCounts | TraceFormat::StepCounts, _) => counts::parse(text, name, format, options),
        (TraceFormat::GcpCounts, _) => gcp_counts::parse(text, name, options),
        (TraceFormat::PingFailures, _) => ping::parse(text, name, options),
        (TraceFormat::SailorCsv, _) => sailor_csv::parse(text, name, options),
        (TraceFormat::SlurmJobs, _) => slurm::jobs::parse(text, name),
        (TraceFormat::SlurmEvents, _) => slurm::events::parse(text, name),
        _ => canonical::parse(text, name),
    }?;
    trace.fill(options);
    if let Some(horizon) = options.horizon {
        trace.end_at(horizon);
    }
    trace.zero = options.start.or(trace.zero);
    Ok(trace)
}

fn parse_json(
    format: TraceFormat,
    document: &Document,
    name: &str,
    options: &ReadOptions,
) -> Result<Trace, TraceError> {
    match format {
        TraceFormat::SailorLevels => sailor_levels::parse(document, name, options),
        TraceFormat::SkyPilot => skypilot::parse(document, name, options),
        TraceFormat::SpotRequests => spot_requests::parse(document, name),
        TraceFormat::GcpAuditLog => gcp_audit::parse(document, name),
        TraceFormat::AzureScheduledEvents => azure::parse(document, name),
        TraceFormat::PrometheusRange => prometheus::parse(document, name),
        _ => eventbridge::parse(document, name),
    }
}

/// The options that would change nothing, and why: whoever gives one expects that it does.
fn idle_options(format: TraceFormat, options: &ReadOptions) -> Vec<(&'static str, &'static str)> {
    let given = [
        (
            "--time-unit",
            options.time_unit.is_some() && !format.has_bare_times(),
            "whose times have a unit of their own",
        ),
        (
            "--polarity",
            options.polarity.is_some() && !format.has_counts(),
            "which says which nodes come and go, not how many are up",
        ),
        ("--which-node", options.which_node.is_some() && !format.has_counts(), "which names the nodes that go"),
    ];
    given.into_iter().filter(|(_, is_idle, _)| *is_idle).map(|(option, _, why)| (option, why)).collect()
}

impl Trace {
    /// Fills in what the file leaves open of its nodes.
    fn fill(&mut self, options: &ReadOptions) {
        for event in &mut self.events {
            if let TraceEventKind::Up(offer) = &mut event.kind {
                offer.gpu_type = offer.gpu_type.take().or_else(|| options.gpu_type.clone());
                offer.gpu_count = offer.gpu_count.or(options.gpus_per_node);
                offer.zone = offer.zone.take().or_else(|| options.zone.clone());
            }
        }
    }

    /// Sorts the events (stably), and puts a summary of them before the notes. `unit` says what the times were taken for.
    fn assemble(
        format: TraceFormat,
        unit: &str,
        mut events: Vec<TraceEvent>,
        span: SimTime,
        notes: Vec<String>,
    ) -> Self {
        events.sort_by_key(|event| event.time);
        let mut trace = Self { format, events, span, zero: None, notes: Vec::new() };
        trace.notes.push(trace.in_a_sentence(&format!("{format}, times in {unit}")));
        trace.notes.extend(notes);
        trace
    }

    /// The same trace, whose zero stands for this time.
    fn starting(self, zero: Option<Zero>) -> Self {
        Self { zero, ..self }
    }

    /// What it is, in a sentence that begins with `what`.
    fn in_a_sentence(&self, what: &str) -> String {
        let statistics = TraceStatistics::of(self);
        format!(
            "{what}: {} nodes, {} at most up at once, observed for {}, mean availability {:.2}",
            statistics.node_count,
            statistics.peak_nodes_up,
            crate::units::format_seconds(statistics.span_s),
            statistics.mean_availability,
        )
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
