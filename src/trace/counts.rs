//! Two columns without a header: a time and how many nodes are up.
//!
//! Two families are written so, and both are read by the rule that the last row of a time holds:
//!
//! - Parcae's counts (NSDI 2024): milliseconds, one row for each node that comes or goes, so several of one time.
//! - The step corners in Bamboo's documentation: each change is two rows of one time, the old count and the new one, in
//!   seconds or in hours.
//!
//! The unit shows where it can: whole thousands are milliseconds, fractions in a small range are hours, long spans are
//! seconds. Where it can't, the reader asks for `--time-unit`.

use super::calendar::Zero;
use super::cells::{LATEST, Place};
use super::error::TraceError;
use super::levels::{Levels, MOST, Pool, Sample};
use super::options::{Polarity, ReadOptions, TimeUnit};
use super::rows::rows;
use super::{NodeOffer, Trace, TraceFormat};
use crate::units::SimTime;

const COLUMNS: [&str; 2] = ["time", "count"];
/// Times from here on count from 1970: 2001 in seconds, and in milliseconds.
const EPOCH_S: f64 = 1e9;
const EPOCH_MS: f64 = 1e12;
/// A span from which on whole numbers are seconds: as hours it would be 150 days.
const SHORTEST_SPAN_OF_SECONDS: f64 = 3600.0;
/// The longest span in which fractions are hours.
const LONGEST_SPAN_OF_HOURS: f64 = 1000.0;

/// The format of a file whose first line has two numbers.
pub(super) fn recognise(text: &str, first: &str) -> Option<TraceFormat> {
    let row = |line: &str| -> Option<(f64, u32)> {
        let (time, count) = line.split_once(',')?;
        Some((time.trim().parse().ok()?, count.trim().parse().ok()?))
    };
    row(first)?;
    let rows: Vec<(f64, u32)> = text.lines().filter(|line| !line.starts_with('#')).filter_map(row).collect();
    let changes = || rows.windows(2).filter(|pair| pair[0].1 != pair[1].1);
    // Each change happens between two rows of one time, and no time has a third row.
    let is_corner = |pair: &[(f64, u32)]| pair[0].0.to_bits() == pair[1].0.to_bits();
    let is_crowded = rows.windows(3).any(|three| three[0].0.to_bits() == three[2].0.to_bits());
    let is_steps = changes().count() > 0 && changes().all(is_corner) && !is_crowded;
    Some(if is_steps { TraceFormat::StepCounts } else { TraceFormat::ParcaeCounts })
}

/// Reads the whole text as `format`, one of the two.
pub(super) fn parse(text: &str, name: &str, format: TraceFormat, options: &ReadOptions) -> Result<Trace, TraceError> {
    let counted = counted(text, name)?;
    let times: Vec<f64> = counted.iter().map(|row| row.time).collect();
    let unit = match options.time_unit {
        Some(unit) => unit,
        None => unit_of(&times, name)?,
    };
    let start = times.first().copied().unwrap_or_default() * unit.seconds();
    // Half a century is no time for a trace to begin: it counts from 1970.
    let zero_s = if start >= EPOCH_S { start } else { 0.0 };
    let mut samples: Vec<Sample> = Vec::with_capacity(counted.len());
    for row in &counted {
        let time_s = row.time * unit.seconds() - zero_s;
        if !(0.0..=LATEST.as_seconds()).contains(&time_s) {
            let hint = "give another unit with `--time-unit`";
            return Err(row.place(name).wrong("a time of at most 100 years", &row.written, hint));
        }
        samples.push(Sample { time: SimTime::from_seconds(time_s), count: row.count, price_usd_per_hour: None });
    }
    let epoch = if zero_s > 0.0 { " since 1970, counted from the first row" } else { "" };
    let levels = Levels {
        file: name,
        format,
        unit: format!("{}{epoch}", unit.plural()),
        polarity: Polarity::Available,
        is_exact: true,
        counts_gpus: false,
        pools: vec![Pool { offer: NodeOffer::default(), samples }],
        zero: Some(zero_s).filter(|zero_s| *zero_s > 0.0).and_then(Zero::of_epoch),
        notes: Vec::new(),
    };
    levels.into_trace(options)
}

struct Counted {
    line: u64,
    written: String,
    time: f64,
    count: u32,
}

impl Counted {
    fn place<'a>(&self, name: &'a str) -> Place<'a> {
        Place { file: name, line: self.line, column: COLUMNS[0] }
    }
}

