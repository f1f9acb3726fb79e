//! Axes with round ticks, and the rectangles that they belong to.

use super::canvas::{Anchor, Canvas, FAINT_INK, GRID, INK, Point};

/// Values from a minimum, mostly zero, to a maximum, written in a unit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    /// The value at the near end.
    min: f64,
    /// The value at the far end; positive.
    pub max: f64,
    /// Distance between ticks.
    step: f64,
    /// What one of the unit is worth.
    scale: f64,
    unit: &'static str,
}

impl Axis {
    /// Time from zero to the span, in hours, minutes or seconds.
    pub(super) fn of_time(span_s: f64) -> Self {
        const STEPS_IN_HOURS: [f64; 10] = [0.25, 0.5, 1.0, 2.0, 3.0, 6.0, 12.0, 24.0, 48.0, 96.0];
        const STEPS_IN_SIXTIETHS: [f64; 9] = [1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0];
        let max = if span_s > 0.0 { span_s } else { 1.0 };
        let (scale, unit, steps) = match max {
            long if long > 7200.0 => (3600.0, "h", &STEPS_IN_HOURS[..]),
            short if short > 120.0 => (60.0, "min", &STEPS_IN_SIXTIETHS[..]),
            _ => (1.0, "s", &STEPS_IN_SIXTIETHS[..]),
        };
        let fits = |step: &&f64| max / (*step * scale) <= 13.0;
        let step = steps.iter().find(fits).copied().unwrap_or_else(|| round_step(max / scale / 8.0));
        Self { min: 0.0, max, step: step * scale, scale, unit }
    }

    /// Quantities from zero to a bit above `largest`, with about `ticks` ticks, in a unit that keeps labels short.
    pub(super) fn of_quantity(largest: f64, ticks: f64) -> Self {
        const UNITS: [(f64, &str); 5] =
            [(1e12, "trillion "), (1e9, "billion "), (1e6, "million "), (1e3, "thousand "), (1.0, "")];
        let largest = if largest > 0.0 { largest } else { 1.0 };
        let step = round_step(largest / ticks);
        let max = largest * 1.06;
        let (scale, unit) = UNITS.into_iter().find(|&(scale, _)| largest >= 2.0 * scale).unwrap_or((1.0, ""));
        Self { min: 0.0, max, step, scale, unit }
    }

    /// The same for things that come whole.
    pub(super) fn of_count(largest: u32, ticks: f64) -> Self {
        let axis = Self::of_quantity(f64::from(largest), ticks);
        Self { step: axis.step.max(1.0).round(), scale: 1.0, unit: "", ..axis }
    }

    /// Quantities from a round number below `low` to one above `high`, with about `ticks` ticks.
    pub(super) fn of_range(low: f64, high: f64, ticks: f64) -> Self {
        let is_range = low.is_finite() && high.is_finite() && low <= high;
        let (low, high) = if is_range { (low, high) } else { (0.0, 1.0) };
        let span = if high > low { high - low } else { low.abs().max(1.0) };
        let step = round_step(span / ticks);
        let min = (low / step).floor() * step;
        let max = ((high / step).ceil() * step).max(min + step);
        Self { min, max, step, scale: 1.0, unit: "" }
    }

    /// Where a value stands between the ends.
    fn share(&self, value: f64) -> f64 {
        ((value - self.min) / (self.max - self.min)).clamp(0.0, 1.0)
    }

    /// Unit of the labels: `h`, or a prefix such as `thousand `, with its blank.
    pub(super) fn unit(&self) -> &'static str {
        self.unit
    }

    /// A value with the axis's unit: `12.5 h`.
    pub(super) fn label(&self, value: f64) -> String {
        format!("{:.1} {}", value / self.scale, self.unit)
    }

    /// Ticks from the near end on, with their labels.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let count = ((self.max - self.min) / self.step + 1e-9) as usize;
        let step = self.step / self.scale;
        let decimals = (0..6).find(|&d| is_whole(step * 10_f64.powi(d))).unwrap_or(6) as usize;
        let first = self.min / self.scale;
        let tick = |i: usize| (self.min + i as f64 * self.step, format!("{:.decimals$}", first + i as f64 * step));
        (0..=count).map(tick).collect()
    }
}

fn is_whole(value: f64) -> bool {
    (value - value.round()).abs() < 1e-9 * value.abs().max(1.0)
}

/// The round number (1, 2 or 5 times a power of ten) nearest above `rough`.
fn round_step(rough: f64) -> f64 {
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|digit| digit * power)
        .find(|&step| step >= rough * 0.999)
        .unwrap_or(10.0 * power)
}

/// A rectangle of the figure that shows values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Panel {
    pub left: i32,
    pub right: i32,
    pub top: i32,
    pub bottom: i32,
}

