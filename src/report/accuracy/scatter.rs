//! `scatter.svg`: predicted against measured, on logarithmic axes, times on the left and memory on the right.

use crate::measured::{Accuracy, Record};
use crate::report::canvas::{Anchor, Canvas, FAINT_INK, GRID, INK, legend_width};
use crate::report::palette::{BLUE, DARK, GREEN, ORANGE, PURPLE, SKY, VERMILION};
use crate::report::panel::Panel;
use plotters::style::{Color, RGBColor};

const WIDTH: i32 = 980;
const TOP: i32 = 64;
const SIDE: i32 = 400;
const LEFT: i32 = 64;
const GAP: i32 = 84;
const ROW: i32 = 22;
const FOOT: i32 = 58;
/// Half the width of the band around equality.
const BAND: f64 = 0.1;
const BAND_COLOR: RGBColor = RGBColor(232, 240, 232);

/// Further sources take them again, as hollow marks.
const COLORS: [RGBColor; 7] = [BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, DARK];

/// One of the two diagrams.
struct Diagram {
    title: &'static str,
    unit: &'static str,
    /// What one of the unit is worth.
    scale: f64,
    panel: Panel,
    /// Ends of both axes, as powers of ten of the unit.
    from: f64,
    to: f64,
}

/// Draws all records as SVG. Shares of activation memory, which have no unit, are left out.
pub fn accuracy_svg(accuracy: &Accuracy) -> String {
    let names: Vec<&String> = accuracy.sources.keys().collect();
    let legend = legend(&names);
    let legend_rows = legend.last().map_or(0, |(_, (_, row))| row + 1);
    let height = TOP + SIDE + FOOT + ROW * legend_rows;
    let mut svg = String::new();
    {
        let canvas = Canvas::new(&mut svg, (WIDTH, height));
        canvas.bold_text((16, 20), Anchor::Left, INK, "Predicted against measured");
        canvas.text((250, 20), Anchor::Left, FAINT_INK, "line: equal; band: within 10 %");
        for (left, is_time) in [(LEFT, true), (LEFT + SIDE + GAP, false)] {
            let records = |source: usize| plotted(accuracy, source, is_time);
            let all: Vec<&Record> = (0..names.len()).flat_map(records).collect();
            let diagram = Diagram::new(is_time, left, &all);
            diagram.draw_frame(&canvas);
            for source in 0..names.len() {
                for record in records(source) {
                    diagram.draw_point(&canvas, source, record);
                }
            }
        }
        for (name, (x, row)) in legend {
            let y = TOP + SIDE + FOOT + row * ROW;
            let source = names.iter().position(|other| *other == name).unwrap_or(0);
            draw_mark(&canvas, (x + 5, y), source, 5);
            canvas.text((x + 15, y), Anchor::Left, INK, name);
        }
        canvas.finish();
    }
    svg
}

fn plotted(accuracy: &Accuracy, source: usize, is_time: bool) -> Vec<&Record> {
    let Some((_, source)) = accuracy.sources.get_index(source) else { return Vec::new() };
    let records = if is_time { &source.time } else { &source.memory };
    records.iter().filter(|record| record.kind != "activation_share").collect()
}

/// Where each source's name stands: horizontal place and row.
fn legend<'a>(names: &[&'a String]) -> Vec<(&'a String, (i32, i32))> {
    let (mut x, mut row) = (LEFT, 0);
    let place = |name: &&'a String| {
        let width = legend_width(name);
        if x + width > WIDTH - 20 && x > LEFT {
            (x, row) = (LEFT, row + 1);
        }
        x += width;
        (*name, (x - width, row))
    };
    names.iter().map(place).collect()
}

