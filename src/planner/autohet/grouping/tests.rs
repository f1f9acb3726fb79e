//! Hand-worked cases, and all of them against enumeration.

use proptest::prelude::*;

use super::*;

pub(in crate::planner) fn class(units: u32, layer_rate_per_s: f64, usable_memory_bytes: u64) -> UnitClass {
    UnitClass { units, layer_rate_per_s, usable_memory_bytes }
}

/// Six layers without extras; memory of 60 for the weights and 1 per layer and micro batch in flight.
pub(in crate::planner) fn problem(classes: Vec<UnitClass>, replicas: u32, micro_batches: u32) -> GroupingProblem {
    GroupingProblem {
        classes,
        replicas,
        micro_batches,
        layers: 6,
        extra_layers: 0.0,
        layer_state_bytes: 10,
        extra_state_bytes: 0,
        layer_activation_bytes: 1,
        equal_micro_batches: false,
    }
}

/// The best objective by trying every count of every class in every replica, and every division of the micro batches.
pub(in crate::planner) fn brute_force(problem: &GroupingProblem) -> Option<f64> {
    let vectors = product(&problem.classes.iter().map(|class| class.units).collect::<Vec<_>>());
    let fitting: Vec<Vec<u32>> = vectors.into_iter().filter(|units| problem.fits(units)).collect();
    let divisions = divisions(problem.replicas, problem.micro_batches);
    let mut best: Option<f64> = None;
    let choices =
        vec![fitting.len() as u32; problem.replicas as usize].iter().map(|n| n.saturating_sub(1)).collect::<Vec<_>>();
    if fitting.is_empty() {
        return None;
    }
    for choice in product(&choices).into_iter().filter(|choice| choice.is_sorted()) {
        let units: Vec<Vec<u32>> = choice.iter().map(|&index| fitting[index as usize].clone()).collect();
        for division in &divisions {
            let value = problem.evaluate(&units, division);
            best = best.into_iter().chain(value).min_by(f64::total_cmp);
        }
    }
    best
}

/// All vectors of counts up to `limits`.
fn product(limits: &[u32]) -> Vec<Vec<u32>> {
    limits.iter().fold(vec![vec![]], |heads, &limit| {
        heads.iter().flat_map(|head| (0..=limit).map(move |count| [&head[..], &[count]].concat())).collect()
    })
}

fn divisions(parts: u32, total: u32) -> Vec<Vec<u32>> {
    let all = product(&vec![total; parts as usize]);
    all.into_iter().filter(|shares| shares.iter().sum::<u32>() == total && !shares.contains(&0)).collect()
}

prop_compose! {
    /// Small enough for enumeration: at most 3 replicas and 8 units, memory that sometimes binds.
    pub(in crate::planner) fn small_problem()(
        classes in prop::collection::vec((1_u32..=4, 1_u32..=40, 10_u64..=120), 1..=2),
        replicas in 1_u32..=3,
        per_replica in 1_u32..=3,
        extra_batches in 0_u32..=2,
        layers in 2_u32..=8,
        extra_layers in 0.0_f64..3.0,
        layer_activation_bytes in 0_u64..=4,
        equal_micro_batches: bool,
    ) -> GroupingProblem {
        let classes = classes.into_iter().map(|(units, rate, memory)| class(units, f64::from(rate) / 10.0, memory)).collect();
        let micro_batches = replicas * per_replica + if equal_micro_batches { 0 } else { extra_batches };
        GroupingProblem {
            layers,
            extra_layers,
            layer_activation_bytes,
            equal_micro_batches,
            extra_state_bytes: 7,
            ..problem(classes, replicas, micro_batches)
        }
    }
}

#[test]
fn equal_units_make_equal_groups() {
    for equal_micro_batches in [false, true] {
        let problem = GroupingProblem { equal_micro_batches, ..problem(vec![class(6, 2.0, 80)], 2, 8) };
        let found = search_grouping(&problem).expect("three units hold the model");
        let replica = GroupedReplica { units: vec![3], micro_batches: 4 };
        assert_eq!(found.replicas, [replica.clone(), replica]);
        // 4 + 3 - 1 slots of 6 layers at 6 layers per second; the bound is met.
        assert!((found.iteration_s - 6.0).abs() < 1e-12);
        assert!((lower_bound(&problem) - 6.0).abs() < 1e-12);
    }
}

#[test]
fn a_fast_and_a_slow_unit_pair_up() {
    // Equal shares: {3, 1} twice is (4 + 1) · 6 / 4 = 7.5 s. {3, 3} and {1, 1} would take (4 + 1) · 6 / 2 = 15 s.
    let equal =
        GroupingProblem { equal_micro_batches: true, ..problem(vec![class(2, 3.0, 80), class(2, 1.0, 80)], 2, 8) };
    let found = search_grouping(&equal).expect("feasible");
    assert_eq!(found.replicas[0].units, [1, 1]);
    assert!((found.iteration_s - 7.5).abs() < 1e-12);
}

