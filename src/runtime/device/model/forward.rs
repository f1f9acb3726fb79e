//! The forward pass of each block.

use super::{FlexDevice, Tracked};
use crate::model::ModelSpec;
use burn_tensor::activation::{log_softmax, softmax};
use burn_tensor::{Int, Tensor, TensorData};

type Matrix = Tensor<Tracked, 2>;

/// What keeps the division by the deviation finite, as in GPT-2.
const NORM_EPSILON: f32 = 1e-5;
/// What hides a later position: as good as minus infinity in a softmax, and never not-a-number.
const HIDDEN_SCORE: f32 = -1e9;

/// A block's parameters as matrices, taken one after the other.
pub(super) struct Parameters<I>(pub(super) I);

impl<I: Iterator<Item = Matrix>> Parameters<I> {
    fn next(&mut self) -> Matrix {
        self.0.next().expect("a block has as many parameters as its shapes")
    }

    fn linear(&mut self, input: Matrix) -> Matrix {
        let (weight, bias) = (self.next(), self.next());
        input.matmul(weight) + bias
    }

    fn norm(&mut self, input: Matrix) -> Matrix {
        let (gain, bias) = (self.next(), self.next());
        let centred = input.clone() - input.mean_dim(1);
        let variance = (centred.clone() * centred.clone()).mean_dim(1);
        centred / (variance + NORM_EPSILON).sqrt() * gain + bias
    }
}

/// Token and position embedding; `tokens` are the samples one after the other.
pub(super) fn embedding<I: Iterator<Item = Matrix>>(
    model: &ModelSpec,
    parameters: &mut Parameters<I>,
    tokens: &[u32],
) -> Matrix {
    let (words, positions) = (parameters.next(), parameters.next());
    let (s, h) = (model.seq_length as usize, model.hidden_size as usize);
    let samples = tokens.len() / s;
    // Broadcast, not repeated: the gradient of Burn 0.21's `repeat_dim` mixes up what it adds.
    let embedded = words.select(0, indices(tokens)).reshape([samples, s, h]) + positions.unsqueeze::<3>();
    embedded.reshape([samples * s, h])
}

/// One transformer layer.
pub(super) fn layer<I: Iterator<Item = Matrix>>(
    model: &ModelSpec,
    parameters: &mut Parameters<I>,
    input: Matrix,
) -> Matrix {
    let normed = parameters.norm(input.clone());
    let [query, key, value] = std::array::from_fn(|_| parameters.linear(normed.clone()));
    let attended = attention(model, query, key, value);
    let after_attention = input + parameters.linear(attended);
    let normed = parameters.norm(after_attention.clone());
    let inner = gelu(parameters.linear(normed));
    after_attention + parameters.linear(inner)
}

/// GELU by its tanh form; the cube by products, as a power costs more than all the rest.
fn gelu(input: Matrix) -> Matrix {
    let cube = input.clone() * input.clone() * input.clone();
    let inner = (input.clone() + cube * 0.044_715) * (2.0 / std::f32::consts::PI).sqrt();
    input * (inner.tanh() + 1.0) * 0.5
}

/// Causal attention: each position sees itself and those before it in its sample.
fn attention(model: &ModelSpec, query: Matrix, key: Matrix, value: Matrix) -> Matrix {
    let (s, a, d) = (model.seq_length as usize, model.num_attention_heads as usize, model.head_dim as usize);
    let samples = query.dims()[0] / s;
    let split = |matrix: Matrix| matrix.reshape([samples, s, a, d]).swap_dims(1, 2);
    let scores = split(query).matmul(split(key).swap_dims(2, 3)) * (d as f32).sqrt().recip();
    let mask: Vec<f32> = (0..s * s).map(|at| if at % s > at / s { HIDDEN_SCORE } else { 0.0 }).collect();
    let mask = Tensor::<Tracked, 4>::from_data(TensorData::new(mask, [1, 1, s, s]), &FlexDevice);
    softmax(scores + mask, 3).matmul(split(value)).swap_dims(1, 2).reshape([samples * s, a * d])
}

/// Final norm, vocabulary projection and the mean over all tokens of what each true next token costs, in nats.
pub(super) fn head<I: Iterator<Item = Matrix>>(
    parameters: &mut Parameters<I>,
    input: Matrix,
    targets: &[u32],
) -> Tensor<Tracked, 1> {
    let normed = parameters.norm(input);
    let logits = normed.matmul(parameters.next().transpose());
    let targets: Tensor<Tracked, 2, Int> = indices(targets).unsqueeze_dim(1);
    log_softmax(logits, 1).gather(1, targets).mean().neg()
}

fn indices(tokens: &[u32]) -> Tensor<Tracked, 1, Int> {
    let values: Vec<i64> = tokens.iter().map(|&token| i64::from(token)).collect();
    let length = values.len();
    Tensor::from_data(TensorData::new(values, [length]), &FlexDevice)
}