impl Diagram {
    fn new(is_time: bool, left: i32, records: &[&Record]) -> Self {
        let (title, unit, scale) =
            if is_time { ("time of an iteration", "s", 1.0) } else { ("memory of the fullest GPU", "GB", 1e9) };
        let values = records.iter().flat_map(|record| [record.measured, record.predicted]);
        let powers = values.filter(|value| *value > 0.0).map(|value| (value / scale).log10());
        let (least, most) =
            powers.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), p| (p.min(least), p.max(most)));
        let (from, to) = if least.is_finite() { (least - 0.1, (most + 0.1).max(least + 0.5)) } else { (0.0, 1.0) };
        let panel = Panel { left, right: left + SIDE, top: TOP, bottom: TOP + SIDE };
        Self { title, unit, scale, panel, from, to }
    }

    /// Pixels from the corner for a power of ten.
    fn pixels(&self, power: f64) -> i32 {
        (((power - self.from) / (self.to - self.from)).clamp(0.0, 1.0) * f64::from(SIDE)).round() as i32
    }

    fn draw_frame(&self, canvas: &Canvas<'_>) {
        let Panel { left, right, top, bottom } = self.panel;
        let width = (1.0 + BAND).log10();
        let corner = |x: f64, y: f64| (left + self.pixels(x), bottom - self.pixels(y));
        let low =
            [corner(self.from, self.from), corner(self.from + width, self.from), corner(self.to, self.to - width)];
        let high = [corner(self.to, self.to), corner(self.to - width, self.to), corner(self.from, self.from + width)];
        canvas.polygon(low.into_iter().chain(high).collect(), BAND_COLOR);
        for (power, label) in ticks(self.from, self.to) {
            let at = self.pixels(power);
            canvas.line(vec![(left + at, top), (left + at, bottom)], GRID, 1);
            canvas.line(vec![(left, bottom - at), (right, bottom - at)], GRID, 1);
            canvas.text((left + at, bottom + 13), Anchor::Center, INK, &label);
            canvas.text((left - 6, bottom - at), Anchor::Right, INK, &label);
        }
        canvas.line(vec![(left, bottom), (right, top)], FAINT_INK, 1);
        canvas.line(vec![(left, top), (left, bottom), (right, bottom)], FAINT_INK, 1);
        canvas.text((left, top - 16), Anchor::Left, INK, &format!("{}, predicted, {}", self.title, self.unit));
        canvas.text((right, bottom + 32), Anchor::Right, INK, &format!("measured, {}", self.unit));
    }

    fn draw_point(&self, canvas: &Canvas<'_>, source: usize, record: &Record) {
        let power = |value: f64| (value / self.scale).log10();
        let x = self.panel.left + self.pixels(power(record.measured));
        let y = self.panel.bottom - self.pixels(power(record.predicted));
        draw_mark(canvas, (x, y), source, 3);
    }
}

/// A round mark, hollow where the colours start again.
fn draw_mark(canvas: &Canvas<'_>, (x, y): (i32, i32), source: usize, radius: i32) {
    let color = COLORS[source % COLORS.len()];
    let corner = |corner: i32| {
        let angle = std::f64::consts::TAU * f64::from(corner) / 12.0;
        let offset = |part: f64| (part * f64::from(radius)).round() as i32;
        (x + offset(angle.cos()), y + offset(angle.sin()))
    };
    if source < COLORS.len() {
        canvas.polygon((0..12).map(corner).collect(), color.mix(0.75));
    } else {
        canvas.line((0..=12).map(corner).collect(), color, 1);
    }
}

/// Round numbers between two powers of ten, as powers with their labels: 1, 2 and 5 times each where that isn't too many.
fn ticks(from: f64, to: f64) -> Vec<(f64, String)> {
    let digits: &[f64] = if to - from > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let mut ticks = Vec::new();
    for decade in from.floor() as i32..=to.ceil() as i32 {
        for digit in digits {
            let value = digit * 10_f64.powi(decade);
            if (from..=to).contains(&value.log10()) {
                ticks.push((value.log10(), format!("{value:.*}", (-decade).max(0) as usize)));
            }
        }
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        let labels = |from, to| ticks(from, to).into_iter().map(|(_, label)| label).collect::<Vec<_>>();
        assert_eq!(labels(-1.2, 0.4), ["0.1", "0.2", "0.5", "1", "2"]);
        assert_eq!(labels(-2.0, 2.0), ["0.01", "0.1", "1", "10", "100"]);
    }

    #[test]
    fn nothing_measured_is_an_empty_figure() {
        let svg = accuracy_svg(&Accuracy::default());
        assert!(svg.starts_with("<svg") && svg.contains("Predicted against measured"), "{svg}");
    }
}
