//! One row of the table, cell by cell.

use crate::measured::MeasuredError;
use csv::StringRecord;
use std::collections::BTreeMap;

/// Where each column stands.
pub(super) struct Columns {
    places: BTreeMap<String, usize>,
}

/// A row and where it stands.
pub(super) struct Row<'a> {
    pub(super) path: &'a str,
    pub(super) line: u64,
    pub(super) columns: &'a Columns,
    pub(super) record: &'a StringRecord,
}

impl Columns {
    pub(super) fn new(header: &StringRecord) -> Self {
        Self { places: header.iter().enumerate().map(|(place, name)| (name.to_lowercase(), place)).collect() }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }
}

impl Row<'_> {
    /// The cell of a column, empty where the table has no such column.
    pub(super) fn text(&self, column: &str) -> &str {
        self.columns.places.get(column).and_then(|place| self.record.get(*place)).unwrap_or_default()
    }

    /// A whole number above zero, if there is something.
    pub(super) fn count(&self, column: &str) -> Result<Option<u32>, MeasuredError> {
        let text = self.text(column);
        if text.is_empty() {
            return Ok(None);
        }
        match text.parse::<u32>() {
            Ok(count) if (1..=1 << 30).contains(&count) => Ok(Some(count)),
            _ => Err(self.wrong(column, "a whole number above zero", "leave the cell empty where it isn't known")),
        }
    }

    /// A number, if there is something: not less than zero, `inf` for what never ended.
    pub(super) fn number(&self, column: &str) -> Result<Option<f64>, MeasuredError> {
        let text = self.text(column);
        if text.is_empty() {
            return Ok(None);
        }
        match text.parse::<f64>() {
            Ok(number) if number >= 0.0 && (number.is_infinite() || number <= 1e18) => Ok(Some(number)),
            _ => Err(self.wrong(column, "a number, or `inf`", "leave the cell empty where it isn't known")),
        }
    }

    /// The column's cell can't be.
    pub(super) fn wrong(&self, column: &str, expected: &str, hint: &str) -> MeasuredError {
        let text = self.text(column);
        let shown: String = text.chars().take(40).collect();
        let found = if shown.is_empty() { "empty".to_owned() } else { format!("`{shown}`") };
        MeasuredError::Value {
            path: self.path.into(),
            line: self.line,
            key: column.into(),
            found: found.into(),
            expected: expected.into(),
            hint: hint.into(),
        }
    }

    /// A figure of the row can't be.
    pub(super) fn wrong_value(&self, key: &str, found: &str, expected: &str) -> MeasuredError {
        MeasuredError::Value {
            path: self.path.into(),
            line: self.line,
            key: key.into(),
            found: found.into(),
            expected: expected.into(),
            hint: "leave the cell empty where it isn't known".into(),
        }
    }
}
