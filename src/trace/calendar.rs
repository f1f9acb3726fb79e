//! Calendar times: ISO 8601, counted from the first row.

use crate::trace::cells::{LATEST, Place};
use crate::trace::error::TraceError;
use crate::trace::options::UnknownWord;
use crate::units::SimTime;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

const EXAMPLE_WITH_ZONE: &str = "an ISO 8601 time with a zone, like `2026-01-31T18:00:00Z`";
const EXAMPLE_WITHOUT: &str = "an ISO 8601 time without a zone, like `2026-01-31T18:00:00`";

/// What time the zero of a trace stands for. Times without a zone are taken as they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(with = "String"))]
#[serde(try_from = "String", into = "String")]
pub struct Zero {
    time: Timestamp,
    has_zone: bool,
}

impl Zero {
    pub(super) fn new(time: Timestamp, has_zone: bool) -> Self {
        Self { time, has_zone }
    }

    /// So many seconds since 1970.
    pub(super) fn of_epoch(seconds: f64) -> Option<Self> {
        let time = Timestamp::from_nanosecond((seconds * 1e9).round() as i128).ok()?;
        Some(Self { time, has_zone: true })
    }

    /// Whether it has a zone, and so stands for one moment.
    pub fn has_zone(self) -> bool {
        self.has_zone
    }

    /// The time from `earlier` to this one; zero where it isn't earlier.
    pub fn since(self, earlier: Self) -> SimTime {
        let since_ns = self.time.as_nanosecond() - earlier.time.as_nanosecond();
        SimTime(u64::try_from(since_ns.max(0)).unwrap_or(u64::MAX))
    }

    /// The moment; of a time without a zone, as if it were UTC.
    pub(super) fn timestamp(self) -> Timestamp {
        self.time
    }
}

impl fmt::Display for Zero {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.has_zone { write!(f, "{}", self.time) } else { write!(f, "{}", TimeZone::UTC.to_datetime(self.time)) }
    }
}

impl FromStr for Zero {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        if let Ok(time) = word.parse::<Timestamp>() {
            return Ok(Self::new(time, true));
        }
        let civil = word.parse::<DateTime>().ok().and_then(|time| TimeZone::UTC.to_timestamp(time).ok());
        let expected = "an ISO 8601 time, best with a zone";
        civil
            .map(|time| Self::new(time, false))
            .ok_or_else(|| UnknownWord::new(expected, word, &["2026-01-31T18:00:00Z"]))
    }
}

/// The zero of a file's calendar times.
#[derive(Default)]
pub(super) struct Calendar {
    first: Option<First>,
}

#[derive(Clone, Copy)]
struct First {
    time: Timestamp,
    has_zone: bool,
}

impl Calendar {
    /// The time since the first row. Times without a zone are taken as they stand, so none of them knows of a clock that
    /// is put forward or back; they can't be mixed with times that have a zone.
    pub fn since_first(&mut self, place: Place, cell: &str) -> Result<SimTime, TraceError> {
        let (time, has_zone) = stamp(place, cell)?;
        let first = *self.first.get_or_insert(First { time, has_zone });
        if first.has_zone != has_zone {
            let expected = if first.has_zone { EXAMPLE_WITH_ZONE } else { EXAMPLE_WITHOUT };
            return Err(place.wrong(expected, cell, "the rows before have it so; one file needs one kind"));
        }
        let since_ns = time.as_nanosecond() - first.time.as_nanosecond();
        match u64::try_from(since_ns).map(SimTime) {
            Ok(since) if since <= LATEST => Ok(since),
            _ => {
                let expected = format!("a time within 100 years after the first row (`{}`)", first.time);
                Err(place.wrong(expected, cell, "sort the rows by time; the first row is the zero of the clock"))
            }
        }
    }

    /// What the first row's time was.
    pub fn zero(&self) -> Option<Zero> {
        self.first.map(|first| Zero::new(first.time, first.has_zone))
    }

    /// What the times were taken for, once rows have been read.
    pub fn unit(&self) -> String {
        match self.first {
            Some(First { time, has_zone: true }) => format!("ISO 8601 counted from {time}"),
            Some(First { time, .. }) => {
                format!("ISO 8601 without a zone counted from {}", TimeZone::UTC.to_datetime(time))
            }
            None => "ISO 8601".to_owned(),
        }
    }
}

/// An ISO 8601 time, and whether it has a zone; one without is taken as it stands.
pub(super) fn stamp(place: Place, cell: &str) -> Result<(Timestamp, bool), TraceError> {
    if let Ok(time) = cell.parse::<Timestamp>() {
        return Ok((time, true));
    }
    let civil = cell.parse::<DateTime>().ok().and_then(|time| TimeZone::UTC.to_timestamp(time).ok());
    match civil {
        Some(time) => Ok((time, false)),
        None => Err(place.wrong(EXAMPLE_WITH_ZONE, cell, "times in seconds go in a column `time_s`")),
    }
}
