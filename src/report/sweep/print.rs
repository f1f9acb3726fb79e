//! A sweep and its comparison for people: a table of the best rows, and what got better and worse.

use super::{Better, Change, GateOutcome, SweepRow, SweepStatus, SweepTable, better, said};
use crate::report::figures::figure;
use crate::report::table::{Screen, align_right, empty_table, trimmed};
use comfy_table::ContentArrangement;
use serde_json::Value;
use std::fmt;
use std::fmt::Write as _;

/// Rows that a table shows.
const MOST_ROWS: usize = 10;
/// Changes that are listed of each kind.
const MOST_CHANGES: usize = 20;

impl fmt::Display for Change {
    /// `tokens_per_s was 100, is 98 (-2.0 %)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { figure, before, after, share, .. } = self;
        write!(f, "{figure} was {before}, is {after}")?;
        match share {
            Some(share) => write!(f, " ({:+.1} %)", share * 100.0),
            None => Ok(()),
        }
    }
}

impl SweepTable {
    /// The rows with the best of a figure, the best first; of those that differ in planner or policy only the best one, and of
    /// equals the first.
    fn best(&self, figure: &str, most: usize) -> Vec<(&SweepRow, f64)> {
        let number = |row: &SweepRow| row.outcome.figures.get(figure).and_then(Value::as_f64);
        let mut rows: Vec<(&SweepRow, f64)> = self.rows.iter().filter_map(|row| Some((row, number(row)?))).collect();
        match better(figure) {
            Better::Lower => rows.sort_by(|a, b| a.1.total_cmp(&b.1)),
            _ => rows.sort_by(|a, b| b.1.total_cmp(&a.1)),
        }
        let mut best: Vec<(&SweepRow, f64)> = Vec::new();
        for (row, number) in rows {
            let point = |row: &SweepRow| row.key[..row.key.len().saturating_sub(1)].to_vec();
            if best.len() < most && !best.iter().any(|(known, _)| point(known) == point(row)) {
                best.push((row, number));
            }
        }
        best
    }

    /// What it consists of, in a line.
    fn counts(&self) -> String {
        let counted = |status: SweepStatus, what: &str| match self.count(status) {
            0 => String::new(),
            count => format!(", {count} {what}"),
        };
        let (infeasible, failed) =
            (counted(SweepStatus::Infeasible, "infeasible"), counted(SweepStatus::Error, "failed"));
        format!("{} runs: {} with figures{infeasible}{failed}", self.rows.len(), self.count(SweepStatus::Ok))
    }

    /// Headings and cells of the best rows for a figure.
    pub(in crate::report) fn shown(&self, figure_name: &str) -> (Vec<String>, Vec<Vec<String>>) {
        let shown = ["tokens_per_s", "usd_per_hour", "usd_per_million_tokens", "goodput_share"];
        let shown: Vec<&str> = self.figures().filter(|name| shown.contains(name)).collect();
        let header = self.axes.iter().map(String::as_str).chain(shown.iter().copied()).map(str::to_owned).collect();
        let cells = |(row, _): (&SweepRow, f64)| {
            let figures = shown.iter().map(|name| match row.outcome.figures.get(*name) {
                Some(Value::Number(number)) => figure(number.as_f64().unwrap_or_default()),
                _ => String::new(),
            });
            row.key.iter().map(said).chain(figures).collect()
        };
        (header, self.best(figure_name, MOST_ROWS).into_iter().map(cells).collect())
    }
}

/// The figure by which rows are ranked: the first that has a good end.
fn ranked_by(table: &SweepTable) -> impl Iterator<Item = &'static str> {
    table.figures().filter(|name| better(name) != Better::Neither && *name != "goodput_share")
}

