use super::*;
use crate::ids::LayerId;
use crate::model::{Block, ModelSpec};

fn small() -> ModelSpec {
    ModelSpec {
        num_layers: 1,
        hidden_size: 8,
        num_attention_heads: 2,
        num_key_value_heads: 2,
        head_dim: 4,
        ffn_hidden_size: 12,
        vocab_size: 11,
        seq_length: 4,
        ..ModelSpec::preset("gpt-tiny").unwrap()
    }
}

/// Numbers without a pattern, of the size of one.
fn noise(count: usize, phase: f32) -> Vec<f32> {
    (0..count).map(|i| ((i as f32 + phase) * 12.9898).sin()).collect()
}

fn batch() -> Batch {
    Batch { inputs: vec![3, 1, 4, 1, 5, 9, 2, 6], targets: vec![1, 4, 1, 5, 9, 2, 6, 5] }
}

/// A block's pass over two samples with these parameters.
fn graph(model: &ModelSpec, block: Block, values: &[f32], input: Option<&[f32]>) -> BlockGraph {
    let shapes = shapes(model, block);
    let mut rest = values;
    let mut parameters = Vec::new();
    for shape in &shapes {
        let (own, behind) = rest.split_at(shape.len());
        parameters.push(parameter(own));
        rest = behind;
    }
    let hidden = input.map(|values| hidden(values.to_vec(), model.hidden_size as usize));
    let batch = batch();
    BlockGraph::forward(&BlockInput { model, block, shapes: &shapes, parameters: &parameters, hidden, batch: &batch })
}

/// The product of the output with `weights`, or the loss: a number whose gradient `backward` gives.
fn value(graph: &BlockGraph, weights: &[f32]) -> f64 {
    graph.loss().unwrap_or_else(|| {
        let output = numbers(graph.hidden().unwrap());
        output.iter().zip(weights).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    })
}

#[test]
fn gradients_are_what_small_changes_say() {
    let model = small();
    let weights = noise(64, 0.5);
    for block in [Block::Embedding, Block::Layer(LayerId(0)), Block::Head] {
        let length: usize = shapes(&model, block).iter().map(ParameterShape::len).sum();
        let parameters: Vec<f32> = noise(length, 0.1).iter().map(|x| 0.5 * x).collect();
        let input = (block != Block::Embedding).then(|| noise(64, 0.7));
        let gradient = (block != Block::Head).then(|| hidden(weights.clone(), 8));
        let mut sums = vec![0.0; length];
        let before = graph(&model, block, &parameters, input.as_deref()).backward(gradient, 1.0, &mut sums);
        let change = 5e-3_f32;
        let slope = |values: &mut Vec<f32>, at: usize, of: &dyn Fn(&[f32]) -> f64| {
            let old = values[at];
            let mut moved = |by: f32| {
                values[at] = old + by;
                of(values)
            };
            let slope = (moved(change) - moved(-change)) / (2.0 * f64::from(change));
            values[at] = old;
            slope
        };
        let of_parameters = |values: &[f32]| value(&graph(&model, block, values, input.as_deref()), &weights);
        for at in (0..length).step_by(7) {
            let expected = slope(&mut parameters.clone(), at, &of_parameters);
            approx::assert_relative_eq!(f64::from(sums[at]), expected, max_relative = 2e-2, epsilon = 5e-3);
        }
        let Some(input) = &input else { continue };
        let before = numbers(before.unwrap());
        let of_input = |values: &[f32]| value(&graph(&model, block, &parameters, Some(values)), &weights);
        for (at, &found) in before.iter().enumerate() {
            let expected = slope(&mut input.clone(), at, &of_input);
            approx::assert_relative_eq!(f64::from(found), expected, max_relative = 2e-2, epsilon = 5e-3);
        }
    }
}

#[test]
fn a_position_sees_itself_and_what_comes_before_it_in_its_sample() {
    let model = small();
    let block = Block::Layer(LayerId(0));
    let parameters = initial(&model, block, 3);
    let input = noise(64, 0.7);
    let mut changed = input.clone();
    // Position 2 of the first of two samples of four positions.
    changed[2 * 8] += 1.0;
    let [old, new] =
        [&input, &changed].map(|input| numbers(graph(&model, block, &parameters, Some(input)).hidden().unwrap()));
    let differs: Vec<bool> = old.chunks(8).zip(new.chunks(8)).map(|(old, new)| old != new).collect();
    assert_eq!(differs, [false, false, true, true, false, false, false, false]);
}

#[test]
fn equal_logits_cost_the_logarithm_of_the_vocabulary() {
    let model = small();
    let values = vec![0.0; shapes(&model, Block::Head).iter().map(ParameterShape::len).sum()];
    let loss = graph(&model, Block::Head, &values, Some(&noise(64, 0.7))).loss().unwrap();
    approx::assert_relative_eq!(loss, 11_f64.ln(), max_relative = 1e-6);
}
