//! SCIP against enumeration.

use proptest::prelude::*;

use super::super::autohet::grouping::search_grouping;
use super::super::autohet::grouping::tests::{brute_force, class, problem, small_problem};
use super::*;

const NO_LIMIT: ScipLimits = ScipLimits { nodes: 1_000_000, time_s: 100.0 };

#[test]
fn a_fast_and_a_slow_unit_pair_up() {
    let problem =
        GroupingProblem { equal_micro_batches: true, ..problem(vec![class(2, 3.0, 80), class(2, 1.0, 80)], 2, 8) };
    let found = solve_grouping(&problem, &NO_LIMIT, None).expect("SCIP runs");
    assert_eq!(found.status, ScipStatus::Optimal);
    let grouping = found.grouping.expect("feasible");
    assert_eq!(grouping.replicas[0].units, [1, 1]);
    // (4 + 1) slots of 6 layers at 4 layers per second.
    assert!((grouping.iteration_s - 7.5).abs() < 1e-12);
    assert!((found.bound_s - 7.5).abs() < 1e-4);
}

#[test]
fn what_does_not_fit_is_infeasible() {
    let problem = problem(vec![class(2, 1.0, 20)], 1, 4);
    let found = solve_grouping(&problem, &NO_LIMIT, None).expect("SCIP runs");
    assert_eq!((found.grouping, found.status), (None, ScipStatus::Infeasible));
    assert!(found.bound_s.is_infinite());
}

/// Counts that no number of replicas divides, so that the bound is not met and SCIP has work to do.
fn awkward(replicas: u32, equal_micro_batches: bool) -> GroupingProblem {
    GroupingProblem {
        layers: 32,
        extra_layers: 1.7,
        layer_state_bytes: 2,
        equal_micro_batches,
        ..problem(vec![class(7, 3.1, 100), class(9, 2.0, 70), class(5, 1.3, 40)], replicas, 64)
    }
}

#[test]
fn an_incumbent_at_a_limit_is_not_called_optimal() {
    let problem = awkward(4, false);
    let warm_start = search_grouping(&problem);
    let limits = ScipLimits { nodes: 5, ..ScipLimits::default() };
    let found = solve_grouping(&problem, &limits, warm_start.as_ref()).expect("SCIP runs");
    assert_eq!(found.status, ScipStatus::NodeLimit);
    assert!(found.gap().is_some_and(|gap| gap > 0.0));
    assert!(found.bound_s >= lower_bound(&problem));
    assert!(found.grouping.map(|grouping| grouping.iteration_s) <= warm_start.map(|grouping| grouping.iteration_s));

    let no_time = ScipLimits { time_s: 0.0, ..limits };
    assert_eq!(solve_grouping(&problem, &no_time, None).expect("SCIP runs").status, ScipStatus::TimeLimit);
}

#[test]
fn the_same_limit_gives_the_same_answer_on_every_thread() {
    let problem = awkward(4, true);
    let solve = || solve_grouping(&problem, &ScipLimits { nodes: 40, time_s: 1e3 }, search_grouping(&problem).as_ref());
    let answers =
        std::thread::scope(|scope| [0; 4].map(|_| scope.spawn(solve)).map(|thread| thread.join().expect("no panic")));
    assert!(answers.iter().all(|answer| answer == &answers[0]));
}

#[test]
fn nonsense_is_refused() {
    let problem = GroupingProblem { replicas: 0, ..awkward(4, true) };
    let error = solve_grouping(&problem, &NO_LIMIT, None).expect_err("no replicas");
    assert_eq!(error, ScipError::Problem(GroupingError::Zero { field: "replicas" }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_optimum_is_that_of_enumeration(problem in small_problem(), warm: bool) {
        let optimum = brute_force(&problem);
        let warm_start = search_grouping(&problem).filter(|_| warm);
        let found = solve_grouping(&problem, &NO_LIMIT, warm_start.as_ref()).expect("SCIP runs");
        let Some(optimum) = optimum else {
            prop_assert_eq!((found.grouping, found.status), (None, ScipStatus::Infeasible));
            return Ok(());
        };
        prop_assert_eq!(found.status, ScipStatus::Optimal);
        prop_assert!(found.bound_s <= optimum * (1.0 + 1e-5), "bound {} above {}", found.bound_s, optimum);
        prop_assert!(found.gap().is_some_and(|gap| gap < 1e-4), "gap {:?}", found.gap());
        let grouping = found.grouping.expect("feasible");
        prop_assert!((grouping.iteration_s - optimum).abs() <= 1e-5 * optimum, "{} against {}", grouping.iteration_s, optimum);
    }
}
