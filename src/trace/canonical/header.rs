//! The header of the canonical CSV: which cell holds what.

use crate::suggest::nearest;
use crate::trace::error::{TraceError, shown};
use crate::trace::rows::Row;

/// A column that a file may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::trace) enum Column {
    TimeSeconds,
    TimeCalendar,
    Event,
    Node,
    GpuType,
    GpuCount,
    Zone,
    Price,
    Notice,
}

/// Every column with its name, in the order in which they are written.
pub(in crate::trace) const COLUMNS: [(&str, Column); 9] = [
    ("time_s", Column::TimeSeconds),
    ("time", Column::TimeCalendar),
    ("event", Column::Event),
    ("node", Column::Node),
    ("gpu_type", Column::GpuType),
    ("gpu_count", Column::GpuCount),
    ("zone", Column::Zone),
    ("price_usd_per_hour", Column::Price),
    ("notice_s", Column::Notice),
];

/// Where each column stands in the rows of a file.
#[derive(Debug)]
pub(super) struct Header {
    positions: Vec<Column>,
}

impl Header {
    /// Understands the first row.
    pub fn parse(row: &Row, file: &str) -> Result<Self, TraceError> {
        let fault = |column: &str, problem: String, hint: String| TraceError::Header {
            file: file.to_owned(),
            line: row.line,
            column: shown(column),
            problem,
            hint,
        };
        let mut positions: Vec<Column> = Vec::with_capacity(row.cells.len());
        for cell in &row.cells {
            let Some(column) = named(cell) else {
                let hint = match nearest(&cell.to_lowercase(), COLUMNS.map(|(name, _)| name)) {
                    Some(name) => format!("`{name}` is near"),
                    None => "leave out what isn't listed".to_owned(),
                };
                let known = COLUMNS.map(|(name, _)| format!("`{name}`")).join(", ");
                return Err(fault(cell, format!("expected one of {known}, found an unknown column"), hint));
            };
            if positions.contains(&column) {
                return Err(fault(cell, "expected once, found twice".to_owned(), "leave one of them out".to_owned()));
            }
            positions.push(column);
        }
        let header = Self { positions };
        match (header.position(Column::TimeSeconds), header.position(Column::TimeCalendar)) {
            (Some(_), Some(_)) => {
                let problem = "expected `time_s` or `time`, found both".to_owned();
                return Err(fault("time", problem, "leave one of them out".to_owned()));
            }
            (None, None) => {
                let problem = "expected a column of times, found none".to_owned();
                let hint = "add `time_s` (seconds) or `time` (ISO 8601, like `2026-01-31T18:00:00Z`)".to_owned();
                return Err(fault("time_s", problem, hint));
            }
            _ => {}
        }
        for (name, column) in [("event", Column::Event), ("node", Column::Node)] {
            if header.position(column).is_none() {
                let problem = "expected this column, found none of that name".to_owned();
                return Err(fault(name, problem, "every row needs a time, an event and a node".to_owned()));
            }
        }
        Ok(header)
    }

    /// The number of columns.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether times are calendar times.
    pub fn is_calendar(&self) -> bool {
        self.position(Column::TimeCalendar).is_some()
    }

    /// The cell of `column` in `row`; empty where the row is short or the file lacks the column.
    pub fn cell<'r>(&self, row: &'r Row, column: Column) -> &'r str {
        self.position(column).and_then(|position| row.cells.get(position)).unwrap_or_default()
    }

    fn position(&self, column: Column) -> Option<usize> {
        self.positions.iter().position(|other| *other == column)
    }
}

/// The name of `column`.
pub(super) fn name_of(column: Column) -> &'static str {
    COLUMNS.iter().find(|(_, other)| *other == column).map_or("", |(name, _)| name)
}

/// The column called `cell`, in any letter case.
pub(super) fn named(cell: &str) -> Option<Column> {
    COLUMNS.iter().find(|(name, _)| name.eq_ignore_ascii_case(cell)).map(|(_, column)| *column)
}
