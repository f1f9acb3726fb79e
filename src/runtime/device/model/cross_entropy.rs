//! The loss and its gradient, over a vocabulary that the ranks of a tensor-parallel group share.
//!
//! The gradient is written out, `softmax - one_hot`, as the ranks have to speak in the middle: the largest score, then the
//! sum of the exponentials and the target's score, wherever it is.

use super::Batch;
use super::kernels::{exponentials, largest_of_rows, scale_rows};
use super::tensors::{Hidden, Host, Tensors, hidden, indices, numbers};
use crate::runtime::device::tensor_parallel::TensorGroup;
use crate::runtime::device::transport::TransportError;
use burn_tensor::{DType, IndexingUpdateOp, Tensor, TensorData};
use std::ops::Range;

/// Mean loss of a micro batch, in nats, and its gradient by the scores.
pub(super) struct Loss<T: Tensors> {
    pub(super) value: f64,
    gradient: Hidden<T>,
}

impl<T: Tensors> Loss<T> {
    /// The gradient, where the loss counts so much.
    pub(super) fn gradient_scaled(self, weight: f32) -> Hidden<T> {
        if weight.to_bits() == 1.0_f32.to_bits() { self.gradient } else { self.gradient * weight }
    }
}

/// The loss of scores `[tokens, own.len()]`; `own` is the rank's part of the vocabulary.
pub(super) fn cross_entropy<T: Tensors>(
    logits: Hidden<T>,
    batch: &Batch,
    own: &Range<usize>,
    group: &mut TensorGroup,
) -> Result<Loss<T>, TransportError> {
    let targets = Targets { batch, own };
    match T::host() {
        Some(host) => targets.loss_on_host(host, logits, group),
        None => targets.loss(logits, group),
    }
}

/// What is to be predicted, and the rank's part of the vocabulary.
struct Targets<'a> {
    batch: &'a Batch,
    own: &'a Range<usize>,
}

impl Targets<'_> {
    /// Where a token stands in the rank's part of the vocabulary, if it does.
    fn place(&self, token: u32) -> Option<usize> {
        (token as usize).checked_sub(self.own.start).filter(|&column| column < self.own.len())
    }

    /// Mean loss, from each prediction's sum of exponentials and score of the target.
    fn value(&self, sums: &[f32]) -> f64 {
        let costs = sums.chunks_exact(2).map(|pair| f64::from(pair[0]).ln() - f64::from(pair[1]));
        costs.zip(&self.batch.weights).map(|(cost, &weight)| cost * f64::from(weight)).sum()
    }

    fn loss<T: Tensors>(&self, logits: Hidden<T>, group: &mut TensorGroup) -> Result<Loss<T>, TransportError> {
        let Batch { targets, weights, .. } = self.batch;
        let (float, device) = (logits.dtype(), logits.device());
        let tokens = targets.len();
        // In fp32 whatever the scores are in: a softmax over a vocabulary is where bf16 loses most.
        let logits = logits.cast(DType::F32);
        let column =
            |values: Vec<f32>| Hidden::<T>::from_data(TensorData::new(values, [tokens, 1]), (&device, DType::F32));
        let is_own = |token: &u32| f32::from(u8::from(self.place(*token).is_some()));
        let places = indices::<T>(targets.iter().map(|&token| self.place(token).unwrap_or(0)), &device);
        let places = places.reshape([tokens, 1]);

        let largest = group.max(logits.clone().max_dim(1))?;
        let shifted = logits - largest;
        let exponentials = shifted.clone().exp();
        let found = shifted.gather(1, places.clone()) * column(targets.iter().map(is_own).collect());
        let sums = group.sum(Tensor::cat(vec![exponentials.clone().sum_dim(1), found], 1))?;

        let value = self.value(&numbers(sums.clone()));
        let scale = column(weights.clone()) / sums.narrow(1, 0, 1);
        let of_targets = targets.iter().zip(weights).map(|(token, weight)| -weight * is_own(token));
        let gradient = (exponentials * scale).scatter(1, places, column(of_targets.collect()), IndexingUpdateOp::Add);
        Ok(Loss { value, gradient: gradient.cast(float) })
    }

    /// The same by loops: each score is read twice and written twice.
    fn loss_on_host<T: Tensors>(
        &self,
        host: Host<T>,
        logits: Hidden<T>,
        group: &mut TensorGroup,
    ) -> Result<Loss<T>, TransportError> {
        let Batch { targets, weights, .. } = self.batch;
        let (width, device) = (self.own.len(), logits.device());
        let states = |values, width| hidden::<T>(values, width, &device, DType::F32);
        let logits = (host.into)(logits.into_primitive().tensor()).to_contiguous();
        let logits = logits.storage::<f32>();

        let largest = numbers(group.max(states(largest_of_rows(logits, width), 1))?);
        let (mut gradient, sums) = exponentials(logits, width, &largest);
        let found = targets.iter().zip(logits.chunks_exact(width)).zip(&largest);
        let found = found.map(|((&token, row), largest)| self.place(token).map_or(0.0, |place| row[place] - largest));
        let pairs = sums.into_iter().zip(found).flat_map(|(sum, found)| [sum, found]);
        let sums = numbers(group.sum(states(pairs.collect(), 2))?);

        let factors: Vec<f32> =
            weights.iter().zip(sums.chunks_exact(2)).map(|(weight, pair)| weight / pair[0]).collect();
        scale_rows(&mut gradient, width, &factors);
        for ((row, &token), weight) in gradient.chunks_exact_mut(width).zip(targets).zip(weights) {
            if let Some(place) = self.place(token) {
                row[place] -= weight;
            }
        }
        Ok(Loss { value: self.value(&sums), gradient: states(gradient, width) })
    }
}
