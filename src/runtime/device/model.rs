//! The GPT, block by block, on Burn's Flex backend: learned positions, `LayerNorm` before attention and MLP, causal
//! attention, GELU in its tanh form (Hendrycks and Gimpel 2016), no dropout.
//!
//! A block is a function of its input and its parameters, which are plain vectors elsewhere. Its graph begins and ends
//! at its borders, so that each block of each micro batch goes backward on its own.

mod forward;
mod graph;
mod parameters;

pub(super) use graph::{Batch, BlockGraph, BlockInput};
pub(super) use parameters::{ParameterShape, initial, shapes};

use burn_autodiff::Autodiff;
use burn_flex::{Flex, FlexDevice};

/// Tensors without a graph.
type Plain = Flex;
/// Tensors with one.
type Tracked = Autodiff<Flex>;
/// A vector of numbers as the blocks pass them on: `[micro_batch_size × seq_length, hidden_size]`.
pub(super) type Hidden = burn_tensor::Tensor<Plain, 2>;
/// A parameter, flat.
pub(super) type Parameter = burn_tensor::Tensor<Plain, 1>;

/// A flat tensor of these numbers.
pub(super) fn parameter(values: &[f32]) -> Parameter {
    Parameter::from_data(burn_tensor::TensorData::new(values.to_vec(), [values.len()]), &FlexDevice)
}

/// Hidden states from what came over the wire.
pub(super) fn hidden(values: Vec<f32>, width: usize) -> Hidden {
    let rows = values.len() / width;
    Hidden::from_data(burn_tensor::TensorData::new(values, [rows, width]), &FlexDevice)
}

/// The numbers of a tensor.
pub(super) fn numbers<const D: usize>(tensor: burn_tensor::Tensor<Plain, D>) -> Vec<f32> {
    tensor.into_data().into_vec().expect("all tensors here are fp32")
}

#[cfg(test)]
mod tests;
