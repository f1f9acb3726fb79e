//! Simulated time, and how quantities are written for people.
//!
//! Simulated time is an integer number of nanoseconds. Seconds as floats exist only where costs are computed;
//! [`SimTime::from_seconds`] is the one place where they are rounded.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};

/// A point on the simulated clock, or a span of it, in whole nanoseconds.
///
/// ```
/// use autohet::units::SimTime;
/// let step = SimTime::from_seconds(0.25);
/// assert_eq!(step * 4, SimTime::SECOND);
/// assert_eq!(step.as_seconds(), 0.25);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SimTime(pub u64);

impl SimTime {
    /// The start of the clock.
    pub const ZERO: Self = Self(0);
    /// One second.
    pub const SECOND: Self = Self(1_000_000_000);
    /// The end of the clock, about 584 years: "never".
    pub const MAX: Self = Self(u64::MAX);

    /// Rounds seconds to the nearest nanosecond; anything below zero or not a number becomes zero, anything too large
    /// becomes [`SimTime::MAX`].
    pub fn from_seconds(seconds: f64) -> Self {
        Self((seconds * 1e9).round() as u64)
    }

    /// The same time in seconds.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// `self - other`, or zero where `other` is later.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `self + other`, or [`SimTime::MAX`] where that is past the end of the clock.
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Add for SimTime {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for SimTime {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for SimTime {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl SubAssign for SimTime {
    fn sub_assign(&mut self, other: Self) {
        self.0 -= other.0;
    }
}

impl Mul<u64> for SimTime {
    type Output = Self;
    fn mul(self, factor: u64) -> Self {
        Self(self.0 * factor)
    }
}

impl Sum for SimTime {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for SimTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_seconds(self.as_seconds()))
    }
}

/// Seconds for people: `850 µs`, `12.5 ms`, `3.21 s`, `4 min 10 s`, `2 h 05 min`.
pub fn format_seconds(seconds: f64) -> String {
    if seconds < 1e-3 {
        format!("{:.0} µs", seconds * 1e6)
    } else if seconds < 1.0 {
        format!("{:.1} ms", seconds * 1e3)
    } else if seconds < 120.0 {
        format!("{seconds:.2} s")
    } else if seconds < 7200.0 {
        let whole = seconds.round() as u64;
        format!("{} min {:02} s", whole / 60, whole % 60)
    } else {
        let minutes = (seconds / 60.0).round() as u64;
        format!("{} h {:02} min", minutes / 60, minutes % 60)
    }
}

/// A number that was given, for an error: as short as it can be told apart, with an exponent where it is very large or
/// very small: `0.5`, `100`, `1e300`.
pub fn format_number(value: f64) -> String {
    let text = format!("{value:?}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// Text for a terminal: control characters, as a name of somebody's file may have, are written out. Line ends, tabs and our own
/// styles stay.
pub(crate) fn printable(text: &str) -> std::borrow::Cow<'_, str> {
    let is_harmless = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    if text.chars().all(is_harmless) {
        return text.into();
    }
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let style = style_of(rest);
        if is_harmless(c) || rest.starts_with("\r\n") {
            safe.push(c);
        } else if let Some(style) = style {
            safe.push_str(style);
        } else {
            safe.extend(c.escape_debug());
        }
        rest = &rest[style.map_or(c.len_utf8(), str::len)..];
    }
    safe.into()
}

/// The style that the text begins with, if any: bold, a colour, none.
fn style_of(text: &str) -> Option<&str> {
    let numbers = text.strip_prefix("\u{1b}[")?;
    let end = numbers.find(|c: char| !c.is_ascii_digit() && c != ';').filter(|end| numbers[*end..].starts_with('m'))?;
    Some(&text[..=(2 + end)])
}

/// Bytes for people, in decimal units: `512 B`, `1.5 kB`, `13.4 GB`.
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_round_to_the_nearest_nanosecond() {
        assert_eq!(SimTime::from_seconds(1.5e-9), SimTime(2));
        assert_eq!(SimTime::from_seconds(-1.0), SimTime::ZERO);
        assert_eq!(SimTime::from_seconds(f64::NAN), SimTime::ZERO);
        assert_eq!(SimTime::from_seconds(f64::INFINITY), SimTime::MAX);
    }

    #[test]
    fn control_characters_are_written_out_and_styles_stay() {
        assert!(matches!(printable("a\tb\n"), std::borrow::Cow::Borrowed(_)));
        assert_eq!(printable("\u{1b}[1mbold\u{1b}[0m"), "\u{1b}[1mbold\u{1b}[0m");
        assert_eq!(printable("n\u{1b}[2Jode\u{1b}]0;x\u{7}\r\u{9b}"), "n\\u{1b}[2Jode\\u{1b}]0;x\\u{7}\\r\\u{9b}");
        assert_eq!(printable("\u{1b}["), "\\u{1b}[");
        assert_eq!(printable("\u{1b}[1"), "\\u{1b}[1");
    }

    #[test]
    fn quantities_are_written_for_people() {
        assert_eq!(format_seconds(0.000_85), "850 µs");
        assert_eq!(format_seconds(250.4), "4 min 10 s");
        assert_eq!(format_seconds(7500.0), "2 h 05 min");
        assert_eq!(format_number(1e300), "1e300");
        assert_eq!(format_number(-1e-300), "-1e-300");
        assert_eq!(format_number(4_294_967_295.0), "4294967295");
        assert_eq!(format_number(0.5), "0.5");
        assert_eq!(format_number(f64::NAN), "NaN");
        assert_eq!(format_bytes(512), "512 B");
        assert_eq!(format_bytes(13_400_000_000), "13.4 GB");
        assert_eq!(format_bytes(999_999), "1.0 MB");
    }
}
