//! Panel (a): nodes up over time, by type, with a mark for each loss.

use super::title;
use crate::report::canvas::{Anchor, Canvas, FAINT_INK, INK, Point};
use crate::report::figures::percent;
use crate::report::palette::VERMILION;
use crate::report::panel::{Axis, Panel};
use crate::trace::{Trace, TraceEventKind, TraceStatistics};
use plotters::style::{RGBColor, WHITE};
use std::collections::HashMap;

/// Height of the marks of losses, above the panel.
const LOSS_STRIP: i32 = 22;
/// Types that the legend names.
const MOST_NAMED: usize = 7;
/// What nodes without a type are called.
const UNNAMED: &str = "nodes";

/// Nodes up by type from each change on, and the nodes lost at each loss.
struct Levels {
    types: Vec<String>,
    changes: Vec<(f64, Vec<u32>)>,
    losses: Vec<(f64, u32)>,
}

impl Levels {
    fn of(trace: &Trace) -> Self {
        let mut levels = Self { types: Vec::new(), changes: Vec::new(), losses: Vec::new() };
        let mut up: HashMap<&str, usize> = HashMap::new();
        let mut counts: Vec<u32> = Vec::new();
        for event in &trace.events {
            let time_s = event.time.as_seconds();
            match &event.kind {
                TraceEventKind::Up(offer) => {
                    let name = offer.gpu_type.as_deref().unwrap_or(UNNAMED);
                    let known = levels.types.iter().position(|other| other == name);
                    let place = known.unwrap_or_else(|| {
                        levels.types.push(name.to_owned());
                        counts.push(0);
                        counts.len() - 1
                    });
                    counts[place] += 1;
                    up.insert(&event.node, place);
                }
                TraceEventKind::Down => {
                    let Some(place) = up.remove(event.node.as_str()) else { continue };
                    counts[place] -= 1;
                    match levels.losses.last_mut() {
                        Some((at_s, lost)) if at_s.to_bits() == time_s.to_bits() => *lost += 1,
                        _ => levels.losses.push((time_s, 1)),
                    }
                }
                TraceEventKind::Notice { .. } | TraceEventKind::Cancelled => continue,
            }
            if levels.changes.last().is_some_and(|(at_s, _)| at_s.to_bits() == time_s.to_bits()) {
                levels.changes.pop();
            }
            levels.changes.push((time_s, counts.clone()));
        }
        levels
    }

    /// Nodes of the first `types` types together.
    fn up(counts: &[u32], types: usize) -> u32 {
        counts.iter().take(types).sum()
    }
}

pub(super) fn draw(canvas: &Canvas<'_>, panel: &Panel, trace: &Trace) {
    let levels = Levels::of(trace);
    let statistics = TraceStatistics::of(trace);
    let what = if levels.types.len() > 1 { "Nodes up, by type" } else { "Nodes up" };
    let share = percent(statistics.mean_availability);
    title(
        canvas,
        (panel.left, panel.top - LOSS_STRIP - 16),
        'a',
        &format!("{what} ({share} of {} on average)", statistics.peak_nodes_up),
    );
    let time = Axis::of_time(trace.span.as_seconds());
    let vertical = Axis::of_count(statistics.peak_nodes_up as u32, 4.0);
    panel.draw_grid(canvas, &time, &vertical);
    for (value, label) in time.ticks() {
        canvas.text((panel.x(&time, value), panel.bottom + 14), Anchor::Center, INK, &label);
    }
    let unit = format!("time in {}", time.unit());
    canvas.text((i32::midpoint(panel.left, panel.right), panel.bottom + 32), Anchor::Center, INK, &unit);
    let types = levels.types.len();
    for layer in (0..types).rev() {
        let upper = line(panel, &time, &vertical, &levels, layer + 1);
        let mut area = upper.clone();
        area.extend([(panel.x(&time, trace.span.as_seconds()), panel.bottom), (upper[0].0, panel.bottom)]);
        canvas.polygon(area, shade(layer, types));
        if types > 1 {
            canvas.line(upper, WHITE, 1);
        }
    }
    draw_losses(canvas, panel, &time, &levels);
    panel.draw_axes(canvas);
    draw_legend(canvas, panel, &levels);
}

fn line(panel: &Panel, time: &Axis, vertical: &Axis, levels: &Levels, types: usize) -> Vec<Point> {
    let mut points = vec![(panel.left, panel.bottom)];
    for (time_s, counts) in &levels.changes {
        let x = panel.x(time, *time_s);
        let before = points.last().map_or(panel.bottom, |&(_, y)| y);
        points.extend([(x, before), (x, panel.y(vertical, f64::from(Levels::up(counts, types))))]);
    }
    let last = points.last().map_or(panel.bottom, |&(_, y)| y);
    points.push((panel.x(time, time.max), last));
    points.dedup();
    points
}

/// Shades of one hue from dark to light, which stay apart in print.
fn shade(index: usize, types: usize) -> RGBColor {
    const DARK: [f64; 3] = [62.0, 84.0, 110.0];
    const LIGHT: [f64; 3] = [198.0, 212.0, 226.0];
    let share = if types < 2 { 0.55 } else { index as f64 / (types - 1) as f64 };
    let channel = |c: usize| (DARK[c] + share * (LIGHT[c] - DARK[c])).round() as u8;
    RGBColor(channel(0), channel(1), channel(2))
}

/// A mark for each loss, as high as the square root of the nodes lost: bulk losses stand out, single ones are seen.
fn draw_losses(canvas: &Canvas<'_>, panel: &Panel, time: &Axis, levels: &Levels) {
    let foot = panel.top - 3;
    let most = levels.losses.iter().map(|&(_, nodes)| nodes).max().unwrap_or(0);
    for &(at_s, nodes) in &levels.losses {
        let share = (f64::from(nodes) / f64::from(most.max(1))).sqrt();
        let height = (share * f64::from(LOSS_STRIP - 6)).round().max(3.0) as i32;
        let x = panel.x(time, at_s);
        canvas.rectangle((x, foot - height), (x + 1, foot), VERMILION);
    }
    if most > 0 {
        let at = (panel.right + 12, foot - LOSS_STRIP / 2 + 3);
        canvas.rectangle((at.0 + 4, at.1 - 7), (at.0 + 5, at.1 + 7), VERMILION);
        canvas.text((at.0 + 15, at.1), Anchor::Left, INK, &format!("lost: {most} at most"));
    }
}

/// Types in the order of the stack, its top first.
fn draw_legend(canvas: &Canvas<'_>, panel: &Panel, levels: &Levels) {
    let types = levels.types.len();
    if types < 2 && levels.types.first().is_none_or(|name| name == UNNAMED) {
        return;
    }
    let mut at = (panel.right + 12, panel.top + 12);
    for (line, index) in (0..types).rev().enumerate() {
        if line + 1 == MOST_NAMED && types > MOST_NAMED {
            canvas.text(at, Anchor::Left, FAINT_INK, &format!("and {} more", types - line));
            break;
        }
        canvas.legend_entry(at, shade(index, types), &levels.types[index]);
        at.1 += 19;
    }
}
