//! Activation bytes: stored for the backward pass, sent between stages, exchanged within a tensor-parallel group.
//!
//! After Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models". Symbols: sequence
//! `s`, micro batch `b`, hidden size `h`, heads `a`, tensor-parallel degree `t`. Activations take 2 bytes an element in
//! half precision and 4 in fp32, dropout masks one.

use super::{Block, Execution, ModelSpec, Recompute};

/// Bytes that one layer stores for one micro batch, over the whole tensor-parallel group, by how they are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LayerTerms {
    /// Each GPU holds all of it, or `1/t` under sequence parallelism: inputs of norms and of the first product of
    /// attention and MLP, dropout masks behind them.
    unsplit: u64,
    /// Each GPU holds `1/t`: what lies between the first and the last product of attention and of the MLP.
    split: u64,
    /// The attention core, quadratic in the sequence; each GPU holds `1/t`.
    core: u64,
}

impl ModelSpec {
    /// Bytes that one GPU stores for `block` and one micro batch from its forward to its backward pass.
    ///
    /// A layer of GPT or BERT in half precision (Korthikanti et al. 2022, equations 1 to 4 and table 2):
    /// `s b h (10 + 24/t + 5 a s/(h t))`; with sequence parallelism `s b h/t (34 + 5 a s/h)`; selective
    /// recomputation drops the `5 a s/h`; full recomputation stores the layer's input, `2 s b h` (`/t` with sequence
    /// parallelism). A gated MLP and fewer key/value heads follow from the same terms; LLaMA has no dropout and so no
    /// masks.
    ///
    /// The embedding stores its dropout mask. The head stores the final norm's input and the projection's input
    /// (`4 s b h`) and the softmax over the vocabulary in fp32 (`4 s b V/t`), each as in their section 4.3; under
    /// 1F1B the last stage has one micro batch in flight, so that this is a transient in effect.
    pub fn stored_activation_bytes(&self, block: Block, execution: &Execution) -> u64 {
        let t = u64::from(execution.tensor_parallel_size);
        let sequence_split = if execution.sequence_parallel { t } else { 1 };
        let element_bytes = execution.precision.bytes();
        let elements = self.residual_elements(execution);
        match block {
            Block::Embedding if self.architecture.has_dropout() => elements.div_ceil(sequence_split),
            Block::Embedding => 0,
            Block::Layer(_) if execution.recompute == Recompute::Full => {
                (element_bytes * elements).div_ceil(sequence_split)
            }
            Block::Layer(_) => {
                let terms = self.layer_terms(execution);
                let core = if execution.recompute == Recompute::None { terms.core } else { 0 };
                terms.unsplit.div_ceil(sequence_split) + (terms.split + core).div_ceil(t)
            }
            Block::Head => (2 * element_bytes * elements).div_ceil(sequence_split) + self.logits_bytes(execution),
        }
    }

    /// Bytes of the fp32 logits (or of their softmax, or of their gradient) of one micro batch on one GPU:
    /// `4 s b V/t`.
    pub fn logits_bytes(&self, execution: &Execution) -> u64 {
        let tokens = u64::from(self.seq_length) * u64::from(execution.micro_batch_size);
        (4 * tokens * u64::from(self.vocab_size)).div_ceil(u64::from(execution.tensor_parallel_size))
    }

    /// Bytes that one tensor-parallel rank sends over a stage boundary for one micro batch, in either direction:
    /// `2 s b h` in half precision, `/t` with sequence parallelism.
    pub fn boundary_bytes(&self, execution: &Execution) -> u64 {
        let split = if execution.sequence_parallel { u64::from(execution.tensor_parallel_size) } else { 1 };
        (execution.precision.bytes() * self.residual_elements(execution)).div_ceil(split)
    }

    /// Bytes that the tensor-parallel collectives of one layer's forward pass work on: two all-reduces of `2 s b h`
    /// bytes each in half precision (Shoeybi et al. 2019); the backward pass has as many. Sequence parallelism turns
    /// each into a reduce-scatter and an all-gather, which move the same. Zero when `t` is 1.
    pub fn tensor_parallel_bytes(&self, execution: &Execution) -> u64 {
        if execution.tensor_parallel_size == 1 {
            return 0;
        }
        2 * execution.precision.bytes() * self.residual_elements(execution)
    }

