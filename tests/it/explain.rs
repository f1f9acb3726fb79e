//! `autohet-sim plan --explain`.

use crate::support::Sandbox;
use serde_json::Value;

const JOB: [&str; 8] =
    ["plan", "--cluster", "1x2xA100-40+1x2xV100-16", "--model", "gpt3-1.3b", "--global-batch-size", "32", "--explain"];

#[test]
fn people_are_told_why_within_eighty_columns() {
    let ran = Sandbox::new().run(&JOB);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    for part in
        ["What binds", "sets the pace", "What was rejected", "symmetric grid", "without V100-16", "What would help"]
    {
        assert!(ran.stdout.contains(part), "`{part}` isn't in\n{}", ran.stdout);
    }
    assert!(ran.stdout.lines().all(|line| line.chars().count() <= 80), "{}", ran.stdout);
}

#[test]
fn machines_are_told_the_same_in_json() {
    let ran = Sandbox::new().run(&[&JOB[..], &["--format", "json"]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let plan: Value = serde_json::from_str(&ran.stdout).unwrap();
    let explanation = &plan["explanation"];
    let share = |key: &str| explanation["time"][key].as_f64().unwrap();
    let shares = ["useful", "recomputation", "exposed_communication", "bubble"].map(share);
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{shares:?}");
    let stages = explanation["stages"].as_array().unwrap();
    assert_eq!(stages.len(), plan["replicas"].as_array().unwrap().len());
    let (replica, stage) = (&explanation["bottleneck"]["replica"], &explanation["bottleneck"]["stage"]);
    let slowest = &stages[replica.as_u64().unwrap() as usize][stage.as_u64().unwrap() as usize];
    assert!(slowest["period_s"].as_f64().unwrap() > 0.0);
    assert!(explanation["bottleneck"]["binding"]["kind"].is_string());
    let predicted_s = plan["predicted_iteration_s"].as_f64().unwrap();
    let alternatives = explanation["alternatives"].as_array().unwrap();
    for choice in
        ["tensor_parallel_size", "micro_batch_size", "recompute", "without", "symmetric_grid", "proportional_grid"]
    {
        let found = alternatives.iter().find(|other| other["choice"] == choice);
        let found = found.unwrap_or_else(|| panic!("{choice} isn't among {alternatives:?}"));
        if let Some(other_s) = found["predicted_iteration_s"].as_f64() {
            assert!((found["slower_by"].as_f64().unwrap() - (other_s / predicted_s - 1.0)).abs() < 1e-9);
        } else {
            assert!(found["reason"].is_string(), "{found}");
        }
    }
    assert_eq!(explanation["remedies"].as_array().unwrap().len(), 4);
    let used: u64 = explanation["devices"].as_array().unwrap().iter().map(|of| of["used"].as_u64().unwrap()).sum();
    assert!(used <= 4);
}

#[test]
fn where_nothing_fits_every_remedy_is_an_answer() {
    let job = ["plan", "--cluster", "1x4xT4", "--model", "gpt3-13b", "--explain"];
    let ran = Sandbox::new().run(&job);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), ""));
    for part in ["no plan fits", "add 3 more nodes of 4 x `T4`", "GB or more in place of those that have less"] {
        assert!(ran.stdout.contains(part), "{}", ran.stdout);
    }
    let ran = Sandbox::new().run(&[&job[..], &["--format", "json"]].concat());
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(answer["fits_with"].as_array().unwrap().len() >= 2 && answer["error"].is_string());
    // The remedy is one: three more nodes are enough, two aren't.
    for (cluster, code) in [("4x4xT4", 0), ("3x4xT4", 1)] {
        assert_eq!(Sandbox::new().run(&["plan", "--cluster", cluster, "--model", "gpt3-13b"]).code, Some(code));
    }
}
