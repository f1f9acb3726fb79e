//! Rows of a sweep: what each run was asked and what came of it, as CSV, as JSON lines, against a baseline and as a chart.

mod chart;
mod colors;
mod gate;
mod junit;
mod lines;
mod print;
mod read;

pub use chart::{SweepChart, sweep_svg};
pub use gate::{Change, GateOutcome, Tolerance, compare_with_baseline};
pub use junit::gate_junit;
pub(super) use print::gate_verdict;
pub use print::{gate_markdown, gate_text, sweep_markdown, sweep_table};
pub use read::{Baseline, SweepTableError};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::cmp::Ordering;

/// How a run of a sweep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SweepStatus {
    /// With figures.
    Ok,
    /// Nothing fits, or nothing was trained: an answer too.
    Infeasible,
    /// It couldn't be done.
    Error,
}

impl SweepStatus {
    /// As it stands in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Infeasible => "infeasible",
            Self::Error => "error",
        }
    }
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepOutcome {
    /// How it ended.
    pub status: SweepStatus,
    /// Why it has no figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The figures by name; numbers and short texts.
    #[serde(default)]
    pub figures: Map<String, Value>,
}

impl SweepOutcome {
    /// A run without figures, and why.
    pub fn without_figures(status: SweepStatus, reason: impl Into<String>) -> Self {
        Self { status, reason: Some(reason.into()), figures: Map::new() }
    }
}

/// One run: the values of its axes, and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepRow {
    /// In the order of [`SweepTable::axes`].
    pub key: Vec<Value>,
    /// What came of it.
    pub outcome: SweepOutcome,
}

/// What is better in a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More of it.
    Higher,
    /// Less of it.
    Lower,
    /// It says nothing about good and bad.
    Neither,
}

/// Figures of plans, in the order of their columns.
const PLAN_FIGURES: [&str; 14] = [
    "tokens_per_s",
    "iteration_s",
    "usd_per_hour",
    "usd_per_million_tokens",
    "gpus",
    "gpus_used",
    "replicas",
    "stages",
    "tensor_parallel",
    "micro_batch_size",
    "recompute",
    "schedule",
    "lower_bound_s",
    "gap",
];

/// Figures of replays.
const REPLAY_FIGURES: [&str; 12] = [
    "tokens_per_s",
    "goodput_share",
    "iterations",
    "iterations_rolled_back",
    "recoveries",
    "recovery_s_mean",
    "lost_work_share",
    "waiting_share",
    "gpu_hours",
    "usd",
    "usd_per_million_tokens",
    "plans",
];

/// What the runs of a sweep do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SweepKind {
    /// Each plans a job on a cluster.
    Plans,
    /// Each replays a trace under a policy.
    Replays,
}

impl SweepKind {
    /// The figures of its rows, in the order of their columns.
    pub fn figures(self) -> &'static [&'static str] {
        match self {
            Self::Plans => &PLAN_FIGURES,
            Self::Replays => &REPLAY_FIGURES,
        }
    }
}

/// What is better in a figure of this name.
pub fn better(figure: &str) -> Better {
    match figure {
        "tokens_per_s" | "goodput_share" => Better::Higher,
        "usd_per_million_tokens" => Better::Lower,
        _ => Better::Neither,
    }
}

/// Rows of one sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepTable {
    /// What the runs do.
    pub kind: SweepKind,
    /// Names of the axes: columns that tell runs apart.
    pub axes: Vec<String>,
    /// The rows, sorted by key.
    pub rows: Vec<SweepRow>,
}

impl SweepTable {
    /// A table with its rows in the order of their keys, in whatever order they came.
    pub fn new(kind: SweepKind, axes: Vec<String>, mut rows: Vec<SweepRow>) -> Self {
        rows.sort_by(|a, b| compare_keys(&a.key, &b.key));
        Self { kind, axes, rows }
    }

    /// How many rows ended so.
    pub fn count(&self, status: SweepStatus) -> usize {
        self.rows.iter().filter(|row| row.outcome.status == status).count()
    }

