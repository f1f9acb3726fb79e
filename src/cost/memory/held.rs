//! Memory of a GPU at one moment of an iteration. The check of a plan takes the fullest moment, a report all of them.

use super::StageShape;
use crate::cost::{CostModel, StageMemory};
use crate::ids::LayerId;
use crate::model::{Block, Execution};

/// One chunk of a stage's layers at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeldChunk {
    /// What of the model the chunk holds, and how many micro batches' activations are stored for it.
    pub shape: StageShape,
    /// Micro batches of which only what the gradients of the weights need is kept.
    pub awaiting_weights: u32,
    /// Whether a forward pass or a backward pass for the input is under way.
    pub is_running: bool,
}

impl CostModel {
    /// Memory of one GPU that holds these chunks, from the input side, at one moment: as [`stage_memory`] has it of a stage
    /// with as many layers, with the activations of each chunk's micro batches, what is kept for weights
    /// ([`weight_gradient_bytes`]), and the transients of the chunk that a pass goes through.
    ///
    /// [`stage_memory`]: Self::stage_memory
    /// [`weight_gradient_bytes`]: crate::model::ModelSpec::weight_gradient_bytes
    pub fn held_memory(&self, chunks: &[HeldChunk], execution: &Execution) -> StageMemory {
        let stage = StageShape {
            num_layers: chunks.iter().map(|chunk| chunk.shape.num_layers).sum(),
            has_embedding: chunks.iter().any(|chunk| chunk.shape.has_embedding),
            has_head: chunks.iter().any(|chunk| chunk.shape.has_head),
            in_flight: 0,
        };
        let mut memory = self.stage_memory(&stage, execution);
        (memory.activations_bytes, memory.transient_bytes) = (0, 0);
        for HeldChunk { shape, awaiting_weights, is_running } in chunks {
            let alone = self.stage_memory(shape, execution);
            memory.activations_bytes += alone.activations_bytes;
            memory.activations_bytes +=
                u64::from(*awaiting_weights) * self.chunk_weight_gradient_bytes(shape, execution);
            memory.transient_bytes += if *is_running { alone.transient_bytes } else { 0 };
        }
        memory
    }

    /// Kept for the gradients of one micro batch's weights by all blocks of the chunk.
    fn chunk_weight_gradient_bytes(&self, shape: &StageShape, execution: &Execution) -> u64 {
        let kept = |block| self.model().weight_gradient_bytes(block, execution);
        let end = |is_held: bool, block| if is_held { kept(block) } else { 0 };
        end(shape.has_embedding, Block::Embedding)
            + u64::from(shape.num_layers) * kept(Block::Layer(LayerId(0)))
            + end(shape.has_head, Block::Head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::CostSettings;
    use crate::model::{ModelSpec, Precision, Recompute};

    fn shape(num_layers: u32, [has_embedding, has_head]: [bool; 2], in_flight: u32) -> StageShape {
        StageShape { num_layers, has_embedding, has_head, in_flight }
    }

    fn setting(recompute: Recompute) -> (CostModel, Execution) {
        let cost = CostModel::new(ModelSpec::preset("gpt3-1.3b").unwrap(), CostSettings::default(), None);
        let (tensor_parallel_size, micro_batch_size, precision) = (1, 1, Precision::Fp16);
        (cost, Execution { tensor_parallel_size, micro_batch_size, recompute, sequence_parallel: false, precision })
    }

    #[test]
    fn one_chunk_in_which_a_pass_runs_is_a_stage() {
        for recompute in [Recompute::None, Recompute::Selective, Recompute::Full] {
            let (cost, execution) = setting(recompute);
            for ends in [[false, false], [true, false], [false, true], [true, true]] {
                let shape = shape(6, ends, 3);
                let held = HeldChunk { shape, awaiting_weights: 0, is_running: true };
                assert_eq!(cost.held_memory(&[held], &execution), cost.stage_memory(&shape, &execution));
            }
        }
    }

    /// Qi et al. 2023, table 1: a layer keeps `32 s b h` from the backward pass for the input to that for the weights, and
    /// stores `s b h (34 + 5 a s/h)` before.
    #[test]
    fn what_weights_need_is_less_than_what_was_stored() {
        let (cost, execution) = setting(Recompute::None);
        let held = |in_flight, awaiting_weights| HeldChunk {
            shape: shape(2, [false, false], in_flight),
            awaiting_weights,
            is_running: false,
        };
        let stored = |held| cost.held_memory(&[held], &execution).activations_bytes;
        let sbh = 2048 * 2048;
        assert_eq!(stored(held(0, 3)), 3 * 2 * 32 * sbh);
        assert_eq!(stored(held(2, 1)), 2 * 2 * (34 + 5 * 16) * sbh + 2 * 32 * sbh);
        assert_eq!(cost.held_memory(&[held(2, 1)], &execution).transient_bytes, 0);
    }

    #[test]
    fn chunks_add_up() {
        let (cost, execution) = setting(Recompute::Selective);
        let chunk = |ends, in_flight, is_running| HeldChunk {
            shape: shape(3, ends, in_flight),
            awaiting_weights: 0,
            is_running,
        };
        let two = [chunk([true, false], 5, true), chunk([false, true], 2, false)];
        let memory = cost.held_memory(&two, &execution);
        let whole = cost.stage_memory(&shape(6, [true, true], 0), &execution);
        assert_eq!(memory.parameters_bytes, whole.parameters_bytes);
        let alone = two.map(|chunk| cost.stage_memory(&chunk.shape, &execution));
        assert_eq!(memory.activations_bytes, alone[0].activations_bytes + alone[1].activations_bytes);
        assert_eq!(memory.transient_bytes, alone[0].transient_bytes);
    }
}
