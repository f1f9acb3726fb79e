//! Sweeps that can't be done end with exit 2, one error and its hint, and nothing written.

use super::{PLANS, sandbox, sweep};
use crate::support::Sandbox;

#[test]
fn bad_files_are_refused_with_their_line() {
    let sandbox = sandbox("[scenario]\nmodel = \"gpt3-1.3b\"\n[grid]\ngpus.T4 = [1, 2]\ngpus.T44 = [1]\n");
    sandbox.refuses(&["sweep", "s.toml"], &["`s.toml` line 5", "`T44`"]);
    sandbox.refuses(&["sweep", "none.toml"], &["cannot read `none.toml`"]);
    let sandbox = sandbox.file("s.toml", "[scenario]\nmodel = \"gpt3-1.3b\"\n[grid]\ngpus.T4 = [1, 1]\n");
    sandbox.refuses(&["sweep", "s.toml"], &["two runs have the same values of gpus.T4, planner"]);
    for (given, part) in [
        ("kind = \"replays\"\neffort = \"full\"\n", "`effort` is of sweeps of plans"),
        ("kind = \"replays\"\nbound = true\n", "`bound` is of sweeps of plans"),
        ("kind = \"replays\"\n[scenario]\npolicies = [\"autohet\"]\n", "the policies of a sweep stand at its top"),
    ] {
        Sandbox::new().file("s.toml", given).refuses(&["sweep", "s.toml"], &[part]);
    }
    let sandbox = sandbox.file("s.toml", "[grid\n");
    sandbox.refuses(&["sweep", "s.toml"], &["`s.toml` line 1"]);
}

#[test]
fn files_that_runs_could_not_read_are_refused_before_the_first() {
    let plans = "[scenario]\nmodel = \"gpt3-1.3b\"\nprofile = \"p.json\"\n[grid]\ngpus.T4 = [1, 2]\n";
    let sandbox = sandbox(plans).file("p.json", "{");
    sandbox.refuses(&["sweep", "s.toml"], &["`s.toml` line 3: `profile`", "p.json:1:"]);
    let grid = "[grid]\nmodel = [\"gpt3-1.3b\"]\ncluster = [\"8xT4\", \"c.toml\"]\n";
    let sandbox = sandbox.file("s.toml", grid).file("c.toml", "[[nodes]]\ncount = 1\ngpus = 0\ntype = \"T4\"\n");
    sandbox.refuses(&["sweep", "s.toml", "--shard", "1/1"], &["`s.toml` line 3", "c.toml:3:"]);
    let replays = "kind = \"replays\"\n[grid]\ntrace.file = [\"a.csv\", \"b.csv\"]\n";
    let good = crate::support::SMALL_TRACE;
    let sandbox = sandbox.file("s.toml", replays).file("a.csv", good).file("b.csv", "time_s,event,node\n0,down,a\n");
    // The bad one is in the other shard.
    sandbox.refuses(&["sweep", "s.toml", "--shard", "1/16"], &["`s.toml` line 3: `trace.file`", "b.csv` line 2"]);
}

#[test]
fn bad_options_are_refused() {
    let sandbox = sandbox(PLANS).file("rows.csv", "a,b\n1,2\n");
    sandbox.refuses(&["sweep", "s.toml", "--shard", "5/4"], &["there is no shard 5 of 4"]);
    sandbox.refuses(&["sweep", "s.toml", "--baseline", "rows.csv"], &["`rows.csv` line 1: no column `status`"]);
    sandbox.refuses(&["sweep", "s.toml", "--baseline", "none.csv"], &["cannot read the baseline `none.csv`"]);
    sandbox.refuses(&["sweep", "s.toml", "--baseline", "rows.csv", "--tolerance", "2 percent"], &["not a share"]);
    sandbox.refuses(&["sweep", "s.toml", "--out", "s.toml"], &["s.toml"]);
    sandbox.refuses(&["sweep", "s.toml", "--cache", "s.toml"], &["s.toml"]);
    sandbox.refuses(&["sweep", "s.toml", "--report", "s.toml"], &["`--report` is `s.toml`", "replace the input"]);
    sandbox.refuses(&["sweep", "merge", "none"], &["none/summary.json"]);
    sandbox.refuses(&["sweep"], &["FILE"]);
}

#[test]
fn rows_of_another_sweep_are_not_taken_for_ones_own() {
    let sandbox = sandbox(PLANS);
    sweep(&sandbox, "part-1", &["--shard", "1/2"]);
    let header = sandbox.read("part-1/summary.json").replace('\n', "");
    let sandbox = sandbox.file("out.journal.jsonl", header + "\n");
    let args = ["sweep", "s.toml", "--out", "out", "--resume"];
    sandbox.refuses(&args, &["`out.journal.jsonl`", "rows of another shard"]);
    sandbox.refuses(&["sweep", "merge", "part-1", "--out", "all"], &["lack 24 of 48 rows"]);
    sandbox.refuses(&["sweep", "merge", "part-1", "part-1", "--out", "all"], &["both have the row"]);
    let other = Sandbox::new().file("s.toml", PLANS.replace("[0, 2, 4]", "[0, 2]"));
    sweep(&other, "part-2", &["--shard", "2/2"]);
    std::fs::rename(other.path("part-2"), sandbox.path("part-2")).unwrap();
    sandbox.refuses(&["sweep", "merge", "part-1", "part-2", "--out", "all"], &["isn't of the same sweep"]);
}

#[test]
fn a_cache_is_no_part_of_the_results() {
    let sandbox = super::sandbox(super::PLANS);
    for cache in ["out", "out/cache"] {
        let ran = sandbox.run(&["sweep", "s.toml", "--out", "out", "--cache", cache]);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains("--cache") && !sandbox.path("out").exists(), "{}", ran.stderr);
    }
}

#[test]
fn a_shard_is_not_compared_with_a_whole_baseline() {
    let sandbox = super::sandbox(super::PLANS);
    super::sweep(&sandbox, "whole", &[]);
    let ran = sandbox.run(&["sweep", "s.toml", "--shard", "1/2", "--baseline", "whole/rows.csv", "--out", "out"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("sweep merge"), "{}", ran.stderr);
}
