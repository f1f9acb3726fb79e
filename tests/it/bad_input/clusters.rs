//! Clusters on the command line and in files.

use crate::support::Sandbox;
use rstest::rstest;

#[rstest]
#[case::empty(" ", &["no nodes"])]
#[case::zero_nodes("0x8xT4", &["`0x8xT4`", "zero nodes"])]
#[case::zero_gpus("2x0xT4", &["`2x0xT4`", "zero GPUs"])]
#[case::negative("=-2x8xT4", &["`-2x8xT4`", "expected a number"])]
#[case::nan("nanx8xT4", &["`nanx8xT4`"])]
#[case::fraction("1.5x8xT4", &["`1.5x8xT4`"])]
#[case::unknown_type("2x8xA100-60", &["unknown GPU type `A100-60`", "did you mean", "`A100-40`"])]
#[case::no_type("2x8x", &["`2x8x`", "no GPU type"])]
#[case::trailing("8xT4+", &["nothing stands beside"])]
#[case::huge("99999x8xA100-80", &["799992 GPUs"])]
#[case::huge_of_single_gpus("100000x1xT4", &["100000 GPUs"])]
#[case::overflowing("99999999999x8xT4", &["too many"])]
#[case::wrapping("4294967295x4294967295xT4+4294967295x4294967295xT4", &["18446744073709551615 GPUs"])]
#[case::missing_file("cluster.toml", &["cannot read cluster file `cluster.toml`"])]
fn a_cluster_on_the_command_line(#[case] text: &str, #[case] parts: &[&str]) {
    // With `=`, so that a leading minus is a value.
    let argument = format!("--cluster={}", text.trim_start_matches('='));
    for command in ["plan", "compare"] {
        Sandbox::new().refuses(&[command, &argument, "--model", "bert-large"], parts);
    }
}

#[rstest]
#[case::no_tables("", &["no nodes"])]
#[case::unknown_key("[[nodes]]\ncount = 1\ngpus = 8\ntype = \"T4\"\nnic = 5\n", &["c.toml:5", "unknown field `nic`"])]
#[case::unknown_table("[[node]]\ncount = 1\n", &["c.toml:1", "`node`"])]
#[case::unknown_type("[[nodes]]\ncount = 1\ngpus = 8\ntype = \"T44\"\n", &["c.toml:4", "`T44`", "`T4`"])]
#[case::zero_nodes("[[nodes]]\ncount = 0\ngpus = 8\ntype = \"T4\"\n", &["c.toml:2", "`count` is `0`"])]
#[case::zero_gpus("[[nodes]]\ncount = 1\ngpus = 0\ntype = \"T4\"\n", &["c.toml:3", "`gpus` is `0`"])]
#[case::negative("[[nodes]]\ncount = 1\ngpus = -8\ntype = \"T4\"\n", &["c.toml:3", "`-8`"])]
#[case::overflowing("[[nodes]]\ncount = 4294967296\ngpus = 8\ntype = \"T4\"\n", &["c.toml:2", "`4294967296`"])]
#[case::text_for_number("[[nodes]]\ncount = \"two\"\ngpus = 8\ntype = \"T4\"\n", &["c.toml:2"])]
#[case::nan_nic("[[nodes]]\ncount = 1\ngpus = 8\ntype = \"T4\"\nnic_gbit_per_s = nan\n", &["c.toml:5", "`NaN`"])]
#[case::no_bandwidth("[[nodes]]\ncount = 1\ngpus = 8\ntype = \"T4\"\nnic_gbit_per_s = 1e-300\n", &["c.toml:5"])]
#[case::endless("[[nodes]]\ncount = 1\ngpus = 8\ntype = \"T4\"\nnic_latency_us = 1e300\n", &["c.toml:5"])]
#[case::infinite("[[nodes]]\ncount = 1\ngpus = 8\ntype = \"T4\"\nprice_usd_per_hour = inf\n", &["c.toml:5", "`inf`"])]
#[case::huge_price("[[nodes]]\ncount = 1\ngpus = 8\ntype = \"T4\"\nprice_usd_per_hour = 1e308\n", &["c.toml:5"])]
#[case::huge("[[nodes]]\ncount = 99999\ngpus = 8\ntype = \"A100-80\"\n", &["799992 GPUs"])]
#[case::no_toml("two nodes please\n", &["c.toml:1"])]
fn a_cluster_file(#[case] text: &str, #[case] parts: &[&str]) {
    Sandbox::new().file("c.toml", text).refuses(&["plan", "--cluster", "c.toml", "--model", "bert-large"], parts);
}

#[test]
fn a_folder_or_a_binary_file_for_a_cluster() {
    let sandbox = Sandbox::new().file("bytes.toml", [0xff, 0xfe, 0x00]);
    std::fs::create_dir(sandbox.path("folder.toml")).unwrap();
    for name in ["folder.toml", "bytes.toml"] {
        sandbox.refuses(&["plan", "--cluster", name], &["cannot read cluster file", name]);
    }
}

#[test]
fn where_nothing_fits_that_is_the_verdict() {
    let sandbox = Sandbox::new();
    let parts = ["no plan fits", "GB for weights, gradients and optimizer state", "GB usable"];
    for planner in ["autohet", "megatron", "whale"] {
        sandbox.ends_badly(&["plan", "--cluster", "1x1xT4", "--model", "gpt3-30b", "--planner", planner], 1, &parts);
    }
    let ran = sandbox.run(&["compare", "--cluster", "1x1xT4", "--model", "gpt3-30b", "--format", "json"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let compared: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(compared["planners"]["whale"]["error"].as_str().unwrap().contains("no plan fits"));
}
