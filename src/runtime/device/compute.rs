//! What computes on a rank, and what it computes with.

use super::DeviceError;
use crate::ids::MicroBatch;
use crate::model::Block;
use crate::program::Part;
use std::collections::BTreeMap;

/// The passes of one rank's stage: tensors that compute them, or whatever takes their place.
///
/// Activations and gradients come from the [`Mailbox`](super::mailbox::Mailbox) and go there. The program's order sees to
/// it that they are there.
pub(super) trait Compute: Send {
    /// Forward pass of one micro batch.
    fn forward(&mut self, micro_batch: MicroBatch) -> Result<(), DeviceError>;

    /// Backward pass of one micro batch, whole or one block of it.
    fn backward(&mut self, micro_batch: MicroBatch, part: Part) -> Result<(), DeviceError>;

    /// Sum of the losses of this iteration's micro batches; zero without the head.
    fn loss(&self) -> f64;

    /// This rank's part of the squared norm of its replica's gradient: each parameter of the model counts on one rank of
    /// the replica. Asked for once all gradients are reduced.
    fn squared_gradient_norm(&mut self) -> f64;

    /// Moves the parameters by the gradients, which are those of the mean loss over the global batch, and forgets them.
    fn optimizer_step(&mut self, update: Update) -> Result<(), DeviceError>;

    /// Forgets what the iteration under way has left: micro batches in flight, gradients, losses. The state is that of
    /// the last optimizer step.
    fn abandon_iteration(&mut self);

    /// What was measured since it was last taken.
    fn take_measured(&mut self) -> Measured;

    /// A copy of the state, in host memory.
    fn state(&self) -> TrainingState;

    /// The state, in host memory.
    fn into_state(self: Box<Self>) -> TrainingState;
}

/// How gradients move parameters in one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Update {
    /// What gradients are multiplied by: below one where their norm was clipped.
    pub(super) gradient_scale: f32,
}

/// What a rank holds between two steps: its part of the training state.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TrainingState {
    /// Optimizer steps done.
    pub(super) step: u64,
    /// This rank's tensor-parallel part of each block of its stage.
    pub(super) blocks: BTreeMap<Block, BlockState>,
}

/// One rank's tensor-parallel part of a block: parameters and optimizer moments, each of the same length, parameters one
/// after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockState {
    /// The parameters, in fp32 (the master weights, where passes compute in another precision).
    pub values: Vec<f32>,
    /// Running mean of the gradients.
    pub mean: Vec<f32>,
    /// Running mean of the squared gradients.
    pub mean_of_squares: Vec<f32>,
}

impl BlockState {
    /// These parameters before the first step.
    pub(super) fn initial(values: Vec<f32>) -> Self {
        let zeros = vec![0.0; values.len()];
        Self { values, mean: zeros.clone(), mean_of_squares: zeros }
    }
}

/// What a rank measured itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// How long each block's passes took, one by one.
    pub(super) block_times: Vec<BlockTime>,
}

/// A pass through a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Pass {
    /// Forward.
    Forward,
    /// Backward.
    Backward,
    /// Backward of the last micro batch, while gradients of the blocks behind it are reduced.
    LastBackward,
}

/// How long one pass through one block took.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct BlockTime {
    /// The block.
    pub block: Block,
    /// Which one.
    pub pass: Pass,
    /// Its time, tensor-parallel collectives and recomputation included.
    pub seconds: f64,
}
