//! A block as its stage holds it: state, and what that is as tensors.

use crate::model::{Block, ModelSpec, Recompute};
use crate::runtime::device::compute::BlockState;
use crate::runtime::device::model::{
    Batch, BlockInput, Cut, Parameter, Region, Tensors, parameter, shapes, words_in_head,
};
use crate::runtime::device::tensor_parallel::{TensorGroup, TensorPart};
use crate::runtime::device::transport::TransportError;

/// A block of the stage.
pub(super) struct HeldBlock<T: Tensors> {
    pub(super) block: Block,
    /// Where the rank's part of each parameter lies in the whole.
    pub(super) regions: Vec<Region>,
    /// Whether each parameter is shared by those who share the stage, or all of them hold it.
    is_cut: Vec<bool>,
    /// Whether each parameter counts here in the norm of the replica's gradient: on one rank of those that hold it.
    counts: Vec<bool>,
    pub(super) state: BlockState,
    /// The values of the state, as tensors.
    parameters: Vec<Parameter<T>>,
}

impl<T: Tensors> HeldBlock<T> {
    pub(super) fn new(
        model: &ModelSpec,
        block: Block,
        part: TensorPart,
        state: BlockState,
        device: &T::Device,
    ) -> Self {
        let shapes = shapes(model, block);
        let regions: Vec<Region> = shapes.iter().map(|shape| Region::of_part(shape, part)).collect();
        // The words of a tied head are those of the embedding, which count there.
        let tied = (model.tie_word_embeddings && block == Block::Head).then(|| words_in_head(model));
        let is_cut: Vec<bool> = shapes.iter().map(|shape| shape.cut != Cut::Replicated).collect();
        let counts = is_cut.iter().enumerate();
        let counts = counts.map(|(at, is_cut)| Some(at) != tied && (*is_cut || part.rank == 0)).collect();
        let parameters = tensors(&regions, &state.values, device);
        Self { block, regions, is_cut, counts, state, parameters }
    }

    /// The parameters as the state has them.
    pub(super) fn renew(&mut self, device: &T::Device) {
        self.parameters = tensors(&self.regions, &self.state.values, device);
    }

    /// What its passes take, over a micro batch of so many tokens.
    pub(super) fn input<'a>(
        &'a self,
        model: &'a ModelSpec,
        batch: &'a Batch,
        recompute: Recompute,
        group: &TensorGroup,
        tokens: usize,
    ) -> BlockInput<'a, T> {
        BlockInput {
            model,
            block: self.block,
            part: group.part,
            regions: &self.regions,
            parameters: &self.parameters,
            batch,
            tokens,
            rows: group.rows(tokens),
            recompute_attention: recompute == Recompute::Selective,
        }
    }

    /// Completes the gradients of what all those hold who share the stage, where each knows a part.
    pub(super) fn complete(&self, gradients: &mut [f32], group: &mut TensorGroup) -> Result<(), TransportError> {
        let mut rest = gradients;
        for (region, &is_cut) in self.regions.iter().zip(&self.is_cut) {
            let (own, behind) = rest.split_at_mut(region.len());
            rest = behind;
            if !is_cut {
                group.sum_replicated(own)?;
            }
        }
        Ok(())
    }

    /// The squared norm of those of these gradients that count here.
    pub(super) fn squared_norm(&self, gradients: &[f32]) -> f64 {
        let mut rest = gradients;
        let mut sum = 0.0;
        for (region, &counts) in self.regions.iter().zip(&self.counts) {
            let (own, behind) = rest.split_at(region.len());
            rest = behind;
            if counts {
                sum += squared_norm(own);
            }
        }
        sum
    }
}

/// In eight sums, so that none of the additions waits for the one before.
fn squared_norm(values: &[f32]) -> f64 {
    let square = |value: &f32| f64::from(*value) * f64::from(*value);
    let chunks = values.chunks_exact(8);
    let tail: f64 = chunks.remainder().iter().map(square).sum();
    let mut sums = [0.0; 8];
    for chunk in chunks {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += square(value);
        }
    }
    sums.iter().sum::<f64>() + tail
}

/// The parameters that lie one after the other in `values`.
fn tensors<T: Tensors>(regions: &[Region], values: &[f32], device: &T::Device) -> Vec<Parameter<T>> {
    let mut rest = values;
    let mut take = |region: &Region| {
        let (values, behind) = rest.split_at(region.len());
        rest = behind;
        parameter::<T>(values, device)
    };
    regions.iter().map(&mut take).collect()
}
