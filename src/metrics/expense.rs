//! Money, counted exactly.

use crate::units::SimTime;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

/// What something costs: one is a millionth of a US dollar an hour, for a nanosecond. Prices are rounded to millionths of a
/// dollar an hour, and nothing after that until an expense is written as dollars.
///
/// ```
/// use autohet::metrics::Expense;
/// use autohet::units::SimTime;
/// let hour = SimTime::SECOND * 3600;
/// assert_eq!((Expense::of(Expense::micro_usd(2.5), hour * 4)).as_usd(), 10.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expense(pub u128);

impl Expense {
    /// A price of so many millionths of a dollar an hour, paid for a time.
    pub fn of(micro_usd_per_hour: u64, time: SimTime) -> Self {
        Self(u128::from(micro_usd_per_hour) * u128::from(time.0))
    }

    /// A price in millionths of a dollar, rounded.
    pub fn micro_usd(usd: f64) -> u64 {
        (usd * 1e6).round() as u64
    }

    /// In US dollars.
    pub fn as_usd(self) -> f64 {
        const UNITS_PER_USD: f64 = 1e6 * 3600e9;
        self.0 as f64 / UNITS_PER_USD
    }
}

impl Add for Expense {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Expense {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Expense {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_at_a_price_costs_the_price() {
        let hour = SimTime::SECOND * 3600;
        approx::assert_relative_eq!(Expense::of(Expense::micro_usd(0.918), hour).as_usd(), 0.918, max_relative = 1e-15);
        // A third of an hour three times is an hour, to the last unit.
        let third: Expense = (0..3).map(|_| Expense::of(918_000, SimTime::SECOND * 1200)).sum();
        assert_eq!(third, Expense::of(918_000, hour));
    }
}
