//! Sweeps: the same bytes however they are done, and a gate that notices.

mod gate;
mod refused;

use crate::support::Sandbox;
use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Plans that are made in milliseconds; three of them don't fit, and one cluster is empty.
const PLANS: &str = "\
planners = [\"autohet\", \"megatron\"]
effort = \"fast\"
[scenario]
model = \"gpt3-1.3b\"
training.global_batch_size = 16
[grid]
gpus.V100-16 = [0, 1, 2, 4]
gpus.T4 = [0, 2, 4]
training.micro_batch_sizes = [[1], [1, 2]]
";

/// Replays of two generated traces.
const REPLAYS: &str = "\
kind = \"replays\"
policies = [\"autohet\", \"restart\"]
[scenario]
model = \"gpt3-1.3b\"
training.global_batch_size = 16
[market]
hours = 2.0
[[market.pools]]
gpu_type = \"V100-16\"
gpu_count = 4
nodes = 2
up_time_mean_hours = 0.5
[grid]
market.seed = [1, 2]
checkpoint.interval = [\"optimal\", \"never\"]
";

fn sandbox(text: &str) -> Sandbox {
    Sandbox::new().file("s.toml", text)
}

/// Every file of a results folder.
fn folder(sandbox: &Sandbox, name: &str) -> BTreeMap<String, String> {
    let entries = fs::read_dir(sandbox.path(name)).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: std::path::PathBuf| {
        (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(&path).unwrap())
    };
    entries.map(read).collect()
}

fn sweep(sandbox: &Sandbox, out: &str, more: &[&str]) {
    let ran = sandbox.run(&[&["sweep", "s.toml", "--quiet", "--out", out], more].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{more:?}: {}", ran.stdout);
}

fn same_bytes_however_it_is_done(text: &str, runs: usize) {
    let sandbox = sandbox(text);
    sweep(&sandbox, "one", &["--jobs", "1"]);
    let whole = folder(&sandbox, "one");
    assert_eq!(whole["rows.jsonl"].lines().count(), runs);
    assert_eq!(whole["rows.csv"].lines().count(), runs + 1);
    sweep(&sandbox, "two", &["--jobs", "2"]);
    assert_eq!(folder(&sandbox, "two"), whole);
    for shard in 1..=4 {
        sweep(&sandbox, &format!("part-{shard}"), &["--shard", &format!("{shard}/4"), "--cache", "cache"]);
    }
    let merged = sandbox.run(&["sweep", "merge", "part-4", "part-2", "part-1", "part-3", "--out", "merged"]);
    assert_eq!(merged.code, Some(0), "{}", merged.stderr);
    assert_eq!(folder(&sandbox, "merged"), whole);
    sweep(&sandbox, "cached", &["--cache", "cache"]);
    assert_eq!(folder(&sandbox, "cached"), whole);
    let said = sandbox.run(&["sweep", "s.toml", "--out", "again", "--cache", "cache"]).stderr;
    assert!(said.contains(&format!("{runs} of them from the cache")), "{said}");
}

#[test]
fn plans_are_the_same_for_any_threads_shards_and_cache() {
    same_bytes_however_it_is_done(PLANS, 4 * 3 * 2 * 2);
}

#[test]
fn replays_are_the_same_for_any_threads_shards_and_cache() {
    same_bytes_however_it_is_done(REPLAYS, 2 * 2 * 2);
}

#[test]
fn a_sweep_that_was_killed_goes_on_where_it_stopped() {
    let sandbox = sandbox(PLANS);
    sweep(&sandbox, "whole", &[]);
    let journal = sandbox.path("out.journal.jsonl");
    let mut child = Command::new(env!("CARGO_BIN_EXE_autohet-sim"))
        .current_dir(sandbox.path("."))
        .args(["sweep", "s.toml", "--jobs", "1", "--out", "out"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = || fs::read_to_string(&journal).unwrap_or_default().lines().count();
    let start = Instant::now();
    // It may be done before it is killed; then there is no journal, and all is done again.
    while lines() < 5 && child.try_wait().unwrap().is_none() && start.elapsed() < Duration::from_mins(1) {
        sleep(Duration::from_millis(1));
    }
    drop(child.kill());
    child.wait().unwrap();
    // As if it had been cut off in the middle of a line.
    if journal.exists() {
        let text = fs::read(&journal).unwrap();
        fs::write(&journal, [&text[..], b"{\"gpus.V100"].concat()).unwrap();
    }
    let ran = sandbox.run(&["sweep", "s.toml", "--resume", "--out", "out"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(folder(&sandbox, "out"), folder(&sandbox, "whole"));
    assert!(!journal.exists());
}

#[test]
fn a_scheduler_says_which_shard_it_is() {
    let sandbox = sandbox(PLANS);
    let environment = [("SLURM_ARRAY_TASK_ID", "1"), ("SLURM_ARRAY_TASK_MIN", "1"), ("SLURM_ARRAY_TASK_COUNT", "4")];
    let ran = sandbox.run_with(&["sweep", "s.toml"], &environment);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("shard 1/4, because `SLURM_ARRAY_TASK_ID` is set"), "{}", ran.stderr);
    assert_eq!(sandbox.read("results/s-1-of-4/rows.jsonl").lines().count(), 12);
}

#[test]
fn what_does_not_fit_is_a_row() {
    let sandbox = sandbox(PLANS);
    sweep(&sandbox, "out", &[]);
    let rows = sandbox.read("out/rows.csv");
    assert!(rows.contains("0,0,[1],autohet,infeasible,the cluster has no GPUs,"), "{rows}");
    assert!(rows.contains("1,0,[1],autohet,infeasible,\"no plan fits: "), "{rows}");
    assert!(rows.contains("4,0,\"[1,2]\",megatron,ok,,"), "{rows}");
}

#[test]
fn what_does_not_compute_in_the_precision_is_a_row() {
    let sandbox = sandbox(
        &PLANS.replace("training.global_batch_size", "training.precision = \"bf16\"\ntraining.global_batch_size"),
    );
    sweep(&sandbox, "out", &[]);
    let rows = sandbox.read("out/rows.csv");
    assert!(rows.contains("0,2,[1],autohet,infeasible,`T4` has no bf16 units"), "{rows}");
}

#[test]
fn the_scenarios_that_are_shipped_are_sweeps() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    for (name, runs) in [("mix-sweep", 4 * 4 * 3 * 3), ("mix-1000", 3000), ("spot-sweep", 2 * 3 * 3)] {
        let sweep = autohet::sweep::SweepFile::read(&root.join(format!("scenarios/{name}.toml"))).unwrap();
        assert_eq!(sweep.runs().unwrap().len(), runs, "{name}");
    }
}

#[test]
fn two_sweeps_do_not_write_one_folder() {
    let slow = PLANS.replace("effort = \"fast\"", "effort = \"full\"");
    let sandbox = sandbox(&slow);
    let journal = sandbox.path("out.journal.jsonl");
    let mut child = Command::new(env!("CARGO_BIN_EXE_autohet-sim"))
        .current_dir(sandbox.path("."))
        .args(["sweep", "s.toml", "--jobs", "1", "--out", "out"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while !journal.exists() && child.try_wait().unwrap().is_none() && start.elapsed() < Duration::from_mins(1) {
        sleep(Duration::from_millis(1));
    }
    let second = sandbox.run(&["sweep", "s.toml", "--out", "out", "--resume"]);
    let was_running = child.try_wait().unwrap().is_none();
    drop(child.kill());
    child.wait().unwrap();
    if was_running {
        assert_eq!(second.code, Some(2), "{}", second.stderr);
        assert!(second.stderr.contains("`out.journal.jsonl` is being written by another sweep"), "{}", second.stderr);
    }
    sweep(&sandbox, "out", &["--resume"]);
}
