//! Blocks that were measured one by one, with what they hold.

use super::{LayerProfile, Measured, ProfileQuery};
use crate::model::Precision;
use serde::{Deserialize, Serialize};

/// One block as it was measured by itself, on the GPUs of one tensor-parallel group.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MeasuredBlock {
    /// Seconds of the forward pass of one micro batch.
    pub forward_s: f64,
    /// Seconds of its backward pass.
    pub backward_s: f64,
    /// What one GPU holds for it; estimated where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<BlockMemory>,
}

/// What one GPU of a tensor-parallel group holds for a block, in numbers, which the precision turns into bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BlockMemory {
    /// Its parameters.
    pub parameters: u64,
    /// Activations stored for the backward pass, for each sample of a micro batch, without recomputation.
    pub stored_activations: u64,
    /// Activations that it hands on, for each sample.
    pub output_activations: u64,
}

impl LayerProfile {
    /// All blocks from the embedding to the head as they were measured one by one, and the optimizer step that was
    /// measured with them. `None` unless just this point was measured, and block by block.
    pub fn blocks(&self, query: ProfileQuery) -> Option<(&[MeasuredBlock], f64)> {
        let curve = self.curves.iter().find(|curve| curve.matches(query))?;
        let (_, entry) = curve.points.iter().find(|(size, _)| *size == query.micro_batch_size)?;
        Some((entry.blocks.as_slice(), entry.optimizer_step_s?)).filter(|(blocks, _)| !blocks.is_empty())
    }

    /// What one GPU of a tensor-parallel group of this degree holds for each block, from the embedding to the head. It
    /// doesn't depend on the type, and is that of the first type that was measured at this degree.
    pub fn memory(&self, tensor_parallel_size: u32, precision: Precision) -> Option<impl Iterator<Item = BlockMemory>> {
        let of_degree =
            |curve: &&super::Curve| curve.tensor_parallel_size == tensor_parallel_size && curve.precision == precision;
        let entries = self.curves.iter().filter(of_degree).flat_map(|curve| &curve.points);
        let held = |blocks: &&Vec<MeasuredBlock>| !blocks.is_empty() && blocks.iter().all(|b| b.memory.is_some());
        let blocks = entries.map(|(_, entry)| &entry.blocks).find(held)?;
        Some(blocks.iter().filter_map(|block| block.memory))
    }

    /// Parameters of the head on one GPU of a tensor-parallel group of this degree, where that was measured.
    pub fn head_parameters(&self, tensor_parallel_size: u32, precision: Precision) -> Option<u64> {
        Some(self.memory(tensor_parallel_size, precision)?.last()?.parameters)
    }

    /// Parameters of the embedding over all GPUs of a group, where that was measured at some degree.
    pub fn embedding_parameters(&self) -> Option<u64> {
        let curves = self.curves.iter().filter_map(|curve| {
            let block = curve.points.iter().find_map(|(_, entry)| entry.blocks.first()?.memory)?;
            Some((curve.tensor_parallel_size, block.parameters))
        });
        curves.min().map(|(degree, parameters)| parameters * u64::from(degree))
    }

    /// Blocks of the model as far as some were measured one by one: its layers and both ends.
    pub(super) fn block_count(&self) -> Option<usize> {
        let entries = self.curves.iter().flat_map(|curve| &curve.points);
        entries.map(|(_, entry)| entry.blocks.len()).find(|count| *count > 0)
    }
}

impl MeasuredBlock {
    pub(super) fn time(&self) -> Measured {
        Measured { forward_s: self.forward_s, backward_s: self.backward_s }
    }
}
