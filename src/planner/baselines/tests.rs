use super::grid::proportional;
use crate::cluster::{Cluster, NodeDefaults};
use crate::cost::{CostModel, CostSettings};
use crate::model::{ModelSpec, Precision, Recompute};
use crate::plan::{Plan, PlanLimits, PlanRequest, TrainingSettings};
use crate::planner;
use crate::planner::fixtures::{ClosedForm, layers_of_a_second, one_by_one};
use rstest::rstest;

fn planned(name: &str, mix: &str) -> (Plan, f64) {
    let cluster = Cluster::parse_mix(mix, &NodeDefaults::default()).unwrap();
    let cost = CostModel::new(ModelSpec::preset("gpt3-2.7b").unwrap(), CostSettings::default(), None);
    let training = TrainingSettings {
        global_batch_size: 96,
        precision: Precision::Fp16,
        recompute: vec![Recompute::Selective, Recompute::Full],
        micro_batch_sizes: vec![1, 2],
        tensor_parallel_sizes: vec![1, 2, 4],
    };
    let request = PlanRequest {
        cluster: &cluster,
        cost: &cost,
        training: &training,
        judge: &ClosedForm,
        limits: PlanLimits::default(),
    };
    let planned = planner::by_name(name).unwrap().plan(&request).unwrap();
    assert_eq!(planned.plan.validate(&cluster, &cost), Ok(()));
    assert!(planned.lower_bound_s <= planned.predicted_iteration_s);
    (planned.plan, planned.predicted_iteration_s)
}

const MIXED: &str = "1x8xA100-40+2x8xV100-16";

#[test]
fn megatron_is_symmetric() {
    let (plan, _) = planned("megatron", MIXED);
    let depth = plan.replicas[0].stages.len();
    for replica in &plan.replicas {
        assert_eq!((replica.stages.len(), replica.micro_batches), (depth, plan.replicas[0].micro_batches));
        assert!(replica.stages.iter().all(|stage| stage.num_layers as usize * depth == 32));
    }
}

#[test]
fn whale_has_one_shape() {
    let (plan, _) = planned("whale", MIXED);
    let shape = |replica: &crate::plan::Replica| -> Vec<u32> { replica.stages.iter().map(|s| s.num_layers).collect() };
    assert!(plan.replicas.iter().all(|replica| shape(replica) == shape(&plan.replicas[0])));
}

#[test]
fn knowing_the_hardware_pays_on_mixed_clusters() {
    let time_s = |name| planned(name, MIXED).1;
    assert!(time_s("whale") <= time_s("megatron"));
    assert!(time_s("autohet") <= time_s("whale"));
}

#[test]
fn equal_devices_leave_little_to_gain() {
    let (megatron_s, autohet_s) = (planned("megatron", "2x8xA100-80").1, planned("autohet", "2x8xA100-80").1);
    assert!(autohet_s <= megatron_s && megatron_s < 1.05 * autohet_s, "{megatron_s} and {autohet_s}");
}

#[test]
fn shares_are_proportional_and_positive() {
    assert_eq!(proportional(&[2.0, 1.0, 1.0], 8), [4, 2, 2]);
    assert_eq!(proportional(&[1.0, 1.0], 2), [1, 1]);
    assert_eq!(proportional(&[1000.0, 1.0, 1.0], 10), [8, 1, 1]);
    assert_eq!(proportional(&[1.0, 1.0, 1.0], 11).iter().sum::<u32>(), 11);
}

/// BERT-large on an A100 that takes 1 s a layer and a V100 that takes 2 s, a quarter of it forward; all else is next to
/// nothing.
fn worked_by_hand(name: &str, mix: &str, global_batch_size: u32) -> (Plan, f64) {
    let (cost, training) = (layers_of_a_second(), one_by_one(global_batch_size));
    let cluster = Cluster::parse_mix(mix, &NodeDefaults::default()).unwrap();
    let request = PlanRequest {
        cluster: &cluster,
        cost: &cost,
        training: &training,
        judge: &ClosedForm,
        limits: crate::plan::PlanLimits::default(),
    };
    let planned = planner::by_name(name).unwrap().plan(&request).unwrap();
    assert_eq!(planned.plan.validate(&cluster, &cost), Ok(()));
    (planned.plan, planned.predicted_iteration_s)
}

