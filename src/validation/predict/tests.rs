use super::*;
use crate::cluster::NodeDefaults;
use crate::cost::CostSettings;
use crate::model::ModelSpec;
use crate::plan::cluster_of_plan;
use crate::profile::{LayerProfile, Measured, ProfileEntry, ProfileFile};
use crate::training::host_cluster;
use crate::validation::links::plan;
use approx::assert_relative_eq;

const HOST: MeasuredLinks = MeasuredLinks {
    dispatch_s: 0.0,
    latency_s: 1e-3,
    bytes_per_s: 65_536e3,
    all_reduce_latency_s: 3e-3,
    all_reduce_bytes_per_s: 32_768e3,
};

/// Layers of 10 and 20 ms, ends of 1 and 2 ms, an optimizer of a nanosecond a parameter.
fn cost(model: &ModelSpec) -> CostModel {
    cost_with(model, None)
}

fn cost_with(model: &ModelSpec, last_backward_factor: Option<f64>) -> CostModel {
    let ends = Some(Measured { forward_s: 0.001, backward_s: 0.002 });
    let entry = ProfileEntry {
        gpu: "cpu".to_owned(),
        tensor_parallel_size: 1,
        micro_batch_size: 1,
        precision: crate::model::Precision::Fp32,
        layer: Measured { forward_s: 0.010, backward_s: 0.020 },
        embedding: ends,
        head: ends,
        optimizer_s_per_parameter: Some(1e-9),
        last_backward_factor,
        optimizer_step_s: None,
        blocks: Vec::new(),
    };
    let file = ProfileFile { schema_version: 1, model: model.name.clone(), entries: vec![entry], links: Some(HOST) };
    let profile = LayerProfile::from_entries(file, "test").unwrap();
    CostModel::new(model.clone(), CostSettings::default(), Some(profile))
}

/// A machine with as many cores as are needed.
fn on(links: MeasuredLinks) -> Host {
    Host { links, cores: f64::INFINITY }
}

fn tiny() -> ModelSpec {
    ModelSpec::preset("gpt-tiny").unwrap()
}

#[test]
fn a_pipeline_by_hand() {
    let model = tiny();
    let plan = plan(&model, 1, &[(1, &[2, 2])]);
    let cluster = with_host_links(&host_cluster(&plan, "cpu"), HOST);
    let predicted = predict(&plan, &cluster, &cost(&model), RankConditions::default(), on(HOST)).unwrap();
    let [first, second] = [0, 1].map(|rank| predicted.timeline.rank_times(&predicted.program)[rank]);
    // One micro batch: forward and backward of an end and two layers on either side, and the step. Two layers of
    // 12 h² + 13 h parameters; embedding and head hold 256 h words, 128 h positions, 2 h of the norm.
    let h = 128_u64;
    let layers = 2 * (12 * h * h + 13 * h);
    let steps_s = [layers + 384 * h, layers + 256 * h + 2 * h].map(|held| held as f64 * 1e-9);
    let passes_s = 0.001 + 2.0 * 0.010 + 0.002 + 2.0 * 0.020;
    assert_relative_eq!(first.busy.as_seconds(), passes_s + steps_s[0], max_relative = 1e-6);
    assert_relative_eq!(second.busy.as_seconds(), passes_s + steps_s[1], max_relative = 1e-6);
    // A message of 128 · 128 numbers of four bytes takes the latency and a millisecond; so it goes there and back.
    // Then the tied ends are reduced: their latency in each of two steps, and its bytes at half the rate.
    let reduced_s = 2.0 * 3e-3 + (384 * h * 4) as f64 / HOST.all_reduce_bytes_per_s;
    let end_s = 2.0 * passes_s + 2.0 * 0.002 + reduced_s + steps_s[0];
    assert!((predicted.timeline.makespan().as_seconds() - end_s).abs() < 0.002, "{:?}", predicted.timeline.makespan());
    assert_eq!(predicted.sent_bytes, [65_536 + 384 * h * 4; 2]);
}

#[test]
fn a_slowed_rank_is_busy_for_longer() {
    let model = tiny();
    let plan = plan(&model, 1, &[(2, &[4]), (2, &[4])]);
    let cluster = with_host_links(&host_cluster(&plan, "cpu"), HOST);
    let busy_s = |slowdown: &[f64]| -> Vec<f64> {
        let predicted =
            predict(&plan, &cluster, &cost(&model), RankConditions { slowdown, ..RankConditions::default() }, on(HOST))
                .unwrap();
        let times = predicted.timeline.rank_times(&predicted.program);
        times.iter().map(|time| time.busy.as_seconds()).collect()
    };
    let (alone, slowed) = (busy_s(&[]), busy_s(&[1.0, 2.5]));
    assert_relative_eq!(slowed[0], alone[0], max_relative = 1e-9);
    assert_relative_eq!(slowed[1], 2.5 * alone[1], max_relative = 1e-6);
}

