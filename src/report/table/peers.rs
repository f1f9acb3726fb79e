//! Settings with a peer's figure and ours, one a row.

use super::Screen;
use super::grid::{align_right, empty_table, trimmed};
use comfy_table::ContentArrangement;

pub(in crate::report) fn peer_rows(rows: impl Iterator<Item = [String; 7]>, screen: Screen) -> String {
    let mut table = empty_table(screen);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(screen.width);
    table.set_header(["setting", "iterations/s\nof the peer", "ours", "ratio", "GPUs", "micro\nbatch", "plan"]);
    for row in rows {
        table.add_row(row);
    }
    align_right(&mut table, [1, 2, 3, 4, 5]);
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    trimmed(&table)
}
