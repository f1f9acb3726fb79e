//! Tables whose columns are the things compared and whose rows are their figures: that keeps full words for the figures,
//! and as many things side by side as fit.

use super::Screen;
use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, LineStyle, Row, Table, TableStyle};
use std::fmt::Write as _;

/// Lines above, below and under the header: what printed tables have.
const LOOK: TableStyle = TableStyle::new().top_border(RULE).header_separator(RULE).bottom_border(RULE);
const RULE: LineStyle = LineStyle::none().fill('─').junction('─');

/// A table in the making.
#[derive(Default)]
pub(super) struct Grid {
    /// Heading of the column of figures' names.
    pub corner: &'static str,
    /// Names of the things compared.
    pub names: Vec<String>,
    /// The figures.
    pub rows: Vec<GridRow>,
}

/// One figure of all things.
pub(super) struct GridRow {
    pub label: &'static str,
    pub cells: Vec<String>,
    /// Columns whose figure is the best, printed bold.
    pub best: Vec<usize>,
}

/// Which end of a figure is the good one.
#[derive(Clone, Copy)]
pub(super) enum Best {
    Highest,
    Lowest,
    Neither,
}

impl Grid {
    /// Adds a row of figures that may be absent.
    pub(super) fn row(
        &mut self,
        label: &'static str,
        best: Best,
        values: &[Option<f64>],
        write: impl Fn(f64) -> String,
    ) {
        let known = values.iter().copied().flatten();
        let wanted = match best {
            Best::Highest => known.max_by(f64::total_cmp),
            Best::Lowest => known.min_by(f64::total_cmp),
            Best::Neither => None,
        };
        let is_best = |&column: &usize| wanted.is_some() && values[column] == wanted;
        let mut best: Vec<usize> = (0..values.len()).filter(is_best).collect();
        if best.len() == values.len() {
            best.clear();
        }
        let cells = values.iter().map(|value| crate::report::figures::or_absent(*value, &write)).collect();
        self.rows.push(GridRow { label, cells, best });
    }

    /// Adds a row of text.
    pub(super) fn text_row(&mut self, label: &'static str, cells: Vec<String>) {
        self.rows.push(GridRow { label, cells, best: Vec::new() });
    }

    /// The table, in blocks one below the other where not all columns fit side by side.
    pub(super) fn render(&self, screen: Screen) -> String {
        let mut text = String::new();
        let mut first = 0;
        while first < self.names.len() {
            let mut end = first + 1;
            let mut block = self.block(first..end, screen);
            while end < self.names.len() {
                let wider = self.block(first..end + 1, screen);
                if line_width(&wider) > usize::from(screen.width) {
                    break;
                }
                block = wider;
                end += 1;
            }
            if line_width(&block) > usize::from(screen.width) {
                block.set_content_arrangement(ContentArrangement::Dynamic).set_width(screen.width);
            }
            let gap = if first == 0 { "" } else { "\n" };
            writeln!(text, "{gap}{}", trimmed(&block)).expect("writing to a string doesn't fail");
            first = end;
        }
        text
    }

    /// Whether all columns fit side by side.
    pub(super) fn fits(&self, screen: Screen) -> bool {
        line_width(&self.block(0..self.names.len(), screen)) <= usize::from(screen.width)
    }

    /// The whole table as Markdown.
    pub(super) fn markdown(&self) -> String {
        let line = |label: &str, cells: &[String]| format!("| {label} | {} |\n", cells.join(" | "));
        let mut text = line(self.corner, &self.names) + "|---|" + &"---:|".repeat(self.names.len()) + "\n";
        self.rows.iter().for_each(|row| text += &line(row.label, &row.cells));
        text
    }

    fn block(&self, columns: std::ops::Range<usize>, screen: Screen) -> Table {
        let mut table = empty_table(screen);
        let heading = |name: &String| Cell::new(name).add_attribute(Attribute::Bold);
        let mut header = vec![Cell::new(self.corner)];
        header.extend(self.names[columns.clone()].iter().map(heading));
        table.set_header(Row::from(header));
        for row in &self.rows {
            let mut cells = vec![Cell::new(row.label)];
            for column in columns.clone() {
                let cell = Cell::new(&row.cells[column]);
                let is_best = row.best.contains(&column);
                cells.push(if is_best { cell.add_attribute(Attribute::Bold) } else { cell });
            }
            table.add_row(cells);
        }
        align_right(&mut table, 1..=columns.len());
        table
    }
}

/// A table without rows, in the one look that all tables have.
pub(in crate::report) fn empty_table(screen: Screen) -> Table {
    let mut table = Table::new();
    table.load_style(LOOK).force_no_tty();
    if screen.is_styled {
        table.enforce_styling();
    }
    table
}

/// Right-aligns columns of numbers.
pub(in crate::report) fn align_right(table: &mut Table, columns: impl IntoIterator<Item = usize>) {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// The table as text, without blanks at the ends of lines.
pub(in crate::report) fn trimmed(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Width of the table as it would print: contents, padding and the blanks between columns.
fn line_width(table: &Table) -> usize {
    let contents: usize = table.column_max_content_widths().iter().map(|&width| usize::from(width)).sum();
    let columns = table.column_iter().count();
    contents + 2 * columns + columns.saturating_sub(1)
}
