//! `check`, `profile` and the conditions of a run: what they say and what they refuse. How good predictions are isn't tested
//! here, where other tests run at the same time.

use super::{autohet_run, folder_with, plan};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Two unlike replicas, one of them of unlike GPUs.
fn unlike() -> Value {
    let mut plan = plan("1f1b", "none", &[(4, &[3, 1]), (2, &[4])]);
    plan["replicas"][0]["stages"][0]["gpu_type"] = "A100-80".into();
    plan
}

/// A comparison in JSON, and the exit code.
fn check(folder: &Path, options: &[&str]) -> (Value, Option<i32>) {
    let mut command = autohet_run(folder);
    let output = command.args(["check", "--plan", "plan.json", "--format", "json"]).args(options).output().unwrap();
    let report = serde_json::from_slice(&output.stdout);
    (report.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr))), output.status.code())
}

/// The rows of a quantity.
fn rows<'a>(report: &'a Value, quantity: &str) -> Vec<&'a Value> {
    report["rows"].as_array().unwrap().iter().filter(|row| row["quantity"] == quantity).collect()
}

#[test]
fn emulated_ranks_take_about_as_long_as_predicted() {
    let folder = folder_with(&unlike());
    let slow = ["--backend", "emulated", "--slowdown", "2:2", "--nic-gbit-per-s", "0.5", "--tolerance", "1000%"];
    let (report, code) = check(folder.path(), &[&slow[..], &["--steps", "3", "--out", "out"]].concat());
    assert_eq!((code, &report["holds"]), (Some(0), &Value::Bool(true)));
    assert_eq!((&report["backend"], &report["world_size"]), (&"emulated".into(), &3.into()));
    assert!(report["machine"]["cores"].as_u64().unwrap() >= 1);
    for row in rows(&report, "iteration_s").iter().chain(&rows(&report, "busy_s")) {
        let (predicted, measured) = (row["predicted"].as_f64().unwrap(), row["measured"].as_f64().unwrap());
        assert!(measured > 0.5 * predicted, "nobody sleeps too little: {row}");
    }
    assert_eq!(rows(&report, "busy_s").len(), 3);
    for row in rows(&report, "sent_bytes") {
        assert!(row["relative_error"].as_f64().unwrap().abs() < 1e-3, "{row}");
    }
    let mut written: Vec<_> =
        fs::read_dir(folder.path().join("out")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    written.sort();
    assert_eq!(written, ["measured.perfetto.json", "predicted.perfetto.json", "summary.json", "table.txt"]);
    let table = fs::read_to_string(folder.path().join("out/table.txt")).unwrap();
    assert!(table.starts_with("gpt-tiny, 3 ranks, emulated devices\non "), "{table}");
}

#[test]
fn a_run_says_that_its_devices_are_emulated() {
    let folder = folder_with(&unlike());
    let output = autohet_run(folder.path())
        .args(["--plan", "plan.json", "--backend", "emulated", "--steps", "2", "--out", "out"])
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("gpt-tiny on 3 processes, emulated devices"), "{stderr}");
    let summary: Value =
        serde_json::from_str(&fs::read_to_string(folder.path().join("out/summary.json")).unwrap()).unwrap();
    assert_eq!(summary["backend"], "emulated");
}

#[test]
fn processors_are_profiled_and_checked() {
    let folder = folder_with(&plan("1f1b", "none", &[(2, &[2, 2])]));
    let profile =
        ["profile", "--model", "gpt-tiny", "--micro-batch-sizes", "1", "--steps", "2", "--out", "profile.json"];
    autohet_run(folder.path()).args(profile).assert().success();
    let file: Value = serde_json::from_str(&fs::read_to_string(folder.path().join("profile.json")).unwrap()).unwrap();
    assert!(file["entries"][0]["optimizer_s_per_parameter"].as_f64().unwrap() > 0.0);
    assert!(file["links"]["bytes_per_s"].as_f64().unwrap() > 1e6);
    let options = ["--profile", "profile.json", "--steps", "2", "--tolerance", "0%"];
    let (report, code) = check(folder.path(), &options);
    // Nothing is predicted to the nanosecond.
    assert_eq!((code, &report["holds"]), (Some(1), &Value::Bool(false)));
    assert_eq!(report["backend"], "cpu");
    assert!(rows(&report, "memory_bytes").iter().all(|row| row["predicted"].as_f64() < row["measured"].as_f64()));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = folder_with(&unlike());
    let other = r#"{"schema_version": 1, "model": "gpt3-1.3b", "entries": []}"#;
    fs::write(folder.path().join("other.json"), other).unwrap();
    fs::write(folder.path().join("empty.json"), other.replace("gpt3-1.3b", "gpt-tiny")).unwrap();
    let check = ["check", "--plan", "plan.json"];
    let cases: [(&[&str], &str); 15] = [
        (&["--slowdown", "3:2"], "`--slowdown` names rank 3, the plan has ranks 0 to 2"),
        (&["--slowdown", "0:0.5"], "`--slowdown` of rank 0 is `0.5`, expected 1 to 1000"),
        (&["--slowdown", "0:nan"], "`--slowdown` of rank 0 is `NaN`, expected 1 to 1000"),
        (&["--slowdown", "0:2,0:3"], "`--slowdown` names rank 0 twice"),
        (&["--slowdown", "2.5"], "`--slowdown` has `2.5`, expected a rank and a factor"),
        (&["--tolerance", "much"], "`--tolerance` is `much`, expected 0% to 1000%"),
        (&["--tolerance", "-1%"], "`--tolerance` is `-1%`, expected 0% to 1000%"),
        (&["--tolerance", "inf"], "`--tolerance` is `inf`, expected 0% to 1000%"),
        (&["--profile", "other.json"], "the profile measures model `gpt3-1.3b`, not `gpt-tiny`"),
        (&["--profile", "empty.json"], "the profile lacks layers, ends or links of `cpu`"),
        (&["--time-scale", "2"], "`--time-scale` is for emulated devices"),
        (&["--backend", "emulated", "--time-scale", "0"], "`--time-scale` is `0`, expected 0.001 to 1000000"),
        (&["--backend", "emulated", "--nic-gbit-per-s", "0"], "nic_gbit_per_s"),
        (&["--backend", "emulated", "--cluster", "1x1xT4"], "`n0`"),
        (&["--cluster", "1x1xT4"], "the plan uses node `n0`, which isn't in the cluster"),
    ];
    for (options, expected) in cases {
        refuses(folder.path(), &[&check[..], options].concat(), expected);
    }
    refuses(folder.path(), &["check"], "no plan\nhint: ");
    let profile = ["profile", "--model"];
    let cases: [(&[&str], &str); 3] = [
        (&["gpt-tinny"], "unknown model `gpt-tinny`\nhint: did you mean `gpt-tiny`"),
        (&["gpt-tiny", "--backend", "emulated"], "emulated devices have nothing to measure\nhint: "),
        (&["gpt-tiny", "--micro-batch-sizes", "1,1"], "`--micro-batch-sizes` has `1` twice"),
    ];
    for (options, expected) in cases {
        refuses(folder.path(), &[&profile[..], options].concat(), expected);
    }
}

fn refuses(folder: &Path, arguments: &[&str], expected: &str) {
    let output = autohet_run(folder).args(arguments).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
    assert!(output.stdout.is_empty());
    assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
}
