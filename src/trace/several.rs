//! Several traces at once, one for each GPU type or zone, on one clock.
//!
//! - **Clock.** Where all files have calendar times with a zone, or all without, what happened at one time stays at one time,
//!   and zero is when the last of them begins; otherwise, or where [`Align::Start`] asks for it, each begins at zero.
//! - **End.** The clock stops where the first of them ends: of what comes later one of them says nothing. A horizon stops it
//!   earlier or later, and then the nodes of files that have ended are taken to stay as they were, which is said.
//! - **Names.** Where two files have a node of one name, all names get a part before them that tells the files apart.

use super::calendar::Zero;
use super::source::TraceSource;
use super::window::horizon_note;
use super::{ReadOptions, Trace, TraceError, TraceEvent, TraceFormat, idle_options, read_file};
use crate::units::SimTime;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};

/// How the clocks of several traces are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Align {
    /// By the time of the calendar.
    Time,
    /// Each begins at zero.
    Start,
}

/// A file among several.
struct Part {
    source: TraceSource,
    trace: Trace,
    /// Where the zero of the common clock lies on its own.
    from: SimTime,
}

/// Reads one trace or several, which become one; see the module for how.
///
/// # Errors
///
/// As [`super::read_with`]; and where a file says other of its nodes than its [`TraceSource`], where an option means nothing
/// for any of the files, and where the files have no time in common.
pub fn read_all(sources: &[TraceSource], options: &ReadOptions) -> Result<Trace, TraceError> {
    if let [source] = sources {
        let trace = super::read_with(&source.path, &source.options(options))?;
        source.check(&trace)?;
        return Ok(trace);
    }
    let mut parts = Vec::with_capacity(sources.len());
    for source in sources {
        let own = ReadOptions { horizon: None, start: None, ..source.options(options) };
        let trace = read_file(&source.path, &own, false)?;
        source.check(&trace)?;
        parts.push(Part { source: source.clone(), trace, from: SimTime::ZERO });
    }
    check_idle(&parts, options)?;
    let mut trace = merge(parts, options)?;
    trace.zero = options.start.or(trace.zero);
    Ok(trace)
}

/// Refuses an option that means nothing for any of the files.
fn check_idle(parts: &[Part], options: &ReadOptions) -> Result<(), TraceError> {
    let Some(first) = parts.first() else { return Ok(()) };
    for (option, why) in idle_options(first.trace.format, options) {
        let is_idle = |part: &Part| idle_options(part.trace.format, options).iter().any(|(other, _)| *other == option);
        if parts.iter().all(is_idle) {
            let (file, format) = (first.source.path.display().to_string(), first.trace.format.to_string());
            return Err(TraceError::Option { file, option, format, why });
        }
    }
    Ok(())
}

fn merge(mut parts: Vec<Part>, options: &ReadOptions) -> Result<Trace, TraceError> {
    let (zero, clock) = set_clocks(&mut parts, options.align)?;
    let left = |part: &Part| part.trace.span.saturating_sub(part.from);
    let first_end = parts.iter().map(left).min().unwrap_or_default();
    if first_end == SimTime::ZERO && zero.is_some() {
        return Err(apart(&parts));
    }
    let end = options.horizon.unwrap_or(first_end);
    let mut notes = vec![clock];
    for part in &mut parts {
        let file = part.source.path.display().to_string();
        notes.extend(part.trace.notes.drain(..).map(|note| format!("{file}: {note}")));
        let events = part.trace.window(part.from, SimTime(part.trace.span.0.max(part.from.0)));
        part.trace = Trace { span: part.trace.span.saturating_sub(part.from), events, ..part.trace.clone() };
        let note = match options.horizon {
            Some(horizon) => horizon_note(&part.trace, horizon),
            None => cut_note(&part.trace, end),
        };
        notes.extend(note.map(|note| format!("{file}: {note}")));
    }
    let renamed = tell_apart(&mut parts);
    notes.extend(renamed);
    let mut events: Vec<TraceEvent> = parts.into_iter().flat_map(|part| part.trace.events).collect();
    events.retain(|event| event.time <= end);
    events.sort_by_key(|event| event.time);
    let mut trace = Trace { format: TraceFormat::Canonical, events, span: end, zero, notes: Vec::new() };
    trace.notes.push(trace.in_a_sentence("all of them together"));
    trace.notes.extend(notes);
    Ok(trace)
}

