//! `check --inject`: the same trace in a replay and on real processes. How good predictions are isn't tested here, where other
//! tests run at the same time.

use super::{autohet_run, folder_with, plan};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Eleven seconds: a loss, a notice that is followed, two at once, a join; each with time to recover on a busy machine.
const TRACE: &str = "time_s,event,node,gpu_type,gpu_count\n\
    0,up,a,T4,1\n0,up,b,T4,1\n0,up,c,L4,1\n0,up,d,L4,1\n0,up,e,L4,1\n\
    2,down,d,,\n4.5,down,b,,\n4.5,down,e,,\n7,up,f,L4,1\n11,end,,,\n";

const EMULATED: [&str; 6] = ["--backend", "emulated", "--model", "gpt-tiny", "--global-batch-size", "32"];

fn check(folder: &Path, options: &[&str]) -> (Value, Option<i32>) {
    let mut command = autohet_run(folder);
    let output = command.args(["check", "--format", "json"]).args(options).output().unwrap();
    let report = serde_json::from_slice(&output.stdout);
    (report.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr))), output.status.code())
}

#[test]
fn both_worlds_come_to_the_same_plans() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("trace.csv"), TRACE).unwrap();
    let options = ["--inject", "trace.csv", "--time-scale", "10", "--tolerance", "1000%", "--out", "out"];
    let (report, code) = check(folder.path(), &[&EMULATED[..], &options].concat());
    assert_eq!((code, &report["holds"]), (Some(0), &Value::Bool(true)), "{report:#}");
    assert_eq!((&report["backend"], report["span_s"].as_f64()), (&"emulated".into(), Some(11.0)));
    let row = |quantity: &str| {
        let rows = report["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["quantity"] == quantity).unwrap();
        (row["predicted"].as_f64().unwrap(), row["measured"].as_f64().unwrap())
    };
    let (predicted, measured) = row("recoveries");
    assert!(predicted >= 2.0 && (predicted - measured).abs() < 0.5, "{report:#}");
    assert_eq!(report["plans_equal"], true, "{report:#}");
    let recoveries = |world: &str| report[world].as_array().unwrap().clone();
    for (predicted, measured) in recoveries("predicted_recoveries").iter().zip(recoveries("measured_recoveries")) {
        assert_eq!((&predicted["cause"], &predicted["plan"]), (&measured["cause"], &measured["plan"]));
        assert_eq!(measured["lost_iterations"], 0);
    }
    assert_eq!(row("iterations_lost"), (0.0, 0.0));
    let (predicted, measured) = row("iterations");
    assert!(measured > 0.0 && predicted >= 0.9 * measured, "nothing is faster than the devices: {report:#}");
    assert!(row("goodput_tokens_per_s").1 > 0.0 && row("mean_recovery_s").1 > 0.0);
    let mut written: Vec<_> =
        fs::read_dir(folder.path().join("out")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    written.sort();
    assert_eq!(written, ["summary.json", "table.txt"]);
}

#[test]
fn where_nothing_is_left_both_wait_for_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let trace = "time_s,event,node,gpu_type,gpu_count\n0,up,a,T4,1\n2,down,a,,\n3,end,,,\n";
    fs::write(folder.path().join("trace.csv"), trace).unwrap();
    let options = ["--inject", "trace.csv", "--tolerance", "1000%", "--checkpoint-every", "1000000"];
    let (report, code) = check(folder.path(), &[&EMULATED[..], &options].concat());
    // All was lost with the last node: nothing counts in either world.
    let iterations = report["rows"].as_array().unwrap().iter().find(|row| row["quantity"] == "iterations").unwrap();
    assert_eq!((&iterations["predicted"], &iterations["measured"]), (&0.0.into(), &0.0.into()), "{report:#}");
    assert_eq!((code, &report["plans_equal"]), (Some(0), &Value::Bool(true)));
    assert_eq!(report["measured_recoveries"], serde_json::json!([]));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = folder_with(&plan("1f1b", "none", &[(2, &[2, 2])]));
    fs::write(folder.path().join("trace.csv"), TRACE).unwrap();
    fs::create_dir(folder.path().join("full")).unwrap();
    fs::write(folder.path().join("full/file"), "").unwrap();
    let emulated = [&EMULATED[..], &["--inject", "trace.csv"]].concat();
    let with = |options: &[&'static str]| [&emulated[..], options].concat();
    let cases = [
        (with(&["--slowdown", "0:2"]), "`--slowdown`"),
        (with(&["--cluster", "2x1xT4"]), "`--cluster`"),
        (with(&["--steps", "3"]), "cannot be used with"),
        (with(&["--checkpoint-dir", "full"]), "`--checkpoint-dir` `full` isn't empty\nhint: name a new folder"),
        (with(&["--tolerance", "x"]), "`--tolerance` is `x`"),
        (with(&["--trace-speed", "0"]), "`--trace-speed` is `0`"),
        (vec!["--inject", "trace.csv", "--backend", "emulated"], "neither a plan nor a model"),
        (vec!["--inject", "trace.csv", "--plan", "plan.json"], "`--plan` on `--backend cpu`"),
        (vec!["--inject", "none.csv", "--model", "gpt-tiny"], "none.csv"),
        (vec!["--plan", "plan.json", "--checkpoint-every", "3"], "--inject <FILE>"),
        (vec!["--plan", "plan.json", "--gpu-type", "T4"], "`--gpu-type` says how to read a trace"),
    ];
    for (options, expected) in cases {
        let output = autohet_run(folder.path()).arg("check").args(&options).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {stderr}");
        assert!(stderr.contains(expected), "{options:?}: {stderr}");
    }
}

#[test]
fn a_signal_leaves_no_temporary_folder_behind() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("trace.csv"), TRACE).unwrap();
    let temporary = folder.path().join("temporary");
    fs::create_dir(&temporary).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_autohet-run"))
        .current_dir(folder.path())
        .env("TMPDIR", &temporary)
        .arg("check")
        .args(EMULATED)
        .args(["--inject", "trace.csv", "--checkpoint-every", "1"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    // Checkpoints are being written: the workers are at work.
    let has_checkpoints = || {
        let folders = fs::read_dir(&temporary).unwrap().flatten();
        folders.into_iter().any(|folder| folder.path().join("object-store").exists())
    };
    while !has_checkpoints() {
        assert!(Instant::now() < deadline, "it never began to train");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(Command::new("sh").args(["-c", &format!("kill -TERM {}", child.id())]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
}
