//! How much a search may still do: counted work, which gives the same plan on every machine, and the caller's word that
//! time is up.

use crate::plan::PlanLimits;

/// What is left of a request's limits.
#[derive(Clone, Copy)]
pub struct Effort<'a> {
    left: u64,
    out_of_time: Option<&'a (dyn Fn() -> bool + Sync)>,
}

impl<'a> Effort<'a> {
    /// All that the request allows.
    pub fn new(limits: &PlanLimits<'a>) -> Self {
        Self { left: limits.work, out_of_time: limits.out_of_time }
    }

    /// Counts work that was done.
    pub fn spend(&mut self, work: u64) {
        self.left = self.left.saturating_sub(work);
        if self.left > 0 && self.out_of_time.is_some_and(|is_over| is_over()) {
            self.left = 0;
        }
    }

    /// Whether nothing is left.
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// No more of it than this.
    pub fn at_most(&self, work: u64) -> Self {
        Self { left: self.left.min(work), ..*self }
    }

    /// How much work is left.
    pub fn left(&self) -> u64 {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted_down_and_time_ends_it() {
        let mut effort = Effort::new(&PlanLimits { work: 10, out_of_time: None });
        effort.spend(4);
        assert_eq!((effort.left(), effort.at_most(3).left(), effort.at_most(99).left()), (6, 3, 6));
        effort.spend(7);
        assert!(effort.is_spent());
        let mut late = Effort::new(&PlanLimits { work: 10, out_of_time: Some(&|| true) });
        assert!(!late.is_spent());
        late.spend(0);
        assert!(late.is_spent());
    }
}
