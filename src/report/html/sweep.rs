//! The page of a sweep.

use super::{Section, card, render};
use crate::report::figures::figure;
use crate::report::sweep::{
    Change, GateOutcome, SweepChart, SweepRow, SweepStatus, SweepTable, gate_verdict, said, sweep_svg,
};
use crate::units::format_number;
use serde_json::Value;

/// Rows of the table of all of them; the rest is in `rows.csv`.
const MOST_ROWS: usize = 500;
/// Changes of each kind.
const MOST_CHANGES: usize = 100;

/// A sweep as a page: how runs ended, what changed against a baseline, the chart, the best rows, all rows, and the sweep file.
pub fn sweep_html(name: &str, table: &SweepTable, gate: Option<&GateOutcome>, text: &str) -> String {
    let count = |status| table.count(status).to_string();
    let mut cards = vec![
        card("runs", table.rows.len().to_string()),
        card("with figures", count(SweepStatus::Ok)),
        card("infeasible", count(SweepStatus::Infeasible)),
        card("failed", count(SweepStatus::Error)),
    ];
    let mut sections = Vec::new();
    if let Some(gate) = gate {
        cards.push(card("against the baseline", if gate.is_good() { "passed" } else { "failed" }));
        sections.push(changes(gate));
    }
    if let Some(chart) = SweepChart::of(table) {
        sections.push(Section::new("Over the axes", "").with_svg(sweep_svg(name, table, &chart)));
    }
    for (figure_name, title) in [("tokens_per_s", "Fastest"), ("usd_per_million_tokens", "Cheapest tokens")] {
        let (columns, rows) = table.shown(figure_name);
        if !rows.is_empty() {
            sections.push(Section::new(title, "The best ten runs.").with_table(&columns, rows));
        }
    }
    sections.push(all_rows(table));
    let note = "What was asked, as it was written.";
    sections.push(Section { text: text.to_owned(), ..Section::new("Sweep file", note) });
    let asked = format!("A sweep over {}.", table.axes.join(", "));
    render(name, &asked, &cards, &sections)
}

/// What a comparison with a baseline found: what got worse before what got better.
fn changes(gate: &GateOutcome) -> Section {
    let row = |verdict: &str, change: &Change| {
        let Change { row, figure, before, after, share } = change;
        let share = share.map_or_else(String::new, |share| format!("{:+.1} %", share * 100.0));
        [row, verdict, figure, before, after, &share].map(str::to_owned).to_vec()
    };
    let worse = gate.worse.iter().take(MOST_CHANGES).map(|change| row("worse", change));
    let better = gate.better.iter().take(MOST_CHANGES).map(|change| row("better", change));
    let rows: Vec<_> = worse.chain(better).collect();
    let left_out = (gate.worse.len() + gate.better.len()).saturating_sub(rows.len());
    let note = if left_out > 0 { format!("{left_out} more changes are left out.") } else { String::new() };
    let mark = if gate.is_good() { "passed" } else { "failed" };
    Section {
        verdict: Some((gate.is_good(), format!("{mark}: {}", gate_verdict(gate)))),
        ..Section::new("Against the baseline", &note)
            .with_table(&["row", "verdict", "figure", "before", "after", "change"], rows)
    }
}

fn all_rows(table: &SweepTable) -> Section {
    let figures: Vec<&str> = table.figures().collect();
    let axes = table.axes.iter().map(String::as_str);
    let has_reasons = table.rows.iter().any(|row| row.outcome.reason.is_some());
    let columns: Vec<&str> =
        axes.chain(["status"]).chain(figures.iter().copied()).chain(has_reasons.then_some("reason")).collect();
    let value = |value: Option<&Value>| match value {
        Some(Value::Number(number)) if number.is_f64() => figure(number.as_f64().unwrap_or(f64::NAN)),
        Some(Value::Number(number)) => format_number(number.as_f64().unwrap_or(f64::NAN)),
        Some(other) => said(other),
        None => String::new(),
    };
    let row = |row: &SweepRow| {
        let figures = figures.iter().map(|name| value(row.outcome.figures.get(*name)));
        let reason = row.outcome.reason.as_deref().unwrap_or_default().lines().next().unwrap_or_default().to_owned();
        let status = row.outcome.status.name().to_owned();
        row.key.iter().map(said).chain([status]).chain(figures).chain(has_reasons.then_some(reason)).collect()
    };
    let rows: Vec<Vec<String>> = table.rows.iter().take(MOST_ROWS).map(row).collect();
    let note = match table.rows.len().saturating_sub(MOST_ROWS) {
        0 => String::new(),
        more => format!("{more} more are in rows.csv."),
    };
    Section::new("All runs", &note).with_table(&columns, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sweep::tests::{row, table};
    use crate::report::sweep::{Baseline, compare_with_baseline};

    #[test]
    fn a_sweep_says_what_changed_and_why_runs_have_no_figures() {
        let before = table(vec![row(1, "a", Some(100.0)), row(2, "a", Some(50.0)), row(3, "a", None)]);
        let now = table(vec![row(1, "a", Some(90.0)), row(2, "a", Some(60.0)), row(3, "a", None)]);
        let baseline = Baseline::parse(&before.csv(), "b.csv", &now.axes).unwrap();
        let gate = compare_with_baseline(&now, &baseline, "2%".parse().unwrap());
        let page = sweep_html("mix", &now, Some(&gate), "x = 1");
        let parts =
            ["failed: against the baseline: 1 rows the same", "-10.0 %", "+20.0 %", "no plan fits: 10 GB, or so"];
        for part in parts {
            assert!(page.contains(part), "{part}");
        }
        assert!(!sweep_html("mix", &now, None, "").contains("gainst the baseline"));
    }
}
