//! `autohet-sim iteration`, and schedules that are asked for.

use crate::support::Sandbox;
use rstest::rstest;
use serde_json::Value;

/// Four stages: the activations of fewer wouldn't fit, and larger micro batches neither.
const JOB: [&str; 7] = ["plan", "--cluster", "4x1xV100-16", "--model", "gpt3-1.3b", "--global-batch-size", "16"];

/// A plan under this schedule, in `plan.json`, and what is printed of it.
fn planned(schedule: &str) -> (Sandbox, Value) {
    let sandbox = Sandbox::new();
    let options = ["--planner", "megatron", "--schedule", schedule, "--out", "plan.json", "--format", "json"];
    let ran = sandbox.run(&[&JOB[..], &options].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{schedule}");
    let printed = serde_json::from_str(&ran.stdout).unwrap();
    (sandbox, printed)
}

#[rstest]
#[case("1f1b")]
#[case("gpipe")]
#[case("zb-h1")]
#[case("interleaved:2")]
fn a_plan_is_executed_under_the_schedule_that_it_was_asked_for(#[case] schedule: &str) {
    let (sandbox, plan) = planned(schedule);
    assert_eq!(plan["schedule"], schedule.split(':').next().unwrap());
    let files = ["iteration", "--plan", "plan.json", "--gantt", "g.svg", "--perfetto", "p.json"];
    let ran = sandbox.run(&[&files[..], &["--format", "json"]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let iteration: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(iteration["iteration_s"], plan["predicted_iteration_s"]);
    assert!(plan["lower_bound_s"].as_f64() <= plan["predicted_iteration_s"].as_f64());
    for stage in iteration["stages"].as_array().unwrap() {
        let share = |key: &str| stage[key].as_f64().unwrap();
        let sum = ["busy_share", "communication_share", "idle_share"].map(share).iter().sum::<f64>();
        assert!((sum - 1.0).abs() < 1e-9, "{stage}");
        let (replica, place) = (&stage["replica"], &stage["stage"]);
        let checked = &plan["replicas"][replica.as_u64().unwrap() as usize]["stages"][place.as_u64().unwrap() as usize];
        assert_eq!(stage["peak_memory_bytes"], checked["peak_memory_bytes"], "{stage}");
    }
    assert!(sandbox.read("g.svg").contains("time, ms"));
    let timeline: Value = serde_json::from_str(&sandbox.read("p.json")).unwrap();
    let events = timeline["traceEvents"].as_array().unwrap();
    let is_memory = |event: &&Value| event["name"].as_str().is_some_and(|name| name.ends_with(" memory, GB"));
    assert!(events.iter().any(|event| is_memory(&event)), "no memory counter");
    assert!(ran.stdout.contains("bubble_fraction"));
    let table = sandbox.run(&["iteration", "--plan", "plan.json"]);
    assert!(table.stdout.lines().all(|line| line.chars().count() <= 80), "{}", table.stdout);
}

#[test]
fn what_cannot_be_executed_is_refused() {
    let (sandbox, _) = planned("zb-h1");
    let iteration = |more: &[&'static str]| [&["iteration", "--plan", "plan.json"], more].concat();
    sandbox
        .refuses(&iteration(&["--cluster", "1x1xT4"]), &["`plan.json` can't run here", "there is no node `v100-16-0`"]);
    sandbox.refuses(&iteration(&["--gantt", "x", "--perfetto", "x"]), &["`--gantt` and `--perfetto` both name"]);
    sandbox.refuses(&["iteration", "--plan", "missing.json"], &["cannot read `missing.json`"]);
    let ran = sandbox.run(&[&JOB[..], &["--schedule", "zero"]].concat());
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("unknown schedule `zero`") && ran.stderr.contains("interleaved:2"), "{}", ran.stderr);
}

#[test]
fn a_plan_that_does_not_fit_is_shown_and_warned_of() {
    let (sandbox, _) = planned("1f1b");
    let cramped = "[cost]\nreserve_bytes = 14000000000\n";
    let sandbox = sandbox.file("s.toml", cramped);
    let ran = sandbox.run(&["iteration", "--plan", "plan.json", "--scenario", "s.toml"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("warning: replica 0 stage 0: needs "), "{}", ran.stderr);
    assert!(ran.stdout.contains("Memory of a GPU at its peak"), "{}", ran.stdout);
}

#[test]
fn a_plan_for_cores_is_refused_with_what_to_do() {
    let (sandbox, _) = planned("1f1b");
    let cores = sandbox.read("plan.json").replace("V100-16\"", "cpu\"");
    let sandbox = sandbox.file("cores.json", cores);
    let parts = ["a plan for CPU cores can't be simulated", "autohet-run check --plan", "--cluster 1x2xT4"];
    sandbox.refuses(&["iteration", "--plan", "cores.json"], &parts);
}

/// One GPU does one thing after the other, each with a mean of its price and a deviation of a tenth of it: the iteration's
/// mean is the sum, its variance that of the squares.
#[test]
fn an_iteration_varies_as_a_sum_does() {
    let sandbox = Sandbox::new();
    let job = ["plan", "--cluster", "1x1xA100-80", "--model", "opt-350m", "--global-batch-size", "64"];
    let ran = sandbox.run(&[&job[..], &["--planner", "megatron", "--out", "plan.json"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let varied = ["iteration", "--plan", "plan.json", "--jitter", "0.1", "--repetitions", "4000", "--format", "json"];
    let ran = sandbox.run(&[&varied[..], &["--perfetto", "p.json"]].concat());
    let iteration: Value = serde_json::from_str(&ran.stdout).unwrap();
    let timeline: Value = serde_json::from_str(&sandbox.read("p.json")).unwrap();
    let slices = timeline["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X");
    let seconds: Vec<f64> = slices.map(|slice| slice["dur"].as_f64().unwrap() * 1e-6).collect();
    let mean_s: f64 = seconds.iter().sum();
    let deviation_s = 0.1 * seconds.iter().map(|s| s * s).sum::<f64>().sqrt();
    let figure = |key: &str| iteration["variation"][key].as_f64().unwrap();
    assert_eq!(iteration["variation"]["repetitions"], 4000);
    // Five standard errors of 4000 iterations.
    assert!((figure("mean_s") - mean_s).abs() < 5.0 * deviation_s / 4000_f64.sqrt(), "{iteration}");
    // Nine in ten of what is nearly normal are within 1.645 deviations.
    let width_s = figure("p95_s") - figure("p05_s");
    assert!((width_s / (2.0 * 1.645 * deviation_s) - 1.0).abs() < 0.07, "{width_s} {deviation_s}");
    assert_eq!(sandbox.run(&varied).stdout, ran.stdout);
    let table = sandbox.run(&["iteration", "--plan", "plan.json", "--stragglers", "1:0.5", "--repetitions", "3"]);
    assert!(table.stdout.contains("of 3 iterations that vary"), "{}", table.stdout);
    let slow = sandbox.run(&["iteration", "--plan", "plan.json", "--stragglers", "1:0.5", "--format", "json"]);
    let slow: Value = serde_json::from_str(&slow.stdout).unwrap();
    assert!((slow["variation"]["median_s"].as_f64().unwrap() / mean_s - 1.5).abs() < 1e-6, "{slow}");
}
