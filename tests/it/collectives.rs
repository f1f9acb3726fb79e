//! `autohet-sim show collectives`: times by closed forms, and what it refuses.

use crate::support::Sandbox;
use serde_json::Value;

fn shown(args: &[&str]) -> Vec<Value> {
    let ran = Sandbox::new().run(&[&["show", "collectives"], args, &["--format", "json"]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    serde_json::from_str(&ran.stdout).unwrap()
}

fn seconds(rows: &[Value], gpus: &str, operation: &str, algorithm: &str, bytes: u64) -> f64 {
    let is_it = |row: &&Value| {
        row["gpus"] == gpus && row["operation"] == operation && row["algorithm"] == algorithm && row["bytes"] == bytes
    };
    rows.iter().find(is_it).unwrap_or_else(|| panic!("{gpus} {operation} {algorithm}"))["seconds"].as_f64().unwrap()
}

/// Two nodes of four T4 (1.9 GB/s and 10 µs within a node) with one interface of 10 Gbit/s and 30 µs each.
#[test]
fn closed_forms_of_alpha_and_beta() {
    let rows = shown(&["2x4xT4", "--nic-gbit-per-s", "10", "--nic-latency-us", "30", "--sizes", "8MB,1.6GB"]);
    let (within, between) = ((1.9e9, 10e-6), (1.25e9, 60e-6));
    for bytes in [8_000_000_u64, 1_600_000_000] {
        let size = bytes as f64;
        for (gpus, operation, algorithm, expected_s) in [
            ("2 of t4-0", "send", "direct", size / within.0 + within.1),
            ("one a node (2)", "send", "direct", size / between.0 + between.1),
            ("4 of t4-0", "all_reduce", "ring", 1.5 * size / within.0 + 6.0 * within.1),
            ("4 of t4-0", "all_gather", "ring", 0.75 * size / within.0 + 3.0 * within.1),
            ("all 8 GPUs", "reduce_scatter", "ring", 0.875 * size / between.0 + 7.0 * between.1),
            ("all 8 GPUs", "all_reduce", "ring", 1.75 * size / between.0 + 14.0 * between.1),
            // A quarter of each buffer leaves the node, for each of four.
            (
                "all 8 GPUs",
                "all_reduce",
                "hierarchical",
                2.0 * (0.75 * size / within.0 + 3.0 * within.1) + size / between.0 + 2.0 * between.1,
            ),
        ] {
            let taken_s = seconds(&rows, gpus, operation, algorithm, bytes);
            assert!(
                (taken_s / expected_s - 1.0).abs() < 1e-5,
                "{gpus} {operation} {algorithm}: {taken_s} {expected_s}"
            );
        }
    }
    // Half of each of four buffers leaves the node; NCCL's latencies come on top.
    let all_to_all_s = seconds(&rows, "all 8 GPUs", "all_to_all", "pairs", 1_600_000_000);
    assert!((all_to_all_s / (2.0 * 1.6e9 / 1.25e9) - 1.0).abs() < 1e-3, "{all_to_all_s}");
}

#[test]
fn no_bandwidth_is_beyond_the_links() {
    for row in shown(&["2x8xA100-80", "--nics-per-node", "8", "--nic-gbit-per-s", "200", "--sizes", "1GB"]) {
        let most = if row["gpus"].as_str().unwrap().contains(" of a100") { 240.0 } else { 200.0 };
        assert!(row["bus_gb_per_s"].as_f64().unwrap() <= most, "{row}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refuses = |args: &[&'static str], parts: &[&str]| {
        Sandbox::new().refuses(&[&["show", "collectives"], args].concat(), parts);
    };
    refuses(&["1x1xT4"], &["`1x1xT4` has one GPU"]);
    refuses(&["2x4xT4", "--sizes", "0"], &["not a size"]);
    refuses(&["2x4xT4", "--sizes", "big"], &["not a size"]);
    refuses(&["2x4xT4", "--nic-gbit-per-s", "-1"], &["nic_gbit_per_s"]);
    refuses(&["2x4xZ9"], &["unknown GPU type"]);
}
