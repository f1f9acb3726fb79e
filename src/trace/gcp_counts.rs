//! Counts of nodes on GCP as Bamboo's authors logged them: `2021-12-11, 11:11:30, 55`, local time without a zone.
//!
//! Some files have each sample three times, at t, t + 60 s and t + 120 s, as three writers logged one after the other, so
//! that the clock runs backwards between samples. The first writer's rows are kept.

use super::calendar::{Zero, stamp};
use super::cells::{LATEST, Place};
use super::error::TraceError;
use super::levels::{Levels, MOST, Pool, Sample};
use super::options::{Polarity, ReadOptions};
use super::rows::rows;
use super::{NodeOffer, Trace, TraceFormat};
use crate::units::SimTime;
use jiff::Timestamp;
use jiff::civil::{Date, Time};

const COLUMNS: [&str; 3] = ["date", "time", "count"];
/// How much later than the first writer the others wrote, seconds.
const LATER_WRITERS_S: [i64; 2] = [60, 120];

/// Whether a file with this first line is of this format: a date, a time, a number.
pub(super) fn starts_with(line: &str) -> bool {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    cells.len() == COLUMNS.len() && cells[0].parse::<Date>().is_ok() && cells[1].parse::<Time>().is_ok()
}

struct Counted {
    line: u64,
    written: String,
    time: Timestamp,
    count: u32,
}

/// Reads the whole text.
pub(super) fn parse(text: &str, name: &str, options: &ReadOptions) -> Result<Trace, TraceError> {
    let all = counted(text, name)?;
    let total = all.len();
    let (kept, notes) = if all.is_sorted_by_key(|row| row.time) {
        (all, Vec::new())
    } else {
        let kept = first_writer(all, name)?;
        let dropped = total - kept.len();
        let note = format!(
            "{dropped} of {total} rows repeat a sample 60 or 120 s later, as further writers: the first one is kept"
        );
        (kept, vec![note])
    };
    let Some(first) = kept.first() else {
        return Err(TraceError::Empty { file: name.to_owned() });
    };
    let zero = first.time;
    let mut samples = Vec::with_capacity(kept.len());
    for row in &kept {
        // More than the clock has is as far beyond the limit as anything.
        let since_ns = row.time.as_nanosecond() - zero.as_nanosecond();
        let time = u64::try_from(since_ns).map_or(SimTime::MAX, SimTime);
        if time > LATEST {
            let place = Place { file: name, line: row.line, column: COLUMNS[0] };
            return Err(place.wrong("a date within 100 years after the first row", &row.written, "check the year"));
        }
        samples.push(Sample { time, count: row.count, price_usd_per_hour: None });
    }
    let start = jiff::tz::TimeZone::UTC.to_datetime(zero);
    let levels = Levels {
        file: name,
        format: TraceFormat::GcpCounts,
        unit: format!("local time without a zone counted from {start}"),
        polarity: Polarity::Available,
        is_exact: false,
        counts_gpus: false,
        pools: vec![Pool { offer: NodeOffer::default(), samples }],
        zero: Some(Zero::new(zero, false)),
        notes,
    };
    levels.into_trace(options)
}

fn counted(text: &str, name: &str) -> Result<Vec<Counted>, TraceError> {
    let mut all = Vec::new();
    for row in rows(text, name)? {
        let at = |column: usize| Place { file: name, line: row.line, column: COLUMNS[column] };
        let cell = |column: usize| row.cells.get(column).unwrap_or_default();
        if row.cells.len() > COLUMNS.len() {
            let (file, line) = (name.to_owned(), row.line);
            return Err(TraceError::TooManyCells { file, line, expected: COLUMNS.len(), found: row.cells.len() });
        }
        if cell(0).parse::<Date>().is_err() {
            return Err(at(0).wrong("a date like `2021-12-11`", cell(0), "each row is a date, a time and a count"));
        }
        if cell(1).parse::<Time>().is_err() {
            return Err(at(1).wrong("a time like `11:11:30`", cell(1), "each row is a date, a time and a count"));
        }
        let written = format!("{} {}", cell(0), cell(1));
        let (time, _) = stamp(at(1), &format!("{}T{}", cell(0), cell(1)))?;
        all.push(Counted { line: row.line, written, time, count: at(2).count(cell(2), MOST, "nodes")? });
    }
    Ok(all)
}

