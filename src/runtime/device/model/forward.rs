//! What each piece computes.

use super::attention::attention;
use super::fused::{AddRow, Gelu, LayerNorm, RmsNorm, apply};
use super::kernels::NORM_EPSILON;
use super::pieces::Kind;
use super::tensors::{Tensors, Tracked, indices};
use super::{Batch, BlockInput, vocabulary};
use crate::model::{Architecture, ModelSpec};
use burn_tensor::activation::sigmoid;
use burn_tensor::{Tensor, TensorData};

pub(super) type Matrix<T> = Tensor<Tracked<T>, 2>;

/// A piece's parameters as matrices, taken one after the other.
pub(super) struct Parameters<'a, T: Tensors> {
    model: &'a ModelSpec,
    rest: std::vec::IntoIter<Matrix<T>>,
}

impl<'a, T: Tensors> Parameters<'a, T> {
    pub(super) fn new(model: &'a ModelSpec, parameters: Vec<Matrix<T>>) -> Self {
        Self { model, rest: parameters.into_iter() }
    }

    fn next(&mut self) -> Matrix<T> {
        self.rest.next().expect("a piece has as many parameters as it takes")
    }

    /// The product with a matrix, and its bias, in families with biases.
    fn linear(&mut self, input: Matrix<T>) -> Matrix<T> {
        let product = input.matmul(self.next());
        self.biased(product)
    }

    fn biased(&mut self, sum: Matrix<T>) -> Matrix<T> {
        if !self.model.architecture.has_bias() {
            return sum;
        }
        match T::host() {
            Some(host) => apply(host, AddRow, [sum, self.next()]),
            None => sum + self.next(),
        }
    }

    /// `LayerNorm`, or `RMSNorm` (Zhang and Sennrich 2019) in families without biases.
    fn norm(&mut self, input: Matrix<T>) -> Matrix<T> {
        if !self.model.architecture.has_bias() {
            let gain = self.next();
            if let Some(host) = T::host() {
                return apply(host, RmsNorm, [input, gain]);
            }
            let mean_square = (input.clone() * input.clone()).mean_dim(1);
            return input / (mean_square + NORM_EPSILON).sqrt() * gain;
        }
        let (gain, bias) = (self.next(), self.next());
        if let Some(host) = T::host() {
            return apply(host, LayerNorm, [input, gain, bias]);
        }
        let centred = input.clone() - input.mean_dim(1);
        let variance = (centred.clone() * centred.clone()).mean_dim(1);
        centred / (variance + NORM_EPSILON).sqrt() * gain + bias
    }
}

/// What a piece gives: a new residual, if it changes it, and a new branch, if it makes one.
pub(super) struct Given<T: Tensors> {
    pub(super) residual: Option<Matrix<T>>,
    pub(super) branch: Vec<Matrix<T>>,
}

/// A piece's forward pass.
pub(super) fn run<T: Tensors>(
    kind: Kind,
    what: &BlockInput<'_, T>,
    mut parameters: Parameters<'_, T>,
    residual: Option<Matrix<T>>,
    branch: Vec<Matrix<T>>,
) -> Given<T> {
    let model = what.model;
    let mut branch = branch.into_iter();
    let mut next = || branch.next().expect("the pieces before gave a branch");
    let residual = || residual.expect("the pieces before gave a residual");
    let branched = |branch: Matrix<T>| Given { residual: None, branch: vec![branch] };
    let added = |residual: Matrix<T>| Given { residual: Some(residual), branch: Vec::new() };
    match kind {
        Kind::Words => branched(words(what, parameters.next())),
        Kind::Positions => added(positions(what, &mut parameters, next())),
        Kind::Norm => branched(parameters.norm(residual())),
        Kind::Fork => branched(residual()),
        Kind::QueryKeyValue => {
            let input = next();
            let branch = (0..3).map(|_| parameters.linear(input.clone())).collect();
            Given { residual: None, branch }
        }
        Kind::Attention => branched(attention(model, what.part, [next(), next(), next()])),
        Kind::Project => branched(next().matmul(parameters.next())),
        Kind::Add => added(parameters.biased(residual() + next())),
        Kind::AddAndNorm => {
            let sum = parameters.biased(residual() + next());
            added(parameters.norm(sum))
        }
        Kind::Mlp => branched(mlp(model, &mut parameters, next())),
        Kind::Transform => {
            let dense = parameters.linear(residual());
            branched(parameters.norm(gelu(dense)))
        }
        Kind::Logits => {
            let scores = next().matmul(parameters.next().transpose());
            let has_bias = model.architecture == Architecture::Bert;
            branched(if has_bias { parameters.biased(scores) } else { scores })
        }
    }
}

/// The rows of the rank's part of the word matrix, zeros for tokens of others.
fn words<T: Tensors>(what: &BlockInput<'_, T>, matrix: Matrix<T>) -> Matrix<T> {
    let Batch { inputs, .. } = what.batch;
    let own = vocabulary(what.model, what.part);
    let device = matrix.device();
    let place = |token: &u32| (*token as usize).checked_sub(own.start).filter(|&row| row < own.len());
    let count = inputs.len();
    let rows = inputs.iter().map(|token| place(token).unwrap_or(0));
    let found = matrix.select(0, indices::<Tracked<T>>(rows, &device));
    if what.part.size == 1 {
        return found;
    }
    let is_own: Vec<f32> = inputs.iter().map(|token| f32::from(u8::from(place(token).is_some()))).collect();
    found * Tensor::<Tracked<T>, 2>::from_data(TensorData::new(is_own, [count, 1]), &device)
}

fn positions<T: Tensors>(what: &BlockInput<'_, T>, parameters: &mut Parameters<'_, T>, words: Matrix<T>) -> Matrix<T> {
    let (model, rows) = (what.model, &what.rows);
    if model.architecture == Architecture::Llama {
        return words;
    }
    let (s, h) = (model.seq_length as usize, model.hidden_size as usize);
    let matrix = parameters.next();
    let embedded = if rows.len() == what.tokens {
        // Broadcast, not repeated: the gradient of Burn 0.21's `repeat_dim` mixes up what it adds.
        let embedded = words.reshape([rows.len() / s, s, h]) + matrix.unsqueeze::<3>();
        embedded.reshape([rows.len(), h])
    } else {
        let places = indices::<Tracked<T>>(rows.clone().map(|row| row % s), &words.device());
        words + matrix.select(0, places)
    };
    if model.architecture == Architecture::Gpt {
        return embedded;
    }
    // All tokens are of the first of the two types: there are no pairs of sentences here.
    let types = parameters.next();
    parameters.norm(embedded + types.narrow(0, 0, 1))
}

fn mlp<T: Tensors>(model: &ModelSpec, parameters: &mut Parameters<'_, T>, input: Matrix<T>) -> Matrix<T> {
    let inner = if model.gated_mlp {
        let gate = parameters.linear(input.clone());
        let up = parameters.linear(input);
        gate.clone() * sigmoid(gate) * up
    } else {
        gelu(parameters.linear(input))
    };
    inner.matmul(parameters.next())
}

/// GELU by its tanh form; the cube by products, as a power costs more than all the rest.
fn gelu<T: Tensors>(input: Matrix<T>) -> Matrix<T> {
    if let Some(host) = T::host() {
        return apply(host, Gelu, [input]);
    }
    let cube = input.clone() * input.clone() * input.clone();
    let inner = (input.clone() + cube * 0.044_715) * (2.0 / std::f32::consts::PI).sqrt();
    input * (inner.tanh() + 1.0) * 0.5
}
