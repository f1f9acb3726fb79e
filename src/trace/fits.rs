//! Distributions fitted to durations by maximum likelihood, those that were cut off counted as what they are: longer than seen.
//!
//! With `f` the density and `S` the share that lasts longer, the log-likelihood is `sum ln f(t)` over what ended plus
//! `sum ln S(t)` over what was cut off. Akaike's criterion `AIC = 2 k - 2 ln L` tells laws of `k` parameters apart: less is better.

mod normal;

use super::durations::Durations;
use serde::{Deserialize, Serialize};

/// The fewest durations that ended to which a law is fitted.
const FEWEST: usize = 3;
/// Shapes of Weibull's law that are looked at.
const SHAPES: [f64; 2] = [1e-2, 1e2];
/// The narrowest lognormal law.
const LEAST_SIGMA: f64 = 1e-6;

/// A distribution of durations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "law", rename_all = "snake_case")]
pub enum Law {
    /// As likely to end in the next second, however long it has lasted.
    Exponential {
        /// The mean.
        mean_s: f64,
    },
    /// `S(t) = exp(-(t / scale)^shape)`: the longer it has lasted the less likely it ends, for a shape below one.
    Weibull {
        /// The shape.
        shape: f64,
        /// The scale.
        scale_s: f64,
    },
    /// The logarithm is normal.
    Lognormal {
        /// The median.
        median_s: f64,
        /// The standard deviation of the logarithm.
        sigma: f64,
    },
}

/// A law with how well it fits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// The law with the parameters of largest likelihood.
    #[serde(flatten)]
    pub law: Law,
    /// The logarithm of the likelihood, of densities per second.
    pub log_likelihood: f64,
    /// Akaike's information criterion.
    pub aic: f64,
}

impl Law {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Exponential { .. } => "exponential",
            Self::Weibull { .. } => "Weibull",
            Self::Lognormal { .. } => "lognormal",
        }
    }

    /// The share that lasts longer than `t_s`.
    pub fn survival(&self, t_s: f64) -> f64 {
        self.log_survival(t_s).exp()
    }

    fn log_survival(&self, t_s: f64) -> f64 {
        match *self {
            Self::Exponential { mean_s } => -t_s / mean_s,
            Self::Weibull { shape, scale_s } => -(t_s / scale_s).powf(shape),
            Self::Lognormal { median_s, sigma } => normal::log_survival((t_s / median_s).ln() / sigma),
        }
    }

    fn log_density(&self, t_s: f64) -> f64 {
        match *self {
            Self::Exponential { mean_s } => -mean_s.ln() - t_s / mean_s,
            Self::Weibull { shape, scale_s } => {
                let log = (t_s / scale_s).ln();
                (shape / scale_s).ln() + (shape - 1.0) * log - (shape * log).exp()
            }
            Self::Lognormal { median_s, sigma } => {
                normal::log_density((t_s / median_s).ln() / sigma) - (sigma * t_s).ln()
            }
        }
    }

    fn parameters(&self) -> f64 {
        match self {
            Self::Exponential { .. } => 1.0,
            Self::Weibull { .. } | Self::Lognormal { .. } => 2.0,
        }
    }

    fn log_likelihood(&self, durations: &Durations) -> f64 {
        let ended: f64 = durations.ended_s.iter().map(|&t_s| self.log_density(t_s)).sum();
        ended + durations.censored_s.iter().map(|&t_s| self.log_survival(t_s)).sum::<f64>()
    }
}

impl Fit {
    /// The exponential, Weibull's and the lognormal law that fit best; none where fewer than three durations ended, or where
    /// all of them are alike.
    pub fn all(durations: &Durations) -> Vec<Self> {
        if durations.ended_s.len() < FEWEST {
            return Vec::new();
        }
        let laws = [Some(exponential(durations)), weibull(durations), lognormal(durations)];
        let fit = |law: Law| {
            let log_likelihood = law.log_likelihood(durations);
            Self { law, log_likelihood, aic: 2.0 * law.parameters() - 2.0 * log_likelihood }
        };
        laws.into_iter().flatten().map(fit).filter(|fit| fit.log_likelihood.is_finite()).collect()
    }