    /// Bytes of the attention scores of one layer and micro batch on one GPU, in the compute precision: `2 a b s²/t` in half
    /// precision.
    pub fn scores_bytes(&self, execution: &Execution) -> u64 {
        let tokens = u64::from(self.seq_length) * u64::from(execution.micro_batch_size);
        let scores = u64::from(self.num_attention_heads) * tokens * u64::from(self.seq_length);
        (execution.precision.bytes() * scores).div_ceil(u64::from(execution.tensor_parallel_size))
    }

    /// Elements of one micro batch's activation between layers: `s b h`.
    pub(crate) fn residual_elements(&self, execution: &Execution) -> u64 {
        u64::from(self.seq_length) * u64::from(execution.micro_batch_size) * u64::from(self.hidden_size)
    }

    /// The terms of section 4.1, one by one.
    fn layer_terms(&self, execution: &Execution) -> LayerTerms {
        let bytes = execution.precision.bytes();
        let mask = u64::from(self.architecture.has_dropout());
        let t = u64::from(execution.tensor_parallel_size);
        let residual = self.residual_elements(execution);
        let tokens = u64::from(self.seq_length) * u64::from(execution.micro_batch_size);
        // With fewer key/value heads than GPUs, each GPU holds a copy of one of them.
        let key_value_width = self.key_value_width().max(u64::from(self.head_dim) * t);
        let attention = 2 * self.query_width() + 2 * key_value_width; // queries and the projection's input; keys, values
        let mlp_widths = if self.gated_mlp { 3 } else { 2 }; // what goes into the activation function, and what comes out
        let scores = u64::from(self.num_attention_heads) * tokens * u64::from(self.seq_length);
        LayerTerms {
            // Two norms' inputs, the attention's and the MLP's input; two dropout masks.
            unsplit: residual * (4 * bytes + 2 * mask),
            split: tokens * bytes * (attention + mlp_widths * u64::from(self.ffn_hidden_size)),
            // The softmax's output; with dropout, its mask and its output too.
            core: scores * (bytes + mask * (1 + bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::LayerId;
    use crate::model::Precision;
    use rstest::rstest;

    const LAYER: Block = Block::Layer(LayerId(0));

    fn execution(t: u32, recompute: Recompute, sequence_parallel: bool) -> Execution {
        Execution {
            tensor_parallel_size: t,
            micro_batch_size: 4,
            recompute,
            sequence_parallel,
            precision: Precision::Fp16,
        }
    }

    /// Korthikanti et al. 2022, table 2, for s = 2048, b = 4, h = 2048, a = 16: s b h = 16 777 216 and a s/h = 16.
    #[rstest]
    #[case::no_parallelism(1, Recompute::None, false, 34 + 5 * 16)]
    #[case::tensor_parallel(8, Recompute::None, false, 10 + 3 + 10)]
    #[case::selective(8, Recompute::Selective, false, 10 + 3)]
    #[case::full(8, Recompute::Full, false, 2)]
    fn a_gpt_layer_agrees_with_table_2(
        #[case] t: u32,
        #[case] recompute: Recompute,
        #[case] sequence_parallel: bool,
        #[case] sbh: u64,
    ) {
        let model = ModelSpec::preset("gpt3-1.3b").unwrap();
        let stored = model.stored_activation_bytes(LAYER, &execution(t, recompute, sequence_parallel));
        assert_eq!(stored, sbh * 16_777_216);
    }

    /// The rows with sequence parallelism, where everything is split by 8.
    #[rstest]
    #[case::none(Recompute::None, 34 + 5 * 16)]
    #[case::selective(Recompute::Selective, 34)]
    #[case::full(Recompute::Full, 2)]
    fn sequence_parallelism_splits_everything(#[case] recompute: Recompute, #[case] sbh: u64) {
        let model = ModelSpec::preset("gpt3-1.3b").unwrap();
        let stored = model.stored_activation_bytes(LAYER, &execution(8, recompute, true));
        assert_eq!(stored, sbh * 16_777_216 / 8);
    }

    /// Korthikanti et al. 2022, section 4.2.1 on GPT-3 175B: `5 a s/h` is 80, so that selective recomputation saves
    /// 70 % of the activation memory; for the 530B model it is 64 and saves 65 %.
    #[rstest]
    #[case(12_288, 96, 80, 0.70)]
    #[case(20_480, 128, 64, 0.65)]
    fn selective_recomputation_saves_what_the_paper_says(
        #[case] hidden_size: u32,
        #[case] heads: u32,
        #[case] core: u64,
        #[case] saving: f64,
    ) {
        let model = ModelSpec {
            hidden_size,
            num_attention_heads: heads,
            num_key_value_heads: heads,
            head_dim: hidden_size / heads,
            ffn_hidden_size: 4 * hidden_size,
            ..ModelSpec::preset("gpt3-13b").unwrap()
        };
        let all = model.stored_activation_bytes(LAYER, &execution(1, Recompute::None, false));
        let selective = model.stored_activation_bytes(LAYER, &execution(1, Recompute::Selective, false));
        let sbh = 2048 * 4 * u64::from(hidden_size);
        assert_eq!(all - selective, core * sbh);
        assert!((1.0 - selective as f64 / all as f64 - saving).abs() < 0.005);
    }

    /// LLaMA-7B by hand, b = 4, s = 2048, h = 4096, f = 11008: no masks; 8 sbh for norms and inputs, 8 sbh for
    /// queries, keys, values and the projection's input, 6 sbf for the gated MLP.
    #[test]
    fn a_llama_layer_by_hand() {
        let model = ModelSpec::preset("llama-7b").unwrap();
        let tokens = 4 * 2048;
        let selective = model.stored_activation_bytes(LAYER, &execution(1, Recompute::Selective, false));
        assert_eq!(selective, tokens * (16 * 4096 + 6 * 11_008));
        let all = model.stored_activation_bytes(LAYER, &execution(1, Recompute::None, false));
        assert_eq!(all - selective, 2 * 4 * 32 * 2048 * 2048);
    }

    #[test]
    fn grouped_heads_store_fewer_keys_and_values() {
        let full = ModelSpec::preset("llama-7b").unwrap();
        let grouped = ModelSpec { num_key_value_heads: 8, ..full.clone() };
        let stored =
            |model: &ModelSpec| model.stored_activation_bytes(LAYER, &execution(4, Recompute::Selective, false));
        assert_eq!(stored(&full) - stored(&grouped), 4 * 2048 * 2 * 2 * (32 - 8) * 128 / 4);
    }

    #[test]
    fn fp32_doubles_all_but_the_masks() {
        let model = ModelSpec::preset("gpt3-1.3b").unwrap();
        let half = execution(1, Recompute::Selective, false);
        let single = Execution { precision: Precision::Fp32, ..half };
        let sbh = 16_777_216;
        assert_eq!(model.stored_activation_bytes(LAYER, &single), (2 * 32 + 2) * sbh);
        assert_eq!(model.boundary_bytes(&single), 2 * model.boundary_bytes(&half));
    }

    /// Korthikanti et al. 2022, section 4.3: `s b h` for the embedding's dropout; `4 s b h (1 + V/h)` in the head.
    #[test]
    fn embedding_and_head_agree_with_section_4_3() {
        let model = ModelSpec::preset("gpt3-1.3b").unwrap();
        let sbh = 16_777_216;
        let whole = execution(1, Recompute::Selective, false);
        assert_eq!(model.stored_activation_bytes(Block::Embedding, &whole), sbh);
        assert_eq!(model.stored_activation_bytes(Block::Head, &whole), 4 * sbh + 4 * 2048 * 4 * 51_200);
        let split = execution(8, Recompute::Selective, true);
        assert_eq!(model.stored_activation_bytes(Block::Embedding, &split), sbh / 8);
        assert_eq!(model.logits_bytes(&split), 2048 * 4 * 51_200 / 2);
    }

    #[test]
    fn traffic_by_hand() {
        let model = ModelSpec::preset("gpt3-1.3b").unwrap();
        let sbh = 16_777_216;
        assert_eq!(model.boundary_bytes(&execution(8, Recompute::None, false)), 2 * sbh);
        assert_eq!(model.boundary_bytes(&execution(8, Recompute::None, true)), 2 * sbh / 8);
        assert_eq!(model.tensor_parallel_bytes(&execution(8, Recompute::None, false)), 4 * sbh);
        assert_eq!(model.tensor_parallel_bytes(&execution(8, Recompute::None, true)), 4 * sbh);
        assert_eq!(model.tensor_parallel_bytes(&execution(1, Recompute::None, false)), 0);
    }
}
