//! One time axis for all processes of a run: nanoseconds since the coordinator began.
//!
//! Each process reads the wall clock once, to find that origin, and from then on only the monotonic one. Wall clocks of
//! several machines differ: a process elsewhere sets the origin by what the coordinator's clock says, less exactly by the
//! time of a message.

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

/// The origin by the wall clock of this machine, where it stands at `here` as the other one, of which the origin is told,
/// stands at `there`.
pub(super) fn origin_here(origin: Duration, there: Duration, here: Duration) -> Duration {
    (origin + here).saturating_sub(there)
}

/// What the wall clock says.
pub fn since_epoch() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_late_has_its_origin_earlier() {
        let [origin, there, here] = [1000, 1010, 1003].map(Duration::from_secs);
        // Seven seconds late: ten seconds after the origin it stands at 1003.
        assert_eq!(origin_here(origin, there, here), Duration::from_secs(993));
        assert_eq!(origin_here(origin, there, there), origin);
    }
}
