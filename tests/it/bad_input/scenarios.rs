//! Scenario files of `plan` and `compare`.

use crate::support::Sandbox;
use rstest::rstest;

#[rstest]
#[case::unknown_model("cluster = \"8xT4\"\nmodel = \"gpt3-6.6b\"\n", &["`s.toml` line 2: `model`: unknown model", "gpt3-6.7b"])]
#[case::bad_mix("model = \"bert-large\"\n\ncluster = \"0x8xT4\"\n", &["`s.toml` line 3: `cluster`", "zero nodes"])]
#[case::missing_file("cluster = \"none.toml\"\n", &["`s.toml` line 1: `cluster`", "none.toml"])]
#[case::no_cluster("model = \"bert-large\"\n", &["`s.toml`: no cluster was given", "--cluster"])]
#[case::wrong_type("cluster = 8\n", &["`s.toml` line 1", "invalid type"])]
#[case::unknown_key("clusters = \"8xT4\"\n", &["`s.toml` line 1", "unknown field `clusters`"])]
#[case::out_of_range("cluster = \"8xT4\"\n[training]\nglobal_batch_size = 0\n", &["`s.toml` line 3: `training.global_batch_size` is `0`"])]
#[case::missing_profile("cluster = \"8xT4\"\nprofile = \"none.json\"\n", &["`s.toml` line 2: `profile`", "none.json"])]
#[case::no_toml("cluster two nodes\n", &["`s.toml` line 1"])]
fn a_scenario_of_a_plan(#[case] text: &str, #[case] parts: &[&str]) {
    let sandbox = Sandbox::new().file("s.toml", text);
    for command in ["plan", "compare"] {
        sandbox.refuses(&[command, "--scenario", "s.toml"], parts);
    }
}

#[test]
fn a_scenario_that_is_not_there() {
    Sandbox::new().refuses(&["plan", "--scenario", "none.toml"], &["cannot read the scenario `none.toml`"]);
}

#[test]
fn a_replay_has_no_use_for_a_cluster() {
    let sandbox = Sandbox::with_small_trace().file("s.toml", "model = \"bert-large\"\ncluster = \"8xT4\"\n");
    sandbox
        .refuses(&["--scenario", "s.toml", "--trace", "small.csv"], &["`s.toml` line 2: `cluster`", "remove the key"]);
}

#[test]
fn options_go_before_the_file() {
    let text = "model = \"bert-large\"\ncluster = \"1x1xT4\"\n[training]\nglobal_batch_size = 8\n";
    let sandbox = Sandbox::new().file("s.toml", text);
    let plan = |more: &[&str]| -> serde_json::Value {
        let ran = sandbox.run(&[&["plan", "--scenario", "s.toml", "--format", "json"][..], more].concat());
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        serde_json::from_str(&ran.stdout).unwrap()
    };
    let by_file = plan(&[]);
    assert_eq!((by_file["model"].as_str(), by_file["global_batch_size"].as_u64()), (Some("bert-large"), Some(8)));
    let other = plan(&["--global-batch-size", "16", "--cluster", "1x1xA100-80"]);
    assert_eq!(other["global_batch_size"].as_u64(), Some(16));
    assert_eq!(other["replicas"][0]["stages"][0]["gpu_type"].as_str(), Some("A100-80"));
}
