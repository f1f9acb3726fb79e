//! What mixes of GPUs give for their price: every mix a point, and the front of those that no other beats.

use super::canvas::{Anchor, Canvas, FAINT_INK, INK, Point, legend_width};
use super::panel::{Axis, Panel};
use plotters::style::RGBColor;

const SIZE: Point = (820, 520);
const PANEL: Panel = Panel { left: 76, right: 796, top: 60, bottom: 462 };
const OTHER: RGBColor = RGBColor(170, 170, 170);
const FRONT: RGBColor = super::palette::BLUE;
const CHOSEN: RGBColor = RGBColor(213, 94, 0);
/// Pixels between labels.
const BETWEEN_LABELS: i32 = 18;

/// A mix in the chart.
#[derive(Clone, Debug, PartialEq)]
pub struct FrontPoint {
    /// Tokens a second.
    pub tokens_per_s: f64,
    /// Dollars of a million tokens.
    pub usd_per_million_tokens: f64,
    /// Its name, where it is on the front.
    pub name: Option<String>,
    /// Whether it is the one that is recommended.
    pub is_chosen: bool,
}

/// Draws mixes as SVG: throughput to the right, price of tokens up.
pub fn front_svg(heading: &str, points: &[FrontPoint]) -> String {
    let most = |of: fn(&FrontPoint) -> f64| points.iter().map(of).filter(|value| value.is_finite()).fold(0.0, f64::max);
    let horizontal = Axis::of_quantity(most(|point| point.tokens_per_s), 6.0);
    let vertical = Axis::of_quantity(most(|point| point.usd_per_million_tokens), 6.0);
    let place = |point: &FrontPoint| {
        (PANEL.x(&horizontal, point.tokens_per_s), PANEL.y(&vertical, point.usd_per_million_tokens))
    };
    let mut svg = String::new();
    {
        let canvas = Canvas::new(&mut svg, SIZE);
        canvas.bold_text((16, 20), Anchor::Left, INK, heading);
        let mut x = 16;
        for (color, name) in
            [(CHOSEN, "recommended"), (FRONT, "front: none is faster and cheaper"), (OTHER, "other mixes")]
        {
            x += canvas.legend_entry((x, 42), color, name) + 8;
        }
        PANEL.draw_grid(&canvas, &horizontal, &vertical);
        for (value, label) in horizontal.ticks() {
            canvas.text((PANEL.x(&horizontal, value), PANEL.bottom + 14), Anchor::Center, INK, &label);
        }
        for point in points.iter().filter(|point| point.name.is_none()) {
            dot(&canvas, place(point), 2, OTHER);
        }
        let mut front: Vec<&FrontPoint> = points.iter().filter(|point| point.name.is_some()).collect();
        front.sort_by(|a, b| a.tokens_per_s.total_cmp(&b.tokens_per_s));
        canvas.line(front.iter().map(|point| place(point)).collect(), FRONT, 2);
        let mut labels: Vec<(Point, i32)> = Vec::new();
        // The recommended one has its label in any case, the others where there is room.
        front.sort_by_key(|point| !point.is_chosen);
        for point in front {
            let (at, color) = (place(point), if point.is_chosen { CHOSEN } else { FRONT });
            dot(&canvas, at, if point.is_chosen { 5 } else { 3 }, color);
            let name = point.name.as_deref().unwrap_or_default();
            let half = legend_width(name) / 2;
            let label = (at.0.clamp(PANEL.left + half, PANEL.right - half), at.1 + 18);
            let is_free = |&((x, y), width): &(Point, i32)| {
                (x - label.0).abs() > width + half || (y - label.1).abs() >= BETWEEN_LABELS
            };
            if labels.iter().all(is_free) {
                labels.push((label, half));
                canvas.text(label, Anchor::Center, if point.is_chosen { INK } else { FAINT_INK }, name);
            }
        }
        PANEL.draw_axes(&canvas);
        let name = format!("{}tokens/s", horizontal.unit());
        canvas.text((i32::midpoint(PANEL.left, PANEL.right), SIZE.1 - 20), Anchor::Center, INK, &name);
        canvas.text((8, PANEL.top - 2), Anchor::Left, INK, "USD per");
        canvas.text((8, PANEL.top + 14), Anchor::Left, INK, "10^6");
        canvas.finish();
    }
    svg
}

fn dot(canvas: &Canvas<'_>, (x, y): Point, radius: i32, color: RGBColor) {
    canvas.rectangle((x - radius, y - radius), (x + radius, y + radius), color);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_is_named() {
        let point = |tokens_per_s, usd_per_million_tokens, name: Option<&str>| FrontPoint {
            tokens_per_s,
            usd_per_million_tokens,
            name: name.map(str::to_owned),
            is_chosen: name == Some("2x8xH20"),
        };
        let points = [point(1000.0, 0.2, Some("1x8xT4")), point(9000.0, 0.3, Some("2x8xH20")), point(500.0, 0.9, None)];
        let svg = front_svg("mixes", &points);
        assert!(svg.contains("1x8xT4") && svg.contains("2x8xH20") && svg.contains("thousand tokens/s"), "{svg}");
        assert!(front_svg("nothing", &[]).contains("nothing"));
    }
}
