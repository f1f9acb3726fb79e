//! `autohet-sim plan` from a plan that runs.

use crate::support::Sandbox;

const JOB: [&str; 4] = ["--model", "gpt3-1.3b", "--global-batch-size", "64"];

fn plan(sandbox: &Sandbox, args: &[&str]) -> serde_json::Value {
    let ran = sandbox.run(&[&["plan", "--format", "json"], args, &JOB[..]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn a_lost_node_moves_some_state_and_leaves_the_rest() {
    let sandbox = Sandbox::new();
    plan(&sandbox, &["--cluster", "4x2xA100-40", "--out", "old.json"]);
    let again = plan(&sandbox, &["--cluster", "3x2xA100-40", "--incumbent", "old.json", "--horizon-s", "600"]);
    let movement = &again["movement"];
    assert!(movement["kept_bytes"].as_u64().unwrap() > 0, "{movement}");
    assert!(movement["expected_iterations"].as_f64().unwrap() > 0.0, "{movement}");
    let stages = again["replicas"].as_array().unwrap().iter().flat_map(|replica| replica["stages"].as_array().unwrap());
    assert!(stages.map(|stage| stage["node"].as_str().unwrap()).all(|node| node != "a100-40-3"));
    let text = sandbox.run(&[&["plan", "--cluster", "3x2xA100-40", "--incumbent", "old.json"], &JOB[..]].concat());
    assert!(text.stdout.contains("State: "), "{}", text.stdout);
}

#[test]
fn nothing_moves_where_nothing_changed_and_time_is_short() {
    let sandbox = Sandbox::new();
    plan(&sandbox, &["--cluster", "4x2xA100-40", "--out", "old.json"]);
    let again = plan(&sandbox, &["--cluster", "4x2xA100-40", "--incumbent", "old.json", "--horizon-s", "49"]);
    assert_eq!(again["movement"]["moved_bytes"], 0);
}

#[test]
fn a_deadline_still_gives_a_plan_and_nonsense_is_refused() {
    let sandbox = Sandbox::new();
    plan(&sandbox, &["--cluster", "4x2xA100-40", "--deadline", "0ms"]);
    sandbox.refuses(&["plan", "--cluster", "1x8xT4", "--deadline", "5"], &["not a time"]);
    sandbox.refuses(&["plan", "--cluster", "1x8xT4", "--incumbent", "none.json"], &["cannot read `none.json`"]);
}
