//! Panels (b) and (c): the share of durations that last longer, over time by its logarithm, as observed and by fitted laws.

use super::empty;
use crate::report::canvas::{Anchor, Canvas, GRID, INK, Point};
use crate::report::figures::{count, figure};
use crate::report::palette::{BLUE, DARK, GREEN, VERMILION};
use crate::report::panel::{Axis, Panel};
use crate::trace::durations::Durations;
use crate::trace::fits::{Fit, Law};
use crate::units::format_seconds;
use plotters::style::RGBColor;

/// Times that ticks stand at.
const TICKS: [(f64, &str); 13] = [
    (1e-3, "1 ms"),
    (1e-2, "10 ms"),
    (0.1, "0.1 s"),
    (1.0, "1 s"),
    (10.0, "10 s"),
    (60.0, "1 min"),
    (600.0, "10 min"),
    (3600.0, "1 h"),
    (36_000.0, "10 h"),
    (345_600.0, "4 d"),
    (3_456_000.0, "40 d"),
    (31_536_000.0, "1 y"),
    (315_360_000.0, "10 y"),
];
/// Points of a fitted curve.
const POINTS: u32 = 120;

/// A horizontal axis by logarithm.
struct LogAxis {
    low: f64,
    high: f64,
}

impl LogAxis {
    fn of(durations: &Durations) -> Self {
        let shortest_s = durations
            .ended_s
            .first()
            .copied()
            .unwrap_or(1.0)
            .min(durations.censored_s.first().copied().unwrap_or(f64::MAX));
        let longest_s = durations.longest_s().max(shortest_s);
        Self { low: (shortest_s / 1.6).ln(), high: (longest_s * 1.6).ln() }
    }

    fn x(&self, panel: &Panel, at_s: f64) -> i32 {
        let share = ((at_s.ln() - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        panel.left + (share * f64::from(panel.right - panel.left)).round() as i32
    }

    fn at(&self, share: f64) -> f64 {
        (self.low + share * (self.high - self.low)).exp()
    }

    fn ticks(&self) -> impl Iterator<Item = (f64, &'static str)> {
        TICKS.into_iter().filter(|(at_s, _)| (self.low..=self.high).contains(&at_s.ln()))
    }
}

pub(super) fn draw(canvas: &Canvas<'_>, panel: &Panel, durations: &Durations) {
    let vertical = Axis::of_range(0.0, 1.0, 5.0);
    let horizontal = LogAxis::of(durations);
    for (value, label) in vertical.ticks() {
        let y = panel.y(&vertical, value);
        canvas.line(vec![(panel.left, y), (panel.right, y)], GRID, 1);
        canvas.text((panel.left - 6, y), Anchor::Right, INK, &label);
    }
    if durations.ended_s.is_empty() {
        empty(canvas, panel, "none ended");
        panel.draw_axes(canvas);
        return;
    }
    for (at_s, label) in horizontal.ticks() {
        let x = horizontal.x(panel, at_s);
        canvas.line(vec![(x, panel.top), (x, panel.bottom)], GRID, 1);
        canvas.text((x, panel.bottom + 14), Anchor::Center, INK, label);
    }
    let fits = Fit::all(durations);
    for fit in &fits {
        let point = |place: u32| {
            let at_s = horizontal.at(f64::from(place) / f64::from(POINTS));
            (horizontal.x(panel, at_s), panel.y(&vertical, fit.law.survival(at_s)))
        };
        canvas.line((0..=POINTS).map(point).collect(), color(&fit.law), 2);
    }
    draw_observed(canvas, panel, (&horizontal, &vertical), durations);
    panel.draw_axes(canvas);
    draw_legend(canvas, panel, durations, &fits);
}

fn color(law: &Law) -> RGBColor {
    match law {
        Law::Exponential { .. } => BLUE,
        Law::Weibull { .. } => VERMILION,
        Law::Lognormal { .. } => GREEN,
    }
}

/// The steps of what was observed, with a tick where something was cut off.
fn draw_observed(canvas: &Canvas<'_>, panel: &Panel, (horizontal, vertical): (&LogAxis, &Axis), durations: &Durations) {
    let corners = durations.survival();
    let mut points: Vec<Point> = vec![(panel.left, panel.y(vertical, 1.0))];
    for corner in &corners {
        let x = horizontal.x(panel, corner.at_s);
        let before = points.last().map_or(panel.top, |&(_, y)| y);
        points.extend([(x, before), (x, panel.y(vertical, corner.share))]);
    }
    // Beyond the last end nothing is known but that who was cut off lasted so long.
    let last = points.last().map_or(panel.top, |&(_, y)| y);
    points.push((horizontal.x(panel, durations.longest_s()), last));
    canvas.line(points, DARK, 2);
    for &at_s in &durations.censored_s {
        let before = corners.partition_point(|corner| corner.at_s <= at_s);
        let share = before.checked_sub(1).map_or(1.0, |place| corners[place].share);
        let (x, y) = (horizontal.x(panel, at_s), panel.y(vertical, share));
        canvas.line(vec![(x, y - 4), (x, y + 4)], DARK, 1);
    }
}

/// Below the panel: what was observed, and each law with its parameters.
fn draw_legend(canvas: &Canvas<'_>, panel: &Panel, durations: &Durations, fits: &[Fit]) {
    let mut at = (panel.left - 46, panel.bottom + 40);
    let cut = durations.censored_s.len() as u64;
    let cut = if cut > 0 { format!(", {} cut off by the end (ticks)", count(cut)) } else { String::new() };
    canvas.legend_entry(at, DARK, &format!("observed: {} ended{cut}", count(durations.ended_s.len() as u64)));
    let best = Fit::best(fits).map(|fit| fit.law.name());
    for fit in fits {
        at.1 += 19;
        let mark = if Some(fit.law.name()) == best { ", the best" } else { "" };
        let text = format!("{}: {}, AIC {}{mark}", fit.law.name(), parameters(&fit.law), figure(fit.aic));
        canvas.legend_entry(at, color(&fit.law), &text);
    }
    if fits.is_empty() {
        canvas.text((at.0, at.1 + 19), Anchor::Left, INK, "too few ended to fit a law");
    }
}

/// The parameters of a law, for people.
fn parameters(law: &Law) -> String {
    match *law {
        Law::Exponential { mean_s } => format!("mean {}", format_seconds(mean_s)),
        Law::Weibull { shape, scale_s } => format!("shape {shape:.2}, scale {}", format_seconds(scale_s)),
        Law::Lognormal { median_s, sigma } => format!("median {}, sigma {sigma:.2}", format_seconds(median_s)),
    }
}
