//! A sweep's CSV, read back to compare with.

use super::{Better, better, cell};
use super::{SweepStatus, SweepTable};
use serde_json::Value;
use std::collections::BTreeMap;

/// Why a baseline can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepTableError {
    /// It isn't the CSV of a sweep.
    #[error("`{file}` line {line}: {problem}\nhint: a baseline is the `rows.csv` of an earlier sweep")]
    NotASweep {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// What was expected and found.
        problem: String,
    },
    /// It is one of other axes.
    #[error(
        "`{file}` has the axes {theirs}, the sweep has {ours}\nhint: name the baseline of this sweep, or make it anew from its `rows.csv`"
    )]
    OtherAxes {
        /// The file.
        file: String,
        /// The axes in it.
        theirs: String,
        /// Those that are swept.
        ours: String,
    },
}

/// One row of a baseline.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BaselineRow {
    pub(super) status: SweepStatus,
    /// The figures that are numbers.
    pub(super) figures: BTreeMap<String, f64>,
}

/// Rows of an earlier sweep, by key as it stands in the cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Baseline {
    pub(super) rows: BTreeMap<Vec<String>, BaselineRow>,
}

impl Baseline {
    /// Reads the text of `file`, which must have the axes of `axes`, in their order.
    pub fn parse(text: &str, file: &str, axes: &[String]) -> Result<Self, SweepTableError> {
        let refused = |line: u64, problem: String| SweepTableError::NotASweep { file: file.to_owned(), line, problem };
        let mut reader = csv::ReaderBuilder::new().from_reader(text.as_bytes());
        let header = reader.headers().map_err(|error| refused(1, error.to_string()))?.clone();
        let Some(at) = header.iter().position(|name| name == "status") else {
            return Err(refused(1, "no column `status`".to_owned()));
        };
        let theirs: Vec<&str> = header.iter().take(at).collect();
        if theirs != axes.iter().map(String::as_str).collect::<Vec<_>>() {
            let [theirs, ours] = [theirs.join(", "), axes.join(", ")].map(|names| format!("`{names}`"));
            return Err(SweepTableError::OtherAxes { file: file.to_owned(), theirs, ours });
        }
        let mut rows = BTreeMap::new();
        for (number, record) in (2..).zip(reader.records()) {
            let record = record.map_err(|error| refused(number, error.to_string()))?;
            let key: Vec<String> = record.iter().take(at).map(str::to_owned).collect();
            let status = record.get(at).unwrap_or_default();
            let status = serde_json::from_value(Value::String(status.to_owned())).map_err(|_| {
                refused(number, format!("`status` is `{status}`, expected `ok`, `infeasible` or `error`"))
            })?;
            let figures =
                header.iter().zip(record.iter()).skip(at + 1).filter(|(name, _)| better(name) != Better::Neither);
            let figures: BTreeMap<String, f64> = figures
                .filter(|(_, text)| !text.is_empty())
                .map(figure)
                .collect::<Result<_, _>>()
                .map_err(|problem| refused(number, problem))?;
            if status == SweepStatus::Ok && figures.is_empty() {
                return Err(refused(number, "the row is `ok` and has no figure to compare with".to_owned()));
            }
            if rows.insert(key, BaselineRow { status, figures }).is_some() {
                return Err(refused(number, "the row is there twice".to_owned()));
            }
        }
        if rows.is_empty() {
            return Err(refused(1, "no row".to_owned()));
        }
        Ok(Self { rows })
    }
}

/// Reads a figure.
fn figure((name, text): (&str, &str)) -> Result<(String, f64), String> {
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
    value.map(|value| (name.to_owned(), value)).ok_or_else(|| format!("`{name}` is `{text}`, expected a number"))
}

impl SweepTable {
    /// The key of a row as a baseline has it.
    pub(super) fn cells(key: &[Value]) -> Vec<String> {
        key.iter().map(cell).collect()
    }
}
