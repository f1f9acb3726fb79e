//! The matrix products of a block: what its arithmetic consists of.

use super::{Architecture, Block, Execution, ModelSpec};

/// `count` equal matrix products of an `m × k` by a `k × n` matrix, done as one batched operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MatrixProduct {
    /// Number of products in the batch.
    pub count: f64,
    /// Rows of the result.
    pub m: f64,
    /// Columns of the result.
    pub n: f64,
    /// Length of the sums.
    pub k: f64,
    /// Whether it belongs to the attention core, which selective recomputation repeats.
    pub attention_core: bool,
}

impl MatrixProduct {
    /// Floating-point operations: a multiplication and an addition per term.
    pub fn flops(&self) -> f64 {
        2.0 * self.count * self.m * self.n * self.k
    }

    /// Elements read and written, each once.
    pub fn elements(&self) -> f64 {
        self.count * (self.m * self.k + self.k * self.n + self.m * self.n)
    }
}

impl ModelSpec {
    /// Matrix products of one layer's forward pass on one of `t` tensor-parallel GPUs: query/key/value projection,
    /// scores, weighted values, output projection, MLP up (and gate, fused) and MLP down.
    ///
    /// Causal attention is counted in full, as Megatron-LM computes it and as Narayanan et al. 2021 count it.
    pub fn layer_products(&self, execution: &Execution) -> [MatrixProduct; 6] {
        let t = f64::from(execution.tensor_parallel_size);
        let s = f64::from(self.seq_length);
        let b = f64::from(execution.micro_batch_size);
        let (h, f, d) = (f64::from(self.hidden_size), f64::from(self.ffn_hidden_size), f64::from(self.head_dim));
        let query = self.query_width() as f64 / t;
        let key_value = (self.key_value_width() as f64 / t).max(d);
        let heads = b * f64::from(self.num_attention_heads) / t;
        let up = if self.gated_mlp { 2.0 * f } else { f } / t;
        let dense = |n, k| MatrixProduct { count: 1.0, m: s * b, n, k, attention_core: false };
        let core = |n, k| MatrixProduct { count: heads, m: s, n, k, attention_core: true };
        [dense(query + 2.0 * key_value, h), core(s, d), core(d, s), dense(h, query), dense(up, h), dense(h, f / t)]
    }

    /// Matrix products of the head's forward pass on one of `t` GPUs: BERT's dense layer (every GPU computes it in
    /// full; of no size in other families) and the vocabulary projection.
    pub fn head_products(&self, execution: &Execution) -> [MatrixProduct; 2] {
        let tokens = f64::from(self.seq_length) * f64::from(execution.micro_batch_size);
        let h = f64::from(self.hidden_size);
        let vocab = f64::from(self.vocab_size) / f64::from(execution.tensor_parallel_size);
        let dense = |n, k| MatrixProduct { count: 1.0, m: tokens, n, k, attention_core: false };
        let transform = if self.architecture == Architecture::Bert { dense(h, h) } else { MatrixProduct::default() };
        [transform, dense(vocab, h)]
    }

    /// Matrix-product FLOPs of one forward pass of `block` over `micro_batch_size` samples, over all GPUs that share it.
    ///
    /// For GPT: `24 b s h² (1 + s/(6 h))` a layer and `2 b s h V` for the head. The embedding is a look-up: zero.
    pub fn block_forward_flops(&self, block: Block, micro_batch_size: u32) -> f64 {
        let execution = Execution {
            tensor_parallel_size: 1,
            micro_batch_size,
            recompute: super::Recompute::None,
            sequence_parallel: false,
            precision: super::Precision::Fp16,
        };
        match block {
            Block::Embedding => 0.0,
            Block::Layer(_) => self.layer_products(&execution).iter().map(MatrixProduct::flops).sum(),
            Block::Head => self.head_products(&execution).iter().map(MatrixProduct::flops).sum(),
        }
    }

    /// FLOPs that the model needs for one iteration: forward, and twice that backward, without recomputation. The
    /// numerator of MFU.
    pub fn model_flops_per_iteration(&self, global_batch_size: u32) -> f64 {
        let layer = self.block_forward_flops(Block::Layer(crate::ids::LayerId(0)), 1);
        let sample = f64::from(self.num_layers) * layer + self.block_forward_flops(Block::Head, 1);
        3.0 * sample * f64::from(global_batch_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::LayerId;
    use crate::model::{Precision, Recompute};
    use approx::assert_relative_eq;

    const LAYER: Block = Block::Layer(LayerId(0));

    /// Narayanan et al. 2021, equation 3: `96 B s l h² (1 + s/(6 h) + V/(16 l h))` with every layer's forward done
    /// twice (four forwards' worth of arithmetic), the head's once (three).
    #[test]
    fn gpt_agrees_with_equation_3() {
        for name in ["gpt3-1.3b", "gpt3-6.7b", "gpt3-30b"] {
            let model = ModelSpec::preset(name).unwrap();
            let [l, h, v, s] = [model.num_layers, model.hidden_size, model.vocab_size, model.seq_length].map(f64::from);
            let batch = 512.0;
            let equation = 96.0 * batch * s * l * h * h * (1.0 + s / (6.0 * h) + v / (16.0 * l * h));
            let ours =
                4.0 * l * model.block_forward_flops(LAYER, 512) + 3.0 * model.block_forward_flops(Block::Head, 512);
            assert_relative_eq!(ours, equation, max_relative = 1e-12);
        }
    }

    #[test]
    fn model_flops_leave_recomputation_out() {
        let model = ModelSpec::preset("gpt3-1.3b").unwrap();
        let [l, h, v, s] = [model.num_layers, model.hidden_size, model.vocab_size, model.seq_length].map(f64::from);
        let by_hand = 72.0 * 8.0 * s * l * h * h * (1.0 + s / (6.0 * h) + v / (12.0 * l * h));
        assert_relative_eq!(model.model_flops_per_iteration(8), by_hand, max_relative = 1e-12);
    }

    /// LLaMA-7B by hand: 2 b s (4 h² + 3 h f) + 4 b s² h.
    #[test]
    fn a_gated_mlp_has_three_matrices() {
        let model = ModelSpec::preset("llama-7b").unwrap();
        let (s, h, f) = (2048.0, 4096.0, 11_008.0);
        let by_hand = 2.0 * s * (4.0 * h * h + 3.0 * h * f) + 4.0 * s * s * h;
        assert_relative_eq!(model.block_forward_flops(LAYER, 1), by_hand, max_relative = 1e-12);
    }

    #[test]
    fn tensor_parallel_shares_add_up() {
        let model = ModelSpec::preset("llama-7b").unwrap();
        let execution = |tensor_parallel_size| Execution {
            tensor_parallel_size,
            micro_batch_size: 2,
            recompute: Recompute::None,
            sequence_parallel: false,
            precision: Precision::Bf16,
        };
        let flops = |t| model.layer_products(&execution(t)).iter().map(MatrixProduct::flops).sum::<f64>();
        assert_relative_eq!(flops(1), 8.0 * flops(8), max_relative = 1e-12);
    }

    #[test]
    fn the_embedding_has_no_arithmetic() {
        let model = ModelSpec::preset("bert-large").unwrap();
        assert!(model.block_forward_flops(Block::Embedding, 4).abs() < f64::EPSILON);
    }
}
