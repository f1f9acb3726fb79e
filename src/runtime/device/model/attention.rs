//! Attention of a rank's heads, with grouped key and value heads (Ainslie et al. 2023) and rotary positions (Su et al.
//! 2021).

use super::forward::Matrix;
use super::fused::{SwapMiddle, apply, product_with_transposed};
use super::kernels::Scores;
use super::tensors::{Tensors, Tracked};
use crate::model::{Architecture, ModelSpec};
use crate::runtime::device::tensor_parallel::TensorPart;
use burn_tensor::activation::softmax;
use burn_tensor::{Tensor, TensorData};

type Heads<T> = Tensor<Tracked<T>, 4>;

/// What hides a later position: as good as minus infinity in a softmax, and never not-a-number.
const HIDDEN_SCORE: f32 = -1e9;
/// Longest period of the rotation, by 2 π, as in LLaMA.
const ROTARY_BASE: f64 = 10_000.0;

/// What each position makes of those that it sees in its sample: of all in BERT, of itself and those before it elsewhere.
pub(super) fn attention<T: Tensors>(model: &ModelSpec, part: TensorPart, inputs: [Matrix<T>; 3]) -> Matrix<T> {
    let (s, d) = (model.seq_length as usize, model.head_dim as usize);
    let heads = model.num_attention_heads as usize / part.size;
    let shared = model.num_key_value_heads as usize / part.size;
    // Query heads of a group stand below each other, as more rows of the one product with their common key head.
    let group = heads / shared;
    let rows = inputs[0].dims()[0];
    let samples = rows / s;
    let [query, key, value] = inputs;
    let query = swapped(rotated(model, query.reshape([samples, s, heads, d])));
    let query = query.reshape([samples, shared, group * s, d]);
    let key = swapped(rotated(model, key.reshape([samples, s, shared, d])));
    let value = swapped(value.reshape([samples, s, shared, d]));
    let (scores, scale) = (product_with_transposed(query, key), (d as f32).sqrt().recip());
    let is_causal = model.architecture != Architecture::Bert;
    let shares = match T::host() {
        Some(host) => apply(host, Scores { positions: s, scale, is_causal }, [scores]),
        None => softmax(masked(scores * scale, is_causal), 3),
    };
    let attended = shares.matmul(value);
    swapped(attended.reshape([samples, heads, s, d])).reshape([rows, heads * d])
}

/// Positions and heads change places.
fn swapped<T: Tensors>(heads: Heads<T>) -> Heads<T> {
    match T::host() {
        Some(host) => apply(host, SwapMiddle, [heads]),
        None => heads.swap_dims(1, 2),
    }
}

/// The scores, with those of later positions hidden from each position.
fn masked<T: Tensors>(scores: Heads<T>, is_causal: bool) -> Heads<T> {
    if !is_causal {
        return scores;
    }
    let [_, _, rows, s] = scores.dims();
    let mask = (0..rows * s).map(|at| if at % s > at / s % s { HIDDEN_SCORE } else { 0.0 });
    let mask = TensorData::new(mask.collect::<Vec<f32>>(), [1, 1, rows, s]);
    let device = scores.device();
    scores + Heads::<T>::from_data(mask, &device)
}

/// Turns each pair of a head's entries `i` and `i + d/2` by an angle in proportion to the position; the others are left.
fn rotated<T: Tensors>(model: &ModelSpec, heads: Heads<T>) -> Heads<T> {
    if model.architecture != Architecture::Llama {
        return heads;
    }
    let (s, half) = (model.seq_length as usize, model.head_dim as usize / 2);
    let angle = |at: usize| {
        let frequency = ROTARY_BASE.powf(-((at % half) as f64) / half as f64);
        (at / half) as f64 * frequency
    };
    let device = heads.device();
    let table = |of: fn(f64) -> f64| {
        let values: Vec<f32> = (0..s * half).map(|at| of(angle(at)) as f32).collect();
        Heads::<T>::from_data(TensorData::new(values, [1, s, 1, half]), &device)
    };
    let (cosine, sine) = (table(f64::cos), table(f64::sin));
    let (first, second) = (heads.clone().narrow(3, 0, half), heads.narrow(3, half, half));
    let turned_first = first.clone() * cosine.clone() - second.clone() * sine.clone();
    let turned_second = second * cosine + first * sine;
    Tensor::cat(vec![turned_first, turned_second], 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn_flex::{Flex, FlexDevice};

    /// What makes the positions relative (Su et al. 2021, equation 16): the product of a query at `i` and a key at `j` is a
    /// function of `i - j`.
    #[test]
    fn products_of_turned_heads_depend_on_their_distance_alone() {
        let model = ModelSpec { seq_length: 6, head_dim: 8, ..ModelSpec::preset("llama-tiny").unwrap() };
        let turned = |phase: f32| -> Vec<f32> {
            // The same head at each position.
            let head: Vec<f32> = (0..8).map(|i| ((i as f32 + phase) * 12.9898).sin()).collect();
            let heads = Heads::<Flex>::from_data(TensorData::new(head.repeat(6), [1, 6, 1, 8]), &FlexDevice);
            rotated(&model, heads).into_data().into_vec().unwrap()
        };
        let (queries, keys) = (turned(0.3), turned(5.7));
        let product = |i: usize, j: usize| -> f32 {
            queries[i * 8..][..8].iter().zip(&keys[j * 8..][..8]).map(|(query, key)| query * key).sum()
        };
        for distance in 0..5 {
            for later in distance..6 {
                approx::assert_relative_eq!(
                    product(later, later - distance),
                    product(distance, 0),
                    max_relative = 1e-4,
                    epsilon = 1e-5
                );
            }
        }
        assert!((product(1, 0) - product(0, 0)).abs() > 1e-3);
        // Position 1 by hand: the first pair turns by one radian.
        let (first, second) = (queries[0], queries[4]);
        approx::assert_relative_eq!(queries[8], first * 1_f32.cos() - second * 1_f32.sin(), max_relative = 1e-5);
    }
}
