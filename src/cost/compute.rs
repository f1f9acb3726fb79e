//! Seconds of compute: a roofline over the operations of a block.

mod blocks;
mod roofline;

use super::{BlockCost, CostError, CostModel, PassCost, communication};
use crate::cluster::GpuSpec;
use crate::ids::LayerId;
use crate::model::{Block, Execution, Precision, Recompute};
use crate::profile::{Measured, ProfileQuery};
use blocks::Work;
use roofline::Roofline;

impl CostModel {
    /// Seconds of one micro batch through `block` on one tensor-parallel unit of this GPU type; all layers cost the
    /// same.
    ///
    /// Forward: each matrix product at the rate that its size allows, or at memory speed where that is slower; the
    /// other operations at memory speed. Backward: two products of each size (for the input and for the weight), and
    /// the forward again of what is recomputed. Tensor-parallel collectives are ring all-reduces (or reduce-scatter
    /// and all-gather) on the node's own link, never hidden behind compute, but where the GPU waits for the host.
    pub fn block_cost(&self, block: Block, gpu: &GpuSpec, execution: &Execution) -> Result<BlockCost, CostError> {
        self.check(gpu, execution)?;
        let roofline = Roofline::new(gpu, execution.precision);
        let work = Work::of(self.model(), block, execution, self.settings());
        let (forward_collectives, backward_collectives) = collectives(block);
        let one_s = self.collective_s(gpu, execution);
        let (forward_s, backward_s) =
            roofline.passes_s(&work, (forward_collectives * one_s, backward_collectives * one_s));
        let recompute_share = match (block, execution.recompute) {
            (Block::Layer(_), Recompute::Full) => 1.0,
            (Block::Layer(_), Recompute::Selective) => roofline.core_s(&work) / forward_s,
            _ => 0.0,
        };
        if let Some(measured) = self.measured(block, gpu, execution)? {
            let cost = from_measured(measured, recompute_share);
            let projection = if block == Block::Head { self.unmeasured_projection(gpu, execution)? } else { None };
            return Ok(projection.map_or(cost, |projection| BlockCost {
                forward: cost.forward + projection.forward,
                backward: cost.backward + projection.backward,
            }));
        }
        let repeated = if recompute_share >= 1.0 { forward_collectives } else { 0.0 };
        let forward =
            PassCost { compute_s: forward_s, recompute_s: 0.0, tensor_parallel_s: forward_collectives * one_s };
        let backward = PassCost {
            compute_s: backward_s,
            recompute_s: recompute_share * forward_s,
            tensor_parallel_s: (backward_collectives + repeated) * one_s,
        };
        Ok(BlockCost { forward, backward })
    }

    /// The vocabulary projection and the loss where a profile measures the final norm alone, as it can be where they share
    /// the embedding's matrix: an estimate whose products run at the rate at which the measured layers' products do, if
    /// everything else in these takes what is estimated.
    fn unmeasured_projection(&self, gpu: &GpuSpec, execution: &Execution) -> Result<Option<BlockCost>, CostError> {
        let Some(profile) = self.profile.as_ref().filter(|profile| !profile.is_whole()) else { return Ok(None) };
        let t = execution.tensor_parallel_size;
        let held = profile.head_parameters(t, execution.precision);
        if held.is_none_or(|held| held * u64::from(t) >= self.model().word_embedding_parameters()) {
            return Ok(None);
        }
        let layer = Block::Layer(LayerId(0));
        let Some(measured) = self.measured(layer, gpu, execution)? else { return Ok(None) };
        let roofline = Roofline::new(gpu, execution.precision);
        let parts_s = |block| roofline.parts_s(&Work::of(self.model(), block, execution, self.settings()));
        let collectives_s = 2.0 * self.collective_s(gpu, execution);
        let pass =
            |(products_s, stream_s): (f64, f64), (layer_products_s, layer_stream_s): (f64, f64), layer_s: f64| {
                let slower = (layer_s - layer_stream_s - collectives_s) / layer_products_s;
                let compute_s = products_s * slower.clamp(LEAST_SLOWER, MOST_SLOWER) + stream_s;
                PassCost { compute_s, ..PassCost::default() }
            };
        let (head, of_layer) = (parts_s(Block::Head), parts_s(layer));
        Ok(Some(BlockCost {
            forward: pass(head.0, of_layer.0, measured.forward_s),
            backward: pass(head.1, of_layer.1, measured.backward_s),
        }))
    }

