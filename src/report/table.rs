//! Tables for people, never wider than the screen they are for.

mod comparison;
mod errors;
mod explanation;
mod grid;
mod iteration;
mod peers;
mod plans;
mod policies;
mod ratios;
mod rented;
mod statistics;

pub use comparison::{comparison_csv, comparison_markdown, comparison_table};
pub(super) use errors::{ERROR_COLUMNS, error_rows};
pub use explanation::{explanation_text, fitting_changes_text};
pub(super) use grid::{align_right, empty_table, trimmed};
pub use iteration::iteration_table;
pub(super) use peers::peer_rows;
pub use plans::{plan_heading, plan_table};
pub use policies::policy_table;
pub(super) use ratios::{narrow_table, ratio_table};
pub use rented::rented_table;
pub use statistics::{TraceLaws, statistics_records, statistics_table};

use std::io::IsTerminal;

/// What a table is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Columns that fit.
    pub width: u16,
    /// Whether it understands escape sequences and the user wants them.
    pub is_styled: bool,
}

impl Screen {
    /// 80 columns without style: a file, a pipe, a test.
    pub const PLAIN: Self = Self { width: 80, is_styled: false };

    /// Standard output as it is: its own width and bold print where it is a terminal (without style where `NO_COLOR` is
    /// set and not empty), else [`Screen::PLAIN`], as wide as `COLUMNS` says.
    pub fn of_stdout() -> Self {
        if !std::io::stdout().is_terminal() {
            let asked = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
            let width = asked.filter(|width| (40..=1000).contains(width)).unwrap_or(Self::PLAIN.width);
            return Self { width, ..Self::PLAIN };
        }
        let width = comfy_table::Table::new().width().unwrap_or(Self::PLAIN.width);
        let is_styled = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { width: width.max(40), is_styled }
    }
}