/// The rows without those that say the same so much later; what is still out of order then is an error.
fn first_writer(all: Vec<Counted>, name: &str) -> Result<Vec<Counted>, TraceError> {
    let mut kept: Vec<Counted> = Vec::new();
    let mut writers = 0;
    for row in all {
        if let Some(first) = kept.last() {
            let later_s = row.time.as_second() - first.time.as_second();
            if LATER_WRITERS_S.get(writers) == Some(&later_s) && row.count == first.count {
                writers += 1;
                continue;
            }
            if row.time < first.time {
                return Err(TraceError::TimeRunsBack {
                    file: name.to_owned(),
                    line: row.line,
                    column: COLUMNS[1].into(),
                    found: row.written,
                    before: first.written.clone(),
                    before_line: first.line,
                });
            }
        }
        writers = 0;
        kept.push(row);
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::parse;
    use rstest::rstest;
    use std::fmt::Write;

    #[test]
    fn dates_times_and_counts_become_levels() {
        let trace = parse("2021-12-31, 23:59:00, 2\n2022-01-01, 00:01:00, 1\n2022-01-01, 00:03:00, 1\n", "t").unwrap();
        assert_eq!((trace.format, trace.events.len()), (TraceFormat::GcpCounts, 3));
        assert_eq!((trace.events[2].time, trace.span), (SimTime::SECOND * 120, SimTime::SECOND * 240));
        assert!(trace.notes[0].contains("without a zone counted from 2021-12-31T23:59:00"), "{:?}", trace.notes);
        assert!(trace.notes.iter().any(|note| note.starts_with("samples are 2 min 00 s apart")), "{:?}", trace.notes);
    }

    #[test]
    fn of_three_writers_the_first_is_kept() {
        let mut text = String::new();
        for (sample, count) in [("10:00", 3), ("10:01", 2), ("10:02", 2)] {
            let (hour, minute) = sample.split_once(':').unwrap();
            let minute: u32 = minute.parse().unwrap();
            for later in 0..3 {
                writeln!(text, "2021-12-11, {hour}:{:02}:07, {count}", minute + later).unwrap();
            }
        }
        let trace = parse(&text, "t").unwrap();
        assert_eq!((trace.events.len(), trace.span), (4, SimTime::SECOND * 120));
        assert!(trace.notes.iter().any(|note| note.starts_with("6 of 9 rows repeat")), "{:?}", trace.notes);
    }

    #[rstest]
    #[case("2021-12-11, 11:11:30, 5\n2021-13-11, 11:11:30, 5\n", "line 2, column `date`: expected a date like")]
    #[case("2021-12-11, 11:11:30, 5\n2021-12-11, 25:11:30, 5\n", "line 2, column `time`: expected a time like")]
    #[case("2021-12-11, 11:11:30, -5\n", "line 1, column `count`: expected a whole number of nodes")]
    #[case("2021-12-11, 11:11:30, 5\n2021-12-11, 10:11:30, 4\n", "line 2, column `time`: expected a time no earlier")]
    #[case("2021-12-11, 11:11:30, 5\n2221-12-11, 10:11:30, 4\n", "line 2, column `date`: expected a date within")]
    #[case("2021-12-11, 11:11:30, 5\n6021-12-11, 10:11:30, 4\n", "line 2, column `date`: expected a date within")]
    #[case("2021-12-11, 11:11:30, 5\n2021-12-11, 11:11:31, 5, 6\n", "line 2: expected at most 3 cells")]
    fn errors_say_where_and_what(#[case] text: &str, #[case] part: &str) {
        let message = parse(text, "t.csv").unwrap_err().to_string();
        assert!(message.contains(part) && message.contains("\nhint: "), "{message}");
    }
}
