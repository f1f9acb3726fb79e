//! Files that can't be read, places that can't be written, and names that mean nothing.

use crate::support::Sandbox;
use rstest::rstest;
use std::fs;

#[test]
fn a_trace_that_is_missing_or_a_folder() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("folder.csv")).unwrap();
    sandbox.refuses(&["--trace", "none.csv"], &["cannot read the trace `none.csv`"]);
    sandbox.refuses(&["--trace", "folder.csv"], &["cannot read the trace `folder.csv`"]);
    sandbox.refuses(&["trace", "stats", "none.csv"], &["`none.csv`"]);
    sandbox.refuses(&["--quiet"], &["no trace was given", "--trace"]);
}

#[test]
fn an_input_that_is_too_large() {
    let sandbox = Sandbox::new();
    // Files of zeros that take no place on the disk.
    for (name, mebibytes) in [("trace.csv", 257), ("text", 17)] {
        fs::File::create(sandbox.path(name)).unwrap().set_len(mebibytes << 20).unwrap();
    }
    sandbox.refuses(&["trace", "stats", "trace.csv"], &["`trace.csv`: it is larger than 256 MiB"]);
    let larger = "`text`: it is larger than 16 MiB, the most that is read";
    sandbox.refuses(&["--scenario", "text"], &[larger]);
    sandbox.refuses(&["trace", "generate", "--settings", "text"], &[larger]);
    sandbox.refuses(&["plan", "--cluster", "8xT4", "--profile", "text"], &[larger]);
    let sandbox = Sandbox::new();
    fs::File::create(sandbox.path("c.toml")).unwrap().set_len(17 << 20).unwrap();
    sandbox.refuses(&["plan", "--cluster", "c.toml"], &["`c.toml`: it is larger than 16 MiB"]);
}

#[cfg(unix)]
#[test]
fn a_trace_that_may_not_be_read() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::with_small_trace();
    fs::set_permissions(sandbox.path("small.csv"), fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(sandbox.path("small.csv")).is_ok() {
        println!("skipped: this user may read everything");
        return;
    }
    sandbox.refuses(&["--trace", "small.csv"], &["cannot read the trace `small.csv`", "ermission denied"]);
}

#[test]
fn a_scenario_or_settings_file_that_is_missing_or_no_text() {
    let sandbox = Sandbox::new().file("bytes", [0xff, 0xfe, 0x00]);
    fs::create_dir(sandbox.path("folder")).unwrap();
    for name in ["none", "folder", "bytes"] {
        sandbox.refuses(&["--scenario", name], &["cannot read the scenario", name]);
        sandbox.refuses(&["trace", "generate", "--settings", name], &["cannot read the settings", name]);
        sandbox.refuses(&["plan", "--cluster", "8xT4", "--profile", name], &["cannot read profile", name]);
    }
}

#[test]
fn a_results_folder_that_is_not_ours_is_left_alone() {
    let sandbox = Sandbox::with_small_trace();
    fs::create_dir(sandbox.path("thesis")).unwrap();
    let sandbox = sandbox.file("thesis/chapter.tex", "years of work");
    let args = ["--trace", "small.csv", "--model", "bert-large", "--out"];
    let out = |folder: &'static str| [&args[..], &[folder]].concat();
    sandbox.refuses(&out("thesis"), &["`thesis`", "isn't a results folder"]);
    sandbox.refuses(&out("small.csv"), &["`small.csv`"]);
    sandbox.refuses(&out("small.csv/below"), &["`small.csv/below`", "a part of this path is a file"]);
    sandbox.refuses(&out("/"), &["`/`"]);
    assert_eq!(sandbox.read("thesis/chapter.tex"), "years of work");
}

#[test]
fn an_error_after_the_results_were_begun_leaves_no_folder_behind() {
    let sandbox = Sandbox::with_small_trace().file("s.toml", "[training]\nmicro_batch_sizes = [3]\n");
    let args = ["--quiet", "--scenario", "s.toml", "--trace", "small.csv", "--model", "bert-large"];
    sandbox.refuses(&args, &["no micro batch size of [3] divides the global batch size `512`"]);
    sandbox.refuses(&[&args[..], &["--out", "deep/down/results"]].concat(), &["divides"]);
}

#[test]
fn a_replay_that_is_killed_leaves_nothing_behind() {
    use std::io::BufRead;
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/traces/aws-spot.csv");
    let sandbox = Sandbox::new();
    let mut replay = std::process::Command::new(env!("CARGO_BIN_EXE_autohet-sim"))
        .current_dir(sandbox.path("."))
        .args(["--trace", trace])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // What was understood of the trace is said when all that can be checked is checked, before a replay of seconds.
    let mut note = String::new();
    let mut stderr = std::io::BufReader::new(replay.stderr.take().unwrap());
    stderr.read_line(&mut note).unwrap();
    replay.kill().unwrap();
    assert!(!replay.wait().unwrap().success());
    assert!(note.contains("aws-spot.csv: "), "{note}");
    assert_eq!(sandbox.listing(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn files_are_written_all_or_none() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("folder")).unwrap();
    let plan = ["plan", "--cluster", "8xT4", "--model", "bert-large"];
    for name in ["none/plan.json", "folder"] {
        sandbox.refuses(&[&plan[..], &["--out", name]].concat(), &["cannot write", name]);
        sandbox.refuses(&[&plan[..], &["--out", "good.json", "--perfetto", name]].concat(), &["cannot write", name]);
        sandbox.refuses(&["trace", "generate", "--pool", "2x8xT4", "--out", name], &["cannot write", name]);
    }
}

#[rstest]
#[case::model(&["--model", "gpt3-6.8b"], &["unknown model `gpt3-6.8b`", "`gpt3-6.7b`"])]
#[case::policy(&["--policies", "autohet,varona"], &["unknown policy `varona`", "`varuna`"])]
#[case::no_policy(&["--policies", ""], &["a policy without a name", "hint: name some of autohet, varuna, restart"])]
#[case::comma(&["--policies", ","], &["a policy without a name", "or `all`"])]
#[case::all_and_one(&["--policies", "all,varuna"], &["`all` beside other policies", "leave out the others"])]
#[case::policy_twice(&["--policies", "varuna,varuna"], &["`policies` is `varuna`", "each policy once"])]
#[case::gpu_type(&["--gpu-type", "V100-15"], &["unknown GPU type `V100-15`", "`V100-16`"])]
fn names_in_a_replay(#[case] args: &[&str], #[case] parts: &[&str]) {
    let trace = ["--trace", "small.csv"];
    Sandbox::with_small_trace().refuses(&[&trace[..], args].concat(), parts);
}

#[rstest]
#[case::model(&["--model", "llama-7"], &["unknown model `llama-7`", "`llama-7b`"])]
#[case::planner(&["--model", "bert-large", "--planner", "whal"], &["unknown planner `whal`", "`whale`"])]
#[case::precision(&["--model", "bert-large", "--precision", "bf16"], &["`T4` has no bf16 units"])]
fn names_in_a_plan(#[case] args: &[&str], #[case] parts: &[&str]) {
    for command in ["plan", "compare"] {
        Sandbox::new().refuses(&[&[command, "--cluster", "8xT4"], args].concat(), parts);
    }
}

#[test]
fn a_planner_named_twice() {
    let args = ["compare", "--cluster", "8xT4", "--model", "bert-large", "--planner", "whale,autohet,whale"];
    Sandbox::new().refuses(&args, &["planner `whale` is named twice"]);
}
