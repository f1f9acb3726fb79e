//! Our own search for a grouping: deterministic local search over counts per class.
//!
//! For a time `T` a replica can take `floor(T · G_j / W) − P_j + 1` micro batches. The search asks for a `T` just below
//! that of the best grouping so far and divides the units of two replicas anew (or those of a replica and the
//! idle pool) as long as this lessens what is lacking at `T`. When nothing is lacking, the grouping is better than the
//! last one; when no pair helps, it is a local optimum.

mod state;

use super::{Grouping, GroupingProblem, lower_bound};
use state::{Start, State, Target};

/// Divisions of two slots' units to try in one descent: a bound on the work, a few milliseconds.
const DIVISION_LIMIT: usize = 30_000;

/// Relative amount by which each step must be better.
const STEP: f64 = 1e-7;

/// Finds a good grouping, or nothing where it finds none that fits the memory (which proves nothing) and where the
/// problem is nonsense. Same problem, same answer; no clock, no chance.
///
/// Descends from several starts, which deal the units by work, by memory or in turn, and takes the best.
///
/// ```
/// use autohet::planner::autohet::grouping::{GroupingProblem, UnitClass, search_grouping};
///
/// let problem = GroupingProblem {
///     classes: vec![UnitClass { units: 4, layer_rate_per_s: 2.0, usable_memory_bytes: 80 }],
///     replicas: 2,
///     micro_batches: 8,
///     layers: 6,
///     extra_layers: 0.0,
///     layer_state_bytes: 10,
///     extra_state_bytes: 0,
///     layer_activation_bytes: 1,
///     equal_micro_batches: true,
/// };
/// let found = search_grouping(&problem).expect("two units hold the model");
/// assert_eq!(found.replicas[0].units, [2]);
/// // 4 micro batches and 2 stages: 5 slots of 6 layers at 4 layers per second.
/// assert!((found.iteration_s - 5.0 * 6.0 / 4.0).abs() < 1e-12);
/// ```
pub fn search_grouping(problem: &GroupingProblem) -> Option<Grouping> {
    problem.validate().ok()?;
    let bound_s = lower_bound(problem);
    if !bound_s.is_finite() {
        return None;
    }
    let mut best: Option<Grouping> = None;
    for start in Start::ALL {
        let mut state = State::new(problem, start, bound_s);
        let found = descend(problem, &mut state, bound_s);
        let better = |new: &Grouping| best.as_ref().is_none_or(|old| new.iteration_s < old.iteration_s);
        best = found.filter(better).or(best);
    }
    best
}

fn descend(problem: &GroupingProblem, state: &mut State, bound_s: f64) -> Option<Grouping> {
    let mut left = DIVISION_LIMIT;
    // First only memory and stage counts count: at such a time no rate is too low.
    let mut target = Target::new(problem, 1e3 * bound_s * f64::from(problem.micro_batches));
    let mut best: Option<Grouping> = None;
    while improve(state, &target, &mut left) {
        let found = state.grouping(problem)?;
        let better = best.as_ref().is_none_or(|old| found.iteration_s < old.iteration_s);
        if !better || found.iteration_s <= bound_s * (1.0 + STEP) {
            return if better { Some(found) } else { best };
        }
        target = Target::new(problem, found.iteration_s * (1.0 - STEP));
        best = Some(found);
    }
    best
}

/// Changes pairs of slots until nothing is lacking at the target; false if that cannot be reached.
fn improve(state: &mut State, target: &Target, left: &mut usize) -> bool {
    let slots = state.slots();
    state.set_target(target);
    let mut wide = false;
    loop {
        let mut changed = false;
        for from in 0..slots {
            for to in from + 1..slots {
                if state.lacks_nothing(target) {
                    return true;
                }
                if *left == 0 {
                    return false;
                }
                if state.worth_a_look(from, to) {
                    changed |= state.improve_pair((from, to), wide, target, left);
                }
            }
        }
        if !changed && wide {
            return state.lacks_nothing(target);
        }
        // The many divisions are tried only when the few do not help.
        wide = !changed;
    }
}
