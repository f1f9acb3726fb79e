//! `autohet-sim trace`, and traces of others.

use super::number;
use super::replays::check_summary;
use crate::support::Sandbox;
use serde_json::Value;
use std::fs;
use std::path::Path;

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The arguments of the command in `traces/README.md`.
fn documented_command() -> Vec<String> {
    let readme = fs::read_to_string(project().join("traces/README.md")).unwrap();
    let start = readme.find("trace generate").unwrap();
    let command = &readme[start..start + readme[start..].find("--out").unwrap()];
    command.replace('\\', " ").split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_documented_command_makes_the_trace_byte_for_byte() {
    let sandbox = Sandbox::new();
    let kept = fs::read_to_string(project().join("traces/aws-spot.csv")).unwrap();
    let mut args = documented_command();
    let ran = sandbox.run(&args);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert!(ran.stdout == kept, "the generated trace differs from traces/aws-spot.csv");
    args.extend(["--out".to_owned(), "t.csv".to_owned()]);
    let ran = sandbox.run(&args);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""));
    assert!(sandbox.read("t.csv") == kept);
}

#[test]
fn statistics_are_given_trace_by_trace() {
    let sandbox = Sandbox::with_small_trace();
    let kept = project().join("traces/aws-spot.csv").display().to_string();
    let ran = sandbox.run(&["trace", "stats", "small.csv", &kept, "--format", "json"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let all: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((all[0]["file"].as_str(), all[0]["format"].as_str()), (Some("small.csv"), Some("canonical")));
    let small = &all[0]["statistics"];
    assert_eq!((number(small, "loss_count"), number(small, "losses_with_notice")), (3.0, 1.0));
    assert!((number(small, "node_hours") - 3720.0 / 3600.0).abs() < 1e-9);
    assert!(number(&all[1]["statistics"], "node_count") > 10.0);
    let table = sandbox.run(&["trace", "stats", "small.csv", &kept]);
    assert!(table.stdout.contains("small.csv") && table.stdout.contains("aws-spot.csv"), "{}", table.stdout);
}

#[test]
fn a_market_from_a_settings_file_is_the_same_as_from_options() {
    let settings = "seed = 7\nhours = 6.0\n[[pools]]\nnodes = 3\ngpu_count = 4\ngpu_type = \"T4\"\nzone = \"z\"\n";
    let sandbox = Sandbox::new().file("g.toml", settings);
    let from_file = sandbox.run(&["trace", "generate", "--settings", "g.toml"]);
    let from_options = sandbox.run(&["trace", "generate", "--seed", "7", "--hours", "6", "--pool", "3x4xT4@z"]);
    assert_eq!((from_file.code, from_options.code), (Some(0), Some(0)));
    assert!(from_file.stdout == from_options.stdout && from_file.stdout.lines().count() > 3);
}

#[test]
fn bamboo_events_need_to_be_told_the_gpus_and_then_replay() {
    let text = "0,add,node1\r\n0,add,node2\r\n0,add,node3\r\n600000,remove,node2\r\n900000,add,node4\r\n1800000,remove,node1\r\n";
    let sandbox = Sandbox::new().file("bamboo.csv", text);
    let args = ["--trace", "bamboo.csv", "--model", "bert-large", "--gpu-type", "V100-16", "--gpus-per-node", "1"];
    let ran = sandbox.run(&[&args[..], &["--format", "json"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let summary: Value = serde_json::from_str(&ran.stdout).unwrap();
    check_summary(&summary);
    let trace = &summary["trace"];
    assert_eq!((trace["format"].as_str(), number(trace, "span_s")), (Some("bamboo_events"), 1800.0));
    assert_eq!((number(trace, "node_count"), number(trace, "loss_count")), (4.0, 2.0));
    // 1800, 600, 1800 and 900 s of one GPU each.
    assert_eq!(summary["policies"]["varuna"]["paid_gpu_s"], 5100.0);
}

#[test]
fn recorded_bamboo_traces_replay_where_they_are_at_hand() {
    let folder = project().join("../shared/data/traces");
    for name in ["bamboo-p3-trace.csv", "bamboo-g4dn-trace.csv"] {
        let path = folder.join(name);
        if !path.exists() {
            println!("skipped: {name} isn't at hand");
            continue;
        }
        let path = path.display().to_string();
        let gpus = ["--gpu-type", "V100-16", "--gpus-per-node", "1", "--policies", "autohet", "--format", "json"];
        let ran = Sandbox::new().run(&[&["--trace", &path, "--model", "bert-large"], &gpus[..]].concat());
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.stderr);
        let summary: Value = serde_json::from_str(&ran.stdout).unwrap();
        check_summary(&summary);
        assert!(number(&summary["policies"]["autohet"], "iterations") > 1000.0, "{name}");
    }
}

#[test]
fn a_converted_trace_is_the_same_trace() {
    let text = "{\"metadata\":{\"gap_seconds\":600},\"data\":[0,2,1,3,3,0,1,1,1]}";
    let sandbox = Sandbox::new().file("market.json", text);
    let gpus = ["--gpu-type", "V100-16", "--gpus-per-node", "1"];
    let args = ["trace", "convert", "market.json", "--which-node", "random:7", "--out", "market.csv"];
    let ran = sandbox.run(&[&args[..], &gpus].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{}", ran.stderr);
    assert!(ran.stderr.starts_with("market.json: SkyPilot JSON, times in ticks of 600 s: 3 nodes"), "{}", ran.stderr);
    assert!(sandbox.read("market.csv").contains(",up,v100-16-000,V100-16,1,"), "{}", sandbox.read("market.csv"));
    let statistics = |args: &[&str]| {
        let ran = sandbox.run(&[&["trace", "stats", "--format", "json"], args].concat());
        let all: Value = serde_json::from_str(&ran.stdout).unwrap();
        all[0]["statistics"].clone()
    };
    let direct = statistics(&["market.json", "--which-node", "random:7"]);
    assert_eq!(statistics(&["market.csv"]), direct);
    assert_eq!(direct["span_s"], 4200.0);
    let replay = |trace: &str, more: &[&str]| {
        let args = ["--trace", trace, "--model", "bert-large", "--policies", "varuna", "--format", "json"];
        let ran = sandbox.run(&[&args[..], more].concat());
        let summary: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}", ran.stderr));
        summary["policies"].clone()
    };
    let which = ["--which-node", "random:7"];
    assert_eq!(replay("market.csv", &[]), replay("market.json", &[&gpus[..], &which].concat()));
}