#[test]
fn every_pass_is_dispatched_before_it_begins() {
    let model = tiny();
    let plan = plan(&model, 1, &[(3, &[4])]);
    let cluster = host_cluster(&plan, "cpu");
    let run = |dispatch_s| {
        let host = MeasuredLinks { dispatch_s, ..HOST };
        let predicted = predict(&plan, &cluster, &cost(&model), RankConditions::default(), on(host)).unwrap();
        (predicted.timeline.makespan(), predicted.timeline.rank_times(&predicted.program)[0].busy)
    };
    let ((makespan, busy), (later, as_busy)) = (run(0.0), run(1e-3));
    // Three forward and three backward passes, and the step.
    assert_eq!(later, makespan + SimTime::from_seconds(7e-3));
    assert_eq!(as_busy, busy);
}

#[test]
fn slow_motion_stretches_everything() {
    let model = tiny();
    let plan = plan(&model, 1, &[(3, &[2, 2])]);
    let cluster = host_cluster(&plan, "cpu");
    let predicted = predict(&plan, &cluster, &cost(&model), RankConditions::default(), on(HOST)).unwrap();
    let exact = predicted.timeline.makespan();
    assert_eq!(predicted.in_slow_motion(10.0).timeline.makespan(), exact * 10);
}

#[test]
fn a_cluster_is_read_off_the_plan() {
    let mut plan = plan(&tiny(), 1, &[(1, &[2, 2]), (1, &[4])]);
    for (stage, gpu_type) in plan.replicas.iter_mut().flat_map(|replica| &mut replica.stages).zip(["T4", "L4", "T4"]) {
        stage.gpu_type = gpu_type.to_owned();
    }
    plan.replicas[1].stages[0].node = "n0".to_owned();
    plan.replicas[1].stages[0].gpus = vec![3];
    let cluster = cluster_of_plan(&plan, &NodeDefaults::default()).unwrap();
    let nodes: Vec<_> =
        cluster.nodes.iter().map(|node| (node.name.as_str(), &*node.gpu.name, node.gpu_count)).collect();
    assert_eq!(nodes, [("n0", "T4", 4), ("n1", "L4", 1)]);
    plan.replicas[0].stages[0].gpu_type = "T5".to_owned();
    assert!(cluster_of_plan(&plan, &NodeDefaults::default()).is_err());
}

#[test]
fn few_cores_copy_the_messages_of_many_ranks() {
    let model = tiny();
    let plan = plan(&model, 1, &[(1, &[4]), (1, &[4]), (1, &[4]), (1, &[4])]);
    let cluster = with_host_links(&host_cluster(&plan, "cpu"), HOST);
    let makespan_s = |cores| {
        let host = Host { links: HOST, cores };
        predict(&plan, &cluster, &cost(&model), RankConditions::default(), host)
            .unwrap()
            .timeline
            .makespan()
            .as_seconds()
    };
    // Each of four layers' reductions moves 1.5 times its bytes over each of four edges. They come faster than one core
    // copies them, so that it copies all the time from the first one on; four cores are no bound.
    let h = 128_u64;
    let bytes = (4 * (12 * h * h + 13 * h) + 384 * h) as f64 * 4.0;
    let copied_s = 4.0 * 1.5 * bytes / HOST.all_reduce_bytes_per_s;
    assert!(makespan_s(1.0) > copied_s, "{} {copied_s}", makespan_s(1.0));
    assert_relative_eq!(makespan_s(4.0), makespan_s(f64::INFINITY), max_relative = 1e-6);
}

#[test]
fn stages_that_were_measured_by_themselves_have_their_own_prices() {
    let model = tiny();
    let plan = plan(&model, 1, &[(2, &[4]), (2, &[4])]);
    let cluster = with_host_links(&host_cluster(&plan, "cpu"), HOST);
    let [one, other] = [None, Some(1.5)].map(|factor| cost_with(&model, factor));
    let busy_s = |costs: &[&CostModel]| -> Vec<f64> {
        let ranks = RankConditions { costs, ..RankConditions::default() };
        let predicted = predict(&plan, &cluster, &one, ranks, on(HOST)).unwrap();
        let times = predicted.timeline.rank_times(&predicted.program);
        times.iter().map(|time| time.busy.as_seconds()).collect()
    };
    let (alike, unlike) = (busy_s(&[]), busy_s(&[&one, &other]));
    assert_relative_eq!(unlike[0], alike[0], max_relative = 1e-9);
    // Of the last micro batch the backward passes of embedding, four layers and head take half as long again.
    assert_relative_eq!(unlike[1] - alike[1], 0.5 * (0.002 + 4.0 * 0.020 + 0.002), max_relative = 1e-6);
}
