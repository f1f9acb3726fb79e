use super::*;
use crate::cluster::{Cluster, NodeDefaults};
use crate::model::Recompute;
use crate::planner;
use crate::planner::fixtures::{layers_of_a_second, one_by_one};
use crate::runtime::sim::Simulator;

/// BERT-large on one A100 of 1 s a layer and one V100 of 2 s: two stages of 16 and 8 layers take 16 s each.
fn by_hand(planner: &str) -> (PlannedIteration, Explanation) {
    let (cost, training) = (layers_of_a_second(), one_by_one(12));
    let cluster = Cluster::parse_mix("1x1xA100-40+1x1xV100-16", &NodeDefaults::default()).unwrap();
    let request = PlanRequest {
        cluster: &cluster,
        cost: &cost,
        training: &training,
        judge: &Simulator,
        limits: crate::plan::PlanLimits::default(),
    };
    let planner = planner::by_name(planner).unwrap();
    let planned = planner.plan(&request).unwrap();
    let explained = explain(&request, planner.as_ref(), &planned).unwrap();
    (planned, explained)
}

fn near(found: f64, expected: f64) -> bool {
    (found / expected - 1.0).abs() < 0.01
}

#[test]
fn two_even_stages_are_split_to_the_layer() {
    let (planned, explained) = by_hand("amp");
    assert!(near(planned.predicted_iteration_s, 13.0 * 16.0), "{}", planned.predicted_iteration_s);
    let [stages] = explained.stages.as_slice() else { panic!("one replica: {explained:?}") };
    assert_eq!((stages[0].num_layers, stages[1].num_layers), (16, 8));
    for stage in stages {
        assert!(near(stage.period_s, 16.0) && near(stage.busy_share, 12.0 / 13.0) && stage.has_room(), "{stage:?}");
    }
    assert!(near(stages[0].layer_s, 1.0) && near(stages[1].layer_s, 2.0));
    assert_eq!((explained.bottleneck.replica, &explained.bottleneck.binding), (0, &Binding::Granularity));
    let time = explained.time;
    assert!((time.useful + time.recomputation + time.exposed_communication + time.bubble - 1.0).abs() < 1e-9);
    assert!(near(time.useful, 12.0 / 13.0) && time.recomputation == 0.0, "{time:?}");
    let boundary = explained.links.slowest_boundary.unwrap();
    // 512 tokens of 1024 numbers of two bytes, over 100 Gbit/s.
    assert!(near(boundary.transfer_s, 512.0 * 1024.0 * 2.0 / 12.5e9 + 40e-6), "{boundary:?}");
}

#[test]
fn what_was_rejected_is_told_with_what_it_costs() {
    let (_, explained) = by_hand("amp");
    let slower = |wanted: &Choice| {
        let found = explained.alternatives.iter().find(|other| other.choice == *wanted);
        found.unwrap_or_else(|| panic!("{wanted:?} in {:?}", explained.alternatives)).slower_by.unwrap()
    };
    // Alone the A100 takes 24 s for each of 12 micro batches, the V100 twice that; a symmetric grid is no better.
    assert!(near(1.0 + slower(&Choice::Without("V100-16".to_owned())), 288.0 / 208.0));
    assert!(near(1.0 + slower(&Choice::Without("A100-40".to_owned())), 576.0 / 208.0));
    assert!(near(1.0 + slower(&Choice::SymmetricGrid), 288.0 / 208.0));
    // In proportion to power the A100 takes 8 micro batches and the V100 4: 192 s.
    assert!(near(1.0 + slower(&Choice::ProportionalGrid), 192.0 / 208.0));
    assert!(near(1.0 + slower(&Choice::Recompute(Recompute::Full)), 1.25));
    // Nothing else can be chosen.
    assert_eq!(explained.alternatives.len(), 5);
}

#[test]
fn remedies_are_measured_in_samples() {
    let (_, explained) = by_hand("amp");
    let speedup = |limit| explained.remedies.iter().find(|remedy| remedy.limit == limit).unwrap().speedup;
    // Twice the micro batches fill the pipeline once: 25 periods for 24 micro batches, not 26.
    assert!(near(speedup(Limit::GlobalBatchSize), 26.0 / 25.0));
    assert!(near(speedup(Limit::Memory), 1.0) && near(speedup(Limit::Network), 1.0));
}

#[test]
fn a_single_stage_has_nobody_to_take_a_layer() {
    let (planned, explained) = by_hand("whale");
    assert_eq!(shape(&planned.plan), "(A100-40:24) + (V100-16:24), micro batch size 1, no recomputation");
    assert_eq!(explained.bottleneck.binding, Binding::OneStage);
    assert_eq!(explained.devices.iter().map(|devices| devices.used).sum::<u32>(), 2);
}
