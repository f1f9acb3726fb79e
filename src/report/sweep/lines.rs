//! Lines of a sweep: a panel a figure, a line for each value of another axis.

use super::chart::{SweepChart, axis_name, pixels, title, values_of};
use super::colors::LINES;
use super::{SweepTable, said};
use crate::report::canvas::{Anchor, Canvas, INK, Point, legend_width};
use crate::report::figures::figure as four_digits;
use crate::report::panel::{Axis, Panel};
use crate::report::svg::Spots;
use serde_json::Value;

const WIDTH: i32 = 720;
const LEFT: i32 = 76;
const RIGHT: i32 = WIDTH - 24;
const TOP: i32 = 70;
const PANEL: i32 = 200;
const GAP: i32 = 64;

/// Draws figures over the only axis of numbers.
pub(super) fn lines_svg(heading: &str, table: &SweepTable, chart: &SweepChart) -> String {
    let series: Vec<Option<Value>> = match chart.several {
        Some(axis) => values_of(table, axis).into_iter().take(LINES.len()).map(Some).collect(),
        None => vec![None],
    };
    let height = TOP + pixels(chart.figures.len(), PANEL + GAP);
    let mut svg = String::new();
    let mut spots = Spots::default();
    {
        let canvas = Canvas::new(&mut svg, (WIDTH, height));
        canvas.bold_text((16, 20), Anchor::Left, INK, heading);
        let mut x = 16;
        for (value, color) in series.iter().flatten().zip(LINES) {
            canvas.legend_entry((x, 44), color, &said(value));
            x += legend_width(&said(value));
        }
        for (figure, top) in chart.figures.iter().zip((TOP..).step_by((PANEL + GAP) as usize)) {
            draw_panel((&canvas, &mut spots), table, chart, figure, top, &series);
        }
        canvas.finish();
    }
    spots.over(svg)
}

fn draw_panel(
    (canvas, spots): (&Canvas<'_>, &mut Spots),
    table: &SweepTable,
    chart: &SweepChart,
    figure: &str,
    top: i32,
    series: &[Option<Value>],
) {
    let xs = values_of(table, chart.x);
    let lines: Vec<Vec<(f64, f64)>> = series
        .iter()
        .map(|of| {
            let point = |x: &Value| {
                let mut at = vec![(chart.x, x)];
                at.extend(chart.several.zip(of.as_ref()));
                Some((x.as_f64()?, chart.value(table, figure, &at)?))
            };
            xs.iter().filter_map(point).collect()
        })
        .collect();
    let number = |value: Option<&Value>| value.and_then(Value::as_f64).unwrap_or_default();
    let horizontal = Axis::of_range(number(xs.first()), number(xs.last()), 8.0);
    let most = lines.iter().flatten().map(|(_, y)| *y).fold(0.0, f64::max);
    let vertical = Axis::of_quantity(most, 5.0);
    let panel = Panel { left: LEFT, right: RIGHT, top: top + 16, bottom: top + 16 + PANEL - 30 };
    panel.draw_grid(canvas, &horizontal, &vertical);
    for (value, label) in horizontal.ticks() {
        canvas.text((panel.x(&horizontal, value), panel.bottom + 14), Anchor::Center, INK, &label);
    }
    for ((line, color), of) in lines.iter().zip(LINES).zip(series) {
        let of = of.as_ref().map_or_else(String::new, |of| format!("{}, ", said(of)));
        for &(x, y) in line {
            let says = format!("{of}{} {x}: {} {}", axis_name(&table.axes[chart.x]), four_digits(y), title(figure));
            let (x, y) = (f64::from(panel.x(&horizontal, x)), f64::from(panel.y(&vertical, y)));
            spots.add((x - 8.0, y - 8.0), (16.0, 16.0), says);
        }
        let points: Vec<Point> = line.iter().map(|(x, y)| (panel.x(&horizontal, *x), panel.y(&vertical, *y))).collect();
        for &(x, y) in &points {
            canvas.rectangle((x - 3, y - 3), (x + 3, y + 3), color);
        }
        canvas.line(points, color, 2);
    }
    panel.draw_axes(canvas);
    let unit = vertical.unit();
    canvas.bold_text((LEFT, top), Anchor::Left, INK, &format!("{unit}{}", title(figure)));
    canvas.text((i32::midpoint(LEFT, RIGHT), panel.bottom + 36), Anchor::Center, INK, &axis_name(&table.axes[chart.x]));
}
