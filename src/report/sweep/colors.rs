//! Colours of a heat map: from light to dark in equal steps of lightness, so that a print in grey shows the same, and with
//! blue against yellow, which readers of any colour vision tell apart.

use crate::report::palette::{BLUE, DARK, GREEN, MAROON, PURPLE, SKY, VERMILION};
use plotters::style::RGBColor;

/// From the least to the most, light to dark.
const RAMP: [(u8, u8, u8); 6] =
    [(255, 247, 205), (216, 222, 170), (150, 190, 160), (85, 150, 160), (45, 100, 145), (20, 45, 95)];

/// Colours of lines.
pub(super) const LINES: [RGBColor; 7] = [BLUE, VERMILION, GREEN, PURPLE, SKY, MAROON, DARK];

/// The colour of a share from 0 to 1.
pub(super) fn of_share(share: f64) -> RGBColor {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let place = share * (RAMP.len() - 1) as f64;
    let below = (place as usize).min(RAMP.len() - 2);
    let part = place - below as f64;
    let ((r0, g0, b0), (r1, g1, b1)) = (RAMP[below], RAMP[below + 1]);
    let mix = |from: u8, to: u8| (f64::from(from) + (f64::from(to) - f64::from(from)) * part).round() as u8;
    RGBColor(mix(r0, r1), mix(g0, g1), mix(b0, b1))
}

/// Whether white text on this colour is easier to read than black: where its relative luminance (WCAG 2.2) is below the one
/// at which both have the same contrast, of 4.58 to 1.
pub(super) fn is_dark(RGBColor(red, green, blue): RGBColor) -> bool {
    let linear = |part: u8| ((f64::from(part) / 255.0 + 0.055) / 1.055).powf(2.4);
    0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue) < 0.179
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_darker() {
        let lightness = |share: f64| {
            let RGBColor(red, green, blue) = of_share(share);
            0.2126 * f64::from(red) + 0.7152 * f64::from(green) + 0.0722 * f64::from(blue)
        };
        let steps: Vec<f64> = (0..=20).map(|step| lightness(f64::from(step) / 20.0)).collect();
        assert!(steps.windows(2).all(|pair| pair[1] < pair[0] - 3.0), "{steps:?}");
        assert!(!is_dark(of_share(0.0)) && is_dark(of_share(1.0)));
        assert_eq!(of_share(f64::NAN), of_share(0.0));
    }
}
