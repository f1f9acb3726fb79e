use super::*;
use proptest::prelude::*;

fn load(fixed_s: f64, layer_s: f64, max_layers: u32) -> StageLoad {
    StageLoad { fixed_s, layer_s, max_layers }
}

fn goal(num_layers: u32, micro_batches: u32) -> SplitGoal {
    SplitGoal { num_layers, micro_batches, period_floor_s: 0.0 }
}

#[test]
fn a_gpu_twice_as_fast_takes_twice_the_layers() {
    let split = split_layers(&[load(0.0, 1.0, 99), load(0.0, 2.0, 99)], goal(12, 64)).unwrap();
    assert_eq!(split.layers, [8, 4]);
    assert!((split.bottleneck_s - 8.0).abs() < 1e-9 && (split.fill_s - 16.0).abs() < 1e-9);
}

#[test]
fn a_stage_short_of_memory_leaves_layers_to_the_next() {
    let split = split_layers(&[load(0.0, 1.0, 3), load(0.0, 2.0, 99)], goal(12, 64)).unwrap();
    assert_eq!(split.layers, [3, 9]);
    assert!(split_layers(&[load(0.0, 1.0, 3), load(0.0, 2.0, 8)], goal(12, 64)).is_none());
}

#[test]
fn the_head_counts_as_work_of_its_stage() {
    let split = split_layers(&[load(0.0, 1.0, 99), load(2.0, 1.0, 99)], goal(10, 64)).unwrap();
    assert_eq!(split.layers, [6, 4]);
}

#[test]
fn one_micro_batch_needs_no_balance() {
    // Alone in the pipeline, a micro batch is done soonest with all layers but one on the fast stage.
    let split = split_layers(&[load(0.0, 1.0, 99), load(0.0, 3.0, 99)], goal(8, 1)).unwrap();
    assert_eq!(split.layers, [7, 1]);
}

#[test]
fn micro_batches_follow_the_pace() {
    let paces = [Pace { fill_s: 1.0, period_s: 1.0 }, Pace { fill_s: 3.0, period_s: 3.0 }];
    assert_eq!(split_micro_batches(&paces, 8).unwrap(), [6, 2]);
    assert!(split_micro_batches(&paces, 1).is_none());
}

#[test]
fn balanced_boundaries_expose_their_transfers() {
    // Two stages of 1 s and a round trip of 0.5 s: two micro batches per 2.5 s.
    assert!((steady_period_s(&[1.0, 1.0], &[0.5]) - 1.25).abs() < 1e-12);
    // A stage that waits anyway hides them.
    assert!((steady_period_s(&[1.0, 0.1], &[0.5]) - 1.0).abs() < 1e-12);
}

fn brute_force_layers(stages: &[StageLoad], goal: SplitGoal) -> Option<f64> {
    fn go(stages: &[StageLoad], left: u32, chosen: &mut Vec<u32>, visit: &mut dyn FnMut(&[u32])) {
        let Some(stage) = stages.get(chosen.len()) else {
            if left == 0 {
                visit(chosen);
            }
            return;
        };
        for layers in 1..=stage.max_layers.min(left) {
            chosen.push(layers);
            go(stages, left - layers, chosen, visit);
            chosen.pop();
        }
    }
    let mut best: Option<f64> = None;
    go(stages, goal.num_layers, &mut Vec::new(), &mut |layers| {
        let times: Vec<f64> = stages.iter().zip(layers).map(|(s, &l)| s.fixed_s + f64::from(l) * s.layer_s).collect();
        let bottleneck = times.iter().copied().fold(goal.period_floor_s, f64::max);
        let time = times.iter().sum::<f64>() + f64::from(goal.micro_batches - 1) * bottleneck;
        best = Some(best.map_or(time, |b| b.min(time)));
    });
    best
}

fn brute_force_micro_batches(paces: &[Pace], total: u32) -> f64 {
    let Some((first, rest)) = paces.split_first() else { return if total == 0 { 0.0 } else { f64::INFINITY } };
    (1..=total).map(|k| first.time_s(k).max(brute_force_micro_batches(rest, total - k))).fold(f64::INFINITY, f64::min)
}

proptest! {
    #[test]
    fn layer_split_equals_brute_force(
        stages in prop::collection::vec((0_u32..4, 1_u32..6, 0_u32..7), 1..5),
        num_layers in 1_u32..10,
        micro_batches in 1_u32..12,
        floor in 0_u32..5,
    ) {
        let stages: Vec<StageLoad> =
            stages.iter().map(|&(e, r, m)| load(f64::from(e) * 0.7, f64::from(r) * 0.9, m)).collect();
        let goal = SplitGoal { num_layers, micro_batches, period_floor_s: f64::from(floor) };
        let found = split_layers(&stages, goal);
        let best = brute_force_layers(&stages, goal);
        prop_assert_eq!(found.is_some(), best.is_some());
        if let (Some(split), Some(best)) = (found, best) {
            prop_assert_eq!(split.layers.iter().sum::<u32>(), num_layers);
            prop_assert!(split.layers.iter().zip(&stages).all(|(&l, s)| l >= 1 && l <= s.max_layers));
            let time = split.fill_s + f64::from(micro_batches - 1) * split.bottleneck_s.max(goal.period_floor_s);
            prop_assert!((time - best).abs() <= 1e-9 * best, "{time} is not the optimum {best}");
        }
    }

    #[test]
    fn micro_batch_split_equals_brute_force(
        paces in prop::collection::vec((1_u32..30, 1_u32..9), 1..4),
        total in 1_u32..14,
    ) {
        let paces: Vec<Pace> =
            paces.iter().map(|&(f, p)| Pace { fill_s: f64::from(f) * 0.3, period_s: f64::from(p) * 0.7 }).collect();
        match split_micro_batches(&paces, total) {
            None => prop_assert!((total as usize) < paces.len()),
            Some(counts) => {
                prop_assert_eq!(counts.iter().sum::<u32>(), total);
                let time = paces.iter().zip(&counts).map(|(p, &k)| p.time_s(k)).fold(0.0, f64::max);
                let best = brute_force_micro_batches(&paces, total);
                prop_assert!((time - best).abs() <= 1e-9 * best, "{time} is not the optimum {best}");
                let each: Vec<(Pace, u32)> = paces.iter().map(|pace| (*pace, 1)).collect();
                let level_s = water_level_s(&each, total).unwrap();
                prop_assert!(level_s <= best * (1.0 + 1e-9));
                prop_assert!((whole_level_s(&each, total, level_s) - best).abs() <= best * 1e-9);
            }
        }
    }
}
