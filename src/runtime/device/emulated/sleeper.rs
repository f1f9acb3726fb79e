//! Sleeping for exact times on a system that wakes late.

use std::thread;
use std::time::{Duration, Instant};

/// What can wait.
pub(in super::super) trait Sleeper: Send {
    /// The time since some origin.
    fn now(&self) -> Duration;
    /// Waits for that time, or a little longer.
    fn sleep_until(&mut self, time: Duration);
}

/// The system's sleep.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct SystemSleeper(Instant);

impl Default for SystemSleeper {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Sleeper for SystemSleeper {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep_until(&mut self, time: Duration) {
        thread::sleep(time.saturating_sub(self.now()));
    }
}

/// Sleeps for times whose sum is right: what one sleep took too long, the next ones make up for.
pub(in super::super) struct Debtor<S> {
    sleeper: S,
    debt: Duration,
}

impl<S: Sleeper> Debtor<S> {
    pub(in super::super) fn new(sleeper: S) -> Self {
        Self { sleeper, debt: Duration::ZERO }
    }

    /// The time of the sleeper's clock.
    pub(in super::super) fn now(&self) -> Duration {
        self.sleeper.now()
    }

    /// Lets a time pass, and says how long that really took.
    pub(in super::super) fn spend(&mut self, time: Duration) -> Duration {
        let start = self.sleeper.now();
        let paid = self.debt.min(time);
        let until = start + time.saturating_sub(paid);
        if until > start {
            self.sleeper.sleep_until(until);
        }
        let end = self.sleeper.now();
        self.debt = self.debt.saturating_sub(paid) + end.saturating_sub(until);
        end.saturating_sub(start)
    }
}
