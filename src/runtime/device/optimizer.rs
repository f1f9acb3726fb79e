//! `AdamW` (Loshchilov and Hutter 2019) in fp32, with the defaults that PyTorch has, and its step size over time.

use super::compute::BlockState;
use pulp::Arch;
use serde::{Deserialize, Serialize};

/// Settings of the optimizer, beside its step size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdamW {
    /// Decay of the mean of gradients.
    pub beta1: f32,
    /// Decay of the mean of squared gradients.
    pub beta2: f32,
    /// What keeps the division finite.
    pub epsilon: f32,
    /// Share of each weight that is taken off per unit of step size.
    pub weight_decay: f32,
}

impl Default for AdamW {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 1e-2 }
    }
}

/// The step size of each step: a linear rise to its peak, then half a period of a cosine down to its minimum (Loshchilov
/// and Hutter 2017), where it stays.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LearningRate {
    /// The largest.
    pub peak: f32,
    /// Steps of the rise; step `k` of `n` has `k/n` of the peak.
    pub warmup_steps: u64,
    /// Step, counted from the first, at which the minimum is reached; the peak stays if none.
    pub decay_steps: Option<u64>,
    /// The smallest after the rise.
    pub minimum: f32,
}

impl LearningRate {
    /// The same in all steps.
    pub fn constant(peak: f32) -> Self {
        Self { peak, warmup_steps: 0, decay_steps: None, minimum: 0.0 }
    }

    /// That of step number `step`, from one.
    pub fn at(&self, step: u64) -> f32 {
        if step < self.warmup_steps {
            return self.peak * step as f32 / self.warmup_steps as f32;
        }
        let Some(end) = self.decay_steps else { return self.peak };
        let length = end.saturating_sub(self.warmup_steps).max(1);
        let done = ((step - self.warmup_steps) as f64 / length as f64).min(1.0);
        let share = 0.5 * (1.0 + (std::f64::consts::PI * done).cos());
        self.minimum + (self.peak - self.minimum) * share as f32
    }
}

impl Default for LearningRate {
    fn default() -> Self {
        Self::constant(1e-3)
    }
}

/// What gradients are multiplied by so that the norm of the whole model's is at most `clip_norm`, as PyTorch does it; the
/// square of the norm is the sum over the ranks of one replica.
pub(super) fn gradient_scale(squared_norm: f64, clip_norm: Option<f32>) -> f32 {
    let scale = |clip_norm: f32| (f64::from(clip_norm) / (squared_norm.sqrt() + 1e-6)).min(1.0) as f32;
    clip_norm.map_or(1.0, scale)
}

/// One step of the optimizer: what is the same for all parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct OptimizerStep {
    /// Its number, from one.
    pub(super) number: u64,
    /// Step size.
    pub(super) learning_rate: f32,
    /// What gradients are multiplied by.
    pub(super) gradient_scale: f32,
}

impl AdamW {
    /// Moves the parameters against their gradients.
    pub(super) fn step(&self, step: OptimizerStep, state: &mut BlockState, gradients: &[f32]) {
        let Self { beta1, beta2, epsilon, weight_decay } = *self;
        let BlockState { values, mean, mean_of_squares } = state;
        assert_eq!(values.len(), gradients.len(), "one gradient for each parameter");
        let number = i32::try_from(step.number).unwrap_or(i32::MAX);
        let step_size = step.learning_rate / (1.0 - beta1.powi(number));
        let root_correction = (1.0 - beta2.powi(number)).sqrt();
        let kept = 1.0 - step.learning_rate * weight_decay;
        let moments = mean.iter_mut().zip(mean_of_squares);
        let parameters = values.iter_mut().zip(gradients).zip(moments);
        // With the widest vector instructions that this CPU has.
        Arch::new().dispatch(|| {
            for ((parameter, gradient), (mean, mean_of_squares)) in parameters {
                let gradient = gradient * step.gradient_scale;
                *mean = beta1 * *mean + (1.0 - beta1) * gradient;
                *mean_of_squares = beta2 * *mean_of_squares + (1.0 - beta2) * gradient * gradient;
                let deviation = mean_of_squares.sqrt() / root_correction + epsilon;
                *parameter = *parameter * kept - step_size * *mean / deviation;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_steps_by_hand() {
        // p = 1, lr = 0.1, decay 0.01. Step 1, g = 0.5: m/bc1 = 0.5, sqrt(v/bc2) = 0.5, p = 0.999 - 0.1 = 0.899.
        // Step 2, g = -0.5: m = 0.9 * 0.05 - 0.05 = -0.005, bc1 = 0.19, sqrt(v/bc2) = 0.5 as g² is the same;
        // p = 0.899 * 0.999 + 0.1 * (0.005 / 0.19) / 0.5 = 0.898101 + 0.005263158 = 0.903364158.
        let settings = AdamW::default();
        let step = |number, gradient_scale| OptimizerStep { number, learning_rate: 0.1, gradient_scale };
        let mut state = BlockState::initial(vec![1.0]);
        settings.step(step(1, 1.0), &mut state, &[0.5]);
        approx::assert_relative_eq!(state.values[0], 0.899, max_relative = 1e-6);
        settings.step(step(2, 0.1), &mut state, &[-5.0]);
        approx::assert_relative_eq!(state.values[0], 0.903_364_2, max_relative = 1e-5);
    }

    #[test]
    fn a_norm_is_clipped_from_above_only() {
        approx::assert_relative_eq!(gradient_scale(25.0, Some(1.0)), 0.2, max_relative = 1e-6);
        let unchanged = [(25.0, None), (25.0, Some(6.0)), (0.0, Some(1.0))];
        assert!(unchanged.iter().all(|&(norm, clip)| gradient_scale(norm, clip).to_bits() == 1_f32.to_bits()));
    }

    #[test]
    fn the_step_size_rises_and_falls() {
        let rate = LearningRate { peak: 1.0, warmup_steps: 4, decay_steps: Some(12), minimum: 0.2 };
        // Between its ends the cosine is at a half in the middle, and (1 + cos 45°) / 2 = 0.853553 after a quarter.
        for (step, expected) in [(1, 0.25), (3, 0.75), (4, 1.0), (6, 0.882_843), (8, 0.6), (12, 0.2), (99, 0.2)] {
            approx::assert_relative_eq!(rate.at(step), expected, max_relative = 1e-6);
        }
        let constant = LearningRate::constant(0.5);
        assert!([1, 7, 1_000_000].iter().all(|&step| constant.at(step).to_bits() == 0.5_f32.to_bits()));
    }
}
