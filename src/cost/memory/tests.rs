use super::*;
use crate::cost::CostSettings;
use crate::model::ModelSpec;
use rstest::rstest;

fn cost(name: &str) -> CostModel {
    CostModel::new(ModelSpec::preset(name).unwrap(), CostSettings::default(), None)
}

fn execution(t: u32, recompute: Recompute, precision: Precision) -> Execution {
    Execution { tensor_parallel_size: t, micro_batch_size: 1, recompute, sequence_parallel: true, precision }
}

#[test]
fn adam_takes_sixteen_bytes_a_parameter_in_either_precision() {
    let cost = cost("gpt3-1.3b");
    let shape = StageShape { num_layers: 24, has_embedding: true, has_head: true, in_flight: 1 };
    for (precision, weights) in [(Precision::Fp16, 2), (Precision::Fp32, 4)] {
        let memory = cost.stage_memory(&shape, &execution(1, Recompute::Selective, precision));
        let parameters = cost.model().parameters();
        assert_eq!(memory.parameters_bytes, weights * parameters);
        assert_eq!(memory.gradients_bytes, weights * parameters);
        assert_eq!(memory.parameters_bytes + memory.gradients_bytes + memory.optimizer_bytes, 16 * parameters);
        let sum = 16 * parameters + memory.activations_bytes + memory.transient_bytes + memory.reserve_bytes;
        assert_eq!(memory.total_bytes(), sum);
    }
}

#[test]
fn a_tied_matrix_is_copied_only_where_the_ends_are_apart() {
    let cost = cost("gpt3-1.3b");
    let execution = execution(1, Recompute::Full, Precision::Fp16);
    let parameters = |has_embedding, has_head| {
        let shape = StageShape { num_layers: 12, has_embedding, has_head, in_flight: 1 };
        cost.stage_memory(&shape, &execution).parameters_bytes / 2
    };
    let layers = 12 * cost.model().layer_parameters();
    let (first, last) = (parameters(true, false) - layers, parameters(false, true) - layers);
    assert_eq!(first + last - (parameters(true, true) - layers), cost.model().word_embedding_parameters());
    assert_eq!(parameters(false, false), layers);
}

#[test]
fn activations_grow_with_the_micro_batches_in_flight() {
    let cost = cost("llama-7b");
    let execution = execution(4, Recompute::Selective, Precision::Bf16);
    let shape = |in_flight| StageShape { num_layers: 8, has_embedding: false, has_head: false, in_flight };
    let one = cost.stage_memory(&shape(1), &execution);
    let four = cost.stage_memory(&shape(4), &execution);
    // By hand: tokens (16 h + 6 f) / 4 a layer.
    assert_eq!(one.activations_bytes, 8 * 2048 * (16 * 4096 + 6 * 11_008) / 4);
    assert_eq!(four.activations_bytes, 4 * one.activations_bytes);
    assert_eq!(four.transient_bytes, one.transient_bytes);
}

/// GPT-3 175B on t = 8, P = 8, sequence parallelism, as in Korthikanti et al. 2022, figure 1 and section 4.3: the
/// first stage stores as much as L layers without pipeline, `s b h L/t (34 + 5 a s/h)`, since it has P micro batches
/// of L/P layers in flight, and `s b h P/t` for the embedding's dropout.
#[test]
fn the_first_stage_stores_all_layers_worth() {
    let model = ModelSpec {
        num_layers: 96,
        hidden_size: 12_288,
        num_attention_heads: 96,
        num_key_value_heads: 96,
        head_dim: 128,
        ffn_hidden_size: 4 * 12_288,
        ..ModelSpec::preset("gpt3-13b").unwrap()
    };
    let cost = CostModel::new(model, CostSettings::default(), None);
    let shape = StageShape { num_layers: 12, has_embedding: true, has_head: false, in_flight: 8 };
    let memory = cost.stage_memory(&shape, &execution(8, Recompute::None, Precision::Fp16));
    let sbh = 2048 * 12_288;
    assert_eq!(memory.activations_bytes, sbh * 96 / 8 * (34 + 80) + sbh * 8 / 8);
    let selective = cost.stage_memory(&shape, &execution(8, Recompute::Selective, Precision::Fp16));
    assert_eq!(selective.activations_bytes, sbh * 96 / 8 * 34 + sbh * 8 / 8);
}

#[test]
fn the_logits_transient_is_shared_by_tensor_parallel_ranks() {
    let cost = cost("gpt3-1.3b");
    let shape = StageShape { num_layers: 0, has_embedding: false, has_head: true, in_flight: 1 };
    let whole = cost.stage_memory(&shape, &execution(1, Recompute::Full, Precision::Fp16)).transient_bytes;
    assert_eq!(whole, (4 + 2) * 2048 * 51_200);
    let eighth = cost.stage_memory(&shape, &execution(8, Recompute::Full, Precision::Fp16)).transient_bytes;
    assert_eq!(eighth, whole / 8);
}

