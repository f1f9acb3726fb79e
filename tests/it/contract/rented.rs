//! Objectives, fronts, and plans by a peer's judge.

use super::number;
use crate::support::Sandbox;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Two A100 nodes that cost too much for what they do, four of T4.
const CLUSTER: &str = "\
[[nodes]]
count = 2
gpus = 2
type = \"A100-40\"
price_usd_per_hour = 40.0

[[nodes]]
count = 4
gpus = 2
type = \"T4\"
price_usd_per_hour = 0.4
";

const JOB: [&str; 7] = ["plan", "--cluster", "c.toml", "--model", "bert-large", "--global-batch-size", "64"];

fn plans(options: &[&str]) -> Vec<Value> {
    let sandbox = Sandbox::new().file("c.toml", CLUSTER);
    let ran = sandbox.run(&[&JOB[..], &["--format", "json"], options].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    json["plans"].as_array().cloned().unwrap_or_else(|| vec![json])
}

#[test]
fn a_front_goes_from_fast_to_cheap() {
    let front = plans(&["--pareto"]);
    assert!(front.len() > 1);
    for pair in front.windows(2) {
        assert!(number(&pair[0], "tokens_per_s") > number(&pair[1], "tokens_per_s"));
        assert!(number(&pair[0], "usd_per_million_tokens") > number(&pair[1], "usd_per_million_tokens"));
    }
    // The ends are what the two objectives give.
    let fastest = number(&plans(&[])[0], "tokens_per_s");
    assert!(number(&front[0], "tokens_per_s") >= fastest * (1.0 - 1e-9));
    let cheapest = &plans(&["--objective", "usd-per-token", "--top-k", "1"])[0];
    let last = front.last().unwrap();
    assert!(number(last, "usd_per_million_tokens") <= number(cheapest, "usd_per_million_tokens") * (1.0 + 1e-9));
}

#[test]
fn the_best_plans_are_unlike() {
    let best = plans(&["--top-k", "3"]);
    assert_eq!(best.len(), 3);
    assert!(best.windows(2).all(|pair| number(&pair[0], "tokens_per_s") >= number(&pair[1], "tokens_per_s")));
    assert!(best[0]["shape"] != best[1]["shape"] && best[1]["shape"] != best[2]["shape"]);
}

#[test]
fn limits_that_cannot_be_kept_are_a_verdict() {
    let sandbox = Sandbox::new().file("c.toml", CLUSTER);
    let ran = sandbox.run(&[&JOB[..], &["--max-usd-per-hour", "0.1"]].concat());
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("at most 0.1 USD/h are wanted, the cheapest plan found takes 0.40\nhint: "),
        "{}",
        ran.stderr
    );
    let ran = sandbox.run(&[&JOB[..], &["--min-tokens-per-s", "1e12"]].concat());
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
}

#[test]
fn bad_objectives_are_refused() {
    let free = CLUSTER.replace("price_usd_per_hour = 0.4", "price_usd_per_hour = 0.0");
    let sandbox = Sandbox::new().file("c.toml", free);
    sandbox.refuses(&[&JOB[..], &["--objective", "usd-per-token"]].concat(), &["node `t4-0` has no price", "`T4`"]);
    for bad in ["0", "-1", "nan", "inf", "much"] {
        let ran = sandbox.run(&[&JOB[..], &["--max-usd-per-hour", bad]].concat());
        assert!(ran.code == Some(2) && ran.stderr.contains("expected a number above zero"), "{}", ran.stderr);
    }
    for bad in [["--top-k", "0"], ["--judge", "oracle"], ["--objective", "fame"]] {
        let ran = sandbox.run(&[&JOB[..], &bad].concat());
        assert!(ran.code == Some(2) && ran.stderr.contains(bad[0]), "{}", ran.stderr);
    }
    sandbox.refuses(&[&JOB[..], &["--judge", "sailor"]].concat(), &["`1` in fp32", "`--profile FOLDER`"]);
}

fn at_root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The exported plan, by the peer's own program: where it, its profiles and Python are at hand.
#[test]
fn a_peer_says_the_same_of_the_plan_that_is_written_for_it() {
    let (script, profiles) = (at_root("../shared/tools/judge_plan.py"), at_root("../shared/data/sailor/profiles"));
    if !script.is_file() || !profiles.is_dir() || Command::new("python3").arg("--version").output().is_err() {
        return;
    }
    let sandbox = Sandbox::new();
    let scenario = at_root("scenarios/sailor-32a100.toml");
    let args = ["plan", "--judge", "sailor", "--export", "plan.json", "--format", "json", "--scenario"];
    let paths = [scenario.to_str().unwrap(), "--profile", profiles.to_str().unwrap()];
    let ran = sandbox.run(&[&args[..], &paths].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let plan: Value = serde_json::from_str(&ran.stdout).unwrap();
    let output = Command::new("python3").arg(script).arg(sandbox.path("plan.json")).output().unwrap();
    let theirs: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(theirs["fits"], true);
    let per_s = number(&theirs, "iterations_per_s");
    assert!((per_s - 1.0 / number(&plan, "predicted_iteration_s")).abs() < 0.6e-5, "{theirs}");
    assert!(per_s >= 0.1251, "{per_s}");
}
