//! Errors of predictions, a source a row.

use super::Screen;
use super::grid::{align_right, empty_table, trimmed};
use comfy_table::ContentArrangement;

/// Headings of the columns.
pub(in crate::report) const ERROR_COLUMNS: [&str; 9] =
    ["source", "what", "runs", "MAPE", "median", "90 %", "largest", "bias", "rank corr."];

pub(in crate::report) fn error_rows(rows: impl Iterator<Item = [String; 9]>, screen: Screen) -> String {
    let mut table = empty_table(screen);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(screen.width);
    table.set_header(ERROR_COLUMNS);
    for row in rows {
        table.add_row(row);
    }
    align_right(&mut table, 2..9);
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    trimmed(&table)
}
