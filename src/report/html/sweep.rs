//! The page of a sweep.

use super::{Section, card, render};
use crate::report::figures::figure;
use crate::report::sweep::{SweepChart, SweepStatus, SweepTable, cell, sweep_svg};
use crate::units::format_number;
use serde_json::Value;

/// Rows of the table of all of them; the rest is in `rows.csv`.
const MOST_ROWS: usize = 500;

/// A sweep as a page: how runs ended, the chart, the best rows, all rows, and the sweep file.
pub fn sweep_html(name: &str, table: &SweepTable, text: &str) -> String {
    let count = |status| table.count(status).to_string();
    let cards = [
        card("runs", table.rows.len().to_string()),
        card("with figures", count(SweepStatus::Ok)),
        card("infeasible", count(SweepStatus::Infeasible)),
        card("failed", count(SweepStatus::Error)),
    ];
    let mut sections = Vec::new();
    if let Some(chart) = SweepChart::of(table) {
        let note = "Dark is more. A dash stands where nothing fits.";
        sections.push(Section { svg: sweep_svg(name, table, &chart), ..Section::new("Over the axes", note) });
    }
    for (figure_name, title) in [("tokens_per_s", "Fastest"), ("usd_per_million_tokens", "Cheapest tokens")] {
        let (columns, rows) = table.shown(figure_name);
        if !rows.is_empty() {
            sections.push(Section { columns: named(&columns), rows, ..Section::new(title, "The best ten runs.") });
        }
    }
    sections.push(all_rows(table));
    let note = "What was asked, as it was written.";
    sections.push(Section { text: text.to_owned(), ..Section::new("Sweep file", note) });
    let asked = format!("A sweep over {}.", table.axes.join(", "));
    render(name, &asked, &cards, &sections)
}

fn all_rows(table: &SweepTable) -> Section {
    let figures: Vec<&str> = table.figures().collect();
    let columns: Vec<String> = table
        .axes
        .iter()
        .map(String::as_str)
        .chain(["status"])
        .chain(figures.iter().copied())
        .map(str::to_owned)
        .collect();
    let value = |value: Option<&Value>| match value {
        Some(Value::Number(number)) if number.is_f64() => figure(number.as_f64().unwrap_or(f64::NAN)),
        Some(Value::Number(number)) => format_number(number.as_f64().unwrap_or(f64::NAN)),
        Some(other) => cell(other),
        None => String::new(),
    };
    let row = |row: &crate::report::sweep::SweepRow| {
        let figures = figures.iter().map(|name| value(row.outcome.figures.get(*name)));
        row.key.iter().map(cell).chain([row.outcome.status.name().to_owned()]).chain(figures).collect()
    };
    let rows: Vec<Vec<String>> = table.rows.iter().take(MOST_ROWS).map(row).collect();
    let note = match table.rows.len().saturating_sub(MOST_ROWS) {
        0 => String::new(),
        more => format!("{more} more are in rows.csv."),
    };
    Section { columns: named(&columns), rows, ..Section::new("All runs", &note) }
}

fn named(columns: &[String]) -> Vec<String> {
    columns.iter().map(|name| name.replace('_', " ")).collect()
}
