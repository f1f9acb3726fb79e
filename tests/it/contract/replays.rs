//! `autohet-sim --trace` and the results folder.

use super::number;
use crate::support::{Ran, Sandbox};
use serde_json::Value;
use std::collections::BTreeMap;

const FILES: [&str; 9] = [
    "costs.csv",
    "iteration.perfetto.json",
    "ledger.csv",
    "plans.jsonl",
    "recoveries.csv",
    "resolved.toml",
    "summary.json",
    "throughput.svg",
    "timeline.csv",
];

const REPLAY: [&str; 6] = ["--trace", "small.csv", "--model", "bert-large", "--format", "json"];

fn replayed(sandbox: &Sandbox, args: &[&str]) -> Value {
    let ran: Ran = sandbox.run(args);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

fn files(sandbox: &Sandbox, folder: &str) -> Vec<String> {
    let all = sandbox.listing().into_iter();
    let inside = all.filter_map(|path| path.strip_prefix(sandbox.path(folder)).ok().map(std::path::Path::to_owned));
    inside.map(|path| path.display().to_string()).filter(|name| !name.is_empty()).collect()
}

/// Checks a summary against the schema and against itself.
pub(super) fn check_summary(summary: &Value) {
    let schema: Value = serde_json::from_str(autohet::report::SUMMARY_SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(summary).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let span_s = number(&summary["trace"], "span_s");
    for key in ["node_count", "mean_availability", "loss_count"] {
        number(&summary["trace"], key);
    }
    for (name, policy) in summary["policies"].as_object().unwrap() {
        let ledger = policy["ledger_gpu_s"].as_object().unwrap();
        let (rows_s, paid_s) =
            (ledger.values().map(|row| row.as_f64().unwrap()).sum::<f64>(), number(policy, "paid_gpu_s"));
        assert!((rows_s - paid_s).abs() <= 1e-6 * paid_s.max(1.0), "{name}: {rows_s} of {paid_s}");
        let tokens = number(policy, "tokens");
        let samples = number(policy, "iterations") * number(summary, "global_batch_size");
        assert_eq!((number(policy, "samples"), tokens), (samples, samples * number(summary, "seq_length")));
        if tokens > 0.0 {
            assert!((number(policy, "tokens_per_s") - tokens / span_s).abs() <= 1e-9 * tokens);
            let usd = number(policy, "usd");
            assert!((number(policy, "usd_per_million_tokens") * tokens / 1e6 - usd).abs() <= 1e-6 * usd.max(1e-9));
        }
        if paid_s > 0.0 {
            assert!(
                (number(policy, "goodput_share") - number(&policy["ledger_gpu_s"], "useful") / paid_s).abs() < 1e-9
            );
        }
        assert_eq!(policy["recovery_s_mean"].is_null(), policy["recoveries"] == 0);
    }
}

#[test]
fn a_summary_keeps_its_contract() {
    let sandbox = Sandbox::with_small_trace();
    let summary = replayed(&sandbox, &REPLAY);
    check_summary(&summary);
    assert_eq!(summary["policies"].as_object().unwrap().keys().collect::<Vec<_>>(), ["autohet", "varuna", "restart"]);
    // By hand: 4 GPUs for 1800 s, and for 720 s and 1200 s; 1.5, 1.5 and 4 USD an hour.
    assert_eq!(summary["policies"]["restart"]["paid_gpu_s"], 4.0 * (1800.0 + 720.0 + 1200.0));
    let usd = number(&summary["policies"]["restart"], "usd");
    assert!((usd - (1.5 * 0.5 + 1.5 * 0.2 + 4.0 / 3.0)).abs() < 1e-9, "{usd}");
    let trace = &summary["trace"];
    assert_eq!((trace["format"].as_str(), trace["loss_count"].as_u64()), (Some("canonical"), Some(3)));
    assert_eq!((number(trace, "span_s"), trace["node_count"].as_u64()), (2400.0, Some(2)));
    // 720 s and 1200 s of two nodes, 480 s of one and 600 s of the other: (2·720 + 480 + 2·600 + 600) / (2·2400).
    assert!((number(trace, "mean_availability") - 3720.0 / 4800.0).abs() < 1e-9);
}

#[test]
fn the_results_folder_has_every_file_and_they_agree() {
    let sandbox = Sandbox::with_small_trace();
    let summary = replayed(&sandbox, &REPLAY);
    assert_eq!(files(&sandbox, "results/small"), FILES);
    let file: Value = serde_json::from_str(&sandbox.read("results/small/summary.json")).unwrap();
    assert_eq!(file, summary);
    for line in sandbox.read("results/small/plans.jsonl").lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }
    assert!(sandbox.read("results/small/throughput.svg").starts_with("<svg"));
    let resolved: toml::Table = sandbox.read("results/small/resolved.toml").parse().unwrap();
    assert_eq!(resolved["model"].as_str(), Some("bert-large"));
    let timeline: Value = serde_json::from_str(&sandbox.read("results/small/iteration.perfetto.json")).unwrap();
    assert!(!timeline["traceEvents"].as_array().unwrap().is_empty());
    // The ledger's table holds the same sums.
    let ledger = sandbox.read("results/small/ledger.csv");
    for (name, policy) in summary["policies"].as_object().unwrap() {
        let rows = ledger.lines().filter(|line| line.starts_with(&format!("{name},"))).count();
        assert_eq!(rows, policy["ledger_gpu_s"].as_object().unwrap().len(), "{name}");
    }
    for (name, policy) in summary["policies"].as_object().unwrap() {
        check_events(&sandbox, name, policy);
    }
}

/// The rows of a policy in a table, by column.
fn table(sandbox: &Sandbox, file: &str, policy: &str) -> Vec<BTreeMap<String, String>> {
    let text = sandbox.read(&format!("results/small/{file}"));
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let rows = reader.deserialize().map(|row| row.unwrap());
    rows.filter(|row: &BTreeMap<String, String>| row["policy"] == policy).collect()
}

fn sum(rows: &[BTreeMap<String, String>], column: &str) -> f64 {
    rows.iter().map(|row| row[column].parse::<f64>().unwrap()).sum()
}

/// Timeline and recoveries of a policy lead to the totals of the summary.
fn check_events(sandbox: &Sandbox, name: &str, policy: &Value) {
    let stretches = table(sandbox, "timeline.csv", name);
    let rolled_back = sum(&stretches, "rolled_back");
    let done = sum(&stretches, "iterations");
    let count = |key: &str| number(policy, key) as i64;
    assert_eq!((done - rolled_back) as i64, count("iterations"), "{name}: {done} done, {rolled_back} rolled back");
    assert_eq!(rolled_back as i64, count("lost_iterations"), "{name}");
    let recoveries = table(sandbox, "recoveries.csv", name);
    assert_eq!(Some(recoveries.len() as u64), policy["recoveries"].as_u64(), "{name}");
    for recovery in recoveries.iter().filter(|recovery| recovery["attempts_overtaken"] == "0") {
        let row = std::slice::from_ref(recovery);
        let parts_s: f64 = ["detect_s", "plan_s", "connect_s", "fetch_s"].map(|part| sum(row, part)).iter().sum();
        assert!((sum(row, "end_s") - sum(row, "start_s") - parts_s).abs() < 1e-6, "{name}: {recovery:?}");
    }
}

#[test]
fn a_table_is_printed_for_people_and_says_where_the_rest_is() {
    let ran = Sandbox::with_small_trace().run(&["--trace", "small.csv", "--model", "bert-large", "--out", "here"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for part in ["autohet", "varuna", "restart", "details: here"] {
        assert!(ran.stdout.contains(part), "{}", ran.stdout);
    }
    assert!(!ran.stdout.contains('\u{1b}'));
    assert!(ran.stderr.starts_with("small.csv: canonical CSV, times in seconds: 2 nodes"), "{}", ran.stderr);
}

#[test]
fn a_resolved_scenario_gives_the_same_replay_again() {
    let sandbox = Sandbox::with_small_trace();
    let options = ["--policies", "autohet,restart", "--checkpoint-interval-s", "120", "--nic-gbit-per-s", "25"];
    let first = replayed(&sandbox, &[&REPLAY[..], &options, &["--global-batch-size", "256"]].concat());
    let resolved = "results/small/resolved.toml";
    let again = replayed(&sandbox, &["--scenario", resolved, "--out", "again", "--format", "json"]);
    assert_eq!(again, first);
    for file in FILES {
        assert_eq!(sandbox.read(&format!("again/{file}")), sandbox.read(&format!("results/small/{file}")), "{file}");
    }
}

#[test]
fn a_second_run_replaces_the_first() {
    let sandbox = Sandbox::with_small_trace();
    replayed(&sandbox, &[&REPLAY[..], &["--out", "here"]].concat());
    let sandbox = sandbox.file("here/plans.jsonl", "of the first run");
    let second = replayed(&sandbox, &[&REPLAY[..], &["--out", "here", "--policies", "varuna"]].concat());
    assert_eq!(files(&sandbox, "here"), FILES);
    let file: Value = serde_json::from_str(&sandbox.read("here/summary.json")).unwrap();
    assert_eq!(file, second);
    assert_ne!(sandbox.read("here/plans.jsonl"), "of the first run");
    assert_eq!(sandbox.listing().len(), 2 + FILES.len(), "nothing but the trace and the results");
    let sandbox = sandbox.file("here/thesis.txt", "of somebody");
    let ran = sandbox.run(&[&REPLAY[..], &["--out", "here"]].concat());
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert_eq!(sandbox.read("here/thesis.txt"), "of somebody");
}

#[test]
fn a_replay_in_which_nothing_fits_ends_with_the_verdict() {
    let text = "time_s,event,node,gpu_type,gpu_count\n0,up,a,T4,1\n600,down,a,,\n";
    let sandbox = Sandbox::new().file("t.csv", text);
    let ran = sandbox.run(&["--trace", "t.csv", "--model", "gpt3-1.3b", "--format", "json"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let summary: Value = serde_json::from_str(&ran.stdout).unwrap();
    check_summary(&summary);
    assert_eq!(summary["policies"]["autohet"]["ledger_gpu_s"]["waiting"], 600.0);
    let table = sandbox.run(&["--trace", "t.csv", "--model", "gpt3-1.3b"]);
    assert!(table.stdout.contains("autohet never trained: no plan fits: "), "{}", table.stdout);
}

#[test]
fn one_sample_is_not_samples() {
    let sandbox = Sandbox::with_small_trace();
    let ran = sandbox.run(&["--trace", "small.csv", "--model", "bert-large", "--global-batch-size", "1"]);
    assert!(ran.stdout.starts_with("bert-large, global batch of 1 sample, "), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn nodes_that_go_too_soon_are_the_reason_for_no_training() {
    let text = "time_s,event,node,gpu_type,gpu_count\n0,up,a,T4,4\n20,down,a,,\n600,up,b,T4,4\n601,down,b,,\n";
    let ran = Sandbox::new().file("t.csv", text).run(&["--trace", "t.csv", "--model", "bert-large"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let reason = "never trained: no set of nodes stayed up long enough to finish an iteration";
    assert_eq!(ran.stdout.matches(reason).count(), 3, "{}", ran.stdout);
    assert!(!ran.stdout.contains("--cluster"), "{}", ran.stdout);
}
