//! Slurm's accounting: tables with `|` between the columns, as `--parsable2` prints them.
//!
//! Times are local and have no zone; they are taken as they stand, so a clock that is put forward or back isn't known of.
//! `Unknown` stands for an end that has not come.

pub(super) mod events;
pub(super) mod jobs;
mod node_list;

use super::Trace;
use super::calendar::{Zero, stamp};
use super::cells::Place;
use super::error::TraceError;
use jiff::Timestamp;

/// What Slurm writes for a time, or a list of nodes, that isn't there.
const NONE: [&str; 6] = ["", "unknown", "none", "n/a", "none assigned", "(null)"];

/// A table with its header.
struct Table<'a> {
    file: &'a str,
    header: Vec<&'a str>,
    rows: Vec<(u64, Vec<&'a str>)>,
}

/// Whether a line is the header of a table with all of these columns.
fn has_columns(line: &str, columns: &[&str]) -> bool {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    columns.iter().all(|column| cells.iter().any(|cell| cell.eq_ignore_ascii_case(column)))
}

impl<'a> Table<'a> {
    fn parse(text: &'a str, file: &'a str, columns: &[&str]) -> Result<Self, TraceError> {
        let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let empty = || TraceError::Empty { file: file.to_owned() };
        let (line, header) = lines.next().ok_or_else(empty)?;
        let header: Vec<&str> = header.split('|').map(str::trim).collect();
        if let Some(missing) =
            columns.iter().find(|column| !header.iter().any(|cell| cell.eq_ignore_ascii_case(column)))
        {
            return Err(TraceError::Header {
                file: file.to_owned(),
                line,
                column: (*missing).to_owned(),
                problem: "expected this column, found none of that name".to_owned(),
                hint: format!("print {} with `--parsable2`", columns.join(", ")),
            });
        }
        let rows: Vec<_> = lines.map(|(line, row)| (line, row.split('|').map(str::trim).collect())).collect();
        match rows.iter().find(|(_, cells): &&(u64, Vec<&str>)| cells.len() > header.len()) {
            Some((line, cells)) => {
                let (file, line) = (file.to_owned(), *line);
                Err(TraceError::TooManyCells { file, line, expected: header.len(), found: cells.len() })
            }
            None if rows.is_empty() => Err(empty()),
            None => Ok(Self { file, header, rows }),
        }
    }

    /// The cell of `column`, empty where there is none, with its place.
    fn cell(&self, row: &(u64, Vec<&'a str>), column: &'static str) -> (Place<'a>, &'a str) {
        let position = self.header.iter().position(|cell| cell.eq_ignore_ascii_case(column));
        let cell = position.and_then(|position| row.1.get(position)).copied().unwrap_or_default();
        (Place { file: self.file, line: row.0, column }, cell)
    }

    /// A time, or nothing where Slurm knows none.
    fn time(&self, row: &(u64, Vec<&'a str>), column: &'static str) -> Result<Option<Timestamp>, TraceError> {
        let (place, cell) = self.cell(row, column);
        if is_none(cell) {
            return Ok(None);
        }
        let hint = "`Unknown` stands for a time that has not come; unset SLURM_TIME_FORMAT";
        let wrong = |_| place.wrong("a time like `2026-01-31T18:00:00`", cell, hint);
        stamp(place, cell).map(|(time, _)| Some(time)).map_err(wrong)
    }
}

fn is_none(cell: &str) -> bool {
    NONE.iter().any(|none| none.eq_ignore_ascii_case(cell))
}

/// The trace, whose zero is a local time.
fn without_zone(trace: Trace) -> Trace {
    let zero = trace.zero.map(|zero| Zero::new(zero.timestamp(), false));
    trace.starting(zero)
}

/// A stretch of time, perhaps without an end yet.
type Stretch = (Timestamp, Option<Timestamp>);

/// The union of stretches; those that only touch become one if `joins_touching`.
fn union(mut stretches: Vec<Stretch>, joins_touching: bool) -> Vec<Stretch> {
    stretches.sort();
    let mut joined: Vec<Stretch> = Vec::new();
    for (start, end) in stretches {
        match joined.last_mut() {
            Some((_, None)) => {}
            Some((_, Some(last))) if start < *last || (joins_touching && start == *last) => match end {
                Some(end) => *last = end.max(*last),
                None => joined.last_mut().expect("there is a last one").1 = None,
            },
            _ => joined.push((start, end)),
        }
    }
    joined
}