    /// One line of JSON for a row, without its end.
    pub fn json_line(axes: &[String], row: &SweepRow) -> String {
        let mut line: Map<String, Value> = axes.iter().cloned().zip(row.key.iter().cloned()).collect();
        line.insert("status".into(), row.outcome.status.name().into());
        if let Some(reason) = &row.outcome.reason {
            line.insert("reason".into(), reason.as_str().into());
        }
        line.extend(row.outcome.figures.iter().map(|(name, value)| (name.clone(), value.clone())));
        Value::Object(line).to_string()
    }

    /// All rows as JSON lines.
    pub fn json_lines(&self) -> String {
        self.rows.iter().map(|row| Self::json_line(&self.axes, row) + "\n").collect()
    }

    /// The row that a line of JSON holds.
    pub fn row_of_line(axes: &[String], line: &str) -> Option<SweepRow> {
        let mut line: Map<String, Value> = serde_json::from_str(line).ok()?;
        let key = axes.iter().map(|axis| line.shift_remove(axis)).collect::<Option<Vec<Value>>>()?;
        let status = serde_json::from_value(line.shift_remove("status")?).ok()?;
        let reason = match line.shift_remove("reason") {
            None => None,
            Some(Value::String(reason)) => Some(reason),
            Some(_) => return None,
        };
        Some(SweepRow { key, outcome: SweepOutcome { status, reason, figures: line } })
    }

    /// All rows as CSV, with the axes first.
    pub fn csv(&self) -> String {
        let figures: Vec<&str> = self.figures().collect();
        let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_writer(Vec::new());
        let written = "writing to memory doesn't fail";
        let axes = self.axes.iter().map(String::as_str);
        writer.write_record(axes.chain(["status", "reason"]).chain(figures.iter().copied())).expect(written);
        for SweepRow { key, outcome } in &self.rows {
            let reason = outcome.reason.as_deref().unwrap_or_default();
            let ends = [outcome.status.name().to_owned(), reason.lines().next().unwrap_or_default().to_owned()];
            let figures = figures.iter().map(|name| outcome.figures.get(*name).map_or_else(String::new, cell));
            writer.write_record(key.iter().map(cell).chain(ends).chain(figures)).expect(written);
        }
        String::from_utf8(writer.into_inner().expect(written)).expect("all cells are text")
    }

    /// The figures that some row has.
    pub fn figures(&self) -> impl Iterator<Item = &'static str> {
        let is_there = |name: &str| self.rows.iter().any(|row| row.outcome.figures.contains_key(name));
        self.kind.figures().iter().copied().filter(move |name| is_there(name))
    }
}

/// A value as it stands in a cell: text as it is, nothing for nothing.
pub(in crate::report) fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// The same for people: `fixed seconds 1800` for `{"fixed":{"seconds":1800}}`.
pub(in crate::report) fn said(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name} {}", said(value))).collect();
            fields.join(", ").replace('_', " ")
        }
        value => cell(value),
    }
}

/// Numbers by size, before texts by their letters, before all else.
pub fn compare_keys(a: &[Value], b: &[Value]) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        _ => 2,
    };
    let compare = |(a, b): (&Value, &Value)| match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a.as_f64().unwrap_or(f64::NAN).total_cmp(&b.as_f64().unwrap_or(f64::NAN))
        }
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (a, b) => rank(a).cmp(&rank(b)).then_with(|| a.to_string().cmp(&b.to_string())),
    };
    let unequal = a.iter().zip(b).map(compare).find(|order| order.is_ne());
    unequal.unwrap_or_else(|| a.len().cmp(&b.len()))
}

/// A figure to seven digits: enough to tell results apart, too few for the last bits in which C libraries differ.
pub fn rounded(value: f64) -> Value {
    if !value.is_finite() {
        return Value::Null;
    }
    let text = format!("{value:.6e}");
    text.parse::<f64>().map_or(Value::Null, |rounded| {
        if rounded.fract() == 0.0 && rounded.abs() < 1e15 { (rounded as i64).into() } else { rounded.into() }
    })
}

#[cfg(test)]
pub(super) mod tests;
