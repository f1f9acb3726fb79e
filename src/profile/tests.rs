use super::*;
use crate::ids::LayerId;
use rstest::rstest;

const LAYER: Block = Block::Layer(LayerId(0));

const PROFILE: &str = r#"{
  "schema_version": 1,
  "model": "gpt3-1.3b",
  "entries": [
    {"gpu": "a100-40g", "tensor_parallel_size": 2, "micro_batch_size": 8,
     "layer": {"forward_s": 0.008, "backward_s": 0.016}, "head": {"forward_s": 0.02, "backward_s": 0.04}},
    {"gpu": "A100-40", "tensor_parallel_size": 2, "micro_batch_size": 2,
     "layer": {"forward_s": 0.002, "backward_s": 0.004}}
  ]
}"#;

fn query(gpu: &str, tensor_parallel_size: u32, micro_batch_size: u32) -> ProfileQuery<'_> {
    ProfileQuery { gpu, precision: Precision::Fp16, tensor_parallel_size, micro_batch_size }
}

#[test]
fn measured_points_are_given_back_and_joined_by_lines() {
    let profile = LayerProfile::from_json(PROFILE, "p.json").unwrap();
    assert_eq!(profile.model(), "gpt3-1.3b");
    let layer = |size| profile.measured(LAYER, query("A100-40", 2, size)).unwrap().unwrap();
    assert_eq!(layer(2), Measured { forward_s: 0.002, backward_s: 0.004 });
    assert_eq!(layer(8), Measured { forward_s: 0.008, backward_s: 0.016 });
    assert!((layer(5).forward_s - 0.005).abs() < 1e-12 && (layer(5).backward_s - 0.010).abs() < 1e-12);
}

#[test]
fn what_is_outside_the_measurements_is_an_error_that_names_them() {
    let profile = LayerProfile::from_json(PROFILE, "p.json").unwrap();
    for outside in [query("A100-40", 2, 1), query("A100-40", 2, 16), query("A100-40", 4, 2)] {
        let message = profile.measured(LAYER, outside).unwrap_err().to_string();
        assert!(message.contains("hint: it measures fp16 t=2 b=2, 8;"), "{message}");
    }
    // The head is measured at one size only.
    assert!(profile.measured(Block::Head, query("A100-40", 2, 4)).is_err());
}

#[test]
fn what_is_not_measured_at_all_is_left_to_the_estimate() {
    let profile = LayerProfile::from_json(PROFILE, "p.json").unwrap();
    assert_eq!(profile.measured(LAYER, query("T4", 2, 2)), Ok(None));
    assert_eq!(profile.measured(Block::Embedding, query("A100-40", 2, 2)), Ok(None));
}

#[rstest]
#[case::syntax("{", "p.json:1:")]
#[case::unknown_key(r#"{"schema_version": 1, "model": "m", "entries": [], "extra": 1}"#, "p.json:1:")]
#[case::version(r#"{"schema_version": 9, "model": "m", "entries": []}"#, "p.json: `schema_version` is `9`")]
#[case::zero(
    r#"{"schema_version": 1, "model": "m", "entries": [{"gpu": "T4", "tensor_parallel_size": 1,
    "micro_batch_size": 1, "layer": {"forward_s": 0, "backward_s": 1}}]}"#,
    "p.json: entry 1: `layer.forward_s` is `0`"
)]
#[case::twice(
    r#"{"schema_version": 1, "model": "m", "entries": [
    {"gpu": "T4", "tensor_parallel_size": 1, "micro_batch_size": 1, "layer": {"forward_s": 1, "backward_s": 1}},
    {"gpu": "t4", "tensor_parallel_size": 1, "micro_batch_size": 1, "layer": {"forward_s": 1, "backward_s": 1}}]}"#,
    "p.json: entry 2: a second measurement of `T4` at micro-batch size `1`"
)]
fn bad_profiles_are_refused(#[case] text: &str, #[case] start: &str) {
    let message = LayerProfile::from_json(text, "p.json").unwrap_err().to_string();
    assert!(message.starts_with(start) && message.contains("\nhint: "), "{message}");
}

#[test]
fn a_missing_file_is_named() {
    let error = LayerProfile::read(std::path::Path::new("nowhere.json")).unwrap_err();
    assert!(error.to_string().starts_with("cannot read profile `nowhere.json`"), "{error}");
}

#[test]
fn a_profile_of_another_model_is_refused() {
    let profile = LayerProfile::from_json(PROFILE, "p.json").unwrap();
    assert!(profile.clone().for_model("gpt3-1.3b").is_ok());
    let message = profile.for_model("llama-7b").unwrap_err().to_string();
    assert!(message.starts_with("the profile measures model `gpt3-1.3b`, not `llama-7b`\nhint: "), "{message}");
}

/// A profile with a measured optimizer and links, one figure of which is changed.
fn with_links(figure: &str, value: &str) -> String {
    let mut text = r#"{"schema_version": 1, "model": "m", "entries": [{"gpu": "cpu", "tensor_parallel_size": 1,
        "micro_batch_size": 1, "precision": "fp32", "layer": {"forward_s": 1, "backward_s": 2},
        "optimizer_s_per_parameter": 2e-9}], "links": {"dispatch_s": 0, "latency_s": 1e-4, "bytes_per_s": 1e9,
        "all_reduce_latency_s": 0.5, "all_reduce_bytes_per_s": 5e8}}"#
        .to_owned();
    if let Some(at) = text.find(figure) {
        let from = at + figure.len() + "\": ".len();
        let until = from + text[from..].find([',', '}']).unwrap();
        text.replace_range(from..until, value);
    }
    text
}

#[test]
fn optimizer_and_links_are_given_back() {
    let profile = LayerProfile::from_json(&with_links("none", ""), "p.json").unwrap();
    assert_eq!(profile.optimizer_s_per_parameter("cpu", Precision::Fp32), Some(2e-9));
    assert_eq!(profile.optimizer_s_per_parameter("cpu", Precision::Fp16), None);
    assert_eq!(profile.optimizer_s_per_parameter("T4", Precision::Fp32), None);
    let links = profile.links().unwrap();
    assert_eq!((links.latency_s, links.all_reduce_bytes_per_s), (1e-4, 5e8));
    assert_eq!(LayerProfile::from_json(PROFILE, "p.json").unwrap().links(), None);
}

#[rstest]
#[case("optimizer_s_per_parameter", "0", "p.json: entry 1: `optimizer_s_per_parameter` is `0`")]
#[case("optimizer_s_per_parameter", "1", "p.json: entry 1: `optimizer_s_per_parameter` is `1`")]
#[case("dispatch_s", "-1", "p.json: `links.dispatch_s` is `-1`, expected seconds from zero to 60")]
#[case("\"latency_s", "1e9", "p.json: `links.latency_s` is `1000000000`")]
#[case("\"bytes_per_s", "0", "p.json: `links.bytes_per_s` is `0`")]
#[case("all_reduce_bytes_per_s", "1e300", "p.json: `links.all_reduce_bytes_per_s` is `1e300`")]
fn impossible_optimizers_and_links_are_refused(#[case] figure: &str, #[case] value: &str, #[case] expected: &str) {
    let message = LayerProfile::from_json(&with_links(figure, value), "p.json").unwrap_err().to_string();
    assert!(message.contains(expected) && message.contains("\nhint: "), "{message}");
}
