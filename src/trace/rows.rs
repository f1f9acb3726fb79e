//! Rows of a comma-separated text, each with the line that it stands on.

use super::error::TraceError;
use csv::{ReaderBuilder, StringRecord, Trim};

/// One row with content.
pub(super) struct Row {
    /// The line it starts on, from 1.
    pub line: u64,
    /// Its cells, without surrounding blanks.
    pub cells: StringRecord,
}

/// The rows of `text`, without empty lines and lines that start with `#`.
pub(super) fn rows(text: &str, name: &str) -> Result<Vec<Row>, TraceError> {
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .comment(Some(b'#'))
        .trim(Trim::All)
        .from_reader(text.as_bytes());
    let mut rows = Vec::new();
    let mut lines = LineCounter { text, offset: 0, line: 1 };
    for record in reader.records() {
        let cells = record.map_err(|error| TraceError::Read { file: name.to_owned(), source: error.into() })?;
        let start = cells.position().map_or(0, |position| position.byte() as usize);
        if cells.iter().any(|cell| !cell.is_empty()) {
            rows.push(Row { line: lines.of_content_at(start), cells });
        }
    }
    Ok(rows)
}

/// Counts lines up to growing offsets.
struct LineCounter<'a> {
    text: &'a str,
    offset: usize,
    line: u64,
}

impl LineCounter<'_> {
    /// The line of the first content at or after `start`: the reader's own positions lie before the comments and empty
    /// lines that it skips.
    fn of_content_at(&mut self, start: usize) -> u64 {
        let mut rest = self.text.get(start..).unwrap_or_default();
        loop {
            let unbroken = rest.trim_start_matches(['\r', '\n']);
            if !unbroken.starts_with('#') {
                rest = unbroken;
                break;
            }
            rest = unbroken.find('\n').map_or("", |end| &unbroken[end..]);
        }
        let offset = self.text.len() - rest.len();
        self.line += self.text[self.offset..offset].matches('\n').count() as u64;
        self.offset = offset;
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<(u64, Vec<String>)> {
        let rows = rows(text, "t").unwrap();
        rows.iter().map(|row| (row.line, row.cells.iter().map(str::to_owned).collect())).collect()
    }

    #[test]
    fn lines_count_comments_and_blanks() {
        for end in ["\n", "\r\n"] {
            let text = ["a,b", "# c", "", "d, e ", "", "# f", "# g", "\"h,i\",j", "k"].join(end);
            let expected = [(1, vec!["a", "b"]), (4, vec!["d", "e"]), (8, vec!["h,i", "j"]), (9, vec!["k"])];
            let expected: Vec<_> =
                expected.map(|(line, cells)| (line, cells.into_iter().map(str::to_owned).collect())).into();
            assert_eq!(lines(&text), expected);
        }
    }

    #[test]
    fn rows_of_empty_cells_are_no_rows() {
        assert_eq!(lines("a\n,,\n   \nb\n"), [(1, vec!["a".to_owned()]), (4, vec!["b".to_owned()])]);
    }
}
