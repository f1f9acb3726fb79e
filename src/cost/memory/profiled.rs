//! Memory of a stage by what a profile measured of each block.

use super::StageShape;
use crate::cost::{CostModel, StageMemory};
use crate::ids::LayerId;
use crate::model::{Block, Execution, Recompute};
use crate::profile::BlockMemory;

impl CostModel {
    /// Memory of one GPU of a stage from the profile's parameters and stored activations, as Sailor (SOSP'25) counts it:
    /// bytes per parameter, the activations of all micro batches in flight, a reserve that is larger where several GPUs
    /// share the stage. `None` where the profile doesn't measure memory at this degree and precision.
    ///
    /// What a profile of blocks one by one doesn't have is added. A layer is measured with its output, so that the input
    /// that another stage hands on is missing for each micro batch in flight, and what it is received into; the same goes for
    /// the gradient (`PipelineEngine` of DeepSpeed copies both out of buffers that it keeps). A layer's backward pass needs
    /// more for its time, as in the model's own count, and at the end of the pipeline a training loop refers to the output of
    /// the micro batch before until it has the next one.
    ///
    /// Nothing was measured with recomputation: what it leaves stored is the same share of the measured activations as in
    /// the model's own count, and it brings back what it does there.
    pub(super) fn profiled_memory(&self, shape: &StageShape, execution: &Execution) -> Option<StageMemory> {
        let measured = self.profile()?.memory(execution.tensor_parallel_size, execution.precision)?;
        let blocks: Vec<BlockMemory> = measured.collect();
        let (parameters, stored) = held(&blocks, shape);
        let bytes = execution.precision.bytes();
        let of_micro_batch = |elements: u64| elements * bytes * u64::from(execution.micro_batch_size);
        let boundary = self.model().boundary_bytes(execution);
        let input = if shape.has_embedding { 0 } else { boundary };
        let received = input + if shape.has_head { 0 } else { boundary };
        let output = blocks.last().map_or(0, |head| of_micro_batch(head.output_activations));
        let settings = self.settings();
        let shared = execution.tensor_parallel_size > 1;
        let more = if shared { settings.profiled_tensor_parallel_reserve_bytes } else { 0 };
        let activations = of_micro_batch(stored) as f64 * self.stored_share(shape, execution);
        let layer = if shape.num_layers > 0 { self.layer_transient_bytes(execution) } else { 0 };
        Some(StageMemory {
            parameters_bytes: parameters * bytes,
            gradients_bytes: parameters * bytes,
            optimizer_bytes: parameters * settings.profiled_bytes_per_parameter.saturating_sub(2 * bytes),
            activations_bytes: u64::from(shape.in_flight) * (activations as u64 + input),
            transient_bytes: layer + received + if shape.has_head { output } else { 0 },
            reserve_bytes: settings.reserve_bytes + more,
        })
    }

    /// Share of its activations that a stage stores with the execution's recomputation.
    fn stored_share(&self, shape: &StageShape, execution: &Execution) -> f64 {
        if execution.recompute == Recompute::None {
            return 1.0;
        }
        let whole = Execution { recompute: Recompute::None, ..*execution };
        let stored = |block, execution| self.stored_bytes(block, execution) as f64;
        let layers = |execution| f64::from(shape.num_layers) * stored(Block::Layer(LayerId(0)), execution);
        let end = |held, block| if held { stored(block, &whole) } else { 0.0 };
        let ends = end(shape.has_embedding, Block::Embedding) + end(shape.has_head, Block::Head);
        (ends + layers(execution)) / (ends + layers(&whole))
    }
}

/// Parameters, and activations stored for each sample, of the blocks that a stage of this shape holds: the first ones,
/// the last ones, or, since it doesn't say which, so many of the largest in between.
fn held(blocks: &[BlockMemory], shape: &StageShape) -> (u64, u64) {
    let last = blocks.len() - 1;
    let layers = shape.num_layers as usize;
    let sum = |blocks: &[BlockMemory]| {
        let of = |figure: fn(&BlockMemory) -> u64| blocks.iter().map(figure).sum::<u64>();
        (of(|block| block.parameters), of(|block| block.stored_activations))
    };
    match (shape.has_embedding, shape.has_head) {
        (true, true) => sum(blocks),
        (true, false) => sum(&blocks[..=layers.min(last)]),
        (false, true) => sum(&blocks[last.saturating_sub(layers)..]),
        (false, false) => {
            let most = |figure: fn(&BlockMemory) -> u64| blocks[2..last].iter().map(figure).max().unwrap_or(0);
            let times = layers as u64;
            (times * most(|block| block.parameters), times * most(|block| block.stored_activations))
        }
    }
}
