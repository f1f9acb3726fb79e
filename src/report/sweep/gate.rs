//! A sweep against a baseline: what got better, what got worse, what is missing.

use super::read::{Baseline, BaselineRow};
use super::{Better, SweepRow, SweepStatus, SweepTable, better, rounded};
use std::fmt;
use std::str::FromStr;

/// By how much a figure may be worse, as a share: `0.02` for `2%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance(pub f64);

impl FromStr for Tolerance {
    type Err = String;

    /// Reads `2%`, `2 %` or `0.02`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (number, scale) = match text.trim().strip_suffix('%') {
            Some(number) => (number.trim_end(), 0.01),
            None => (text.trim(), 1.0),
        };
        let share = number.parse::<f64>().ok().map(|number| number * scale);
        let share = share.filter(|share| (0.0..=1.0).contains(share));
        share.map(Self).ok_or_else(|| "not a share from 0 to 100 %\nhint: write `2%` or `0.02`".to_owned())
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", (self.0 * 1e4).round() / 100.0)
    }
}

/// What one row, or one figure of it, has become.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The row: `gpus.H20=3 planner=whale`.
    pub row: String,
    /// Its figure, or `status`, or `row`.
    pub figure: String,
    /// What it was.
    pub before: String,
    /// What it is.
    pub after: String,
    /// By how much it is more than it was, as a share; `None` of what isn't a number.
    pub share: Option<f64>,
}

/// What came of a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GateOutcome {
    /// Worse by more than the tolerance, the worst first; missing rows before these.
    pub worse: Vec<Change>,
    /// Better by more than the tolerance, the best first.
    pub better: Vec<Change>,
    /// Rows that the baseline doesn't have.
    pub new: Vec<String>,
    /// Rows that both have and that are as they were, within the tolerance.
    pub same: Vec<String>,
}

impl GateOutcome {
    /// Whether nothing got worse.
    pub fn is_good(&self) -> bool {
        self.worse.is_empty()
    }
}

/// Compares each row with the one of the baseline that has its key.
pub fn compare_with_baseline(table: &SweepTable, baseline: &Baseline, tolerance: Tolerance) -> GateOutcome {
    let mut outcome = GateOutcome::default();
    let mut missing = baseline.rows.clone();
    for row in &table.rows {
        let name = name_of(&table.axes, &SweepTable::cells(&row.key));
        match missing.remove(&SweepTable::cells(&row.key)) {
            None => outcome.new.push(name),
            Some(before) => compare_row(&mut outcome, &name, &before, row, tolerance),
        }
    }
    for (key, before) in missing {
        let row = name_of(&table.axes, &key);
        let before = before.status.name().to_owned();
        outcome.worse.push(Change { row, figure: "row".into(), before, after: "missing".into(), share: None });
    }
    // What isn't a number first, then by size.
    let size = |change: &Change| change.share.map_or(f64::INFINITY, f64::abs);
    outcome.worse.sort_by(|a, b| size(b).total_cmp(&size(a)));
    outcome.better.sort_by(|a, b| size(b).total_cmp(&size(a)));
    outcome
}

fn name_of(axes: &[String], cells: &[String]) -> String {
    axes.iter().zip(cells).map(|(axis, cell)| format!("{axis}={cell}")).collect::<Vec<_>>().join(" ")
}

fn compare_row(
    outcome: &mut GateOutcome,
    name: &str,
    before: &BaselineRow,
    now: &SweepRow,
    Tolerance(tolerance): Tolerance,
) {
    let status = now.outcome.status;
    if before.status != status {
        let [was, is] = [before.status, status].map(|status| status.name().to_owned());
        let change = Change { row: name.to_owned(), figure: "status".into(), before: was, after: is, share: None };
        let list = if rank(status) > rank(before.status) { &mut outcome.worse } else { &mut outcome.better };
        list.push(change);
        return;
    }
    let mut changes = 0;
    for (figure, &was) in &before.figures {
        let direction = better(figure);
        if direction == Better::Neither {
            continue;
        }
        let is = now.outcome.figures.get(figure).and_then(serde_json::Value::as_f64);
        let after = is.map_or_else(|| "missing".to_owned(), |is| rounded(is).to_string());
        let share = is.map(|is| (is - was) / was.abs()).filter(|share| share.is_finite());
        let gain = match (is, direction) {
            (None, _) => f64::NEG_INFINITY,
            (Some(is), Better::Lower) => was - is,
            (Some(is), _) => is - was,
        };
        // A hair more, so that a change of just the tolerance passes however it is rounded.
        let limit = tolerance * was.abs() + 1e-9 * was.abs();
        if gain.abs() <= limit {
            continue;
        }
        changes += 1;
        let change =
            Change { row: name.to_owned(), figure: figure.clone(), before: rounded(was).to_string(), after, share };
        if gain < 0.0 { outcome.worse.push(change) } else { outcome.better.push(change) }
    }
    if changes == 0 {
        outcome.same.push(name.to_owned());
    }
}

