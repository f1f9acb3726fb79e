use super::tensors::COMPUTES_BY_TENSORS;
use super::*;
use crate::ids::LayerId;
use crate::model::Block;
use crate::runtime::device::tensor_parallel::TensorGroup;
use burn_flex::{Flex, FlexDevice};
use burn_tensor::DType;
use rstest::rstest;

const LAYER: Block = Block::Layer(LayerId(0));
const WIDTH: usize = 8;
/// Two samples of four positions.
const TOKENS: usize = 8;

/// A model of this family small enough to try every entry.
fn small(name: &str) -> ModelSpec {
    ModelSpec {
        num_layers: 1,
        hidden_size: WIDTH as u32,
        num_attention_heads: 2,
        num_key_value_heads: if name == "llama-tiny" { 1 } else { 2 },
        head_dim: 4,
        ffn_hidden_size: 12,
        vocab_size: 11,
        seq_length: 4,
        ..ModelSpec::preset(name).unwrap()
    }
}

/// Numbers without a pattern, of the size of one.
fn noise(count: usize, phase: f32) -> Vec<f32> {
    (0..count).map(|i| ((i as f32 + phase) * 12.9898).sin()).collect()
}

fn batch() -> Batch {
    let weights = vec![0.125, 0.0, 0.25, 0.125, 0.125, 0.25, 0.0, 0.125];
    Batch { inputs: vec![3, 1, 4, 1, 5, 9, 2, 6], targets: vec![1, 4, 1, 5, 9, 2, 6, 5], weights }
}

fn states(values: &[f32]) -> Hidden<Flex> {
    hidden::<Flex>(values.to_vec(), WIDTH, &FlexDevice, DType::F32)
}

/// What one block makes of two samples with these parameters, and the way back.
struct Trial<'a> {
    model: &'a ModelSpec,
    block: Block,
    recompute_attention: bool,
}

impl Trial<'_> {
    fn length(&self) -> usize {
        shapes(self.model, self.block).iter().map(parameters::ParameterShape::len).sum()
    }

    fn run<R>(
        &self,
        values: &[f32],
        input: Option<&[f32]>,
        then: impl FnOnce(&BlockInput<'_, Flex>, BlockPass<Flex>, &mut TensorGroup) -> R,
    ) -> R {
        let part = TensorPart::WHOLE;
        let shapes = shapes(self.model, self.block);
        let regions: Vec<Region> = shapes.iter().map(|shape| Region::of_part(shape, part)).collect();
        let mut rest = values;
        let mut parameters = Vec::new();
        for region in &regions {
            let (own, behind) = rest.split_at(region.len());
            parameters.push(parameter::<Flex>(own, &FlexDevice));
            rest = behind;
        }
        let Trial { model, block, recompute_attention } = *self;
        let (batch, mut group) = (batch(), TensorGroup::alone());
        let what = BlockInput {
            model,
            block,
            part,
            regions: &regions,
            parameters: &parameters,
            batch: &batch,
            tokens: TOKENS,
            rows: 0..TOKENS,
            recompute_attention,
        };
        let pass = BlockPass::forward(&what, input.map(states), &mut group).unwrap();
        then(&what, pass, &mut group)
    }

    fn output(&self, values: &[f32], input: &[f32]) -> Vec<f32> {
        self.run(values, Some(input), |_, pass, _| numbers(pass.hidden().unwrap()))
    }

    /// The product of the output with `weights`, or the loss: a number whose gradient `backward` gives.
    fn value(&self, values: &[f32], input: Option<&[f32]>, weights: &[f32]) -> f64 {
        self.run(values, input, |_, pass, _| {
            pass.loss().unwrap_or_else(|| {
                let output = numbers(pass.hidden().unwrap());
                output.iter().zip(weights).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
            })
        })
    }

    /// The gradients of parameters and input.
    fn backward(&self, values: &[f32], input: Option<&[f32]>, weights: &[f32]) -> (Vec<f32>, Option<Vec<f32>>) {
        let mut sums = GradientSums::new(shapes(self.model, self.block).len());
        let before = self.run(values, input, |what, pass, group| {
            let gradient = pass.hidden().is_some().then(|| states(weights));
            pass.backward(what, gradient, 1.0, &mut sums, group).unwrap().map(numbers)
        });
        (sums.take(), before)
    }
}

/// How `of` changes with `values[at]`.
fn slope(values: &mut [f32], at: usize, of: &dyn Fn(&[f32]) -> f64) -> f64 {
    let change = 5e-3_f32;
    let old = values[at];
    let mut moved = |by: f32| {
        values[at] = old + by;
        of(values)
    };
    let slope = (moved(change) - moved(-change)) / (2.0 * f64::from(change));
    values[at] = old;
    slope
}

