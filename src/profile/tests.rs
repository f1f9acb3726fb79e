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