    /// The one with the least AIC.
    pub fn best(fits: &[Self]) -> Option<&Self> {
        fits.iter().min_by(|a, b| a.aic.total_cmp(&b.aic))
    }
}

/// All time over all ends.
fn exponential(durations: &Durations) -> Law {
    let all_s: f64 = durations.ended_s.iter().chain(&durations.censored_s).sum();
    Law::Exponential { mean_s: all_s / durations.ended_s.len() as f64 }
}

/// The shape `k` solves `sum t^k ln t / sum t^k - 1 / k = mean of ln t over the ends`, whose left side grows with it.
fn weibull(durations: &Durations) -> Option<Law> {
    let logs: Vec<f64> = durations.ended_s.iter().chain(&durations.censored_s).map(|t_s| t_s.ln()).collect();
    let ends = durations.ended_s.len() as f64;
    let mean = logs[..durations.ended_s.len()].iter().sum::<f64>() / ends;
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let excess = |shape: f64| {
        let weight = |log: &f64| (shape * (log - most)).exp();
        let sum: f64 = logs.iter().map(weight).sum();
        logs.iter().map(|log| weight(log) * log).sum::<f64>() / sum - 1.0 / shape - mean
    };
    let [mut low, mut high] = SHAPES;
    if excess(low) > 0.0 || excess(high) < 0.0 {
        return None;
    }
    for _ in 0..100 {
        let middle = (low * high).sqrt();
        if excess(middle) < 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    let sum: f64 = logs.iter().map(|log| (high * (log - most)).exp()).sum();
    Some(Law::Weibull { shape: high, scale_s: (most + (sum / ends).ln() / high).exp() })
}

/// By expectation and maximisation (Dempster, Laird and Rubin 1977): what was cut off counts as the mean and the mean square of
/// what is left of the normal law beyond it.
fn lognormal(durations: &Durations) -> Option<Law> {
    let ended: Vec<f64> = durations.ended_s.iter().map(|t_s| t_s.ln()).collect();
    let censored: Vec<f64> = durations.censored_s.iter().map(|t_s| t_s.ln()).collect();
    let count = (ended.len() + censored.len()) as f64;
    let sum: f64 = ended.iter().sum();
    let mut mean = sum / ended.len() as f64;
    // Squares around a fixed point, so that they don't cancel.
    let origin = mean;
    let squares: f64 = ended.iter().map(|log| (log - origin).powi(2)).sum();
    let mut sigma = (squares / ended.len() as f64).sqrt();
    if sigma < LEAST_SIGMA {
        return None;
    }
    for _ in 0..20_000 {
        let (mut first, mut second) = (sum - origin * ended.len() as f64, squares);
        for &log in &censored {
            let z = (log - mean) / sigma;
            let hazard = normal::hazard(z);
            let beyond = mean - origin;
            first += beyond + sigma * hazard;
            second += beyond.powi(2) + 2.0 * beyond * sigma * hazard + sigma.powi(2) * (1.0 + z * hazard);
        }
        let next = origin + first / count;
        let next_sigma = (second / count - (first / count).powi(2)).max(0.0).sqrt();
        let is_done =
            (next - mean).abs() < 1e-12 * (1.0 + mean.abs()) && (next_sigma - sigma).abs() < 1e-12 * (1.0 + sigma);
        (mean, sigma) = (next, next_sigma);
        if sigma < LEAST_SIGMA || !sigma.is_finite() {
            return None;
        }
        if is_done {
            break;
        }
    }
    Some(Law::Lognormal { median_s: mean.exp(), sigma })
}

#[cfg(test)]
mod tests;
