//! Colours that readers of any colour vision tell apart (Okabe and Ito 2008), and two for where those are used up.

use plotters::style::RGBColor;

pub(super) const BLUE: RGBColor = RGBColor(0, 114, 178);
pub(super) const VERMILION: RGBColor = RGBColor(213, 94, 0);
pub(super) const GREEN: RGBColor = RGBColor(0, 158, 115);
pub(super) const PURPLE: RGBColor = RGBColor(204, 121, 167);
pub(super) const ORANGE: RGBColor = RGBColor(230, 159, 0);
pub(super) const SKY: RGBColor = RGBColor(86, 180, 233);
pub(super) const MAROON: RGBColor = RGBColor(128, 0, 0);
pub(super) const DARK: RGBColor = RGBColor(60, 60, 60);

/// One for each of several things, as many as there are policies.
pub(super) const SERIES: [RGBColor; 8] = [BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, DARK, MAROON];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Activity;
    use crate::report::plan_drawing::TYPES;
    use crate::report::throughput_chart::activity_color;

    /// What the eyes of protanopes, deuteranopes and tritanopes make of linear red, green and blue (Machado, Oliveira and
    /// Fernandes 2009, severity 1), and those of others.
    const EYES: [[[f64; 3]; 3]; 4] = [
        [[0.152_286, 1.052_583, -0.204_868], [0.114_503, 0.786_281, 0.099_216], [-0.003_882, -0.048_116, 1.051_998]],
        [[0.367_322, 0.860_646, -0.227_968], [0.280_085, 0.672_501, 0.047_413], [-0.011_820, 0.042_940, 0.968_881]],
        [[1.255_528, -0.076_749, -0.178_779], [-0.078_411, 0.930_809, 0.147_602], [0.004_733, 0.691_367, 0.303_900]],
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    ];
    /// Of CIE 1976 colour differences about 2 can be seen at all.
    const CLEARLY_APART: f64 = 15.0;

    fn times(matrix: &[[f64; 3]; 3], color: [f64; 3]) -> [f64; 3] {
        matrix.map(|row| row.iter().zip(color).map(|(a, b)| a * b).sum())
    }

    /// Lightness, green to red and blue to yellow of a colour as such an eye has it.
    fn seen(eye: &[[f64; 3]; 3], [red, green, blue]: [u8; 3]) -> [f64; 3] {
        let linear = |channel: u8| {
            let value = f64::from(channel) / 255.0;
            if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        let light = times(eye, [red, green, blue].map(linear)).map(|value| value.clamp(0.0, 1.0));
        let to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]];
        let [x, y, z] = times(&to_xyz, light);
        let [x, y, z] = [x / 0.9505, y, z / 1.089]
            .map(|value| if value > 0.008_856 { value.cbrt() } else { 7.787 * value + 16.0 / 116.0 });
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    fn of_css(text: &str) -> [u8; 3] {
        [1, 3, 5].map(|from| u8::from_str_radix(&text[from..from + 2], 16).unwrap())
    }

    #[test]
    fn colours_of_one_figure_are_told_apart_by_all_eyes() {
        let series = SERIES.map(|RGBColor(red, green, blue)| [red, green, blue]).to_vec();
        let ledger = Activity::ALL.map(|activity| of_css(&activity_color(activity))).to_vec();
        for colors in [series, ledger, TYPES.map(of_css).to_vec()] {
            for eye in &EYES {
                for (place, one) in colors.iter().enumerate() {
                    for other in &colors[..place] {
                        let pairs = seen(eye, *one).into_iter().zip(seen(eye, *other));
                        let apart = pairs.map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                        assert!(apart > CLEARLY_APART, "{one:?} and {other:?} are {apart:.1} apart");
                    }
                }
            }
        }
    }
}
