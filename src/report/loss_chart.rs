//! `loss.svg`: the loss of each step, and what came between.

use super::canvas::{Anchor, Canvas, GRID, INK, Point, legend_width};
use super::panel::{Axis, Panel};
use plotters::style::{Color, RGBColor};
use std::collections::BTreeMap;

const WIDTH: i32 = 900;
const HEIGHT: i32 = 420;
const PANEL: Panel = Panel { left: 62, right: WIDTH - 24, top: 60, bottom: HEIGHT - 58 };

/// Colours told apart by readers of any colour vision (Okabe and Ito 2008).
const LOSS: RGBColor = super::palette::BLUE;
const RECOVERY: RGBColor = RGBColor(213, 94, 0);
const CHECKPOINT: RGBColor = RGBColor(0, 158, 115);
/// Steps whose results were lost.
const GIVEN_UP: RGBColor = RGBColor(150, 150, 150);
/// Steps on both sides over which the loss is averaged for the heavy line, as a share of all.
const SMOOTHED_SHARE: f64 = 0.01;

/// The loss before a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossPoint {
    /// Number of the step, from one.
    pub step: u64,
    /// How often it had been done with this time: above one after training went back.
    pub attempt: u32,
    /// The loss.
    pub loss: f64,
}

/// Something that happened between two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossMark {
    /// Steps done when it happened.
    pub step: u64,
    /// What.
    pub kind: MarkKind,
}

/// What a mark stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// Training went on with another plan.
    Recovery,
    /// A checkpoint was whole.
    Checkpoint,
}

/// Draws the loss as SVG. Steps that were done again are drawn as they counted in the end, and the others in grey.
pub fn loss_svg(title: &str, points: &[LossPoint], marks: &[LossMark]) -> String {
    let mut svg = String::new();
    {
        let canvas = Canvas::new(&mut svg, (WIDTH, HEIGHT));
        let counted = counted(points);
        let finite = || points.iter().map(|point| point.loss).filter(|loss| loss.is_finite());
        let (low, high) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
        let last = points.iter().map(|point| point.step).max().unwrap_or(1);
        let steps = Axis::of_count(u32::try_from(last).unwrap_or(u32::MAX), 10.0);
        let loss = Axis::of_range(low, high, 6.0);
        PANEL.draw_grid(&canvas, &steps, &loss);
        draw_marks(&canvas, &steps, marks);
        let at = |point: &LossPoint| (PANEL.x(&steps, point.step as f64), PANEL.y(&loss, point.loss));
        draw_given_up(&canvas, points, &counted, at);
        draw_counted(&canvas, &counted, at);
        PANEL.draw_axes(&canvas);
        for (value, label) in steps.ticks() {
            canvas.text((PANEL.x(&steps, value), PANEL.bottom + 14), Anchor::Center, INK, &label);
        }
        canvas.text((i32::midpoint(PANEL.left, PANEL.right), HEIGHT - 20), Anchor::Center, INK, "optimizer step");
        canvas.bold_text((PANEL.left, 16), Anchor::Left, INK, title);
        draw_legend(&canvas, points.len() > counted.len(), marks);
        canvas.finish();
    }
    svg
}

/// Of each step the last time that it was done.
fn counted(points: &[LossPoint]) -> Vec<LossPoint> {
    let by_step: BTreeMap<u64, LossPoint> = points.iter().map(|point| (point.step, *point)).collect();
    by_step.into_values().collect()
}

/// Recoveries across the panel, checkpoints as ticks on the axis: there are many.
fn draw_marks(canvas: &Canvas<'_>, steps: &Axis, marks: &[LossMark]) {
    for mark in marks {
        let x = PANEL.x(steps, mark.step as f64 + 0.5);
        match mark.kind {
            MarkKind::Recovery => canvas.line(vec![(x, PANEL.top), (x, PANEL.bottom)], RECOVERY.mix(0.7), 2),
            MarkKind::Checkpoint => canvas.rectangle((x - 2, PANEL.bottom - 9), (x + 2, PANEL.bottom), CHECKPOINT),
        }
    }
}

