//! How long training stands still: for the loss of a node, with copies of the state near and far, and for a checkpoint.
//!
//! `cargo bench --features burn-cpu --bench recovery` runs `autohet-run` itself, five times each, and prints medians. Loss:
//! four emulated T4s train GPT 17M in two replicas of two stages of about 100 MB of state each; one is killed and not
//! started again. Checkpoint: one core trains GPT 17M for real.

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const RUNS: usize = 5;

fn main() {
    // `cargo test` and `cargo bench` compile this alike; only the latter runs it with this argument.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let near = median_of(|| loss(&["--recover-from", "all"]));
    let from_store = |option| median_of(|| loss(&["--recover-from", "object-store", option, "200"]));
    let (each, all) = (from_store("--store-mb-per-s"), from_store("--store-total-mb-per-s"));
    println!("loss of a node, medians of {RUNS} runs      ready after   first new step done after   read");
    let rows = [
        ("nearest copies", &near),
        ("object store, 200 MB/s for each rank", &each),
        ("object store, 200 MB/s for all ranks", &all),
    ];
    for (name, row) in rows {
        println!("  {name:<36} {:>10.3} s {:>19.3} s {:>13.0} MB", row[0], row[1], row[2] / 1e6);
    }
    for (name, far) in [("each", &each), ("all", &all)] {
        let [ready, done] = [0, 1].map(|figure| far[figure] / near[figure]);
        println!(
            "  ratio with 200 MB/s for {name}: {ready:.1} until ready, {done:.1} until the first new step is done"
        );
    }
    let checkpoint = median_of(checkpoint);
    println!("checkpoints, medians of {RUNS} runs");
    println!("  standing still                       {:>10.3} s", checkpoint[0]);
    println!("  iteration                            {:>10.3} s", checkpoint[1]);
    println!("  slower by, at one in ten iterations  {:>10.1} %", 100.0 * checkpoint[2]);
}

/// The median of each figure over the runs.
fn median_of<const N: usize>(run: impl Fn() -> [f64; N]) -> [f64; N] {
    let runs: Vec<[f64; N]> = (0..RUNS).map(|_| run()).collect();
    std::array::from_fn(|figure| median(runs.iter().map(|run| run[figure]).collect()))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A node is killed: seconds until all ranks are ready again, seconds until the next step is done, bytes read from elsewhere.
fn loss(options: &[&str]) -> [f64; 3] {
    let plan = plan("gpt-17m", &[(4, &[3, 3]), (4, &[3, 3])]);
    // By then a checkpoint is whole, however slow the store is.
    let kill = ["--steps", "44", "--kill", "n1@41:steady", "--max-restarts", "0", "--backend", "emulated"];
    let checkpoints = ["--checkpoint-dir", "checkpoints", "--checkpoint-every", "2"];
    let events = run(&plan, &[&kill[..], &checkpoints, options].concat());
    let lost = events.iter().position(|event| event["event"] == "lost").expect("a node is lost");
    let after = |name| events[lost..].iter().find(|event| event["event"] == name).expect("training goes on");
    let (plan, step) = (after("plan"), after("step"));
    let read = ["memory", "disk", "object_store"].map(|origin| number(&plan["read_bytes"][origin]));
    let since_loss = number(&step["time_s"]) - number(&events[lost]["time_s"]);
    [number(&plan["total_s"]), since_loss, read.iter().sum()]
}

/// Checkpoints are taken: seconds that one holds training up, seconds of an iteration, and how much slower ten iterations
/// are with one than without.
fn checkpoint() -> [f64; 3] {
    let plan = plan("gpt-17m", &[(4, &[6])]);
    let options = ["--steps", "21", "--checkpoint-dir", "checkpoints", "--checkpoint-every", "10"];
    let events = run(&plan, &options);
    let steps: Vec<&Value> = events.iter().filter(|event| event["event"] == "step").collect();
    let wall_s = |step: usize| number(&steps[step]["wall_s"]);
    // Step 11 begins with the copy; the background writes while steps 11 and 12 are done.
    let undisturbed = median((3..10).chain(15..20).map(wall_s).collect());
    let disturbed: f64 = (10..20).map(wall_s).sum();
    let iteration_s = median(steps.iter().map(|step| number(&step["iteration_s"])).collect());
    [wall_s(10) - number(&steps[10]["iteration_s"]), iteration_s, disturbed / (10.0 * undisturbed) - 1.0]
}

/// The events of a run.
fn run(plan: &Value, options: &[&str]) -> Vec<Value> {
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    fs::write(folder.path().join("plan.json"), plan.to_string()).expect("the folder can be written");
    let output = Command::new(env!("CARGO_BIN_EXE_autohet-run"))
        .current_dir(folder.path())
        .args(["--plan", "plan.json", "--format", "json"])
        .args(options)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| {
            panic!("{} can't be run: {error}", Path::new(env!("CARGO_BIN_EXE_autohet-run")).display())
        });
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("each line is an object")).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

/// A plan of nodes `n0`, `n1` … with one T4 each: of each replica its micro batches of one sample and the layers of its
/// stages.
fn plan(model: &str, replicas: &[(u32, &[u32])]) -> Value {
    let mut node = 0;
    let mut replica = |&(micro_batches, layers): &(u32, &[u32])| {
        let mut first = 0;
        let mut stage = |&layers: &u32| {
            let name = format!("n{node}");
            (node, first) = (node + 1, first + layers);
            json!({
                "node": name, "gpus": [0], "gpu_type": "T4", "first_layer": first - layers, "num_layers": layers
            })
        };
        json!({ "micro_batches": micro_batches, "stages": layers.iter().map(&mut stage).collect::<Vec<_>>() })
    };
    json!({
        "schema_version": 2, "planner": "by hand", "model": model,
        "global_batch_size": replicas.iter().map(|replica| replica.0).sum::<u32>(),
        "micro_batch_size": 1, "sequence_parallel": false, "recompute": "none",
        "precision": "fp32", "schedule": "1f1b", "replicas": replicas.iter().map(&mut replica).collect::<Vec<_>>(),
    })
}
