//! The models, block by block, on any backend of the tensor library.
//!
//! GPT: learned positions, `LayerNorm` before attention and MLP, causal attention, GELU in its tanh form (Hendrycks and
//! Gimpel 2016). LLaMA (Touvron et al. 2023): `RMSNorm`, rotary positions, `SwiGLU`, grouped key and value heads, no
//! biases. BERT (Devlin et al. 2019): attention to all positions, norms after the additions, as published, and the loss of
//! masked tokens. No dropout.
//!
//! A block is a function of its input and its parameters, which are plain vectors elsewhere. It is computed in pieces whose
//! graphs begin and end at their borders, so that each block of each micro batch goes backward on its own, and no
//! collective ever happens inside a backward pass.

mod attention;
mod cross_entropy;
mod forward;
mod fused;
mod graph;
mod initial;
mod kernels;
mod parameters;
mod pieces;
mod shards;
mod tensors;

pub(super) use graph::{BlockInput, BlockPass, GradientSums};
#[cfg(test)]
pub(super) use parameters::ParameterShape;
pub(super) use parameters::{Cut, WORDS_IN_EMBEDDING, shapes, words_in_head};
pub(super) use shards::{Region, assemble_state, cut_part, cut_state, initial_part, paste_part, slices};
#[cfg(test)]
pub(super) use shards::{assemble, cut_slice};
pub(super) use tensors::{Hidden, Parameter, Tensors, hidden, numbers, parameter};

use super::tensor_parallel::TensorPart;
use crate::model::ModelSpec;
use std::ops::Range;

/// The tokens of a micro batch, sample by sample.
#[derive(Clone, Debug, Default)]
pub(super) struct Batch {
    /// What the model sees.
    pub(super) inputs: Vec<u32>,
    /// What it is to predict at each of them.
    pub(super) targets: Vec<u32>,
    /// What each prediction counts in the mean loss of the micro batch; they add up to one.
    pub(super) weights: Vec<f32>,
}

/// A rank's part of the vocabulary.
fn vocabulary(model: &ModelSpec, part: TensorPart) -> Range<usize> {
    let words = shapes(model, crate::model::Block::Embedding)[WORDS_IN_EMBEDDING];
    Region::of_part(&words, part).rows
}

#[cfg(test)]
mod tests;