impl Panel {
    /// Pixel of a value on the horizontal axis.
    pub(super) fn x(&self, axis: &Axis, value: f64) -> i32 {
        self.left + (axis.share(value) * f64::from(self.right - self.left)).round() as i32
    }

    /// Pixel of a value on the vertical axis.
    pub(super) fn y(&self, axis: &Axis, value: f64) -> i32 {
        self.bottom - (axis.share(value) * f64::from(self.bottom - self.top)).round() as i32
    }

    /// Grid lines of both axes and the labels of the vertical one.
    pub(super) fn draw_grid(&self, canvas: &Canvas<'_>, horizontal: &Axis, vertical: &Axis) {
        for (value, _) in horizontal.ticks() {
            let x = self.x(horizontal, value);
            canvas.line(vec![(x, self.top), (x, self.bottom)], GRID, 1);
        }
        for (value, label) in vertical.ticks() {
            let y = self.y(vertical, value);
            canvas.line(vec![(self.left, y), (self.right, y)], GRID, 1);
            canvas.text((self.left - 6, y), Anchor::Right, INK, &label);
        }
    }

    /// The lines along the axes, drawn last so that nothing covers them.
    pub(super) fn draw_axes(&self, canvas: &Canvas<'_>) {
        let corner: Point = (self.left, self.bottom);
        canvas.line(vec![(self.left, self.top), corner, (self.right, self.bottom)], FAINT_INK, 1);
    }
}

/// Points of a line whose abscissae don't fall, without those that aren't seen: of the points at one pixel the first, the
/// lowest, the highest and the last are left. The picture is the same, and no larger for a month than for a day.
pub(super) fn thinned(points: &[Point]) -> Vec<Point> {
    let mut kept: Vec<Point> = Vec::with_capacity(points.len());
    for column in points.chunk_by(|a, b| a.0 == b.0) {
        let place = |of: &dyn Fn(&(usize, &Point)) -> i32| column.iter().enumerate().min_by_key(of).map(|(at, _)| at);
        let places = [Some(0), place(&|(_, point)| point.1), place(&|(_, point)| -point.1), Some(column.len() - 1)];
        let mut places: Vec<usize> = places.into_iter().flatten().collect();
        places.sort_unstable();
        places.dedup();
        kept.extend(places.into_iter().map(|at| column[at]));
    }
    kept.dedup();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_what_is_seen() {
        assert_eq!(thinned(&[]), []);
        assert_eq!(thinned(&[(0, 5), (0, 5), (1, 5)]), [(0, 5), (1, 5)]);
        let column = |x: i32| [3, 7, 4, 1, 6, 2].map(|y| (x, y));
        let points = [column(0), column(1)].concat();
        let wanted = |x: i32| [3, 7, 1, 2].map(|y| (x, y));
        assert_eq!(thinned(&points), [wanted(0), wanted(1)].concat());
    }

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks().into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn a_day_is_ticked_in_hours() {
        let axis = Axis::of_time(86_400.0);
        assert_eq!(axis.unit(), "h");
        assert_eq!(labels(&axis), ["0", "2", "4", "6", "8", "10", "12", "14", "16", "18", "20", "22", "24"]);
    }

    #[test]
    fn quantities_take_a_unit_that_keeps_labels_short() {
        let axis = Axis::of_quantity(23_400.0, 3.0);
        assert_eq!(axis.unit(), "thousand ");
        assert_eq!(labels(&axis), ["0", "10", "20"]);
        assert_eq!(labels(&Axis::of_quantity(1.3, 4.0)), ["0.0", "0.5", "1.0"]);
        assert_eq!(labels(&Axis::of_count(3, 4.0)), ["0", "1", "2", "3"]);
    }

    #[test]
    fn a_range_begins_and_ends_with_round_numbers() {
        assert_eq!(labels(&Axis::of_range(2.31, 5.61, 6.0)), ["2", "3", "4", "5", "6"]);
        assert_eq!(labels(&Axis::of_range(0.31, 0.42, 5.0)), ["0.30", "0.35", "0.40", "0.45"]);
        assert_eq!(labels(&Axis::of_range(5.5, 5.5, 5.0)).len(), 2);
        assert_eq!(labels(&Axis::of_range(f64::INFINITY, f64::NEG_INFINITY, 2.0)), ["0.0", "0.5", "1.0"]);
    }

    #[test]
    fn nothing_has_an_axis_too() {
        assert_eq!(labels(&Axis::of_time(0.0)), ["0", "1"]);
        assert_eq!(labels(&Axis::of_count(0, 4.0)), ["0", "1"]);
    }

    #[test]
    fn values_beyond_the_axis_stay_within_the_panel() {
        let panel = Panel { left: 10, right: 110, top: 0, bottom: 50 };
        let axis = Axis::of_time(100.0);
        assert_eq!((panel.x(&axis, 50.0), panel.x(&axis, 1e9), panel.y(&axis, -1.0)), (60, 110, 50));
    }
}
