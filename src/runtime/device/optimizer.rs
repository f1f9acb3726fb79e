//! `AdamW` (Loshchilov and Hutter 2019) in fp32, with the defaults that PyTorch has.

use serde::{Deserialize, Serialize};

/// Settings of the optimizer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdamW {
    /// Step size.
    pub learning_rate: f32,
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
        Self { learning_rate: 1e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 1e-2 }
    }
}

/// Running means of a set of parameters.
#[derive(Clone, Debug)]
pub(super) struct Moments {
    mean: Vec<f32>,
    mean_of_squares: Vec<f32>,
    steps: i32,
}

impl Moments {
    pub(super) fn new(parameters: usize) -> Self {
        Self { mean: vec![0.0; parameters], mean_of_squares: vec![0.0; parameters], steps: 0 }
    }

    /// One step: moves the parameters against their gradients.
    pub(super) fn step(&mut self, settings: &AdamW, parameters: &mut [f32], gradients: &[f32]) {
        let AdamW { learning_rate, beta1, beta2, epsilon, weight_decay } = *settings;
        assert_eq!(parameters.len(), gradients.len(), "one gradient for each parameter");
        self.steps += 1;
        let step_size = learning_rate / (1.0 - beta1.powi(self.steps));
        let root_correction = (1.0 - beta2.powi(self.steps)).sqrt();
        let moments = self.mean.iter_mut().zip(&mut self.mean_of_squares);
        for ((parameter, gradient), (mean, mean_of_squares)) in parameters.iter_mut().zip(gradients).zip(moments) {
            *mean = beta1 * *mean + (1.0 - beta1) * gradient;
            *mean_of_squares = beta2 * *mean_of_squares + (1.0 - beta2) * gradient * gradient;
            let decayed = *parameter * (1.0 - learning_rate * weight_decay);
            *parameter = decayed - step_size * *mean / (mean_of_squares.sqrt() / root_correction + epsilon);
        }
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
        let settings = AdamW { learning_rate: 0.1, ..AdamW::default() };
        let mut moments = Moments::new(1);
        let mut parameters = [1.0_f32];
        moments.step(&settings, &mut parameters, &[0.5]);
        approx::assert_relative_eq!(parameters[0], 0.899, max_relative = 1e-6);
        moments.step(&settings, &mut parameters, &[-0.5]);
        approx::assert_relative_eq!(parameters[0], 0.903_364_2, max_relative = 1e-5);
    }
}
