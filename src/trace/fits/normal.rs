//! The standard normal law, far out as well as near.

use std::f64::consts::TAU;

/// From here on the continued fraction is exact to the last digits.
const FAR: f64 = 4.0;
const TERMS: u32 = 120;

/// `ln` of the density.
pub(super) fn log_density(z: f64) -> f64 {
    -0.5 * (z * z + TAU.ln())
}

/// `ln` of the share above `z`.
pub(super) fn log_survival(z: f64) -> f64 {
    if z >= FAR { log_density(z) + mills(z).ln() } else { survival(z).ln() }
}

/// The density over the share above: what remains is this much more likely to end here.
pub(super) fn hazard(z: f64) -> f64 {
    if z >= FAR { 1.0 / mills(z) } else { log_density(z).exp() / survival(z) }
}

/// The share above `z`, for `z` below `FAR`: one half less the series `density × sum z^(2n+1) / (2n+1)!!`, all of whose terms have
/// one sign.
fn survival(z: f64) -> f64 {
    if z < -FAR {
        return 1.0 - (log_density(z).exp() * mills(-z));
    }
    let (mut term, mut sum, mut odd) = (z, z, 1.0);
    while term.abs() > 1e-17 * sum.abs() {
        odd += 2.0;
        term *= z * z / odd;
        sum += term;
    }
    0.5 - log_density(z).exp() * sum
}

/// The share above over the density (Mills' ratio), for large `z`: `1 / (z + 1 / (z + 2 / (z + 3 / …)))`.
fn mills(z: f64) -> f64 {
    let tail = (1..=TERMS).rev().fold(z, |below, term| z + f64::from(term) / below);
    1.0 / tail
}

#[cfg(test)]
mod tests {
    use super::*;
    use approx::assert_relative_eq;

    #[test]
    fn shares_are_those_of_the_tables() {
        // Abramowitz and Stegun, table 26.1 and 26.2.
        for (z, share) in
            [(0.0, 0.5), (1.0, 0.158_655_253_931_457), (2.0, 0.022_750_131_948_179), (3.0, 0.001_349_898_031_630)]
        {
            assert_relative_eq!(log_survival(z).exp(), share, max_relative = 1e-12);
            assert_relative_eq!(log_survival(-z).exp(), 1.0 - share, max_relative = 1e-12);
        }
        assert_relative_eq!(log_survival(5.0).exp(), 2.866_515_719e-7, max_relative = 1e-9);
        assert_relative_eq!(log_survival(10.0).exp(), 7.619_853_024e-24, max_relative = 1e-9);
    }

    #[test]
    fn near_and_far_meet() {
        assert_relative_eq!(survival(FAR), log_density(FAR).exp() * mills(FAR), max_relative = 1e-9);
        assert_relative_eq!(hazard(FAR - 1e-9), hazard(FAR), max_relative = 1e-8);
        // Far out the hazard is z + 1 / z, nearly.
        assert_relative_eq!(hazard(1e4), 1e4 + 1e-4, max_relative = 1e-9);
        assert!(hazard(-40.0) < 1e-300 && log_survival(-40.0).abs() < 1e-300);
    }
}