/// GPT-3 1.3B, one sample: `s b h` is 4 194 304 and `a s/h` is 16. A layer keeps `34 s b h` of all but the attention's core, which
/// has `5 a s/h` more; two gradients of the residual stream are `2 s b h` each and two of the scores `2 a s/h s b h`.
#[rstest]
#[case(Kernels::Fused, Recompute::None, 34 + 80, 0, 4 + 64)]
#[case(Kernels::Fused, Recompute::Selective, 34, 0, 80 + 4 + 64)]
#[case(Kernels::Fused, Recompute::Full, 2, 0, 32 + 80 + 4 + 64)]
#[case(Kernels::Flash, Recompute::None, 34, 1, 4)]
#[case(Kernels::Flash, Recompute::Full, 2, 0, 32 + 4)]
fn what_a_layer_keeps_and_needs_for_its_backward_pass(
    #[case] kernels: Kernels,
    #[case] recompute: Recompute,
    #[case] stored_sbh: u64,
    #[case] stored_sums: u64,
    #[case] transient_sbh: u64,
) {
    let settings = CostSettings { kernels, ..CostSettings::default() };
    let cost = CostModel::new(ModelSpec::preset("gpt3-1.3b").unwrap(), settings, None);
    let shape = StageShape { num_layers: 1, has_embedding: false, has_head: false, in_flight: 1 };
    let memory = cost.stage_memory(&shape, &execution(1, recompute, Precision::Fp16));
    let (sbh, sums) = (2048 * 2048, 4 * 16 * 2048);
    assert_eq!(memory.activations_bytes, stored_sbh * sbh + stored_sums * sums);
    let recomputed_sums = u64::from(kernels == Kernels::Flash) - stored_sums;
    assert_eq!(memory.transient_bytes, transient_sbh * sbh + recomputed_sums * sums);
}

#[test]
fn gradients_and_checkpoints_by_hand() {
    let cost = cost("gpt3-6.7b");
    let parameters = 12 * 4096 * 4096 + 13 * 4096;
    let execution = execution(8, Recompute::Full, Precision::Fp16);
    assert_eq!(cost.gradient_bytes(LAYER, &execution), 2 * parameters / 8);
    assert_eq!(cost.state_bytes(LAYER, Precision::Fp16), 14 * parameters);
    assert_eq!(cost.state_bytes(LAYER, Precision::Fp32), 12 * parameters);
    assert_eq!(cost.parameters_per_gpu(LAYER, &execution), parameters / 8);
}

/// Five blocks of `(parameters, stored activations)` at degree 2; the first layer stores more than the others.
fn profiled() -> CostModel {
    let block = |parameters, stored| {
        format!(
            r#"{{"forward_s": 0.1, "backward_s": 0.1, "memory": {{"parameters": {parameters}, "stored_activations": {stored}, "output_activations": 1}}}}"#
        )
    };
    let blocks = [block(500, 7), block(100, 1_000_010), block(100, 1_000_000), block(100, 1_000_000), block(400, 50)];
    let text = format!(
        r#"{{"schema_version": 1, "model": "gpt-tiny", "entries": [{{"gpu": "T4", "tensor_parallel_size": 2, "micro_batch_size": 4,
        "precision": "fp32", "layer": {{"forward_s": 0.1, "backward_s": 0.1}}, "blocks": [{}]}}]}}"#,
        blocks.join(",")
    );
    let profile = crate::profile::LayerProfile::from_json(&text, "p.json").unwrap();
    let model = ModelSpec { num_layers: 3, ..ModelSpec::preset("gpt-tiny").unwrap() };
    CostModel::new(model, CostSettings::default(), Some(profile))
}

#[test]
fn what_was_measured_is_held_at_every_moment() {
    let cost = profiled();
    let execution = Execution { micro_batch_size: 4, ..execution(2, Recompute::None, Precision::Fp32) };
    let shape = StageShape { num_layers: 2, has_embedding: false, has_head: true, in_flight: 3 };
    let held = HeldChunk { shape, awaiting_weights: 0, is_running: true };
    assert_eq!(cost.held_memory(&[held], &execution), cost.stage_memory(&shape, &execution));
}

#[test]
fn measured_memory_goes_before_the_estimate_at_its_degree() {
    let cost = profiled();
    let execution = |tensor_parallel_size, recompute| Execution {
        tensor_parallel_size,
        micro_batch_size: 4,
        recompute,
        sequence_parallel: false,
        precision: Precision::Fp32,
    };
    let shape = |num_layers, has_embedding, has_head| StageShape { num_layers, has_embedding, has_head, in_flight: 3 };
    let peak = |shape: StageShape| cost.stage_memory(&shape, &execution(2, Recompute::None));
    // 600 parameters of 24 bytes, 3 micro batches of 4 samples, 3 GB aside; for a backward pass two gradients of the residual
    // stream and two of the scores of two heads.
    let boundary = 4 * 4 * 128 * 128;
    let backward = 2 * boundary + 2 * 4 * 4 * 2 * 128 * 128;
    let aside = 3_000_000_000 + backward;
    let first = peak(shape(1, true, false));
    assert_eq!(first.total_bytes(), 24 * 600 + 4 * 12 * 1_000_017 + aside + boundary);
    // What is received, into one more buffer; the last output of 4 samples.
    let last = peak(shape(2, false, true));
    assert_eq!(last.total_bytes(), 24 * 600 + 4 * 12 * 2_000_050 + aside + (3 + 1) * boundary + 4 * 4);
    let middle = peak(shape(1, false, false));
    assert_eq!(middle.total_bytes(), 24 * 100 + 4 * 12 * 1_000_000 + aside + (3 + 2) * boundary);
    let whole = peak(shape(3, true, true));
    assert_eq!(whole.total_bytes(), 24 * 1200 + 4 * 12 * 3_000_067 + aside + 4 * 4);
    // Recomputing leaves less stored; another degree isn't measured.
    let recomputed = cost.stage_memory(&shape(3, true, true), &execution(2, Recompute::Full));
    assert!(recomputed.activations_bytes < 4 * 12 * 3_000_067);
    let unmeasured = CostModel::new(cost.model().clone(), CostSettings::default(), None);
    let alone = execution(1, Recompute::None);
    let middle = shape(1, false, false);
    assert_eq!(cost.stage_memory(&middle, &alone), unmeasured.stage_memory(&middle, &alone));
}
