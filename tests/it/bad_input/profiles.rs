//! Measured profiles that can't be used.

use crate::support::Sandbox;
use rstest::rstest;

fn profile(model: &str, entry: &str) -> String {
    format!("{{\"schema_version\": 1, \"model\": \"{model}\", \"entries\": [{entry}]}}")
}

fn entry(tensor_parallel_size: u32, forward_s: &str) -> String {
    format!(
        "{{\"gpu\": \"T4\", \"tensor_parallel_size\": {tensor_parallel_size}, \"micro_batch_size\": 1, \
         \"layer\": {{\"forward_s\": {forward_s}, \"backward_s\": 0.02}}}}"
    )
}

#[rstest]
#[case::no_json("layer times".to_owned(), &["p.json:1:1"])]
#[case::empty(String::new(), &["p.json:1:0", "EOF"])]
#[case::a_list("[]".to_owned(), &["p.json:1"])]
#[case::cut(profile("bert-large", &entry(1, "0.01"))[..80].to_owned(), &["p.json:1:80", "EOF"])]
#[case::another_version("{\"schema_version\": 9, \"model\": \"bert-large\", \"entries\": []}".to_owned(), &["`9`", "`1`"])]
#[case::unknown_key(profile("bert-large", "{\"gpus\": \"T4\"}"), &["p.json:1", "unknown field `gpus`"])]
#[case::another_model(profile("llama-7b", &entry(1, "0.01")), &["measures model `llama-7b`, not `bert-large`"])]
#[case::zero_time(profile("bert-large", &entry(1, "0.0")), &["entry 1", "`layer.forward_s` is `0`"])]
#[case::negative_time(profile("bert-large", &entry(1, "-1e-3")), &["entry 1", "`-0.001`"])]
#[case::infinite_time(profile("bert-large", &entry(1, "1e999")), &["p.json:1", "out of range"])]
#[case::huge_time(profile("bert-large", &entry(1, "1e300")), &["entry 1", "`layer.forward_s` is `1e300`"])]
#[case::zero_degree(profile("bert-large", &entry(0, "0.01")), &["entry 1", "above zero"])]
#[case::twice(profile("bert-large", &[entry(1, "0.01"), entry(1, "0.02")].join(",")), &["entry 2", "second measurement"])]
#[case::missing_point(profile("bert-large", &entry(3, "0.01")), &["no fp16 measurement of `T4`", "it measures"])]
fn a_profile(#[case] text: String, #[case] parts: &[&str]) {
    let sandbox = Sandbox::with_small_trace().file("p.json", text);
    sandbox.refuses(&["plan", "--cluster", "8xT4", "--model", "bert-large", "--profile", "p.json"], parts);
}

#[test]
fn a_profile_of_another_model_in_a_replay() {
    let sandbox = Sandbox::with_small_trace().file("p.json", profile("llama-7b", &entry(1, "0.01")));
    let args = ["--trace", "small.csv", "--model", "bert-large", "--profile", "p.json"];
    sandbox.refuses(&args, &["not `bert-large`"]);
}

#[test]
fn a_good_profile_is_used() {
    let sandbox = Sandbox::new().file("p.json", profile("bert-large", &entry(1, "0.01")));
    let args =
        ["plan", "--cluster", "1x1xT4", "--model", "bert-large", "--global-batch-size", "64", "--format", "json"];
    let plan = sandbox.run(&[&args[..], &["--profile", "p.json"]].concat());
    assert_eq!(plan.code, Some(0), "{}", plan.stderr);
    let plan: serde_json::Value = serde_json::from_str(&plan.stdout).unwrap();
    // 64 micro batches of 24 layers of 30 ms, and what isn't measured.
    let predicted_s = plan["predicted_iteration_s"].as_f64().unwrap();
    assert!((46.08..52.0).contains(&predicted_s), "{predicted_s}");
}
