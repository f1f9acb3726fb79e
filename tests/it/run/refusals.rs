//! What can't be run is refused before any process is started, with exit code 2.

use super::{autohet_run, folder_with, plan};
use std::fs;

fn refusal(plan: &serde_json::Value, options: &[&str]) -> String {
    let folder = folder_with(plan);
    fs::write(folder.path().join("short.txt"), "short").unwrap();
    let output = autohet_run(folder.path()).args(options).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(output.stdout.is_empty());
    stderr
}

#[test]
fn plans_that_it_cannot_run() {
    let good = plan("1f1b", "none", &[(2, &[4])]);
    let with = |key: &str, value: serde_json::Value| {
        let mut plan = good.clone();
        plan[key] = value;
        plan
    };
    let many: [(u32, &[u32]); 65] = [(1, &[4]); 65];
    let sharded = with("tensor_parallel_size", 2.into());
    let cases = [
        (sharded, "a plan with tensor parallel size 2 can't be trained here\nhint: "),
        (with("precision", "bf16".into()), "a plan in bf16 can't be trained here\nhint: "),
        (with("recompute", "selective".into()), "selective recomputation can't be trained here\nhint: "),
        (with("model", "bert-large".into()), "`bert-large` can't be trained here\nhint: "),
        (with("model", "gpt-tinny".into()), "unknown model `gpt-tinny`\nhint: did you mean `gpt-tiny`"),
        (with("global_batch_size", 3.into()), "2 micro batches of 1 samples don't make the global batch of 3"),
        (plan("1f1b", "none", &[(2, &[3])]), "replica 0 holds 3 layers, the model has 4"),
        (plan("1f1b", "none", &[]), "a global batch of 0 samples"),
        (plan("1f1b", "none", &many), "a plan of 65 ranks can't be trained here\nhint: "),
    ];
    for (plan, expected) in cases {
        let stderr = refusal(&plan, &["--plan", "plan.json"]);
        assert!(stderr.contains(expected), "{stderr}");
    }
}

#[test]
fn options_that_make_no_sense() {
    let good = plan("1f1b", "none", &[(2, &[4])]);
    let cases: [(&[&str], &str); 5] = [
        (&[], "no plan\nhint: make one with `autohet-sim plan "),
        (&["--plan", "nowhere.json"], "cannot read `nowhere.json`"),
        (&["--plan", "plan.json", "--data", "short.txt"], "the data has 5 bytes, a sample takes 129\nhint: "),
        (&["--plan", "plan.json", "--learning-rate", "-1"], "`--learning-rate` is `-1`, expected a number above 0"),
        (&["--plan", "plan.json", "--steps", "0"], "invalid value '0' for '--steps <COUNT>'"),
    ];
    for (options, expected) in cases {
        let stderr = refusal(&good, options);
        assert!(stderr.contains(expected), "{stderr}");
    }
}

#[test]
fn a_rank_is_not_started_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    autohet_run(folder.path()).arg("rank").assert().code(1);
}