/// Finds where zero lies on each clock; the time that it stands for, and what to say of it.
fn set_clocks(parts: &mut [Part], asked: Option<Align>) -> Result<(Option<Zero>, String), TraceError> {
    let zeros: Option<Vec<Zero>> = parts.iter().map(|part| part.trace.zero).collect();
    let alike = zeros.filter(|zeros| zeros.windows(2).all(|pair| pair[0].has_zone() == pair[1].has_zone()));
    match (asked, alike) {
        (Some(Align::Start), _) => Ok((None, "clocks: each trace begins at zero, as `--align start` says".to_owned())),
        (_, Some(zeros)) => {
            let latest = zeros.into_iter().max().expect("there are several");
            for part in parts.iter_mut() {
                let zero = part.trace.zero.expect("all have one");
                part.from = latest.since(zero);
                if part.from > part.trace.span {
                    return Err(apart(parts));
                }
            }
            let zone = if latest.has_zone() { "" } else { " of clocks without a zone, taken for one and the same" };
            Ok((
                Some(latest),
                format!(
                    "clocks: set by the time of the calendar{zone}; zero is {latest}, when the last of them begins"
                ),
            ))
        }
        (Some(Align::Time), None) => {
            let without = parts.iter().find(|part| part.trace.zero.is_none_or(|zero| !zero.has_zone()));
            let file = without.map_or_else(String::new, |part| part.source.path.display().to_string());
            Err(TraceError::NoCalendar { file })
        }
        (None, None) => {
            let why = "not all have times of the calendar";
            Ok((None, format!("clocks: each trace begins at zero, because {why}")))
        }
    }
}

/// The error that two files have no time in common.
fn apart(parts: &[Part]) -> TraceError {
    let stretch = |part: &Part| {
        let file = part.source.path.display();
        part.trace
            .zero
            .map_or_else(|| format!("`{file}`"), |zero| format!("`{file}` {} from {zero} on", part.trace.span))
    };
    TraceError::Apart { files: parts.iter().map(stretch).collect::<Vec<_>>().join(", ") }
}

/// What the end of another trace leaves out of this one.
fn cut_note(trace: &Trace, end: SimTime) -> Option<String> {
    let left_out = trace.events.iter().filter(|event| event.time > end).count();
    (trace.span > end).then(|| {
        format!(
            "it goes on to {}, but the first of the traces ends at {end}: {left_out} events are left out (`--horizon` says \
             otherwise)",
            trace.span
        )
    })
}

/// Names that two files have get a part before them; what to say of it.
fn tell_apart(parts: &mut [Part]) -> Option<String> {
    let mut owner: HashMap<&str, usize> = HashMap::new();
    let mut is_shared = |name, index| *owner.entry(name).or_insert(index) != index;
    let shared = parts.iter().enumerate().find_map(|(index, part)| {
        part.trace.events.iter().find(|event| is_shared(event.node.as_str(), index)).map(|event| event.node.clone())
    })?;
    let mut labels: Vec<String> = parts.iter().map(|part| part.source.label()).collect();
    let distinct: BTreeSet<&String> = labels.iter().collect();
    if distinct.len() < labels.len() || labels.iter().any(|label| label.is_empty() || label.contains('/')) {
        labels = (1..=parts.len()).map(|number| number.to_string()).collect();
    }
    for (part, label) in parts.iter_mut().zip(&labels) {
        for event in &mut part.trace.events {
            event.node = format!("{label}/{}", event.node);
        }
    }
    let told =
        parts.iter().zip(&labels).map(|(part, label)| format!("`{label}/…` in `{}`", part.source.path.display()));
    Some(format!("several files have a node `{shared}`: nodes are called {}", told.collect::<Vec<_>>().join(", ")))
}

#[cfg(test)]
mod tests;
