//! What is kept of a backward pass that is done in two (Qi et al. 2023): the gradients of the weights need the inputs of all
//! dense products and the gradients of their outputs.

use super::{Architecture, Block, Execution, ModelSpec};

impl ModelSpec {
    /// Bytes that one GPU keeps for `block` and one micro batch from the backward pass for the input to the one for the
    /// weights.
    ///
    /// A layer of GPT or BERT in half precision: `32 s b h` (Qi et al. 2023, table 1), of which `8 s b h` are the layer's
    /// wide inputs and outputs, that each tensor-parallel rank holds whole but under sequence parallelism, and `24 s b h`
    /// are split. Recomputation changes nothing: what it brings back is needed until then. The embedding keeps the
    /// gradient of its output, the head its input and the gradient of the logits.
    pub fn weight_gradient_bytes(&self, block: Block, execution: &Execution) -> u64 {
        let t = u64::from(execution.tensor_parallel_size);
        let bytes = execution.precision.bytes();
        let tokens = u64::from(self.seq_length) * u64::from(execution.micro_batch_size);
        let h = u64::from(self.hidden_size);
        // Widths of what each rank holds whole, and of what they share.
        let (unsplit, split) = match block {
            Block::Embedding => (h, 0),
            Block::Head => {
                let transform = if self.architecture == Architecture::Bert { 2 * h } else { 0 };
                (h + transform, u64::from(self.vocab_size))
            }
            Block::Layer(_) => {
                let f = u64::from(self.ffn_hidden_size);
                let up = if self.gated_mlp { 2 * f } else { f };
                // With fewer key/value heads than GPUs, each GPU holds a copy of one of them.
                let key_value = self.key_value_width().max(u64::from(self.head_dim) * t);
                // Inputs of the query/key/value and of the up projection, gradients of the two projections back; then the
                // gradient of query, key and value, the projection's input, and both sides of the MLP's inner activation.
                (4 * h, 2 * self.query_width() + 2 * key_value + up + f)
            }
        };
        let sequence_split = if execution.sequence_parallel { t } else { 1 };
        (tokens * bytes * unsplit).div_ceil(sequence_split) + (tokens * bytes * split).div_ceil(t)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::LayerId;
    use crate::model::{Precision, Recompute};

    fn execution(tensor_parallel_size: u32, sequence_parallel: bool) -> Execution {
        let (micro_batch_size, recompute, precision) = (2, Recompute::None, Precision::Fp16);
        Execution { tensor_parallel_size, micro_batch_size, recompute, sequence_parallel, precision }
    }

    #[test]
    fn a_gpt_layer_keeps_what_table_1_says() {
        let model = ModelSpec::preset("gpt3-1.3b").unwrap();
        let layer = |t, sequence| model.weight_gradient_bytes(Block::Layer(LayerId(0)), &execution(t, sequence));
        let sbh = 2048 * 2 * 2048;
        assert_eq!(layer(1, false), 32 * sbh);
        assert_eq!(layer(4, false), 8 * sbh + 6 * sbh);
        assert_eq!(layer(4, true), 8 * sbh);
    }

    #[test]
    fn the_ends_by_hand() {
        let model = ModelSpec::preset("gpt3-1.3b").unwrap();
        let tokens = 2048 * 2;
        assert_eq!(model.weight_gradient_bytes(Block::Embedding, &execution(1, false)), 2 * tokens * 2048);
        assert_eq!(model.weight_gradient_bytes(Block::Head, &execution(1, false)), 2 * tokens * (2048 + 51_200));
    }
}
