//! Numbers that make no sense, in every numeric flag.

use crate::support::Sandbox;
use rstest::rstest;

const REPLAY: [&str; 4] = ["--trace", "small.csv", "--model", "bert-large"];
const PLAN: [&str; 5] = ["plan", "--cluster", "8xT4", "--model", "bert-large"];

#[rstest]
#[case::batch("--global-batch-size", "training.global_batch_size", &["0", "4294967295", "1048577"])]
#[case::bandwidth("--nic-gbit-per-s", "network.nic_gbit_per_s", &["nan", "inf", "-inf", "-1", "0", "1e300", "1e-300"])]
#[case::latency("--nic-latency-us", "network.nic_latency_us", &["nan", "inf", "-1", "1e300", "-1e-9"])]
fn a_number_of_the_job_out_of_range(#[case] flag: &str, #[case] key: &str, #[case] values: &[&str]) {
    let sandbox = Sandbox::with_small_trace();
    for value in values {
        for command in [&REPLAY[..], &PLAN[..]] {
            // Joined, since `-inf` by itself looks like an option.
            let argument = format!("{flag}={value}");
            let args = [command, &[argument.as_str()]].concat();
            sandbox.refuses(&args, &[&format!("`{key}` is `"), flag, "expected a number from"]);
        }
    }
}

#[rstest]
#[case("--checkpoint-interval-s", "checkpoint.interval.fixed.seconds", &["-1", "nan", "0", "1e300", "inf"])]
#[case("--gpus-per-node", "trace.gpus_per_node", &["0", "1025", "4294967295"])]
fn a_number_of_the_replay_out_of_range(#[case] flag: &str, #[case] key: &str, #[case] values: &[&str]) {
    let sandbox = Sandbox::with_small_trace();
    for value in values {
        sandbox.refuses(&[&REPLAY[..], &[flag, value]].concat(), &[&format!("`{key}` is `"), flag]);
    }
}

#[rstest]
#[case::nan("--hours", "nan")]
#[case::negative("--hours", "-1")]
#[case::zero("--hours", "0")]
#[case::infinite("--hours", "inf")]
#[case::huge("--hours", "1e300")]
#[case::price("--pool", "2x8xT4:nan")]
#[case::negative_price("--pool", "2x8xT4:-2")]
#[case::huge_price("--pool", "2x8xT4:1e300")]
#[case::zero_nodes("--pool", "0x8xT4")]
#[case::zero_gpus("--pool", "2x0xT4")]
#[case::too_many_nodes("--pool", "10001x8xT4")]
#[case::too_many_gpus("--pool", "2x1025xT4")]
#[case::overflowing("--pool", "99999999999x8xT4")]
#[case::no_zone("--pool", "2x8xT4@")]
#[case::no_type("--pool", "2x8")]
#[case::unknown_type("--pool", "2x8xT44")]
fn a_market_that_makes_no_sense(#[case] flag: &str, #[case] value: &str) {
    let shown = if flag == "--hours" { "`hours`" } else { value.rsplit('x').next().unwrap_or(value) };
    Sandbox::new().refuses(&["trace", "generate", "--pool", "2x8xT4", flag, value, "--out", "t.csv"], &[shown]);
}

#[test]
fn a_market_without_pools_or_of_millions_of_node_hours() {
    let sandbox = Sandbox::new();
    sandbox.refuses(&["trace", "generate"], &["`pools`", "at least one pool"]);
    sandbox.refuses(&["trace", "generate", "--pool", "10000x8xT4", "--hours", "8784"], &["million node-hours"]);
}

/// What clap itself refuses: exit 2 too, one error, nothing on stdout.
#[rstest]
#[case(&["--global-batch-size", "many"], "--global-batch-size")]
#[case(&["--global-batch-size", "-4"], "--global-batch-size")]
#[case(&["--global-batch-size", "4294967296"], "4294967296")]
#[case(&["--nic-gbit-per-s", "fast"], "--nic-gbit-per-s")]
#[case(&["--gpus-per-node", "-1"], "--gpus-per-node")]
#[case(&["--precision", "fp8"], "expected fp32, fp16 or bf16")]
#[case(&["--format", "xml"], "possible values: table, json")]
#[case(&["--trce", "x"], "--trace")]
#[case(&["--out"], "--out")]
#[case(&["replay"], "replay")]
fn usage_that_cannot_be_read(#[case] args: &[&str], #[case] part: &str) {
    let sandbox = Sandbox::with_small_trace();
    let ran = sandbox.run(args);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert_eq!(ran.stderr.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains(part) && ran.stderr.matches("\nhint: ").count() == 1, "{}", ran.stderr);
    assert_eq!((ran.stdout.as_str(), sandbox.listing().len()), ("", 1));
}
