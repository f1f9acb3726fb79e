//! Typed cells: the same checks and the same messages for every format.

use super::error::{TraceError, shown};
use super::options::TimeUnit;
use crate::units::SimTime;
use std::str::FromStr;

/// The latest time a trace may hold: a century. Far below the end of the clock, so that sums of times can't overflow it.
pub(super) const LATEST: SimTime = SimTime(100 * 365 * 24 * 3600 * 1_000_000_000);

/// The most GPUs that a node may have.
const MOST_GPUS: u32 = 1024;

/// Where a cell stands.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub file: &'a str,
    pub line: u64,
    pub column: &'a str,
}

impl Place<'_> {
    /// The cell holds `found`, which isn't `expected`.
    pub fn wrong(self, expected: impl Into<String>, found: &str, hint: impl Into<String>) -> TraceError {
        TraceError::Cell {
            file: self.file.to_owned(),
            line: self.line,
            column: self.column.into(),
            expected: expected.into(),
            found: if found.is_empty() { "nothing".to_owned() } else { format!("`{}`", shown(found)) },
            hint: hint.into(),
        }
    }

    /// A cell that must hold something.
    pub fn text(self, cell: &str, expected: &str) -> Result<String, TraceError> {
        if cell.is_empty() {
            return Err(self.wrong(expected, "", "every row needs this cell"));
        }
        Ok(cell.to_owned())
    }

    /// Seconds from zero to a century, with or without a fraction.
    pub fn seconds(self, cell: &str) -> Result<SimTime, TraceError> {
        // Exactly, where the number is written out: after a hundred days a float of seconds has no nanoseconds.
        if let Some(time) = decimal_seconds(cell).filter(|time| *time <= LATEST) {
            return Ok(time);
        }
        let hint = format!("`{}` is in seconds; calendar times go in a column `time`", self.column);
        let seconds = self.number(cell, "seconds from 0 to 100 years", LATEST.as_seconds(), &hint)?;
        Ok(SimTime::from_seconds(seconds))
    }

    /// Whole milliseconds from zero to a century.
    pub fn milliseconds(self, cell: &str) -> Result<SimTime, TraceError> {
        let latest_ms = LATEST.0 / 1_000_000;
        match u64::from_str(cell) {
            Ok(milliseconds) if milliseconds <= latest_ms => Ok(SimTime(milliseconds * 1_000_000)),
            _ => Err(self.wrong(
                "whole milliseconds from 0 to 100 years",
                cell,
                "times of this format are in milliseconds",
            )),
        }
    }

    /// A time in `unit`, from zero to a century.
    pub fn time_in(self, cell: &str, unit: TimeUnit) -> Result<SimTime, TraceError> {
        let expected = format!("{} from 0 to 100 years", unit.plural());
        let most = LATEST.as_seconds() / unit.seconds();
        let time = self.number(cell, &expected, most, "times are in the unit that `--time-unit` says")?;
        Ok(SimTime::from_seconds(time * unit.seconds()))
    }

    /// A price of zero or more.
    pub fn price_usd_per_hour(self, cell: &str) -> Result<f64, TraceError> {
        self.number(
            cell,
            "US dollars per hour of 0 or more",
            1e9,
            "write the price of the whole node as a plain number",
        )
    }

    /// A number of GPUs that a node can have.
    pub fn gpu_count(self, cell: &str) -> Result<u32, TraceError> {
        match u32::from_str(cell) {
            Ok(count) if (1..=MOST_GPUS).contains(&count) => Ok(count),
            _ => Err(self.wrong(
                format!("a whole number of GPUs from 1 to {MOST_GPUS}"),
                cell,
                "leave the cell empty where the number isn't known",
            )),
        }
    }

    /// A whole number of `what`, from zero.
    pub fn count(self, cell: &str, most: u32, what: &str) -> Result<u32, TraceError> {
        match u32::from_str(cell) {
            Ok(count) if count <= most => Ok(count),
            _ => Err(self.wrong(
                format!("a whole number of {what} from 0 to {most}"),
                cell,
                format!("counts are of {what} that are up"),
            )),
        }
    }

    /// A number from zero to `most`.
    pub fn number(self, cell: &str, expected: &str, most: f64, hint: &str) -> Result<f64, TraceError> {
        match f64::from_str(cell) {
            // Adding zero turns a minus zero into zero.
            Ok(number) if (0.0..=most).contains(&number) => Ok(number + 0.0),
            _ => Err(self.wrong(expected, cell, hint)),
        }
    }
}

/// Seconds that are written as digits with at most nine after the point.
fn decimal_seconds(cell: &str) -> Option<SimTime> {
    let (whole, fraction) = cell.split_once('.').unwrap_or((cell, "0"));
    let is_plain = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_plain(whole) || !is_plain(fraction) || fraction.len() > 9 {
        return None;
    }
    let nanoseconds = format!("{fraction:0<9}").parse::<u64>().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(SimTime::SECOND.0)?.checked_add(nanoseconds).map(SimTime)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const PLACE: Place<'static> = Place { file: "f.csv", line: 7, column: "time_s" };

    #[rstest]
    #[case("0", 0)]
    #[case("-0", 0)]
    #[case("1.5", 1_500_000_000)]
    #[case("3153600000", 3_153_600_000_000_000_000)]
    #[case("3153599999.123456789", 3_153_599_999_123_456_789)]
    #[case("0.0000000014", 1)]
    #[case("1e2", 100_000_000_000)]
    fn seconds_become_nanoseconds(#[case] cell: &str, #[case] nanoseconds: u64) {
        assert_eq!(PLACE.seconds(cell).unwrap(), SimTime(nanoseconds));
    }

    #[rstest]
    fn times_that_are_none_are_refused(
        #[values("-1", "NaN", "inf", "-inf", "1e300", "3153600001", "ten", "1,5", "", "0x10")] cell: &str,
    ) {
        let message = PLACE.seconds(cell).unwrap_err().to_string();
        let found = if cell.is_empty() { "nothing".to_owned() } else { format!("`{cell}`") };
        let expected = "`f.csv` line 7, column `time_s`: expected seconds from 0 to 100 years, found ";
        assert!(message.starts_with(&format!("{expected}{found}\nhint: ")), "{message}");
    }

    #[test]
    fn milliseconds_are_whole() {
        assert_eq!(PLACE.milliseconds("1440000").unwrap(), SimTime::SECOND * 1440);
        for cell in ["-1", "1.5", "18446744073709551615", "99999999999999999999", "NaN", ""] {
            let message = PLACE.milliseconds(cell).unwrap_err().to_string();
            assert!(message.contains("whole milliseconds") && message.contains("hint:"), "{message}");
        }
    }

    #[test]
    fn counts_and_prices_have_bounds() {
        assert_eq!(PLACE.gpu_count("8").unwrap(), 8);
        for cell in ["0", "-1", "1.5", "4294967296", "eight"] {
            assert!(PLACE.gpu_count(cell).unwrap_err().to_string().contains("a whole number of GPUs from 1 to"));
        }
        assert!((PLACE.price_usd_per_hour("8.2").unwrap() - 8.2).abs() < f64::EPSILON);
        for cell in ["-0.1", "NaN", "inf", "$3"] {
            assert!(PLACE.price_usd_per_hour(cell).unwrap_err().to_string().contains("US dollars per hour"));
        }
    }
}
