//! Panel (a): GPUs up, by type, and when nodes were lost.

use super::title;
use crate::replay::Replay;
use crate::report::canvas::{Anchor, Canvas, FAINT_INK, INK, Point};
use crate::report::panel::{Axis, Panel};
use plotters::style::{RGBColor, WHITE};

/// Height of the marks of losses, above the panel.
pub(super) const LOSS_STRIP: i32 = 24;
/// Losses, as lost work in the ledger.
const LOSS: RGBColor = RGBColor(213, 94, 0);
/// Lines of the legend that fit beside the panel.
const LEGEND_LINES: usize = 6;

pub(super) fn draw(canvas: &Canvas<'_>, panel: &Panel, time: &Axis, replay: &Replay) {
    title(canvas, panel.top - LOSS_STRIP, 'a', "GPUs up, by type");
    let most = replay.capacity.iter().map(|point| point.gpus.iter().sum::<u32>()).max().unwrap_or(0);
    let vertical = Axis::of_count(most, 4.0);
    panel.draw_grid(canvas, time, &vertical);
    let types = replay.gpu_types.len();
    // From the top of the stack down, each layer over the foot of the one before.
    for layer in (0..types).rev() {
        let upper = layer_line(panel, time, &vertical, replay, layer + 1);
        let mut area = upper.clone();
        area.extend([(panel.x(time, time.max), panel.bottom), (upper[0].0, panel.bottom)]);
        canvas.polygon(area, type_color(layer, types));
        canvas.line(upper, WHITE, 1);
    }
    draw_losses(canvas, panel, time, replay);
    panel.draw_axes(canvas);
    draw_legend(canvas, panel, replay);
}

/// The step line of the first `layers` types together.
fn layer_line(panel: &Panel, time: &Axis, vertical: &Axis, replay: &Replay, layers: usize) -> Vec<Point> {
    let mut points = vec![(panel.left, panel.bottom)];
    for change in &replay.capacity {
        let x = panel.x(time, change.time.as_seconds());
        let gpus: u32 = change.gpus.iter().take(layers).sum();
        let before = points.last().map_or(panel.bottom, |&(_, y)| y);
        points.extend([(x, before), (x, panel.y(vertical, f64::from(gpus)))]);
    }
    let last = points.last().map_or(panel.bottom, |&(_, y)| y);
    points.push((panel.x(time, time.max), last));
    points.dedup();
    points
}

/// Shades of one hue from dark to light, which stay apart in print and for any colour vision, and leave the colours to
/// the policies.
fn type_color(index: usize, types: usize) -> RGBColor {
    const DARK: [f64; 3] = [62.0, 84.0, 110.0];
    const LIGHT: [f64; 3] = [198.0, 212.0, 226.0];
    let share = if types < 2 { 0.35 } else { index as f64 / (types - 1) as f64 };
    let channel = |c: usize| (DARK[c] + share * (LIGHT[c] - DARK[c])).round() as u8;
    RGBColor(channel(0), channel(1), channel(2))
}

/// A mark for each loss event, as high as the square root of the nodes lost: bulk losses stand out, single ones are seen.
fn draw_losses(canvas: &Canvas<'_>, panel: &Panel, time: &Axis, replay: &Replay) {
    let foot = panel.top - 3;
    let most = replay.losses.iter().map(|&(_, nodes)| nodes).max().unwrap_or(0);
    for &(at, nodes) in &replay.losses {
        let share = (f64::from(nodes) / f64::from(most.max(1))).sqrt();
        let height = (share * f64::from(LOSS_STRIP - 8)).round().max(3.0) as i32;
        let x = panel.x(time, at.as_seconds());
        canvas.rectangle((x - 1, foot - height), (x + 1, foot), LOSS);
    }
    if most > 0 {
        // In the line of the title, at its right end.
        let at = (panel.right - 222, panel.top - LOSS_STRIP - 11);
        canvas.rectangle((at.0 - 1, at.1 - 6), (at.0 + 1, at.1 + 6), LOSS);
        canvas.text((at.0 + 10, at.1), Anchor::Left, INK, &format!("nodes lost at once (at most {most})"));
    }
}

/// Types in the order of the stack, its top first.
fn draw_legend(canvas: &Canvas<'_>, panel: &Panel, replay: &Replay) {
    let types = replay.gpu_types.len();
    let mut at = (panel.right + 12, panel.top + 12);
    for (line, index) in (0..types).rev().enumerate() {
        if line + 1 == LEGEND_LINES && types > LEGEND_LINES {
            canvas.text(at, Anchor::Left, FAINT_INK, &format!("and {} more", types - line));
            break;
        }
        canvas.legend_entry(at, type_color(index, types), &replay.gpu_types[index]);
        at.1 += 19;
    }
}
