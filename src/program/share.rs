//! Shares of a tensor or of a block, as exact fractions.

use std::ops::Range;

/// Consecutive ones of equal parts: `start..end` of `of`. Of an activation they are rows along the sequence, of a block
/// slices along the tensor-parallel dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// First part.
    pub start: u32,
    /// The part behind the last one.
    pub end: u32,
    /// Number of parts that make the whole.
    pub of: u32,
}

impl Share {
    /// All of it.
    pub const WHOLE: Self = Self { start: 0, end: 1, of: 1 };

    /// That of one of `size` ranks.
    pub fn of_rank(rank: u32, size: u32) -> Self {
        Self { start: rank, end: rank + 1, of: size }
    }

    /// What this share and another have in common; `None` where that is nothing.
    pub fn overlap(self, other: Self) -> Option<Self> {
        let of = lcm(self.of, other.of);
        let (own, theirs) = (self.in_parts(of), other.in_parts(of));
        let (start, end) = (own.start.max(theirs.start), own.end.min(theirs.end));
        (start < end).then_some(Self { start, end, of })
    }

    /// Whether all of another share is in this one.
    pub fn contains(self, other: Self) -> bool {
        let of = lcm(self.of, other.of);
        let (own, theirs) = (self.in_parts(of), other.in_parts(of));
        own.start <= theirs.start && theirs.end <= own.end
    }

    /// The parts of this share, where the whole has so many parts, a multiple of [`of`](Self::of).
    pub fn in_parts(self, of: u32) -> Range<u32> {
        let times = of / self.of;
        self.start * times..self.end * times
    }

    /// The indices of this share among so many; shares that touch leave none out.
    pub fn within(self, width: usize) -> Range<usize> {
        let at = |part: u32| width * part as usize / self.of as usize;
        at(self.start)..at(self.end)
    }

    /// Bytes of this share of so many bytes, rounded up.
    pub fn bytes(self, whole_bytes: u64) -> u64 {
        (whole_bytes * u64::from(self.end - self.start)).div_ceil(u64::from(self.of))
    }
}

/// Least common multiple.
pub(super) fn lcm(a: u32, b: u32) -> u32 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    a / x.max(1) * b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_by_hand() {
        let half = |rank| Share::of_rank(rank, 2);
        assert_eq!(half(1).overlap(Share::of_rank(3, 4)), Some(Share::of_rank(3, 4)));
        assert_eq!(half(0).overlap(Share::of_rank(3, 4)), None);
        assert_eq!(half(1).overlap(Share::WHOLE), Some(half(1)));
        // The second third and the first half share one sixth.
        assert_eq!(Share::of_rank(1, 3).overlap(half(0)), Some(Share { start: 2, end: 3, of: 6 }));
        assert!(half(1).contains(Share { start: 4, end: 6, of: 6 }) && !half(1).contains(Share::of_rank(1, 3)));
    }

    #[test]
    fn shares_that_touch_leave_nothing_out() {
        // 127 rows: the quarters of a half are quarters of the whole, wherever rounding puts them.
        let quarters: Vec<_> = (0..4).map(|rank| Share::of_rank(rank, 4).within(127)).collect();
        assert_eq!(quarters, [0..31, 31..63, 63..95, 95..127]);
        assert_eq!(Share::of_rank(0, 2).within(127), 0..63);
        assert_eq!(Share::of_rank(0, 4).bytes(10), 3);
    }

    #[test]
    fn least_common_multiples() {
        assert_eq!([lcm(1, 1), lcm(4, 2), lcm(2, 8), lcm(4, 6)], [1, 4, 8, 12]);
    }
}