/// The worse a status the higher.
fn rank(status: SweepStatus) -> u8 {
    match status {
        SweepStatus::Ok => 0,
        SweepStatus::Infeasible => 1,
        SweepStatus::Error => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{row, table};
    use super::*;

    fn against(before: &SweepTable, now: &SweepTable, tolerance: &str) -> GateOutcome {
        let baseline = Baseline::parse(&before.csv(), "baseline.csv", &now.axes).unwrap();
        compare_with_baseline(now, &baseline, tolerance.parse().unwrap())
    }

    #[test]
    fn a_sweep_is_as_good_as_itself() {
        let one = table(vec![row(1, "a", Some(100.0)), row(2, "a", None)]);
        let outcome = against(&one, &one, "0%");
        assert!(outcome.is_good() && outcome.better.is_empty() && outcome.new.is_empty());
        assert_eq!(outcome.same.len(), 2);
    }

    #[test]
    fn a_figure_may_be_worse_by_the_tolerance_and_no_more() {
        let before = table(vec![row(1, "a", Some(100.0))]);
        // Two percent fewer tokens are 2.04 % more dollars for each of them.
        assert!(against(&before, &table(vec![row(1, "a", Some(98.04))]), "2%").is_good());
        let worse = against(&before, &table(vec![row(1, "a", Some(97.9))]), "2%").worse;
        assert_eq!(
            worse.iter().map(|change| change.figure.as_str()).collect::<Vec<_>>(),
            ["usd_per_million_tokens", "tokens_per_s"]
        );
        assert!((worse[1].share.unwrap() + 0.021).abs() < 1e-9);
        let better = against(&before, &table(vec![row(1, "a", Some(110.0))]), "2%");
        assert!(better.is_good() && better.better.len() == 2);
    }

    #[test]
    fn rows_that_are_missing_or_fit_no_more_are_worse() {
        let before = table(vec![row(1, "a", Some(100.0)), row(2, "a", Some(100.0)), row(3, "a", None)]);
        let now = table(vec![row(2, "a", None), row(3, "a", Some(1.0)), row(4, "a", None)]);
        let outcome = against(&before, &now, "50%");
        let worse: Vec<_> = outcome.worse.iter().map(|change| (change.row.as_str(), change.after.as_str())).collect();
        assert_eq!(worse, [("gpus.T4=2 planner=a", "infeasible"), ("gpus.T4=1 planner=a", "missing")]);
        assert_eq!(outcome.better.len(), 1);
        assert_eq!(outcome.new, ["gpus.T4=4 planner=a"]);
    }

    #[test]
    fn baselines_of_something_else_are_refused() {
        let one = table(vec![row(1, "a", Some(100.0))]);
        let refused = |text: &str, part: &str| {
            let error = Baseline::parse(text, "b.csv", &one.axes).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("\nhint: ") && error.contains("b.csv"), "{error}");
        };
        refused("", "no column `status`");
        refused("gpus.H20,planner,status\n", "`gpus.H20, planner`");
        refused("gpus.T4,planner,status\n1,a,fine\n", "line 2: `status` is `fine`");
        let figures = |rows: &str| format!("gpus.T4,planner,status,tokens_per_s\n{rows}");
        refused(&figures("1,a,ok,7\n1,a,ok,7\n"), "line 3: the row is there twice");
        refused(&figures("1,a,ok,7\n2,a,ok,abc\n"), "line 3: `tokens_per_s` is `abc`, expected a number");
        refused(&figures("1,a,ok,NaN\n"), "line 2: `tokens_per_s` is `NaN`");
        refused(&figures("1,a,ok,\n"), "line 2: the row is `ok` and has no figure");
        refused(&figures(""), "line 1: no row");
        refused("gpus.T4,planner,status\n1,a\n", "line 2");
    }

    #[test]
    fn tolerances_are_shares() {
        assert_eq!("2%".parse(), Ok(Tolerance(0.02)));
        assert_eq!("0.5".parse(), Ok(Tolerance(0.5)));
        assert_eq!(Tolerance(0.025).to_string(), "2.5 %");
        for bad in ["", "%", "-1%", "101%", "nan", "2 percent"] {
            assert!(bad.parse::<Tolerance>().is_err(), "{bad}");
        }
    }
}
