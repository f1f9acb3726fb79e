//! Policies over many replays: of several traces, or of markets from several seeds.

use super::Screen;
use super::figures::{ABSENT, count, figure, percent};
use super::records::Records;
use super::summary::{PolicySummary, with_name};
use super::table::{narrow_table, ratio_table};
use crate::replay::Replay;
use serde::Serialize;

/// What the policies made of one trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AcrossRow {
    /// Name of the trace.
    pub name: String,
    /// Its length.
    pub span_s: f64,
    /// By policy, in the order asked for.
    pub policies: Vec<(String, PolicySummary)>,
}

impl AcrossRow {
    /// The row of a replay.
    pub fn new(name: &str, replay: &Replay) -> Self {
        let span_s = replay.span.as_seconds();
        let summary = |outcome| PolicySummary::new(outcome, span_s);
        let policies = replay.policies.iter().map(|outcome| (outcome.policy.to_owned(), summary(outcome)));
        Self { name: name.to_owned(), span_s, policies: policies.collect() }
    }

    /// Iterations of a policy.
    fn iterations(&self, policy: &str) -> Option<u64> {
        self.policies.iter().find(|(name, _)| name == policy).map(|(_, summary)| summary.iterations)
    }
}

/// A row for each trace: of each policy the iterations that count, and beside them what share that is of the oracle's, where
/// it was asked for.
pub fn across_table(rows: &[AcrossRow], screen: Screen) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let names: Vec<&str> = first.policies.iter().map(|(name, _)| name.as_str()).collect();
    let header: Vec<&str> = ["#"].into_iter().chain(names).collect();
    let cells = |(number, row): (usize, &AcrossRow)| {
        let bound = row.iterations("oracle");
        let cell = |(name, summary): &(String, PolicySummary)| match bound {
            Some(bound) if name != "oracle" && bound > 0 => percent(summary.iterations as f64 / bound as f64),
            _ => count(summary.iterations),
        };
        std::iter::once((number + 1).to_string()).chain(row.policies.iter().map(cell)).collect::<Vec<_>>()
    };
    let text = narrow_table(&header, &rows.iter().enumerate().map(cells).collect::<Vec<_>>(), screen);
    let what = if first.iterations("oracle").is_some() {
        "iterations that count, as shares of the oracle's"
    } else {
        "iterations that count"
    };
    let names = rows
        .iter()
        .enumerate()
        .fold(String::new(), |names, (number, row)| names + &format!("{:>3} {}\n", number + 1, row.name));
    format!("{text}{what}\n{names}")
}

/// A row for each policy: means over all replays with their 95 % confidence interval, and between what nine in ten are.
pub fn interval_table(rows: &[AcrossRow], screen: Screen) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let header = ["policy", "iterations", "nine in ten", "goodput share", "USD per 10^6 tokens"];
    let line = |place: usize| {
        let of = |value: &dyn Fn(&PolicySummary) -> Option<f64>| {
            rows.iter().filter_map(|row| value(&row.policies[place].1)).collect::<Vec<_>>()
        };
        let iterations = of(&|summary| Some(summary.iterations as f64));
        let [low, high] = nine_in_ten(&iterations);
        vec![
            first.policies[place].0.clone(),
            interval(&iterations, figure),
            format!("{} to {}", figure(low), figure(high)),
            interval(&of(&|summary| summary.goodput_share), percent),
            interval(&of(&|summary| summary.usd_per_million_tokens), figure),
        ]
    };
    let lines: Vec<Vec<String>> = (0..first.policies.len()).map(line).collect();
    let text = ratio_table(&header, &lines, screen);
    format!("{text}means of {} markets, each with half of its 95 % confidence interval\n", count(rows.len() as u64))
}

/// `1,234 ± 5`.
fn interval(values: &[f64], write: fn(f64) -> String) -> String {
    match mean_and_half(values) {
        Some((mean, _)) if values.len() == 1 => write(mean),
        Some((mean, half)) => format!("{} ± {}", write(mean), write(half)),
        None => ABSENT.to_owned(),
    }
}

/// The mean, and half of its 95 % confidence interval by the normal distribution: `1.96 s / sqrt(n)`. `None` of none.
fn mean_and_half(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = if values.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
    (!values.is_empty()).then(|| (mean, 1.96 * deviation / n.sqrt()))
}

/// Between what nine in ten are.
fn nine_in_ten(values: &[f64]) -> [f64; 2] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| sorted.get((share * sorted.len().saturating_sub(1) as f64).round() as usize).copied();
    [0.05, 0.95].map(|share| at(share).unwrap_or(f64::NAN))
}

/// A row for each trace and policy.
pub fn across_records(rows: &[AcrossRow]) -> Records {
    let of_policy = |row: &AcrossRow, (policy, summary): &(String, PolicySummary)| {
        let summary = with_name("policy", policy, summary);
        let mut cells = with_name("trace", &row.name, &serde_json::json!({ "span_s": row.span_s }));
        if let (Some(cells), Some(summary)) = (cells.as_object_mut(), summary.as_object()) {
            cells.extend(summary.clone());
        }
        cells
    };
    let all = rows.iter().flat_map(|row| row.policies.iter().map(move |policy| of_policy(row, policy)));
    Records::of_json(&all.collect::<Vec<_>>())
}

/// The same for machines.
pub fn across_json(rows: &[AcrossRow]) -> String {
    serde_json::to_string_pretty(rows).expect("rows have string keys only") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn means_and_intervals_by_hand() {
        // 1, 2, 3: mean 2, deviation 1.
        let (mean, half) = mean_and_half(&[1.0, 2.0, 3.0]).unwrap();
        approx::assert_relative_eq!(mean, 2.0);
        approx::assert_relative_eq!(half, 1.96 / 3_f64.sqrt());
        assert_eq!((mean_and_half(&[7.0]), mean_and_half(&[])), (Some((7.0, 0.0)), None));
        let values: Vec<f64> = (0..=100).map(f64::from).collect();
        assert_eq!(nine_in_ten(&values).map(|value| value as u32), [5, 95]);
    }

    #[test]
    fn rows_have_a_cell_for_each_policy() {
        let rows = [AcrossRow::new("a", &fixture::small()), AcrossRow::new("b", &fixture::small())];
        let csv = across_records(&rows).csv();
        assert_eq!(csv.lines().count(), 1 + 2 * 2, "{csv}");
        assert!(csv.starts_with("trace,span_s,policy,iterations,") && csv.contains("\na,100.0,autohet,7,"), "{csv}");
        let table = across_table(&rows, Screen::PLAIN);
        assert!(table.contains("autohet") && table.contains("restart") && table.contains('7'), "{table}");
        let table = interval_table(&rows, Screen::PLAIN);
        assert!(table.contains("7.000 ± 0") && table.contains("means of 2 markets"), "{table}");
        assert!(across_json(&rows).contains("\"span_s\""));
    }
}
