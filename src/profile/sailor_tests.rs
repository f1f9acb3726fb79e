use super::*;
use crate::ids::LayerId;
use crate::model::ModelSpec;
use rstest::rstest;
use std::path::{Path, PathBuf};

const LAYER: Block = Block::Layer(LayerId(0));

/// Four blocks; the second layer differs from the first.
fn file(model: &str, gpu: &str, stored: u64) -> String {
    format!(
        r#"{{"model": "{model}", "gpu": "{gpu}", "tp": 2, "bytes_per_float": 4, "units": "for people", "layers": [
  {{"layer": 0, "params_count": 300, "output_act_floats_per_sample": 8, "stored_act_floats_per_sample": 9}},
  {{"layer": 1, "params_count": 100, "output_act_floats_per_sample": 8, "stored_act_floats_per_sample": {stored}}},
  {{"layer": 2, "params_count": 100, "output_act_floats_per_sample": 8, "stored_act_floats_per_sample": {stored}}},
  {{"layer": 3, "params_count": 500, "output_act_floats_per_sample": 90, "stored_act_floats_per_sample": 95}}],
 "by_micro_batch_size": {{"2": {{"fwd_s": [0.1, 0.2, 0.4, 0.5], "bwd_s": [1e-6, 0.6, 0.6, 0.7],
  "update_s": [0.5, 0.5, 0.5, 0.5]}}}}}}"#
    )
}

fn query(gpu: &str, micro_batch_size: u32) -> ProfileQuery<'_> {
    ProfileQuery { gpu, precision: Precision::Fp32, tensor_parallel_size: 2, micro_batch_size }
}

fn two_layers() -> ModelSpec {
    ModelSpec { num_layers: 2, ..ModelSpec::preset("opt-350m").unwrap() }
}

