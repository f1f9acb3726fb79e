//! Bytes: what a GPU of a stage holds, what is reduced, what is checkpointed.

mod held;
mod profiled;

pub use held::HeldChunk;

use super::{CostModel, Kernels, StageMemory};
use crate::ids::LayerId;
use crate::model::{Block, Execution, Precision, Recompute};

const LAYER: Block = Block::Layer(LayerId(0));

/// What of the model a stage holds, and how many micro batches it has in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StageShape {
    /// Transformer layers.
    pub num_layers: u32,
    /// Whether it holds the embedding: the first stage.
    pub has_embedding: bool,
    /// Whether it holds the head: the last stage.
    pub has_head: bool,
    /// Micro batches whose activations are stored at once, at most: `min(K, P - p)` under 1F1B.
    pub in_flight: u32,
}

impl CostModel {
    /// Parameters of `block` on one GPU of its tensor-parallel group.
    ///
    /// Matrices are split evenly; norms and biases, which every GPU holds in full, are below 0.1 % and counted as if
    /// they were split.
    pub fn parameters_per_gpu(&self, block: Block, execution: &Execution) -> u64 {
        self.model().block_parameters(block).div_ceil(u64::from(execution.tensor_parallel_size))
    }

    /// Bytes of one GPU's gradients of `block`: what its data-parallel all-reduce works on.
    pub fn gradient_bytes(&self, block: Block, execution: &Execution) -> u64 {
        self.parameters_per_gpu(block, execution) * self.bytes_per_gradient(execution.precision)
    }

    /// Bytes of `block` in a checkpoint, over all its tensor-parallel shards: weights, fp32 master weights where they
    /// are others, and Adam's moments. Gradients aren't saved. A tied head is saved with its copy of the matrix, so that each
    /// block can be restored by itself.
    pub fn state_bytes(&self, block: Block, precision: Precision) -> u64 {
        self.model().block_parameters(block) * (precision.bytes() + self.bytes_per_optimizer_state(precision))
    }

    /// Memory of one GPU of a stage at its peak.
    ///
    /// Per parameter 2 bytes of weight, 2 of gradient and 12 of optimizer state in half precision, 4 + 4 + 8 in fp32;
    /// the activations of all micro batches in flight; the largest transient: the gradient of the fp32 logits beside
    /// their half-precision copy where the head is, or what one layer's backward pass needs besides; a fixed reserve.
    /// Where embedding and head share their matrix and stand on the same stage, it is held once.
    ///
    /// Where a profile measures memory at this degree, its figures go before these.
    pub fn stage_memory(&self, shape: &StageShape, execution: &Execution) -> StageMemory {
        if let Some(memory) = self.profiled_memory(shape, execution) {
            return memory;
        }
        let parameters = self.stage_parameters(shape, execution);
        StageMemory {
            parameters_bytes: parameters * execution.precision.bytes(),
            gradients_bytes: parameters * self.bytes_per_gradient(execution.precision),
            optimizer_bytes: parameters * self.bytes_per_optimizer_state(execution.precision),
            activations_bytes: u64::from(shape.in_flight) * self.stage_activation_bytes(shape, execution),
            transient_bytes: self.transient_bytes(shape, execution),
            reserve_bytes: self.settings().reserve_bytes,
        }
    }

    fn stage_parameters(&self, shape: &StageShape, execution: &Execution) -> u64 {
        let model = self.model();
        let embedding = if shape.has_embedding { model.block_parameters(Block::Embedding) } else { 0 };
        let head = if shape.has_head { model.block_parameters(Block::Head) } else { 0 };
        let shared = shape.has_embedding && shape.has_head && model.tie_word_embeddings;
        let held_once = if shared { model.word_embedding_parameters() } else { 0 };
        let all = embedding + u64::from(shape.num_layers) * model.layer_parameters() + head - held_once;
        all.div_ceil(u64::from(execution.tensor_parallel_size))
    }

    /// Stored for one micro batch by all blocks of the stage.
    fn stage_activation_bytes(&self, shape: &StageShape, execution: &Execution) -> u64 {
        let stored = |block| self.stored_bytes(block, execution);
        let embedding = if shape.has_embedding { stored(Block::Embedding) } else { 0 };
        let head = if shape.has_head { stored(Block::Head) } else { 0 };
        embedding + u64::from(shape.num_layers) * stored(LAYER) + head
    }

    /// Stored for one micro batch by one block. `FlashAttention` keeps a sum for each row of scores in fp32 instead of what
    /// is quadratic in the sequence (Dao et al. 2022).
    fn stored_bytes(&self, block: Block, execution: &Execution) -> u64 {
        let model = self.model();
        let is_whole_layer = matches!(block, Block::Layer(_)) && execution.recompute == Recompute::None;
        if self.settings().kernels != Kernels::Flash || !is_whole_layer {
            return model.stored_activation_bytes(block, execution);
        }
        let without_core = Execution { recompute: Recompute::Selective, ..*execution };
        let rows = u64::from(model.num_attention_heads) * u64::from(model.seq_length);
        let sums = (4 * rows * u64::from(execution.micro_batch_size)).div_ceil(execution.tensor_parallel_size.into());
        model.stored_activation_bytes(block, &without_core) + sums
    }

    /// What one layer's backward pass needs on one GPU beside what is stored: what is computed again (what storing everything
    /// would have stored, less what is), the gradients of its output and of its input, and, where the attention isn't one
    /// kernel, those of the scores before and behind the softmax, of which one is made of the other.
    fn layer_transient_bytes(&self, execution: &Execution) -> u64 {
        let all = Execution { recompute: Recompute::None, ..*execution };
        let recomputed = self.stored_bytes(LAYER, &all).saturating_sub(self.stored_bytes(LAYER, execution));
        let is_one_kernel = self.settings().kernels == Kernels::Flash;
        let scores = if is_one_kernel { 0 } else { self.model().scores_bytes(execution) };
        recomputed + 2 * self.model().boundary_bytes(execution) + 2 * scores
    }

    fn transient_bytes(&self, shape: &StageShape, execution: &Execution) -> u64 {
        let layer = if shape.num_layers > 0 { self.layer_transient_bytes(execution) } else { 0 };
        let logits = self.model().logits_bytes(execution);
        // The projection's output in the compute precision beside the gradient in fp32.
        let head = if shape.has_head { logits + logits / 4 * execution.precision.bytes() } else { 0 };
        layer.max(head)
    }

    fn bytes_per_gradient(&self, precision: Precision) -> u64 {
        match precision {
            Precision::Fp32 => 4,
            Precision::Fp16 | Precision::Bf16 => self.settings().gradient_bytes_per_parameter,
        }
    }

    /// In fp32 the weight is its own master copy of 4 bytes.
    fn bytes_per_optimizer_state(&self, precision: Precision) -> u64 {
        let bytes = self.settings().optimizer_bytes_per_parameter;
        match precision {
            Precision::Fp32 => bytes.saturating_sub(4),
            Precision::Fp16 | Precision::Bf16 => bytes,
        }
    }
}

#[cfg(test)]
mod tests;
