//! Panels (b) and (c): what each policy trained when, and how much in all.

use super::{policy_color, title};
use crate::replay::{Phase, PolicyOutcome, Replay};
use crate::report::canvas::{Anchor, Canvas, FAINT_INK, INK, Point};
use crate::report::figures::{ratio, scaled};
use crate::report::panel::{Axis, Panel, thinned};
use crate::report::timeline_csv::tokens_per_s;
use plotters::prelude::Color;
use plotters::style::RGBColor;

/// Backgrounds of stretches without training.
const RECOVERING: RGBColor = RGBColor(250, 238, 160);
const WAITING: RGBColor = RGBColor(222, 222, 222);

/// Panel (b): one row a policy, all on the same scale. Rates are means over a pixel's worth of time, so that stalls
/// shorter than that lower the line as much as they should.
pub(super) fn draw_throughput(
    canvas: &Canvas<'_>,
    panels: &[Panel],
    time: &Axis,
    replay: &Replay,
    tokens_per_iteration: u64,
) {
    let Some(first) = panels.first() else { return };
    let rates: Vec<Vec<f64>> =
        replay.policies.iter().map(|outcome| pixel_rates(first, time, outcome, tokens_per_iteration)).collect();
    let vertical = Axis::of_quantity(rates.iter().flatten().copied().fold(0.0, f64::max), 3.0);
    title(canvas, first.top, 'b', &format!("throughput ({}tokens/s)", vertical.unit()));
    draw_phase_legend(canvas, first);
    for (index, (panel, outcome)) in panels.iter().zip(&replay.policies).enumerate() {
        draw_phases(canvas, panel, time, outcome);
        panel.draw_grid(canvas, time, &vertical);
        let color = policy_color(index);
        let line = step_line(panel, &vertical, &rates[index]);
        let mut area = line.clone();
        area.extend([(panel.right, panel.bottom), (panel.left, panel.bottom)]);
        canvas.polygon(area, color.mix(0.25));
        canvas.line(line, color, 1);
        panel.draw_axes(canvas);
        let middle = i32::midpoint(panel.top, panel.bottom);
        canvas.bold_legend_entry((panel.right + 12, middle - 9), color, outcome.policy);
        let mean = ratio(outcome.tokens as f64, replay.span.as_seconds()).map_or_else(String::new, scaled);
        canvas.text((panel.right + 12, middle + 9), Anchor::Left, INK, &format!("mean {mean}"));
    }
}

/// Mean rate over each pixel of the panel.
pub(super) fn pixel_rates(panel: &Panel, time: &Axis, outcome: &PolicyOutcome, tokens_per_iteration: u64) -> Vec<f64> {
    let pixels = (panel.right - panel.left) as usize;
    let pixel_s = time.max / pixels as f64;
    let mut rates = vec![0.0; pixels];
    for segment in &outcome.segments {
        let rate = tokens_per_s(outcome, segment, tokens_per_iteration);
        let (start, end) = (segment.start.as_seconds() / pixel_s, segment.end.as_seconds() / pixel_s);
        for (pixel, mean) in rates.iter_mut().enumerate().take(end.ceil() as usize).skip(start as usize) {
            let covered = end.min(pixel as f64 + 1.0) - start.max(pixel as f64);
            *mean += rate * covered.max(0.0);
        }
    }
    rates
}

fn step_line(panel: &Panel, vertical: &Axis, rates: &[f64]) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    for (x, &rate) in (panel.left..).zip(rates) {
        let y = panel.y(vertical, rate);
        match points.last_mut() {
            // A level that goes on is one longer line.
            Some(last) if last.1 == y => last.0 = x + 1,
            _ => points.extend([(x, y), (x + 1, y)]),
        }
    }
    points
}

fn draw_phases(canvas: &Canvas<'_>, panel: &Panel, time: &Axis, outcome: &PolicyOutcome) {
    for (phase, color) in [(Phase::Waiting, WAITING), (Phase::Recovering, RECOVERING)] {
        let segments = outcome.segments.iter().filter(|segment| segment.phase == phase);
        let pixels = segments.map(|segment| {
            let [start, end] = [segment.start, segment.end].map(|time_at| panel.x(time, time_at.as_seconds()));
            (start, end.max(start + 1))
        });
        for (start, end) in joined(pixels) {
            canvas.rectangle((start, panel.top), (end, panel.bottom), color);
        }
    }
}

