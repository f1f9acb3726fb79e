//! One time axis for all processes of a run: nanoseconds since the coordinator began.
//!
//! Each process reads the wall clock once, to find that origin, and from then on only the monotonic one.

use crate::units::SimTime;
use std::time::{Duration, Instant, SystemTime};

/// A monotonic clock with an origin that processes of one machine share.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    read_at: Instant,
    /// The time on the shared axis at `read_at`.
    then: Duration,
}

impl Clock {
    /// A clock with its origin now; the second value takes it to other processes.
    pub fn start() -> (Self, Duration) {
        let since_epoch = since_epoch();
        (Self { read_at: Instant::now(), then: Duration::ZERO }, since_epoch)
    }

    /// The clock of a process that was told the origin.
    pub(super) fn with_origin(origin_since_epoch: Duration) -> Self {
        let then = since_epoch().saturating_sub(origin_since_epoch);
        Self { read_at: Instant::now(), then }
    }

    /// Time on the shared axis.
    pub fn now(&self) -> SimTime {
        SimTime((self.then + self.read_at.elapsed()).as_nanos() as u64)
    }
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