/// Micro batches and layers of each replica: `8: 24 + 4: 24`.
fn shape(plan: &Plan) -> String {
    let of = |replica: &crate::plan::Replica| {
        let layers: Vec<String> = replica.stages.iter().map(|stage| stage.num_layers.to_string()).collect();
        format!("{}: {}", replica.micro_batches, layers.join(", "))
    };
    plan.replicas.iter().map(of).collect::<Vec<_>>().join(" + ")
}

/// One A100 and one V100, 24 layers, 12 micro batches. Alone the A100 takes 24 s for each. Equal halves of the batch or of
/// the layers have the V100 take as long as that. In proportion to speed, two replicas take 8 · 24 = 4 · 48 s, and two
/// stages of 16 and 8 layers take 16 s each: 12 periods and one more to fill the pipe.
#[rstest]
#[case::symmetric_halves_bring_nothing("megatron", 12.0 * 24.0, "")]
#[case::recomputation_adds_a_quarter("varuna", 12.0 * 24.0 * 1.25, "")]
#[case::batches_by_speed("whale", 192.0, "8: 24 + 4: 24")]
#[case::batches_by_speed("metis", 192.0, "8: 24 + 4: 24")]
#[case::layers_by_speed("amp", 13.0 * 16.0, "12: 16, 8")]
#[case::layers_by_speed("alpa", 13.0 * 16.0, "")]
fn two_unlike_devices_by_hand(#[case] name: &str, #[case] expected_s: f64, #[case] expected: &str) {
    let (plan, time_s) = worked_by_hand(name, "1x1xA100-40+1x1xV100-16", 12);
    assert!((time_s / expected_s - 1.0).abs() < 0.01, "{time_s} s, expected {expected_s} s: {plan:?}");
    assert!(expected.is_empty() || shape(&plan) == expected, "{}", shape(&plan));
}

/// Two A100 and one V100: only some of the planners have a use for all three. With equal micro batches three stages of 10,
/// 10 and 4 layers are what there is, 10 s a period: 24 + 11 · 10, the V100's 4 layers taking 8 s of the 28. In replicas
/// the batch goes 2 : 2 : 1, which of 12 is 5, 5 and 2.
#[rstest]
#[case::two_equal_replicas("megatron", 6.0 * 24.0)]
#[case::batches_by_speed("whale", 5.0 * 24.0)]
#[case::batches_by_speed("metis", 5.0 * 24.0)]
#[case::three_stages("amp", 28.0 + 11.0 * 10.0)]
#[case::three_stages("alpa", 28.0 + 11.0 * 10.0)]
fn three_devices_by_hand(#[case] name: &str, #[case] expected_s: f64) {
    let (plan, time_s) = worked_by_hand(name, "1x2xA100-40+1x1xV100-16", 12);
    assert!((time_s / expected_s - 1.0).abs() < 0.01, "{time_s} s, expected {expected_s} s: {plan:?}");
}

#[test]
fn every_planner_has_a_name_and_a_plan() {
    for &name in planner::names() {
        let planner = planner::by_name(name).unwrap();
        assert_eq!(planner.name(), name);
        let (plan, _) = planned(name, "1x4xA100-40+1x4xV100-16");
        assert_eq!(plan.planner, name);
    }
}

#[test]
fn no_device_type_is_forced_on_a_planner() {
    // Beside 4 A100-80 a T4 is of no use to anybody who gives all devices the same.
    for name in ["megatron", "amp", "alpa", "metis", "whale"] {
        let (with, alone) = (planned(name, "1x4xA100-80+1x1xT4").1, planned(name, "1x4xA100-80").1);
        assert!(with <= alone * 1.000_001, "{name}: {with} and {alone}");
    }
}