/// Stretches of pixels, in their order, those that touch in one.
fn joined(stretches: impl Iterator<Item = (i32, i32)>) -> Vec<(i32, i32)> {
    let mut joined: Vec<(i32, i32)> = Vec::new();
    for (start, end) in stretches {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}

/// In the line of the title, at its right end.
fn draw_phase_legend(canvas: &Canvas<'_>, panel: &Panel) {
    let y = panel.top - 11;
    canvas.legend_entry((panel.right - 186, y), RECOVERING, "recovering");
    canvas.legend_entry((panel.right - 74, y), WAITING, "waiting");
}

/// Panel (c): tokens that count, over time. Lines fall where iterations are rolled back.
pub(super) fn draw_tokens(canvas: &Canvas<'_>, panel: &Panel, time: &Axis, replay: &Replay, tokens_per_iteration: u64) {
    let progress: Vec<_> = replay.policies.iter().map(|outcome| net_tokens(outcome, tokens_per_iteration)).collect();
    let most = progress.iter().flatten().map(|&(_, tokens)| tokens).fold(0.0, f64::max);
    let vertical = Axis::of_quantity(most, 4.0);
    title(canvas, panel.top, 'c', &format!("{}tokens trained, less those rolled back", vertical.unit()));
    panel.draw_grid(canvas, time, &vertical);
    let mut labels = Vec::new();
    for (index, line) in progress.iter().enumerate() {
        let points = line.iter().map(|&(s, tokens)| (panel.x(time, s), panel.y(&vertical, tokens)));
        let points = thinned(&points.collect::<Vec<_>>());
        let end = points.last().map_or(panel.bottom, |&(_, y)| y);
        canvas.line(points, policy_color(index), 2);
        labels.push((end, index));
    }
    panel.draw_axes(canvas);
    for (y, index) in spread(labels, panel) {
        let outcome = &replay.policies[index];
        canvas.bold_legend_entry((panel.right + 12, y), policy_color(index), outcome.policy);
        canvas.text((super::WIDTH - 8, y), Anchor::Right, FAINT_INK, &scaled(outcome.tokens as f64));
    }
}

/// Seconds and tokens: a corner at each end of a segment, and a fall where iterations are rolled back.
fn net_tokens(outcome: &PolicyOutcome, tokens_per_iteration: u64) -> Vec<(f64, f64)> {
    let tokens = |iterations: u64| iterations as f64 * tokens_per_iteration as f64;
    let mut iterations = 0_u64;
    let mut corners = vec![(0.0, 0.0)];
    for segment in &outcome.segments {
        iterations = iterations.saturating_sub(segment.rolled_back);
        corners.push((segment.start.as_seconds(), tokens(iterations)));
        iterations += segment.iterations;
        corners.push((segment.end.as_seconds(), tokens(iterations)));
    }
    corners.dedup();
    corners
}

/// Moves labels apart so that none covers another, in the order of their lines.
fn spread(mut labels: Vec<(i32, usize)>, panel: &Panel) -> Vec<(i32, usize)> {
    const LINE: i32 = 17;
    labels.sort_unstable();
    let mut free = panel.top;
    for (y, _) in &mut labels {
        *y = (*y).max(free);
        free = *y + LINE;
    }
    let mut limit = panel.bottom;
    for (y, _) in labels.iter_mut().rev() {
        *y = (*y).min(limit);
        limit = *y - LINE;
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{self, TOKENS_PER_ITERATION};

    const PANEL: Panel = Panel { left: 0, right: 50, top: 0, bottom: 100 };

    #[test]
    fn the_line_of_tokens_ends_at_what_counts() {
        for outcome in &fixture::small().policies {
            let line = net_tokens(outcome, TOKENS_PER_ITERATION);
            assert_eq!(line.last(), Some(&(100.0, outcome.tokens as f64)));
        }
    }

    #[test]
    fn the_area_under_the_rates_is_what_was_trained() {
        let outcome = &fixture::small().policies[0];
        let rates = pixel_rates(&PANEL, &Axis::of_time(100.0), outcome, TOKENS_PER_ITERATION);
        // 53 s at 4096 tokens/s and 25 s at 3276.8, in pixels of 2 s.
        let wanted = 53.0 / 2.0 * 4096.0 + 25.0 / 2.0 * 3276.8;
        approx::assert_relative_eq!(rates.iter().sum::<f64>(), wanted, max_relative = 1e-12);
        assert_eq!((rates[0], rates[22]), (0.0, 0.0));
        approx::assert_relative_eq!(rates[2], 2048.0, max_relative = 1e-12);
    }

    #[test]
    fn stretches_that_touch_are_one() {
        assert_eq!(joined([(0, 2), (2, 3), (5, 6), (5, 9), (6, 7)].into_iter()), [(0, 3), (5, 9)]);
    }

    #[test]
    fn labels_keep_their_order_and_a_line_between_them() {
        let spread = spread(vec![(95, 0), (96, 1), (10, 2), (97, 3)], &PANEL);
        assert_eq!(spread, [(10, 2), (66, 0), (83, 1), (100, 3)]);
    }
}
