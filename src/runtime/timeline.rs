//! What happened when: recorded by the driver, so that simulated and real runs are measured by the same code.

use crate::ids::Rank;
use crate::program::{InstructionId, Program, Stream};
use crate::units::SimTime;

/// One executed instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Rank that executed it.
    pub rank: Rank,
    /// The instruction.
    pub id: InstructionId,
    /// When it began.
    pub start: SimTime,
    /// When it ended.
    pub end: SimTime,
}

/// The executed instructions of one iteration, in the order in which they ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// The instructions.
    pub spans: Vec<Span>,
}

/// What one rank's time went into, within the makespan of the iteration. The parts add up to the makespan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankTime {
    /// The compute stream was busy.
    pub busy: SimTime,
    /// The compute stream was idle while a transfer or a reduction of this rank was under way.
    pub exposed_communication: SimTime,
    /// Neither: the rank waited for others.
    pub bubble: SimTime,
}

impl Timeline {
    /// Time from the start to the last end.
    pub fn makespan(&self) -> SimTime {
        self.spans.iter().map(|span| span.end).max().unwrap_or_default()
    }

    /// What each rank's time went into, indexed by rank.
    pub fn rank_times(&self, program: &Program) -> Vec<RankTime> {
        let makespan = self.makespan();
        let ranks = program.ranks().len();
        let mut compute = vec![Vec::new(); ranks];
        let mut communication = vec![Vec::new(); ranks];
        for span in &self.spans {
            let stream = program.instruction(span.rank, span.id).stream();
            let intervals = if stream == Stream::Compute { &mut compute } else { &mut communication };
            intervals[span.rank.index()].push((span.start, span.end));
        }
        let rank_time = |(compute, mut communication): (Vec<(SimTime, SimTime)>, Vec<_>)| {
            communication.sort_unstable();
            let busy = compute.iter().map(|(start, end)| *end - *start).sum();
            let exposed_communication = exposed(&compute, &communication);
            RankTime { busy, exposed_communication, bubble: makespan - busy - exposed_communication }
        };
        compute.into_iter().zip(communication).map(rank_time).collect()
    }
}

/// Length of the union of `communication` outside `compute`. Both are sorted by start; compute intervals don't overlap.
fn exposed(compute: &[(SimTime, SimTime)], communication: &[(SimTime, SimTime)]) -> SimTime {
    let mut total = SimTime::ZERO;
    let mut covered = SimTime::ZERO;
    let mut next_compute = 0;
    for &(start, end) in communication {
        let mut from = start.max(covered);
        while from < end {
            while next_compute < compute.len() && compute[next_compute].1 <= from {
                next_compute += 1;
            }
            match compute.get(next_compute) {
                Some(&(busy_from, busy_until)) if busy_from <= from => from = busy_until,
                Some(&(busy_from, _)) if busy_from < end => {
                    total += busy_from - from;
                    from = busy_from;
                }
                _ => {
                    total += end - from;
                    from = end;
                }
            }
        }
        covered = covered.max(end);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(intervals: &[(u64, u64)]) -> Vec<(SimTime, SimTime)> {
        intervals.iter().map(|&(start, end)| (SimTime(start), SimTime(end))).collect()
    }

    #[test]
    fn communication_is_exposed_where_nothing_computes() {
        let compute = at(&[(0, 10), (20, 30), (40, 50)]);
        assert_eq!(exposed(&compute, &at(&[(5, 25)])), SimTime(10));
        assert_eq!(exposed(&compute, &at(&[(5, 25), (8, 35)])), SimTime(15));
        assert_eq!(exposed(&compute, &at(&[(0, 10), (45, 60)])), SimTime(10));
        assert_eq!(exposed(&compute, &at(&[])), SimTime::ZERO);
    }
}