    /// Seconds of the gradients of `block`'s weights: the part of its backward pass, of these costs, that doesn't have to be
    /// done before the stage before can go on (Qi et al. 2023).
    ///
    /// Each dense product of the forward pass has one of the same size for the weight and one for the input; the attention
    /// core has none for weights. Element-wise operations, collectives and what is computed again belong to the gradient
    /// of the input, but for the embedding's, which has no input that anybody waits for.
    pub fn weight_gradients_s(&self, block: Block, gpu: &GpuSpec, execution: &Execution, costs: &BlockCost) -> f64 {
        if block == Block::Embedding {
            return costs.backward.compute_s;
        }
        let work = Work::of(self.model(), block, execution, self.settings());
        let share = Roofline::new(gpu, execution.precision).weight_gradients_share(&work);
        share * costs.backward.compute_s
    }

    /// Seconds of the optimizer step on one GPU: Adam with gradient clipping, at memory speed. Where the profile has measured it, what it measured.
    pub fn optimizer_step_s(&self, gpu: &GpuSpec, parameters_per_gpu: u64, precision: Precision) -> f64 {
        let profile = self.profile.as_ref();
        if let Some(seconds) = profile.and_then(|profile| profile.optimizer_s_per_parameter(&gpu.name, precision)) {
            return seconds * parameters_per_gpu as f64;
        }
        let roofline = Roofline::new(gpu, precision);
        // Weight and two moments in fp32 are read and written, the gradient read (28 bytes). Before that the gradients' norm
        // is taken (4) and they are scaled to it (8), afterwards they are cleared (4). In half precision the weight is
        // written besides (6); in fp16 the loss's scale is taken out and overflow looked for (8).
        let bytes_per_parameter = match precision {
            Precision::Fp32 => 44,
            Precision::Bf16 => 50,
            Precision::Fp16 => 58,
        };
        roofline.stream_s((parameters_per_gpu * bytes_per_parameter) as f64)
    }

    /// What the backward pass of a block is multiplied by in the last micro batch, while gradients of the blocks behind it
    /// are reduced: one, but where the profile has measured that both get into each other's way.
    pub fn last_backward_factor(&self, gpu: &GpuSpec, precision: Precision) -> f64 {
        let profile = self.profile.as_ref();
        profile.and_then(|profile| profile.last_backward_factor(&gpu.name, precision)).unwrap_or(1.0)
    }

    fn measured(&self, block: Block, gpu: &GpuSpec, execution: &Execution) -> Result<Option<Measured>, CostError> {
        let Some(profile) = &self.profile else { return Ok(None) };
        let query = ProfileQuery {
            gpu: &gpu.name,
            precision: execution.precision,
            tensor_parallel_size: execution.tensor_parallel_size,
            micro_batch_size: execution.micro_batch_size,
        };
        Ok(profile.measured(block, query)?)
    }

    /// Seconds of one all-reduce of the residual stream over the tensor-parallel group.
    fn collective_s(&self, gpu: &GpuSpec, execution: &Execution) -> f64 {
        let bytes = self.model().tensor_parallel_bytes(execution) / 2;
        communication::ring_all_reduce_s(execution.tensor_parallel_size, bytes, gpu.intra_node)
    }
}

/// How many times as long as estimated a profile's products are believed to take.
const LEAST_SLOWER: f64 = 0.1;
const MOST_SLOWER: f64 = 2.0;

/// All-reduces of the residual stream in the forward and in the backward pass: two each in a layer (behind attention
/// and MLP, and before them on the way back); one behind the vocabulary-parallel embedding; one before the
/// vocabulary projection on the way back. The loss's all-reduces of one number a token are left out.
fn collectives(block: Block) -> (f64, f64) {
    match block {
        Block::Embedding => (1.0, 0.0),
        Block::Layer(_) => (2.0, 2.0),
        Block::Head => (0.0, 1.0),
    }
}

/// Measured times have their collectives in them, and no recomputation.
fn from_measured(measured: Measured, recompute_share: f64) -> BlockCost {
    let pass = |compute_s, recompute_s| PassCost { compute_s, recompute_s, tensor_parallel_s: 0.0 };
    BlockCost {
        forward: pass(measured.forward_s, 0.0),
        backward: pass(measured.backward_s, recompute_share * measured.forward_s),
    }
}

#[cfg(test)]
mod tests;
