//! How much iterations vary, over repetitions of them.

use crate::runtime::sim::Repetitions;
use crate::units::format_seconds;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Shares of the iterations between whose times the interval is.
const INTERVAL: [f64; 2] = [0.05, 0.95];

/// A line for each plan: the median, and between what nine in ten iterations are.
pub fn variation_text(plans: &[(&str, &Repetitions)]) -> String {
    let mut text = String::new();
    for (name, repetitions) in plans {
        let quantile = |share| repetitions.quantile(share).map_or_else(|| "—".to_owned(), format_seconds);
        let [low, high] = INTERVAL.map(quantile);
        let whose = if name.is_empty() { String::new() } else { format!("{name}: ") };
        let (median, count) = (quantile(0.5), repetitions.seconds.len());
        writeln!(text, "{whose}median {median}, nine in ten from {low} to {high}, of {count} iterations that vary")
            .expect("writing to a string doesn't fail");
    }
    text
}

/// The same for machines, with the mean.
pub fn variation_json(repetitions: &Repetitions) -> Value {
    let quantile = |share| repetitions.quantile(share);
    json!({
        "repetitions": repetitions.seconds.len(),
        "mean_s": repetitions.mean(),
        "median_s": quantile(0.5),
        "p05_s": quantile(INTERVAL[0]),
        "p95_s": quantile(INTERVAL[1]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_leaves_a_twentieth_out_at_either_end() {
        let repetitions = Repetitions { seconds: (0..=100).map(f64::from).collect() };
        let json = variation_json(&repetitions);
        assert_eq!((&json["p05_s"], &json["median_s"], &json["p95_s"]), (&json!(5.0), &json!(50.0), &json!(95.0)));
        let text = variation_text(&[("amp", &repetitions)]);
        assert!(text.starts_with("amp: median ") && text.ends_with(" of 101 iterations that vary\n"), "{text}");
        assert_eq!(variation_json(&Repetitions { seconds: Vec::new() })["mean_s"], Value::Null);
    }
}