/// The best rows for each figure that has a good end, and how runs ended.
pub fn sweep_table(table: &SweepTable, screen: Screen) -> String {
    let mut text = table.counts() + "\n";
    for name in ranked_by(table) {
        let (header, rows) = table.shown(name);
        if rows.is_empty() {
            continue;
        }
        let mut shown = empty_table(screen);
        shown.set_content_arrangement(ContentArrangement::Dynamic).set_width(screen.width);
        let header: Vec<String> = header.iter().map(|name| name.replace('_', " ")).collect();
        let columns = header.len();
        shown.set_header(header);
        for row in rows {
            shown.add_row(row);
        }
        align_right(&mut shown, 0..columns);
        for column in shown.column_iter_mut() {
            column.set_padding((0, 1));
        }
        writeln!(text, "\nbest {}\n{}", name.replace('_', " "), trimmed(&shown)).expect(WRITTEN);
    }
    text + &failures(table)
}

const WRITTEN: &str = "writing to a string doesn't fail";

/// What failed, by reason, for people.
fn failures(table: &SweepTable) -> String {
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for row in table.rows.iter().filter(|row| row.outcome.status == SweepStatus::Error) {
        let reason = row.outcome.reason.as_deref().unwrap_or_default().lines().next().unwrap_or_default();
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => reasons.push((reason, 1)),
        }
    }
    let line = |(reason, count): &(&str, usize)| format!("failed, {count} x: {reason}\n");
    reasons.iter().take(5).map(line).collect()
}

/// The same as Markdown.
pub fn sweep_markdown(table: &SweepTable) -> String {
    let mut text = table.counts() + "\n";
    for name in ranked_by(table) {
        let (header, rows) = table.shown(name);
        if rows.is_empty() {
            continue;
        }
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | ").replace('\n', " "));
        writeln!(text, "\n**best {}**\n", name.replace('_', " ")).expect(WRITTEN);
        text += &line(&header);
        text = text + "|" + &"---|".repeat(header.len()) + "\n";
        for row in &rows {
            text += &line(row);
        }
    }
    text + &failures(table)
}

/// What a comparison found, for people.
pub fn gate_text(outcome: &GateOutcome) -> String {
    let mut text = String::new();
    let mut list = |what: &str, changes: &[Change]| {
        if changes.is_empty() {
            return;
        }
        writeln!(text, "{what}:").expect(WRITTEN);
        for change in changes.iter().take(MOST_CHANGES) {
            writeln!(text, "  {}: {change}", change.row).expect(WRITTEN);
        }
        if changes.len() > MOST_CHANGES {
            writeln!(text, "  and {} more", changes.len() - MOST_CHANGES).expect(WRITTEN);
        }
    };
    list("worse than the baseline", &outcome.worse);
    list("better than the baseline", &outcome.better);
    text + &gate_verdict(outcome) + "\n"
}

/// How many rows are as they were, and how many aren't.
pub(in crate::report) fn gate_verdict(outcome: &GateOutcome) -> String {
    let GateOutcome { worse, better, new, same } = outcome;
    let (worse, better, new, same) = (worse.len(), better.len(), new.len(), same.len());
    format!(
        "against the baseline: {same} rows the same, {better} changes for the better, {worse} for the worse, {new} new rows"
    )
}

/// The same as Markdown, for the page of a CI job.
pub fn gate_markdown(name: &str, outcome: &GateOutcome) -> String {
    let mark = if outcome.is_good() { "passed" } else { "failed" };
    let mut text = format!("## {name}: {mark}\n\n{}\n", gate_verdict(outcome));
    let mut list = |what: &str, changes: &[Change]| {
        if changes.is_empty() {
            return;
        }
        writeln!(text, "\n### {what}\n\n| row | figure | before | after | change |\n|---|---|---:|---:|---:|")
            .expect(WRITTEN);
        for Change { row, figure, before, after, share } in changes.iter().take(MOST_CHANGES) {
            let share = share.map_or_else(String::new, |share| format!("{:+.1} %", share * 100.0));
            let row = row.replace('|', "\\|");
            writeln!(text, "| {row} | {figure} | {before} | {after} | {share} |").expect(WRITTEN);
        }
        if changes.len() > MOST_CHANGES {
            writeln!(text, "\nand {} more", changes.len() - MOST_CHANGES).expect(WRITTEN);
        }
    };
    list("Worse", &outcome.worse);
    list("Better", &outcome.better);
    text
}
