//! A model of the user's own, from a file, through the commands that take one.

use crate::support::Sandbox;
use serde_json::Value;

const DESCRIPTION: &str = "name = \"mine\"\narchitecture = \"llama\"\nnum_layers = 6\nhidden_size = 512\n\
                           num_attention_heads = 8\nnum_key_value_heads = 2\nvocab_size = 1000\nseq_length = 256\n";

#[test]
fn a_described_model_is_planned_and_its_plan_stands_alone() {
    let sandbox = Sandbox::new().file("mine.toml", DESCRIPTION);
    let plan = ["plan", "--cluster", "2x2xT4", "--model", "mine.toml", "--global-batch-size", "16"];
    let planned =
        sandbox.run(&[&plan[..], &["--seq-length", "128", "--out", "plan.json", "--format", "json"]].concat());
    assert_eq!((planned.code, planned.stderr.as_str()), (Some(0), ""));
    let written: Value = serde_json::from_str(&sandbox.read("plan.json")).unwrap();
    assert_eq!(written["model"]["name"], "mine-seq128");
    assert_eq!(written["model"]["seq_length"], 128);

    std::fs::remove_file(sandbox.path("mine.toml")).unwrap();
    let executed = sandbox.run(&["iteration", "--plan", "plan.json", "--cluster", "2x2xT4", "--format", "json"]);
    assert_eq!((executed.code, executed.stderr.as_str()), (Some(0), ""));
    let [planned, executed] = [planned, executed].map(|ran| serde_json::from_str::<Value>(&ran.stdout).unwrap());
    assert_eq!(executed["iteration_s"], planned["predicted_iteration_s"]);
}

#[test]
fn what_was_understood_of_a_file_is_shown() {
    let sandbox = Sandbox::new().file("mine.toml", DESCRIPTION);
    let shown = sandbox.run(&["show", "model", "mine.toml", "--format", "json"]);
    assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""));
    assert!(shown.stdout.contains("\"ffn_hidden_size\""), "{}", shown.stdout);
    sandbox.refuses(&["show", "model", "missing.toml"], &["cannot read the model `missing.toml`", "hint: "]);
    let sandbox = sandbox.file("config.json", "{\"model_type\": \"t5\"}");
    sandbox.refuses(
        &["plan", "--cluster", "1x1xT4", "--model", "config.json"],
        &["`config.json` line 1: `model_type` is `t5`, expected"],
    );
}

#[test]
fn a_file_that_changes_is_another_model_to_the_cache_of_a_sweep() {
    let sandbox = Sandbox::new().file(
        "s.toml",
        "[scenario]\nmodel = \"mine.toml\"\ncluster = \"1x2xT4\"\n[grid]\n\"training.global_batch_size\" = [8]\n",
    );
    let rows = |description: &str| {
        std::fs::write(sandbox.path("mine.toml"), description).unwrap();
        let ran = sandbox.run(&["sweep", "s.toml", "--cache", "cache", "--out", "out", "--quiet"]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        sandbox.read("out/rows.csv")
    };
    let small = rows(DESCRIPTION);
    assert_ne!(small, rows(&DESCRIPTION.replace("num_layers = 6", "num_layers = 12")));
    assert_eq!(small, rows(DESCRIPTION));
}
