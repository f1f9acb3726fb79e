//! `autohet-sim plan` and `compare`.

use super::{number, whole};
use crate::support::Sandbox;
use autohet::plan::Plan;
use serde_json::Value;

const MIXED: &str = "1x4xA100-40+2x4xT4";

fn check_plan(plan: &Value, most_gpus: usize) {
    let (predicted_s, bound_s) = (number(plan, "predicted_iteration_s"), number(plan, "lower_bound_s"));
    assert!(0.0 < bound_s && bound_s <= predicted_s, "{bound_s} > {predicted_s}");
    assert!((number(plan, "gap") - (predicted_s - bound_s) / bound_s).abs() < 1e-9);
    assert!(number(plan, "planning_s") > 0.0);
    let mut samples = 0;
    let mut gpus = 0;
    for replica in plan["replicas"].as_array().unwrap() {
        samples += whole(replica, "micro_batches") * whole(plan, "micro_batch_size");
        let mut next_layer = 0;
        for stage in replica["stages"].as_array().unwrap() {
            assert!(whole(stage, "peak_memory_bytes") > 0);
            assert!(whole(stage, "peak_memory_bytes") <= whole(stage, "memory_capacity_bytes"));
            assert_eq!(whole(stage, "first_layer"), next_layer);
            next_layer += whole(stage, "num_layers");
            gpus += stage["gpus"].as_array().unwrap().len();
        }
        assert_eq!(next_layer, 24, "bert-large and gpt3-1.3b have 24 layers");
    }
    assert_eq!(samples, whole(plan, "global_batch_size"));
    assert!(gpus <= most_gpus, "{gpus} GPUs used");
}

#[test]
fn a_plan_has_its_figures_and_they_hold_together() {
    for (model, batch) in [("bert-large", "96"), ("gpt3-1.3b", "64")] {
        let args = ["plan", "--cluster", MIXED, "--model", model, "--global-batch-size", batch, "--format", "json"];
        let ran = Sandbox::new().run(&args);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        let plan: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!((plan["model"].as_str(), plan["planner"].as_str()), (Some(model), Some("autohet")));
        check_plan(&plan, 12);
    }
}

#[test]
fn a_comparison_has_every_planner_in_the_order_asked_for() {
    let args = ["compare", "--cluster", MIXED, "--model", "gpt3-1.3b", "--global-batch-size", "64", "--format", "json"];
    let ran = Sandbox::new().run(&[&args[..], &["--planner", "whale,autohet,megatron"]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let compared: Value = serde_json::from_str(&ran.stdout).unwrap();
    let planners = compared["planners"].as_object().unwrap();
    assert_eq!(planners.keys().collect::<Vec<_>>(), ["whale", "autohet", "megatron"]);
    for (name, plan) in planners {
        assert_eq!(plan["planner"].as_str(), Some(name.as_str()));
        check_plan(plan, 12);
    }
    // The baselines' plans lie in the space that autohet searches.
    let predicted_s = |name: &str| number(&planners[name], "predicted_iteration_s");
    assert!(predicted_s("autohet") <= predicted_s("megatron").min(predicted_s("whale")) * 1.02);
    assert!(number(&planners["autohet"], "lower_bound_s") <= predicted_s("megatron").min(predicted_s("whale")));
}

#[test]
fn a_plan_file_can_be_read_again_and_the_timeline_is_a_trace() {
    let sandbox = Sandbox::new();
    let args = ["plan", "--cluster", "2x4xT4", "--model", "bert-large", "--out", "plan.json", "--perfetto", "t.json"];
    let ran = sandbox.run(&args);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert!(ran.stdout.contains("bert-large"));
    let text = sandbox.read("plan.json");
    let plan = Plan::from_json(&text, "plan.json").unwrap();
    assert_eq!((plan.to_json(), plan.global_batch_size), (text, 512));
    let timeline: Value = serde_json::from_str(&sandbox.read("t.json")).unwrap();
    assert!(timeline["traceEvents"].as_array().unwrap().iter().any(|event| event["ph"] == "X"));
    assert_eq!(sandbox.listing().len(), 2);
}

#[test]
fn a_cluster_file_says_the_same_as_the_mix() {
    let toml = "[[nodes]]\ncount = 1\ngpus = 4\ntype = \"A100-40\"\n[[nodes]]\ncount = 2\ngpus = 4\ntype = \"T4\"\n";
    let sandbox = Sandbox::new().file("c.toml", toml);
    for (cluster, out) in [(MIXED, "mix.json"), ("c.toml", "file.json")] {
        let ran = sandbox.run(&["plan", "--cluster", cluster, "--model", "bert-large", "--out", out]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    }
    assert_eq!(sandbox.read("mix.json"), sandbox.read("file.json"));
}

#[test]
fn what_is_read_by_people_has_no_colour_codes_where_nobody_looks() {
    let sandbox = Sandbox::new();
    for args in [
        ["plan", "--cluster", MIXED, "--model", "bert-large"],
        ["compare", "--cluster", MIXED, "--model", "bert-large"],
    ] {
        let ran = sandbox.run(&args);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(!ran.stdout.contains('\u{1b}') && ran.stdout.ends_with('\n'));
    }
}

/// Clusters on which the planner's own candidates alone were slower than a baseline's grid.
#[rstest::rstest]
#[case::two_nodes("2x8xA100-80", "bert-large", "64")]
#[case::three_nodes("3x8xA100-40", "gpt3-1.3b", "128")]
#[case::small_nodes("4x2xL40S+1x8xH100", "bert-large", "512")]
fn no_baseline_beats_the_recommended_planner(#[case] cluster: &str, #[case] model: &str, #[case] batch: &str) {
    let args = ["compare", "--cluster", cluster, "--model", model, "--global-batch-size", batch, "--format", "json"];
    let ran = Sandbox::new().run(&args);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let compared: Value = serde_json::from_str(&ran.stdout).unwrap();
    let predicted_s = |planner: &str| compared["planners"][planner]["predicted_iteration_s"].as_f64();
    for baseline in ["megatron", "varuna", "whale"] {
        assert!(predicted_s("autohet") <= predicted_s(baseline).or(Some(f64::INFINITY)), "{baseline}: {compared}");
    }
}

#[test]
fn all_planners_are_compared_within_eighty_columns() {
    let args = ["compare", "--cluster", "1x4xA100-40+1x4xV100-16", "--model", "gpt3-1.3b", "--global-batch-size", "64"];
    let ran = Sandbox::new().run(&args);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert!(ran.stdout.lines().all(|line| line.chars().count() <= 80), "{}", ran.stdout);
    for name in autohet::planner::names() {
        assert!(ran.stdout.contains(name), "{name}: {}", ran.stdout);
    }
    let markdown = Sandbox::new().run(&[&args[..], &["--format", "markdown"]].concat()).stdout;
    assert!(markdown.starts_with("| planner | autohet |") && markdown.lines().all(|line| line.starts_with('|')));
    let text = Sandbox::new().run(&[&args[..], &["--format", "csv"]].concat()).stdout;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.iter().map(|row| row[0].to_owned()).collect::<Vec<_>>(), autohet::planner::names());
    let iteration_s = |row: &csv::StringRecord| row[2].parse::<f64>().unwrap();
    assert!(rows.iter().all(|row| iteration_s(row) >= iteration_s(&rows[0])), "{text}");
}
