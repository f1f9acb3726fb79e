//! `autohet-run` from outside: real processes, real sockets, real gradients.

mod check;
mod inject_check;
mod numerics;
mod peer_copies;
mod refusals;
mod surface;
mod survival;

use assert_cmd::Command;
use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A stage as its first layer and its number of layers, in a node of its own.
pub fn stage(node: usize, first_layer: u32, num_layers: u32) -> serde_json::Value {
    serde_json::json!({
        "node": format!("n{node}"), "gpus": [0], "gpu_type": "T4", "first_layer": first_layer, "num_layers": num_layers
    })
}

/// A plan of gpt-tiny: of each replica its micro batches of one sample and the layers of its stages.
pub fn plan(schedule: &str, recompute: &str, replicas: &[(u32, &[u32])]) -> serde_json::Value {
    let mut node = 0;
    let mut one = |&(micro_batches, layers): &(u32, &[u32])| {
        let mut first = 0;
        let stages: Vec<_> = layers
            .iter()
            .map(|&layers| {
                let stage = stage(node, first, layers);
                first += layers;
                node += 1;
                stage
            })
            .collect();
        serde_json::json!({ "micro_batches": micro_batches, "stages": stages })
    };
    let global_batch_size: u32 = replicas.iter().map(|replica| replica.0).sum();
    serde_json::json!({
        "schema_version": 2, "planner": "by hand", "model": "gpt-tiny", "global_batch_size": global_batch_size,
        "micro_batch_size": 1, "sequence_parallel": false, "recompute": recompute,
        "precision": "fp32", "schedule": schedule, "replicas": replicas.iter().map(&mut one).collect::<Vec<_>>(),
    })
}

/// A folder with `plan.json`.
pub fn folder_with(plan: &serde_json::Value) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("plan.json"), plan.to_string()).unwrap();
    folder
}

/// The program, to be run in a folder.
pub fn autohet_run(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_autohet-run"));
    command.current_dir(folder).timeout(Duration::from_mins(4));
    command
}

/// The program, running in a folder, and what it prints, line by line.
pub fn spawned(folder: &TempDir, options: &[&[&str]]) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_autohet-run"))
        .current_dir(folder.path())
        .args(options.concat())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let rows = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, rows)
}
