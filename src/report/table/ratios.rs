//! Rows of cases with their ratios.

use super::Screen;
use super::grid::{align_right, empty_table, trimmed};
use comfy_table::ContentArrangement;

/// A table whose first column has names and whose others have numbers.
pub(in crate::report) fn ratio_table(header: &[&str], rows: &[Vec<String>], screen: Screen) -> String {
    table_with((1, 1), header, rows, screen)
}

/// The same with as little space between columns as can be.
pub(in crate::report) fn narrow_table(header: &[&str], rows: &[Vec<String>], screen: Screen) -> String {
    table_with((0, 1), header, rows, screen)
}

fn table_with(padding: (u16, u16), header: &[&str], rows: &[Vec<String>], screen: Screen) -> String {
    let mut table = empty_table(screen);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(screen.width);
    table.set_header(header);
    for row in rows {
        table.add_row(row);
    }
    align_right(&mut table, 1..header.len());
    for column in table.column_iter_mut() {
        column.set_padding(padding);
    }
    trimmed(&table) + "\n"
}
