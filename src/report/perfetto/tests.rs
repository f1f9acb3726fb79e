use super::*;
use crate::plan::ScheduleKind;
use crate::report::fixture;
use crate::report::plan_report::tests::world;
use crate::runtime::sim::{SimulatedIteration, simulate};

/// A plan of two replicas, simulated, and its timeline.
fn simulated() -> (Plan, SimulatedIteration, Value) {
    let plan = fixture::planned(true).plan;
    let (cluster, cost) = world();
    let iteration = simulate(&plan, &cluster, &cost).unwrap();
    let json = serde_json::from_str(&perfetto_json(&plan, &iteration.program, &iteration.timeline, None)).unwrap();
    (plan, iteration, json)
}

fn events<'a>(json: &'a Value, ph: &str) -> Vec<&'a Value> {
    json["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == ph).collect()
}

#[test]
fn every_span_of_tensor_rank_zero_is_a_slice() {
    let (plan, iteration, json) = simulated();
    let slices = events(&json, "X");
    // Both ranks of each tensor-parallel group run the same instructions.
    assert_eq!(slices.len(), iteration.program.len() / 2);
    let named = |name: &str| slices.iter().filter(|slice| slice["name"] == name).count();
    assert_eq!(named("F mb3"), 3);
    assert_eq!(named("optimizer step"), 3);
    // The last backward of the flat replica is cut into blocks.
    assert_eq!(named(&format!("B mb{} layer 12", plan.replicas[1].micro_batches - 1)), 1);
    let end = slices.iter().map(|s| s["ts"].as_f64().unwrap() + s["dur"].as_f64().unwrap()).fold(0.0, f64::max);
    approx::assert_relative_eq!(end, iteration.timeline.makespan().0 as f64 / 1e3, max_relative = 1e-12);
}

#[test]
fn slices_of_a_thread_do_not_overlap() {
    let (_, _, json) = simulated();
    let slices = events(&json, "X");
    for pair in slices.windows(2) {
        if (&pair[0]["pid"], &pair[0]["tid"]) == (&pair[1]["pid"], &pair[1]["tid"]) {
            let end = pair[0]["ts"].as_f64().unwrap() + pair[0]["dur"].as_f64().unwrap();
            assert!(pair[1]["ts"].as_f64().unwrap() >= end - 1e-3, "{} {}", pair[0], pair[1]);
        }
    }
}

#[test]
fn every_track_has_a_name_and_every_name_a_track() {
    let (_, _, json) = simulated();
    let track = |event: &&Value| (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
    let used: std::collections::BTreeSet<_> = events(&json, "X").iter().map(track).collect();
    let metadata = events(&json, "M");
    let named = |kind: &str| metadata.iter().copied().filter(|event| event["name"] == kind).collect::<Vec<_>>();
    assert_eq!(named("thread_name").iter().map(track).collect::<std::collections::BTreeSet<_>>(), used);
    let processes: Vec<_> = named("process_name").iter().map(|event| event["args"]["name"].clone()).collect();
    assert_eq!(processes, ["replica 0: 2 stages, A100-80", "replica 1: 1 stage, V100-32"]);
}

#[test]
fn arrows_lead_from_sends_to_receives() {
    let (plan, _, json) = simulated();
    let (starts, ends) = (events(&json, "s"), events(&json, "f"));
    // One boundary, each way, for every micro batch.
    assert_eq!(starts.len(), 2 * plan.replicas[0].micro_batches as usize);
    assert_eq!(starts.len(), ends.len());
    let slices = events(&json, "X");
    for (event, category) in starts.iter().map(|e| (e, "send")).chain(ends.iter().map(|e| (e, "receive"))) {
        let at = event["ts"].as_f64().unwrap();
        let holds = |slice: &&&Value| {
            let (start, duration) = (slice["ts"].as_f64().unwrap(), slice["dur"].as_f64().unwrap());
            slice["pid"] == event["pid"] && slice["tid"] == event["tid"] && start <= at && at <= start + duration
        };
        let around = slices.iter().find(holds).unwrap();
        assert_eq!(around["cat"], category);
    }
    for (start, end) in starts.iter().zip(&ends) {
        assert_eq!((start["id"].as_u64(), end["bp"].as_str()), (end["id"].as_u64(), Some("e")));
    }
}

#[test]
fn micro_batches_in_flight_keep_to_the_schedule() {
    let (plan, _, json) = simulated();
    assert_eq!(plan.schedule, ScheduleKind::OneForwardOneBackward);
    let most = |pid: u64, stage: u32| {
        let name = format!("stage {stage} micro batches in flight");
        let counters = events(&json, "C");
        let of_stage = counters.iter().filter(|event| event["pid"] == pid && event["name"] == name.as_str());
        let values: Vec<_> = of_stage.map(|event| event["args"]["micro_batches"].as_i64().unwrap()).collect();
        assert_eq!((values.last(), values.iter().min()), (Some(&0), Some(&0)));
        values.into_iter().max().unwrap()
    };
    assert_eq!((most(1, 0), most(1, 1), most(2, 0)), (2, 1, 1));
}

#[test]
fn the_same_iteration_gives_the_same_bytes() {
    let (plan, iteration, json) = simulated();
    assert_eq!(
        perfetto_json(&plan, &iteration.program, &iteration.timeline, None),
        perfetto_json(&plan, &iteration.program, &iteration.timeline, None)
    );
    assert!(json["otherData"]["bubble_fraction"].as_f64().unwrap() > 0.0);
}

#[test]
fn memory_is_a_counter_whose_peak_is_what_the_check_charges() {
    let (plan, iteration, _) = simulated();
    let (_, cost) = world();
    let memory = crate::metrics::memory_over_time(&plan, &iteration.program, &iteration.timeline, &cost);
    let text = perfetto_json(&plan, &iteration.program, &iteration.timeline, Some(&memory));
    let json: Value = serde_json::from_str(&text).unwrap();
    let counters = events(&json, "C");
    let of_stage = counters.iter().filter(|event| event["pid"] == 1 && event["name"] == "stage 1 memory, GB");
    let most = of_stage.filter_map(|event| event["args"]["gigabytes"].as_f64()).fold(0.0, f64::max);
    let charged = plan.memory_in(&plan.replicas[0], 1, &cost).total_bytes();
    approx::assert_relative_eq!(most, charged as f64 / 1e9, max_relative = 1e-12);
}
