//! An older form of the spot traces that `SkyPilot` publishes: `index,ISO time,fail`, one row a probe, no header.
//!
//! The last number is 1 where the probe *failed*, the reverse of the later JSON of the same markets.

use super::calendar::Calendar;
use super::cells::Place;
use super::error::TraceError;
use super::levels::{Levels, Pool, Sample};
use super::options::{Polarity, ReadOptions};
use super::rows::{Row, rows};
use super::{NodeOffer, Trace, TraceFormat};
use crate::units::SimTime;

const COLUMNS: [&str; 3] = ["index", "time", "failed"];

/// Whether a file with this first line is of this format: a whole number, a time of the calendar, 0 or 1.
pub(super) fn starts_with(line: &str) -> bool {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    cells.len() == COLUMNS.len()
        && cells[0].parse::<u64>().is_ok()
        && (cells[1].parse::<jiff::Timestamp>().is_ok() || cells[1].parse::<jiff::civil::DateTime>().is_ok())
}

/// Reads the whole text.
pub(super) fn parse(text: &str, name: &str, options: &ReadOptions) -> Result<Trace, TraceError> {
    let mut calendar = Calendar::default();
    let mut samples: Vec<Sample> = Vec::new();
    let mut previous: Option<Row> = None;
    for row in rows(text, name)? {
        let at = |column: usize| Place { file: name, line: row.line, column: COLUMNS[column] };
        let cell = |column: usize| row.cells.get(column).unwrap_or_default();
        if row.cells.len() > COLUMNS.len() {
            let (file, line) = (name.to_owned(), row.line);
            return Err(TraceError::TooManyCells { file, line, expected: COLUMNS.len(), found: row.cells.len() });
        }
        let time = calendar.since_first(at(1), cell(1))?;
        let earliest = samples.last().map_or(SimTime::ZERO, |sample| sample.time);
        if let Some(before) = previous.filter(|_| time < earliest) {
            return Err(TraceError::TimeRunsBack {
                file: name.to_owned(),
                line: row.line,
                column: COLUMNS[1].into(),
                found: cell(1).to_owned(),
                before: before.cells.get(1).unwrap_or_default().to_owned(),
                before_line: before.line,
            });
        }
        let count = match cell(2) {
            "0" => 0,
            "1" => 1,
            other => {
                let hint = "1 is a probe that failed, 0 one that didn't; `--polarity available` turns it round";
                return Err(at(2).wrong("`0` or `1`", other, hint));
            }
        };
        samples.push(Sample { time, count, price_usd_per_hour: None });
        previous = Some(row);
    }
    if samples.is_empty() {
        return Err(TraceError::Empty { file: name.to_owned() });
    }
    // One machine is probed: a file in which no probe fails has it up, and one in which all fail never has.
    let polarity = options.polarity.unwrap_or(Polarity::Preempted);
    if polarity == Polarity::Preempted {
        for sample in &mut samples {
            sample.count = 1 - sample.count;
        }
    }
    let levels = Levels {
        file: name,
        format: TraceFormat::PingFailures,
        unit: calendar.unit(),
        polarity: Polarity::Available,
        is_exact: false,
        counts_gpus: false,
        pools: vec![Pool { offer: NodeOffer::default(), samples }],
        zero: calendar.zero(),
        notes: vec![match polarity {
            Polarity::Preempted => "1 is taken for a probe that failed, 0 for a node that is up".to_owned(),
            Polarity::Available => "1 is taken for a node that is up, as `--polarity` says".to_owned(),
        }],
    };
    levels.into_trace(&ReadOptions { polarity: None, ..options.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{TraceStatistics, parse, parse_with};
    use rstest::rstest;

    const TEXT: &str = "0,2022-10-26T22:00:00.000Z,0\n1,2022-10-26T22:10:00.000Z,1\n2,2022-10-26T22:20:00.000Z,0\n3,2022-10-26T22:40:00.000Z,0\n";

    #[test]
    fn a_one_is_a_failure_unless_said_otherwise() {
        let trace = parse(TEXT, "t").unwrap();
        assert_eq!((trace.format, trace.span), (TraceFormat::PingFailures, SimTime::SECOND * 2400));
        approx::assert_relative_eq!(TraceStatistics::of(&trace).mean_availability, 0.75);
        let options = ReadOptions { polarity: Some(Polarity::Available), ..ReadOptions::default() };
        let turned = parse_with(TEXT, "t", &options).unwrap();
        assert_eq!((turned.events.len(), turned.events[0].time), (2, SimTime::SECOND * 600));
    }

    #[rstest]
    #[case("0,2022-10-26T22:00:00Z,2\n", "line 1, column `failed`: expected `0` or `1`, found `2`")]
    #[case("0,2022-10-26T22:00:00Z,0\n1,22:10,0\n", "line 2, column `time`: expected an ISO 8601 time")]
    #[case("0,2022-10-26T22:00:00Z,0\n1,2022-10-26T23:00:00Z,0\n2,2022-10-26T22:30:00Z,0\n", "no earlier than line 2")]
    #[case("0,2022-10-26T22:00:00Z,1\n", "expected at least one node that is up")]
    #[case("0,2022-10-26T22:00:00Z,1\n1,2022-10-26T22:30:00Z,0,9\n", "line 2: expected at most 3 cells")]
    fn errors_say_where_and_what(#[case] text: &str, #[case] part: &str) {
        let message = parse(text, "t.csv").unwrap_err().to_string();
        assert!(message.contains(part) && message.contains("\nhint: "), "{message}");
    }
}