/// The rows, no time earlier than the one before.
fn counted(text: &str, name: &str) -> Result<Vec<Counted>, TraceError> {
    let mut all: Vec<Counted> = Vec::new();
    for row in rows(text, name)? {
        if row.cells.len() > COLUMNS.len() {
            let (file, line) = (name.to_owned(), row.line);
            return Err(TraceError::TooManyCells { file, line, expected: COLUMNS.len(), found: row.cells.len() });
        }
        let at = |column: usize| Place { file: name, line: row.line, column: COLUMNS[column] };
        let cell = |column: usize| row.cells.get(column).unwrap_or_default();
        let hint = "this format is two numbers a row, a time and how many nodes are up";
        let time = at(0).number(cell(0), "a time of 0 or more", 1e16, hint)?;
        let count = at(1).count(cell(1), MOST, "nodes")?;
        if let Some(previous) = all.last().filter(|previous| time < previous.time) {
            return Err(TraceError::TimeRunsBack {
                file: name.to_owned(),
                line: row.line,
                column: COLUMNS[0].into(),
                found: cell(0).to_owned(),
                before: previous.written.clone(),
                before_line: previous.line,
            });
        }
        all.push(Counted { line: row.line, written: cell(0).to_owned(), time, count });
    }
    if all.is_empty() {
        return Err(TraceError::Empty { file: name.to_owned() });
    }
    Ok(all)
}

/// The unit of times in ascending order.
fn unit_of(times: &[f64], name: &str) -> Result<TimeUnit, TraceError> {
    let (first, last) = (times.first().copied().unwrap_or_default(), times.last().copied().unwrap_or_default());
    let span = last - first;
    let all = |fits: fn(f64) -> bool| times.iter().all(|time| fits(*time));
    if first >= EPOCH_MS {
        Ok(TimeUnit::Milliseconds)
    } else if first >= EPOCH_S {
        Ok(TimeUnit::Seconds)
    } else if last > 0.0 && all(|time| time % 1000.0 == 0.0) {
        Ok(TimeUnit::Milliseconds)
    } else if !all(|time| time.fract() == 0.0) && span <= LONGEST_SPAN_OF_HOURS {
        Ok(TimeUnit::Hours)
    } else if span >= SHORTEST_SPAN_OF_SECONDS {
        Ok(TimeUnit::Seconds)
    } else {
        Err(TraceError::UnclearUnit { file: name.to_owned(), found: format!("`{first}` to `{last}`") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::parse;
    use rstest::rstest;

    #[rstest]
    #[case("0,1\n0,2\n60000,3\n60000,2\n120000,1\n", TraceFormat::ParcaeCounts, "milliseconds", 120.0)]
    #[case("0,2\n4000,2\n4000,1\n9001,1\n", TraceFormat::StepCounts, "seconds", 9001.0)]
    #[case("0,2\n1.5,2\n1.5,1\n2.25,1\n", TraceFormat::StepCounts, "hours", 8100.0)]
    #[case("1700000000,2\n1700000060,1\n", TraceFormat::ParcaeCounts, "seconds since 1970", 60.0)]
    #[case("1700000000001,2\n1700000060001,1\n", TraceFormat::ParcaeCounts, "milliseconds since 1970", 60.0)]
    fn families_and_units_are_told_apart(
        #[case] text: &str,
        #[case] format: TraceFormat,
        #[case] unit: &str,
        #[case] span_s: f64,
    ) {
        let trace = parse(text, "t").unwrap();
        assert_eq!((trace.format, trace.span), (format, SimTime::from_seconds(span_s)));
        assert!(trace.notes[0].contains(&format!("times in {unit}")), "{:?}", trace.notes);
    }

    #[test]
    fn an_option_overrules_the_unit_and_answers_for_it() {
        let text = "0,2\n40,1\n";
        let message = parse(text, "t.csv").unwrap_err().to_string();
        assert!(
            message.starts_with("`t.csv`: expected times of which the unit shows, found `0` to `40`\nhint: "),
            "{message}"
        );
        let options = ReadOptions { time_unit: Some(TimeUnit::Hours), ..ReadOptions::default() };
        let trace = crate::trace::parse_with(text, "t", &options).unwrap();
        assert_eq!(trace.span, SimTime::SECOND * 144_000);
    }

    #[rstest]
    #[case("0,1\n60000,x\n", "line 2, column `count`: expected a whole number of nodes from 0 to 16384, found `x`")]
    #[case("0,1\n60000,99999\n", "line 2, column `count`")]
    #[case("0,1\n60000\n", "line 2, column `count`: expected a whole number of nodes from 0 to 16384, found nothing")]
    #[case("0,1\nnan,1\n", "line 2, column `time`: expected a time of 0 or more, found `nan`")]
    #[case("9000,1\n8000,1\n", "line 2, column `time`: expected a time no earlier than line 1 (`9000`)")]
    #[case("0,1\n60000,1,1\n", "line 2: expected at most 2 cells, found 3")]
    #[case("0,0\n60000,0\n", "expected at least one node that is up")]
    #[case("0,1\n1e15,1\n", "line 2, column `time`: expected a time of at most 100 years")]
    fn errors_say_where_and_what(#[case] text: &str, #[case] part: &str) {
        let message = parse(text, "t.csv").unwrap_err().to_string();
        assert!(message.contains(part) && message.contains("\nhint: "), "{message}");
    }
}