#[test]
fn a_unit_that_costs_more_than_it_brings_stays_idle() {
    // One replica, 4 micro batches: alone 4 · 6 / 3 = 8 s; with the slow one 5 · 6 / 3.1 = 9.7 s.
    let problem = problem(vec![class(1, 3.0, 80), class(1, 0.1, 80)], 1, 4);
    let found = search_grouping(&problem).expect("feasible");
    assert_eq!(found.replicas[0].units, [1, 0]);
    assert!((found.iteration_s - 8.0).abs() < 1e-12);
}

#[test]
fn memory_forces_it_in() {
    // 60 + 6 · 1 · (P + 1)/2: one stage needs 66, two need 69.
    let mut problem = problem(vec![class(1, 3.0, 65), class(1, 0.1, 4)], 1, 4);
    let found = search_grouping(&problem).expect("69 bytes in two units");
    assert_eq!(found.replicas[0].units, [1, 1]);
    problem.classes[1].usable_memory_bytes = 3;
    assert_eq!(search_grouping(&problem), None);
    assert_eq!(problem.evaluate(&[vec![1, 1]], &[4]), None);
}

#[test]
fn a_stage_holds_at_least_one_layer() {
    let problem = problem(vec![class(7, 1.0, 80)], 1, 100);
    assert_eq!(problem.evaluate(&[vec![7]], &[100]), None);
    assert_eq!(search_grouping(&problem).expect("feasible").replicas[0].units, [6]);
}

#[test]
fn nonsense_is_refused() {
    let good = problem(vec![class(2, 1.0, 80)], 2, 4);
    assert_eq!(good.validate(), Ok(()));
    let bad = [
        GroupingProblem { replicas: 0, ..good.clone() },
        GroupingProblem { micro_batches: 1, ..good.clone() },
        GroupingProblem { layers: 0, ..good.clone() },
        GroupingProblem { classes: vec![], ..good.clone() },
        GroupingProblem { classes: vec![class(2, f64::NAN, 80)], ..good.clone() },
        GroupingProblem { classes: vec![class(2, 0.0, 80)], ..good.clone() },
        GroupingProblem { extra_layers: -1.0, ..good.clone() },
        GroupingProblem { micro_batches: 5, equal_micro_batches: true, ..good.clone() },
    ];
    for problem in bad {
        assert!(problem.validate().is_err(), "{problem:?}");
        assert_eq!(search_grouping(&problem), None);
    }
    let message = GroupingProblem { layers: 0, ..good }.validate().map_err(|error| error.to_string());
    assert_eq!(message, Err("`layers` must be at least 1".into()));
}

#[test]
fn many_units_come_close_to_the_bound() {
    // 254 units of three classes in 32 replicas: about 8 units each, whole micro batches cost about one in 16.
    for equal_micro_batches in [false, true] {
        let problem = GroupingProblem {
            layers: 32,
            layer_state_bytes: 2,
            equal_micro_batches,
            ..problem(vec![class(85, 3.1, 100), class(85, 2.9, 95), class(84, 2.7, 90)], 32, 512)
        };
        let found = search_grouping(&problem).expect("feasible");
        assert!(found.iteration_s <= 1.02 * lower_bound(&problem));
        assert_eq!(search_grouping(&problem), Some(found));
    }
}

#[test]
fn too_few_units_have_no_bound() {
    assert!(lower_bound(&problem(vec![class(2, 1.0, 80)], 3, 4)).is_infinite());
}

/// Distance from the optimum that the search may have on the instances of [`small_problem`], where a single unit or
/// micro batch is a large part of the whole.
const SMALL_TOLERANCE: f64 = 0.12;

proptest! {
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn the_search_is_near_the_optimum_and_above_the_bound(problem in small_problem()) {
        let optimum = brute_force(&problem);
        let found = search_grouping(&problem).map(|grouping| grouping.iteration_s);
        prop_assert_eq!(found.is_some(), optimum.is_some(), "{:?} {:?}", found, optimum);
        if let (Some(found), Some(optimum)) = (found, optimum) {
            prop_assert!(lower_bound(&problem) <= optimum * (1.0 + 1e-12));
            prop_assert!(found >= optimum * (1.0 - 1e-12));
            prop_assert!(found <= optimum * (1.0 + SMALL_TOLERANCE) * (1.0 + 1e-12), "{} against {}", found, optimum);
        }
    }

    #[test]
    fn the_order_of_classes_does_not_matter_to_the_bound(problem in small_problem()) {
        let mut turned = problem.clone();
        turned.classes.reverse();
        let (a, b) = (lower_bound(&problem), lower_bound(&turned));
        prop_assert!((a.is_infinite() && b.is_infinite()) || (a - b).abs() <= 1e-12 * a);
    }
}
