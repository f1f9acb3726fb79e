//! What was up over time, by type, with a mark for each loss: a panel of the figure of a replay and of that of a trace.

use super::canvas::{Anchor, Canvas, FAINT_INK, INK, Point};
use super::palette::VERMILION;
use super::panel::{Axis, Panel, thinned};
use plotters::style::{RGBColor, WHITE};

/// Height of the marks of losses, above the panel.
pub(super) const LOSS_STRIP: i32 = 24;
/// Lines of the legend that fit beside the panel.
const LEGEND_LINES: usize = 6;

/// What was up of each type, and what was lost, over time in seconds.
pub(super) struct Capacity {
    /// Names of the types, in the order of the stack.
    pub types: Vec<String>,
    /// How many of each type are up, from each change on.
    pub changes: Vec<(f64, Vec<u32>)>,
    /// Nodes that were lost at once, and when.
    pub losses: Vec<(f64, u32)>,
}

impl Capacity {
    /// The most that was up at once.
    fn peak(&self) -> u32 {
        self.changes.iter().map(|(_, counts)| counts.iter().sum()).max().unwrap_or(0)
    }

    pub(super) fn draw(&self, canvas: &Canvas<'_>, panel: &Panel, time: &Axis) {
        let vertical = Axis::of_count(self.peak(), 4.0);
        panel.draw_grid(canvas, time, &vertical);
        let types = self.types.len();
        // From the top of the stack down, each layer over the foot of the one before.
        for layer in (0..types).rev() {
            let upper = self.line(panel, time, &vertical, layer + 1);
            let mut area = upper.clone();
            area.extend([(panel.x(time, time.max), panel.bottom), (upper[0].0, panel.bottom)]);
            canvas.polygon(area, shade(layer, types));
            if types > 1 {
                canvas.line(upper, WHITE, 1);
            }
        }
        self.draw_losses(canvas, panel, time);
        panel.draw_axes(canvas);
        self.draw_legend(canvas, panel);
    }

    /// The step line of the first `layers` types together.
    fn line(&self, panel: &Panel, time: &Axis, vertical: &Axis, layers: usize) -> Vec<Point> {
        let mut points = vec![(panel.left, panel.bottom)];
        for (time_s, counts) in &self.changes {
            let x = panel.x(time, *time_s);
            let up: u32 = counts.iter().take(layers).sum();
            let before = points.last().map_or(panel.bottom, |&(_, y)| y);
            points.extend([(x, before), (x, panel.y(vertical, f64::from(up)))]);
        }
        let last = points.last().map_or(panel.bottom, |&(_, y)| y);
        points.push((panel.x(time, time.max), last));
        thinned(&points)
    }

    /// A mark for each loss, as high as the square root of the nodes lost: bulk losses stand out, single ones are seen. Of
    /// losses at one pixel the largest is seen.
    fn draw_losses(&self, canvas: &Canvas<'_>, panel: &Panel, time: &Axis) {
        let foot = panel.top - 3;
        let most = self.losses.iter().map(|&(_, nodes)| nodes).max().unwrap_or(0);
        let mut marks: Vec<(i32, i32)> = Vec::new();
        for &(at_s, nodes) in &self.losses {
            let share = (f64::from(nodes) / f64::from(most.max(1))).sqrt();
            let height = (share * f64::from(LOSS_STRIP - 8)).round().max(3.0) as i32;
            let x = panel.x(time, at_s);
            match marks.last_mut() {
                Some(last) if last.0 == x => last.1 = last.1.max(height),
                _ => marks.push((x, height)),
            }
        }
        for (x, height) in marks {
            canvas.rectangle((x - 1, foot - height), (x + 1, foot), VERMILION);
        }
        if most > 0 {
            // In the line of the title, at its right end.
            let at = (panel.right - 222, panel.top - LOSS_STRIP - 11);
            canvas.rectangle((at.0 - 1, at.1 - 6), (at.0 + 1, at.1 + 6), VERMILION);
            canvas.text((at.0 + 10, at.1), Anchor::Left, INK, &format!("nodes lost at once (at most {most})"));
        }
    }

    /// Types in the order of the stack, its top first.
    fn draw_legend(&self, canvas: &Canvas<'_>, panel: &Panel) {
        let types = self.types.len();
        let mut at = (panel.right + 12, panel.top + 12);
        for (line, index) in (0..types).rev().enumerate() {
            if line + 1 == LEGEND_LINES && types > LEGEND_LINES {
                canvas.text(at, Anchor::Left, FAINT_INK, &format!("and {} more", types - line));
                break;
            }
            canvas.legend_entry(at, shade(index, types), &self.types[index]);
            at.1 += 19;
        }
    }
}

/// Shades of one hue from dark to light, which stay apart in print and for any colour vision, and leave the colours to
/// whatever else is drawn.
fn shade(index: usize, types: usize) -> RGBColor {
    const DARK: [f64; 3] = [62.0, 84.0, 110.0];
    const LIGHT: [f64; 3] = [198.0, 212.0, 226.0];
    let share = if types < 2 { 0.35 } else { index as f64 / (types - 1) as f64 };
    let channel = |c: usize| (DARK[c] + share * (LIGHT[c] - DARK[c])).round() as u8;
    RGBColor(channel(0), channel(1), channel(2))
}