/// Each stretch of steps that were done again later, as it was first.
fn draw_given_up(canvas: &Canvas<'_>, points: &[LossPoint], counted: &[LossPoint], at: impl Fn(&LossPoint) -> Point) {
    let latest: BTreeMap<u64, u32> = counted.iter().map(|point| (point.step, point.attempt)).collect();
    let is_given_up = |point: &&LossPoint| latest[&point.step] != point.attempt;
    let given_up: Vec<LossPoint> = points.iter().filter(is_given_up).copied().collect();
    for stretch in given_up.chunk_by(|a, b| a.step + 1 == b.step) {
        let line: Vec<Point> = stretch.iter().map(&at).collect();
        if let [only] = line[..] {
            canvas.rectangle((only.0 - 2, only.1 - 2), (only.0 + 2, only.1 + 2), GIVEN_UP);
        } else {
            canvas.line(line, GIVEN_UP, 3);
        }
    }
}

/// Each step faintly and the mean of its neighbours on top, where there are enough of them for a mean to be of use.
fn draw_counted(canvas: &Canvas<'_>, counted: &[LossPoint], at: impl Fn(&LossPoint) -> Point) {
    let reach = (counted.len() as f64 * SMOOTHED_SHARE) as usize;
    let line: Vec<Point> = counted.iter().filter(|point| point.loss.is_finite()).map(&at).collect();
    if reach == 0 {
        if let [only] = line[..] {
            canvas.rectangle((only.0 - 3, only.1 - 3), (only.0 + 3, only.1 + 3), LOSS);
        }
        canvas.line(line, LOSS, 2);
        return;
    }
    canvas.line(line, LOSS.mix(0.35), 1);
    let mean = |index: usize| {
        // The same reach on both sides, so that the ends aren't drawn towards the middle.
        let reach = reach.min(index).min(counted.len() - 1 - index);
        let near = &counted[index - reach..=index + reach];
        let loss = near.iter().map(|point| point.loss).sum::<f64>() / near.len() as f64;
        LossPoint { loss, ..counted[index] }
    };
    let smooth = (0..counted.len()).map(mean).filter(|point| point.loss.is_finite());
    canvas.line(smooth.map(|point| at(&point)).collect(), LOSS, 2);
}

fn draw_legend(canvas: &Canvas<'_>, has_given_up: bool, marks: &[LossMark]) {
    let has = |kind| marks.iter().any(|mark| mark.kind == kind);
    let entries = [
        (true, LOSS, "loss"),
        (has_given_up, GIVEN_UP, "given up and done again"),
        (has(MarkKind::Recovery), RECOVERY, "recovery"),
        (has(MarkKind::Checkpoint), CHECKPOINT, "checkpoint"),
    ];
    let shown: Vec<_> = entries.iter().filter(|(is_shown, ..)| *is_shown).collect();
    if shown.len() < 2 {
        return;
    }
    let width: i32 = shown.iter().map(|(_, _, name)| legend_width(name)).sum();
    let mut x = (PANEL.right - width).max(PANEL.left);
    canvas.line(vec![(PANEL.left, 30), (PANEL.right, 30)], GRID, 1);
    for (_, color, name) in shown {
        x += canvas.legend_entry((x, 44), *color, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points() -> Vec<LossPoint> {
        let point = |step, attempt| LossPoint { step, attempt, loss: 6.0 - step as f64 / 4.0 };
        (1..=8).map(|step| point(step, 1)).chain((5..=12).map(|step| point(step, 1 + u32::from(step < 9)))).collect()
    }

    #[test]
    fn of_a_step_done_twice_the_last_time_counts() {
        let counted = counted(&points());
        let found: Vec<_> = counted.iter().map(|point| (point.step, point.attempt)).collect();
        let expected: Vec<_> = (1..=12).map(|step| (step, 1 + u32::from((5..9).contains(&step)))).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_figure_names_what_is_in_it_and_nothing_else() {
        let marks = [LossMark { step: 4, kind: MarkKind::Recovery }, LossMark { step: 4, kind: MarkKind::Checkpoint }];
        let svg = loss_svg("tiny", &points(), &marks);
        for text in ["tiny", "optimizer step", "given up", "recovery", "checkpoint"] {
            assert!(svg.contains(text), "{text} is missing");
        }
        let plain = loss_svg("tiny", &points()[..8], &[]);
        assert!(!plain.contains("recovery") && !plain.contains("given up"));
    }

    #[test]
    fn little_and_nothing_are_drawn_too() {
        let odd = [LossPoint { step: 1, attempt: 1, loss: f64::NAN }];
        for points in [&[][..], &points()[..1], &odd[..]] {
            let svg = loss_svg("tiny", points, &[]);
            assert!(!svg.contains("NaN") && !svg.contains("-2147483648") && svg.trim_end().ends_with("</svg>"));
        }
    }
}
