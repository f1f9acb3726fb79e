//! How far predictions are from measurements.

use super::Record;
use serde::Serialize;
use std::collections::BTreeMap;

/// Runs of one model that are needed to compare ranks.
const LEAST_RANKED: usize = 3;

/// Errors of several predictions, as fractions of the measured values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Errors {
    /// How many there are.
    pub count: usize,
    /// Mean of the absolute errors.
    pub mape: f64,
    /// Median of the absolute errors.
    pub median: f64,
    /// 90th percentile of the absolute errors, between ranks by linear interpolation.
    pub p90: f64,
    /// Largest absolute error.
    pub max: f64,
    /// Mean of the signed errors: above zero where predictions are too high.
    pub bias: f64,
    /// Spearman's correlation of ranks over configurations of one model, averaged over models by their number of
    /// configurations; `None` where no model has three.
    pub rank_correlation: Option<f64>,
}

impl Errors {
    /// The errors of some records; `None` of none.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Option<Self> {
        let records: Vec<&Record> = records.into_iter().collect();
        if records.is_empty() {
            return None;
        }
        let count = records.len();
        let mut absolute: Vec<f64> = records.iter().map(|record| record.error.abs()).collect();
        absolute.sort_by(f64::total_cmp);
        Some(Self {
            count,
            mape: absolute.iter().sum::<f64>() / count as f64,
            median: quantile(&absolute, 0.5),
            p90: quantile(&absolute, 0.9),
            max: absolute[count - 1],
            bias: records.iter().map(|record| record.error).sum::<f64>() / count as f64,
            rank_correlation: rank_correlation(&records),
        })
    }
}

/// Of ascending values, that below which this share of them lies.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + place.fract() * (above - below)
}

fn rank_correlation(records: &[&Record]) -> Option<f64> {
    let mut groups: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for record in records {
        groups.entry(&record.group).or_default().push((record.measured, record.predicted));
    }
    let ranked = groups.values().filter(|pairs| pairs.len() >= LEAST_RANKED);
    let weighted = ranked.filter_map(|pairs| spearman(pairs).map(|rho| (rho, pairs.len() as f64)));
    let (sum, weight) = weighted.fold((0.0, 0.0), |(sum, total), (rho, weight)| (sum + rho * weight, total + weight));
    (weight > 0.0).then(|| sum / weight)
}

/// Spearman's coefficient: Pearson's of the ranks, equal values sharing their mean rank. `None` where all are equal.
fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    let x = ranks(pairs.iter().map(|pair| pair.0));
    let y = ranks(pairs.iter().map(|pair| pair.1));
    let mean = f64::midpoint(pairs.len() as f64, 1.0);
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    let scale = (product(&x, &x) * product(&y, &y)).sqrt();
    (scale > 0.0).then(|| product(&x, &y) / scale)
}

fn ranks(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let values: Vec<f64> = values.collect();
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| other.total_cmp(value).is_lt()).count();
        let equal = values.iter().filter(|other| other.total_cmp(value).is_eq()).count();
        below as f64 + f64::midpoint(equal as f64, 1.0)
    };
    values.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use approx::assert_relative_eq;

    #[test]
    fn quantiles_lie_between_ranks() {
        let sorted = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_relative_eq!(quantile(&sorted, 0.5), 3.0);
        assert_relative_eq!(quantile(&sorted, 0.9), 4.6);
        assert_relative_eq!(quantile(&[7.0], 0.9), 7.0);
    }

    /// The example of Spearman's coefficient in many textbooks: IQ against hours of television, -29/165.
    #[test]
    fn ranks_are_correlated_as_textbooks_do() {
        let iq = [106.0, 100.0, 86.0, 101.0, 99.0, 103.0, 97.0, 113.0, 112.0, 110.0];
        let hours = [7.0, 27.0, 2.0, 50.0, 28.0, 29.0, 20.0, 12.0, 6.0, 17.0];
        let pairs: Vec<(f64, f64)> = iq.into_iter().zip(hours).collect();
        assert_relative_eq!(spearman(&pairs).unwrap(), -29.0 / 165.0, max_relative = 1e-12);
        assert_eq!(ranks([3.0, 1.0, 3.0].into_iter()), [2.5, 1.0, 2.5]);
        assert_eq!(spearman(&[(1.0, 2.0), (1.0, 3.0), (1.0, 4.0)]), None);
    }
}