#[rstest]
fn gradients_are_what_small_changes_say(
    #[values("gpt-tiny", "llama-tiny", "bert-tiny")] name: &str,
    #[values(Block::Embedding, LAYER, Block::Head)] block: Block,
    #[values(false, true)] recompute_attention: bool,
    #[values(false, true)] by_tensors: bool,
) {
    COMPUTES_BY_TENSORS.set(by_tensors);
    let model = small(name);
    let trial = Trial { model: &model, block, recompute_attention };
    let weights = noise(TOKENS * WIDTH, 0.5);
    let mut parameters: Vec<f32> = noise(trial.length(), 0.1).iter().map(|x| 0.5 * x).collect();
    let mut input = (block != Block::Embedding).then(|| noise(TOKENS * WIDTH, 0.7));
    let (sums, before) = trial.backward(&parameters, input.as_deref(), &weights);
    for (at, &found) in sums.iter().enumerate().step_by(3) {
        let of_parameters = |values: &[f32]| trial.value(values, input.as_deref(), &weights);
        let expected = slope(&mut parameters, at, &of_parameters);
        approx::assert_relative_eq!(f64::from(found), expected, max_relative = 2e-2, epsilon = 5e-3);
    }
    let Some(input) = &mut input else { return };
    for (at, &found) in before.unwrap().iter().enumerate() {
        let expected = slope(input, at, &|values| trial.value(&parameters, Some(values), &weights));
        approx::assert_relative_eq!(f64::from(found), expected, max_relative = 2e-2, epsilon = 5e-3);
    }
}

#[rstest]
#[case("gpt-tiny", [false, false, true, true])]
#[case("llama-tiny", [false, false, true, true])]
#[case("bert-tiny", [true, true, true, true])]
fn a_position_sees_what_it_may_see_of_its_sample(
    #[case] name: &str,
    #[case] seen: [bool; 4],
    #[values(false, true)] by_tensors: bool,
) {
    COMPUTES_BY_TENSORS.set(by_tensors);
    let model = small(name);
    let parameters = initial_part(&model, LAYER, TensorPart::WHOLE, 3);
    let trial = Trial { model: &model, block: LAYER, recompute_attention: false };
    let input = noise(TOKENS * WIDTH, 0.7);
    let mut changed = input.clone();
    // Position 2 of the first of two samples of four positions.
    changed[2 * WIDTH] += 1.0;
    let [old, new] = [&input, &changed].map(|input| trial.output(&parameters, input));
    let differs: Vec<bool> = old.chunks(WIDTH).zip(new.chunks(WIDTH)).map(|(old, new)| old != new).collect();
    assert_eq!(differs[..4], seen);
    assert_eq!(differs[4..], [false; 4]);
}

/// Loops and tensor operations compute the same, over a size that vector instructions don't divide.
#[rstest]
fn loops_compute_what_tensor_operations_compute(
    #[values("gpt-tiny", "llama-tiny", "bert-tiny")] name: &str,
    #[values(Block::Embedding, LAYER, Block::Head)] block: Block,
) {
    let model = small(name);
    let trial = Trial { model: &model, block, recompute_attention: false };
    let weights = noise(TOKENS * WIDTH, 0.5);
    let parameters = noise(trial.length(), 0.1);
    let input = (block != Block::Embedding).then(|| noise(TOKENS * WIDTH, 0.7));
    let [by_tensors, by_loops] = [true, false].map(|by_tensors| {
        COMPUTES_BY_TENSORS.set(by_tensors);
        let value = trial.value(&parameters, input.as_deref(), &weights);
        let (sums, before) = trial.backward(&parameters, input.as_deref(), &weights);
        (value, sums, before.unwrap_or_default())
    });
    approx::assert_relative_eq!(by_loops.0, by_tensors.0, max_relative = 1e-5);
    for (found, expected) in [(by_loops.1, by_tensors.1), (by_loops.2, by_tensors.2)] {
        let norm = |values: &[f32]| values.iter().map(|value| value * value).sum::<f32>().sqrt();
        let differences: Vec<f32> = found.iter().zip(&expected).map(|(a, b)| a - b).collect();
        assert!(norm(&differences) <= 1e-5 * norm(&expected), "{} of {}", norm(&differences), norm(&expected));
    }
}

#[rstest]
fn equal_logits_cost_the_logarithm_of_the_vocabulary(#[values("gpt-tiny", "llama-tiny", "bert-tiny")] name: &str) {
    let model = small(name);
    let trial = Trial { model: &model, block: Block::Head, recompute_attention: false };
    let loss = trial.value(&vec![0.0; trial.length()], Some(&noise(TOKENS * WIDTH, 0.7)), &[]);
    approx::assert_relative_eq!(loss, 11_f64.ln(), max_relative = 1e-6);
}
