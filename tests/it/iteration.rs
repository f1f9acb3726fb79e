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
