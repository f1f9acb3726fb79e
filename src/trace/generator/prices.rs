//! Prices of a generated market over time, in the shape of AWS's price history.
//!
//! Of each pool with a price, in a zone, of a size that AWS rents, the price changes every few hours, as it does there since
//! 2017: the logarithm over the mean goes back to zero by a fifth at each change and is pushed by chance, within about
//! `price_swing`. A pool without a swing has one price.

use super::GeneratorSettings;
use super::streams::stream;
use crate::cluster::{GpuSpec, InstanceType};
use crate::trace::calendar::Zero;
use jiff::SignedDuration;
use rand::RngExt;
use rand_distr::{Distribution, Exp1, StandardNormal};
use serde_json::{Value, json};

/// Mean time between changes.
const BETWEEN_CHANGES_S: f64 = 4.0 * 3600.0;
/// What is left of a deviation at the next change.
const KEPT: f64 = 0.8;

/// The history as `describe-spot-price-history` prints it, newest first, for a market whose zero stands for `zero`; and the pools
/// that it leaves out.
pub fn price_history(settings: &GeneratorSettings, zero: Zero) -> (Value, Vec<String>) {
    let mut rows: Vec<(f64, Value)> = Vec::new();
    let mut left_out = Vec::new();
    for (index, pool) in settings.pools.iter().enumerate() {
        let instance = GpuSpec::lookup(&pool.gpu_type).ok().and_then(|gpu| InstanceType::with(&gpu, pool.gpu_count));
        let (Some(instance), Some(zone), Some(mean)) = (instance, &pool.zone, pool.price_usd_per_hour) else {
            left_out.push(format!("{} x {} x {}", pool.nodes, pool.gpu_count, pool.gpu_type));
            continue;
        };
        let mut random = stream(settings.seed, &format!("prices of pool {index}"));
        let (mut at_s, mut deviation) = (0.0, 0.0);
        while at_s <= settings.hours * 3600.0 {
            let usd = mean * f64::exp(deviation * pool.price_swing);
            let time = zero.timestamp() + SignedDuration::from_secs(at_s as i64);
            let row = json!({
                "AvailabilityZone": zone,
                "InstanceType": instance.name,
                "ProductDescription": "Linux/UNIX",
                "SpotPrice": format!("{usd:.6}"),
                "Timestamp": time.to_string(),
            });
            rows.push((at_s, row));
            if pool.price_swing <= 0.0 {
                break;
            }
            let wait: f64 = Exp1.sample(&mut random);
            let push: f64 = StandardNormal.sample(&mut random);
            // A push of this size keeps the deviation's spread at one.
            deviation = KEPT * deviation + (1.0 - KEPT * KEPT).sqrt() * push.clamp(-3.0, 3.0);
            at_s = (at_s + 1.0 + wait * BETWEEN_CHANGES_S * random.random_range(0.5..1.5)).floor();
        }
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    (json!({ "SpotPriceHistory": rows.into_iter().map(|(_, row)| row).collect::<Vec<_>>() }), left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::generator::PoolSettings;
    use crate::trace::prices::PriceHistory;
    use crate::units::SimTime;

    #[test]
    fn the_history_is_read_back_and_stays_around_the_mean() {
        let pools = ["5x8xA100-40@us-east-1a:8.0", "3x8xT4@us-east-1a:2.9", "2x3xT4@us-east-1b:1", "1x1xV100-16:0.5"];
        let pools = pools.map(|pool| PoolSettings::parse(pool).unwrap()).into();
        let settings = GeneratorSettings { seed: 5, hours: 720.0, pools, ..GeneratorSettings::default() };
        let zero: Zero = "2026-01-01T12:00:00Z".parse().unwrap();
        let (history, left_out) = price_history(&settings, zero);
        assert_eq!(left_out, ["2 x 3 x T4", "1 x 1 x V100-16"]);
        let read = PriceHistory::parse(&history.to_string(), "t", &[]).unwrap();
        assert!(read.notes[0].contains("g4dn.metal, p4d.24xlarge in us-east-1a"), "{:?}", read.notes);
        read.on_clock(Some(zero), SimTime::SECOND * 3600).unwrap();
        let prices: Vec<f64> = history["SpotPriceHistory"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|row| row["InstanceType"] == "p4d.24xlarge")
            .map(|row| row["SpotPrice"].as_str().unwrap().parse().unwrap())
            .collect();
        assert!(prices.len() > 90, "{}", prices.len());
        let mean = prices.iter().sum::<f64>() / prices.len() as f64;
        assert!((7.6..8.4).contains(&mean) && prices.iter().all(|usd| (5.0..12.5).contains(usd)), "{mean}");
        assert_eq!(price_history(&settings, zero), (history, left_out));
    }
}