fn folder(files: &[(&str, String)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn a_file_is_told_by_its_keys_and_read_block_by_block() {
    let profile = LayerProfile::from_json(&file("OPT-350", "A100-40", 70), "p.json").unwrap();
    assert_eq!(profile.model(), "opt-350m");
    let of = |block| profile.measured(block, query("A100-40", 2)).unwrap().unwrap();
    assert!((of(LAYER).forward_s - 0.3).abs() < 1e-12 && (of(LAYER).backward_s - 0.6).abs() < 1e-12);
    assert_eq!(of(Block::Embedding), Measured { forward_s: 0.1, backward_s: 1e-6 });
    assert_eq!(of(Block::Head), Measured { forward_s: 0.5, backward_s: 0.7 });
    // A step of 0.5 s for the 1000 parameters of both ends and two layers.
    let per_parameter_s = profile.optimizer_s_per_parameter("A100-40", Precision::Fp32).unwrap();
    assert!((per_parameter_s - 0.5e-3).abs() < 1e-15);
    let (blocks, step_s) = profile.blocks(query("A100-40", 2)).unwrap();
    assert_eq!((blocks.len(), blocks[2].forward_s, step_s), (4, 0.4, 0.5));
    let held: Vec<u64> = profile.memory(2, Precision::Fp32).unwrap().map(|block| block.stored_activations).collect();
    assert_eq!(held, [9, 70, 70, 95]);
}

#[test]
fn a_point_that_ran_out_of_memory_is_no_point() {
    let profile = LayerProfile::from_json(&file("OPT-350", "A100-40", 70), "p.json").unwrap();
    let error = profile.measured(LAYER, query("A100-40", 4)).unwrap_err().to_string();
    assert!(error.contains("micro-batch size `4`\nhint: it measures fp32 t=2 b=2"), "{error}");
    assert_eq!(profile.blocks(query("A100-40", 4)), None);
    assert!(profile.memory(4, Precision::Fp32).is_none() && profile.memory(2, Precision::Fp16).is_none());
}

#[test]
fn a_final_norm_of_its_own_becomes_a_part_of_the_head() {
    let text = file("LLAMA-3-8", "A100-40", 70)
        .replace("\"fwd_s\": [0.1, 0.2, 0.4, 0.5]", "\"fwd_s\": [0.1, 0.4, 0.4, 0.001, 0.5]")
        .replace("\"bwd_s\": [1e-6, 0.6, 0.6, 0.7]", "\"bwd_s\": [1e-6, 0.6, 0.6, 0.002, 0.7]")
        .replace("[0.5, 0.5, 0.5, 0.5]", "[0.5, 0.5, 0.5, 0.5, 0.5]")
        .replace("\"layers\": [", "\"layers\": [{},")
        .replace("\"params_count\": 300, \"output", "\"output");
    let profile = LayerProfile::from_json(&text, "p.json").unwrap();
    let head = profile.measured(Block::Head, query("A100-40", 2)).unwrap().unwrap();
    assert!((head.forward_s - 0.501).abs() < 1e-12 && (head.backward_s - 0.702).abs() < 1e-12);
    // Without parameters the times stand by themselves.
    assert!(profile.memory(2, Precision::Fp32).is_none());
    assert_eq!(profile.optimizer_s_per_parameter("A100-40", Precision::Fp32), None);
}

#[test]
fn a_folder_gives_all_files_of_the_model() {
    let files = [
        ("b.json", file("OPT-350", "V100-16", 70)),
        ("a.json", file("OPT-350", "A100-40", 70)),
        ("c.json", file("GPT-Neo-2.7", "A100-40", 60)),
        ("notes.txt", "no profile".to_owned()),
    ];
    let folder = folder(&files);
    let profile = LayerProfile::read_all(&[folder.path().to_owned()], &two_layers()).unwrap();
    for gpu in ["A100-40", "V100-16"] {
        assert!(profile.measured(LAYER, query(gpu, 2)).unwrap().is_some());
    }
    let named = [folder.path().join("a.json"), folder.path().join("b.json")];
    assert_eq!(LayerProfile::read_all(&named, &two_layers()).unwrap(), profile);
}

#[rstest]
#[case::twice(&[("a.json", "OPT-350", "A100", 70), ("b.json", "OPT-350", "A100-40", 70)], "b.json: entry 1: a second measurement of `A100-40`")]
#[case::memory(&[("a.json", "OPT-350", "A100", 70), ("b.json", "OPT-350", "T4", 71)], "b.json: entry 1: `memory` of a block isn't that of earlier")]
#[case::other_model(&[("a.json", "GPT-Neo-2.7", "A100", 70)], "the profile measures model `gpt-neo-2.7`, not `opt-350m`\nhint: ")]
fn files_that_disagree_are_refused(#[case] files: &[(&str, &str, &str, u64)], #[case] message: &str) {
    let files: Vec<_> = files.iter().map(|(name, model, gpu, stored)| (*name, file(model, gpu, *stored))).collect();
    let folder = folder(&files);
    let error = LayerProfile::read_all(&[folder.path().to_owned()], &two_layers()).unwrap_err().to_string();
    assert!(error.contains(message) && error.contains("\nhint: "), "{error}");
}

#[rstest]
#[case::floats("\"bytes_per_float\": 4", "\"bytes_per_float\": 2", "`bytes_per_float` is `2`, expected `4`")]
#[case::times("[0.1, 0.2, 0.4, 0.5]", "[0.1, 0.2]", "`by_micro_batch_size.2.fwd_s` has 2 times for 4 layers")]
#[case::zero("[0.1, 0.2, 0.4, 0.5]", "[0.1, 0, 0.4, 0.5]", "entry 1: `blocks[1].forward_s` is `0`")]
#[case::key("\"tp\": 2", "\"tensor\": 2", "p.json:7:")]
fn bad_files_are_refused(#[case] found: &str, #[case] changed: &str, #[case] message: &str) {
    let text = file("OPT-350", "A100-40", 70).replace(found, changed);
    let error = LayerProfile::from_json(&text, "p.json").unwrap_err().to_string();
    assert!(error.starts_with("p.json") && error.contains(message) && error.contains("\nhint: "), "{error}");
}

#[test]
fn other_layers_than_the_model_has_are_refused() {
    let folder = folder(&[("a.json", file("OPT-350", "A100-40", 70))]);
    let model = ModelSpec::preset("opt-350m").unwrap();
    let error = LayerProfile::read_all(&[folder.path().to_owned()], &model).unwrap_err().to_string();
    assert!(error.starts_with("the profile measures 4 blocks of model `opt-350m`, which has 26: "), "{error}");
    let empty = tempfile::tempdir().unwrap();
    let error = LayerProfile::read_all(&[empty.path().to_owned()], &model).unwrap_err().to_string();
    assert!(error.contains("the folder has no `.json` file\nhint: "), "{error}");
}

/// The published files, where they are at hand.
#[test]
fn the_published_profiles_are_read_whole() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data/sailor/profiles"));
    if !Path::new(&folder).is_dir() {
        return;
    }
    let model = ModelSpec::preset("opt-350m").unwrap();
    let profile = LayerProfile::read_all(&[folder], &model).unwrap();
    let memory: Vec<BlockMemory> = profile.memory(1, Precision::Fp32).unwrap().collect();
    let of_model = [Block::Embedding, LAYER, Block::Head].map(|block| model.block_parameters(block));
    assert_eq!([memory[0], memory[1], memory[25]].map(|block| block.parameters), of_model);
    let at = |gpu, tensor_parallel_size, micro_batch_size| {
        profile.measured(LAYER, ProfileQuery { tensor_parallel_size, ..query(gpu, micro_batch_size) })
    };
    assert!(at("V100-16", 1, 4).is_ok() && at("V100-16", 1, 8).is_err() && at("V100-16", 8, 8).is_ok());
}

#[test]
fn no_micro_batch_takes_longer_than_a_larger_one() {
    let text = file("OPT-350", "A100-40", 70).replace(
        "\"by_micro_batch_size\": {",
        "\"by_micro_batch_size\": {\"1\": {\"fwd_s\": [0.3, 0.1, 0.1, 0.6], \"bwd_s\": [1e-6, 0.3, 0.3, 0.8], \"update_s\": [0.5, 0.5, 0.5, 0.5]}, ",
    );
    let profile = LayerProfile::from_json(&text, "p.json").unwrap();
    let of = |block| profile.measured(block, query("A100-40", 1)).unwrap().unwrap();
    assert_eq!(of(Block::Embedding), Measured { forward_s: 0.1, backward_s: 1e-6 });
    assert_eq!(of(Block::Head), Measured { forward_s: 0.5, backward_s: 0.7 });
    assert!((of(LAYER).forward_s - 0.1).abs() < 1e-12 && (of(LAYER).backward_s - 0.3).abs() < 1e-12);
    // Block by block it stays as it was measured.
    assert!(profile.blocks(query("A100-40", 1)).unwrap().0[0].forward_s > 0.2);
}
