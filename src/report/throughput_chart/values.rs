//! What was there and what was made of it at any time, in words.

use super::policies::pixel_rates;
use super::{Layout, Panel};
use crate::replay::Replay;
use crate::report::figures::figure;
use crate::report::panel::Axis;
use crate::report::svg::Spots;
use std::fmt::Write as _;

/// Pixels that one text is for.
const PIXELS: usize = 8;
const WRITTEN: &str = "writing to a string doesn't fail";

/// Strips from the panel of capacity down to that of tokens.
pub(super) fn spots(layout: &Layout, time: &Axis, replay: &Replay, tokens_per_iteration: u64) -> Spots {
    let panel = Panel { bottom: layout.tokens.bottom, ..layout.capacity };
    let pixels = (panel.right - panel.left) as usize;
    let rates = replay.policies.iter().map(|outcome| pixel_rates(&panel, time, outcome, tokens_per_iteration));
    let rates: Vec<Vec<f64>> = rates.collect();
    let pixel_s = time.max / pixels as f64;
    let mut spots = Spots::default();
    for first in (0..pixels).step_by(PIXELS) {
        let end = (first + PIXELS).min(pixels);
        let middle_s = (first + end) as f64 / 2.0 * pixel_s;
        let mut says = format!("at {}, {}", time.label(middle_s), capacity(replay, middle_s));
        for (outcome, rates) in replay.policies.iter().zip(&rates) {
            let mean = rates[first..end].iter().sum::<f64>() / (end - first) as f64;
            write!(says, "\n{}: {} tokens/s", outcome.policy, figure(mean)).expect(WRITTEN);
        }
        let (x, y) = (f64::from(panel.left) + first as f64, f64::from(panel.top));
        spots.add((x, y), ((end - first) as f64, f64::from(panel.bottom - panel.top)), says);
    }
    spots
}

/// The GPUs that were up, by type.
fn capacity(replay: &Replay, at_s: f64) -> String {
    let is_past = |time: crate::units::SimTime| time.as_seconds() <= at_s;
    let point = replay.capacity.iter().take_while(|point| is_past(point.time)).last();
    let counts = point.map_or(&[][..], |point| &point.gpus);
    let there: Vec<String> = counts
        .iter()
        .zip(&replay.gpu_types)
        .filter(|(count, _)| **count > 0)
        .map(|(count, name)| format!("{count} x {name}"))
        .collect();
    if there.is_empty() { "no GPU up".to_owned() } else { format!("up: {}", there.join(", ")) }
}

#[cfg(test)]
mod tests {
    use crate::report::fixture::{self, TOKENS_PER_ITERATION};
    use crate::report::throughput_svg;

    #[test]
    fn each_moment_has_its_capacity_and_rates() {
        let svg = throughput_svg(&fixture::small(), TOKENS_PER_ITERATION);
        assert_eq!(svg.matches("<title>").count(), 682_usize.div_ceil(8));
        // V100 are away from 40 s to 70 s, and an iteration of 32,768 tokens takes 8 s.
        assert!(
            svg.contains("<title>at 20.") && svg.contains("up: 8 x A100-80, 4 x V100-32\nautohet: 4,096 tokens/s"),
            "{svg}"
        );
        assert!(svg.contains("up: 8 x A100-80\n"), "{svg}");
    }
}
