//! `throughput.svg`: what was there, what each policy made of it, and where the GPU time went; a figure that fits the
//! column of a paper.
//!
//! Panels (a) to (c) share the axis of time. The SVG names the font `sans-serif` and leaves its shapes to the viewer, so
//! nothing here measures text: all text is anchored in margins that are wide enough for it.

mod ledger;
mod policies;
mod values;

use super::canvas::{Anchor, Canvas, INK};
use super::capacity_panel::{Capacity, LOSS_STRIP};
use super::palette::SERIES;
use super::panel::{Axis, Panel};
use crate::replay::Replay;
use plotters::style::RGBColor;

/// Width of the figure in pixels.
const WIDTH: i32 = 900;
/// Left and right edge of all panels; the margins hold tick labels and legends.
const LEFT: i32 = 58;
const RIGHT: i32 = WIDTH - 160;
/// Height of the line above a panel that holds its title.
const TITLE: i32 = 22;
/// Space between panels.
const GAP: i32 = 20;
const CAPACITY_HEIGHT: i32 = 120;
const POLICY_HEIGHT: i32 = 62;
const TOKENS_HEIGHT: i32 = 130;
/// Height of the labels under the axis of time.
const TIME_LABELS: i32 = 40;
const BAR_PITCH: i32 = 26;

fn policy_color(index: usize) -> RGBColor {
    SERIES[index % SERIES.len()]
}

/// The colour of a row of the ledger, as CSS has it.
pub(super) fn activity_color(activity: crate::metrics::Activity) -> String {
    let RGBColor(red, green, blue) = ledger::color(activity);
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Draws a replay as SVG. `tokens_per_iteration` is the global batch size times the tokens of a sample.
pub fn throughput_svg(replay: &Replay, tokens_per_iteration: u64) -> String {
    draw(replay, tokens_per_iteration, true)
}

/// The same without the last panel, for where the ledger stands beside it.
pub(super) fn over_time_svg(replay: &Replay, tokens_per_iteration: u64) -> String {
    draw(replay, tokens_per_iteration, false)
}

fn draw(replay: &Replay, tokens_per_iteration: u64, has_ledger: bool) -> String {
    let layout = Layout::new(replay, has_ledger);
    let mut svg = String::new();
    {
        let canvas = Canvas::new(&mut svg, (WIDTH, layout.height));
        let time = Axis::of_time(replay.span.as_seconds());
        title(&canvas, layout.capacity.top - LOSS_STRIP, 'a', "GPUs up, by type");
        capacity_of(replay).draw(&canvas, &layout.capacity, &time);
        policies::draw_throughput(&canvas, &layout.policies, &time, replay, tokens_per_iteration);
        policies::draw_tokens(&canvas, &layout.tokens, &time, replay, tokens_per_iteration);
        time_labels(&canvas, &layout.tokens, &time);
        if let Some(panel) = &layout.ledger {
            ledger::draw(&canvas, panel, replay);
        }
        canvas.finish();
    }
    values::spots(&layout, &Axis::of_time(replay.span.as_seconds()), replay, tokens_per_iteration).over(svg)
}

/// Where the panels are.
struct Layout {
    capacity: Panel,
    policies: Vec<Panel>,
    tokens: Panel,
    ledger: Option<Panel>,
    height: i32,
}

impl Layout {
    fn new(replay: &Replay, has_ledger: bool) -> Self {
        let count = i32::try_from(replay.policies.len()).expect("policies are few");
        let panel = |top, height| Panel { left: LEFT, right: RIGHT, top, bottom: top + height };
        let capacity = panel(8 + TITLE + LOSS_STRIP, CAPACITY_HEIGHT);
        let first = capacity.bottom + GAP + TITLE;
        let policies: Vec<_> = (0..count).map(|i| panel(first + i * (POLICY_HEIGHT + 8), POLICY_HEIGHT)).collect();
        let tokens = panel(first + count * (POLICY_HEIGHT + 8) - 8 + GAP + TITLE, TOKENS_HEIGHT);
        let ledger = has_ledger.then(|| panel(tokens.bottom + TIME_LABELS + GAP + TITLE - 6, count * BAR_PITCH));
        let height = ledger.map_or(tokens.bottom + TIME_LABELS, |ledger| ledger.bottom + ledger::LEGEND_HEIGHT) + 8;
        Self { capacity, policies, tokens, ledger, height }
    }
}

fn capacity_of(replay: &Replay) -> Capacity {
    Capacity {
        types: replay.gpu_types.clone(),
        changes: replay.capacity.iter().map(|point| (point.time.as_seconds(), point.gpus.clone())).collect(),
        losses: replay.losses.iter().map(|&(time, nodes)| (time.as_seconds(), nodes)).collect(),
    }
}

/// Title of a panel, above its left edge.
fn title(canvas: &Canvas<'_>, panel_top: i32, letter: char, text: &str) {
    let y = panel_top - TITLE / 2;
    canvas.bold_text((LEFT - 46, y), Anchor::Left, INK, &format!("({letter})"));
    canvas.text((LEFT - 20, y), Anchor::Left, INK, text);
}

fn time_labels(canvas: &Canvas<'_>, panel: &Panel, time: &Axis) {
    for (value, label) in time.ticks() {
        canvas.text((panel.x(time, value), panel.bottom + 13), Anchor::Center, INK, &label);
    }
    let middle = i32::midpoint(panel.left, panel.right);
    canvas.text((middle, panel.bottom + 31), Anchor::Center, INK, &format!("time ({})", time.unit()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{self, TOKENS_PER_ITERATION};

    #[test]
    fn the_figure_names_everything_in_it() {
        let svg = throughput_svg(&fixture::small(), TOKENS_PER_ITERATION);
        for text in ["A100-80", "V100-32", "autohet", "restart", "time (s)", "tokens/s", "nodes lost", "bubble"] {
            assert!(svg.contains(text), "{text} is missing");
        }
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn the_same_replay_gives_the_same_bytes() {
        let draw = || throughput_svg(&fixture::small(), TOKENS_PER_ITERATION);
        assert_eq!(draw(), draw());
    }

    #[test]
    fn replays_of_nothing_are_drawn_too() {
        let idle = throughput_svg(&fixture::idle(), TOKENS_PER_ITERATION);
        let mut empty = fixture::idle();
        empty.policies.clear();
        empty.span = crate::units::SimTime::ZERO;
        for svg in [idle, throughput_svg(&empty, TOKENS_PER_ITERATION)] {
            assert!(!svg.contains("NaN") && !svg.contains("-2147483648"), "{svg}");
        }
    }

    #[test]
    fn text_is_large_enough_to_read() {
        let svg = throughput_svg(&fixture::small(), TOKENS_PER_ITERATION);
        let sizes =
            svg.split("font-size=\"").skip(1).map(|rest| rest.split('"').next().unwrap().parse::<f64>().unwrap());
        assert!(sizes.clone().count() > 20 && sizes.into_iter().all(|size| size >= 11.99));
    }

    #[test]
    fn everything_lies_within_the_figure() {
        let replay = fixture::day();
        let svg = throughput_svg(&replay, TOKENS_PER_ITERATION);
        for (attribute, limit) in [(" x=\"", WIDTH), (" y=\"", Layout::new(&replay, true).height)] {
            let values =
                svg.split(attribute).skip(1).map(|rest| rest.split('"').next().unwrap().parse::<i32>().unwrap());
            assert!(values.into_iter().all(|value| (0..=limit).contains(&value)));
        }
    }
}
