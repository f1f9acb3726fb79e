//! `ratios.svg`: how many times as fast AutoHet's plans are, case by case.

use super::{FAMILIES, Family, RIVALS, ReproducedCase, Reproduction, by_family};
use crate::report::canvas::{Anchor, Canvas, FAINT_INK, GRID, INK, legend_width};
use crate::report::palette::{BLUE, ORANGE, VERMILION};
use crate::report::panel::{Axis, Panel};
use plotters::style::{RGBColor, WHITE};

const WIDTH: i32 = 900;
const LEFT: i32 = 270;
const RIGHT: i32 = WIDTH - 40;
/// Height of a bar, of a case with its two, and of a family's heading.
const BAR: i32 = 9;
const CASE: i32 = 26;
const HEADING: i32 = 30;
const TOP: i32 = 66;
const FOOT: i32 = 46;

/// By rival.
const COLORS: [RGBColor; 2] = [BLUE, ORANGE];
const PAPER: RGBColor = VERMILION;

/// Draws the ratios as SVG: two bars a case, from one on, and a line where the paper's "up to" is.
pub fn reproduction_svg(reproduction: &Reproduction) -> String {
    let families = by_family(reproduction);
    let rows: i32 = families.iter().map(|(_, cases)| height_of(cases)).sum();
    let height = TOP + rows + FOOT;
    let panel = Panel { left: LEFT, right: RIGHT, top: TOP, bottom: TOP + rows };
    let ratios = |case: &ReproducedCase| RIVALS.map(|(planner, _)| case.ratio_to(planner));
    let all = reproduction.cases.iter().flat_map(ratios).flatten();
    let most = all.chain(FAMILIES.map(|family| family.paper)).fold(1.0, f64::max);
    let least = reproduction.cases.iter().flat_map(ratios).flatten().fold(1.0, f64::min);
    let axis = Axis::of_range(least, most * 1.02, 8.0);
    let mut svg = String::new();
    {
        let canvas = Canvas::new(&mut svg, (WIDTH, height));
        for (value, label) in axis.ticks() {
            let x = panel.x(&axis, value);
            canvas.line(vec![(x, panel.top), (x, panel.bottom)], GRID, 1);
            canvas.text((x, panel.bottom + 14), Anchor::Center, INK, &label);
        }
        let mut y = TOP;
        for (family, cases) in &families {
            draw_family(&canvas, &panel, &axis, y, (*family, cases));
            y += height_of(cases);
        }
        let one = panel.x(&axis, 1.0);
        canvas.line(vec![(one, panel.top), (one, panel.bottom)], FAINT_INK, 1);
        let middle = i32::midpoint(panel.left, panel.right);
        let what = "throughput of AutoHet's plan over that of the other planner's, by the simulator";
        canvas.text((middle, height - 14), Anchor::Center, INK, what);
        canvas.bold_text((16, 18), Anchor::Left, INK, "AutoHet against Megatron-LM and Whale");
        let mut x = LEFT;
        for ((_, name), color) in RIVALS.iter().zip(COLORS) {
            x += canvas.legend_entry((x, 44), color, &format!("over {name}"));
        }
        canvas.legend_entry((x, 44), PAPER, "paper: up to, over Megatron-LM");
        canvas.finish();
    }
    svg
}

fn draw_family(
    canvas: &Canvas<'_>,
    panel: &Panel,
    axis: &Axis,
    top: i32,
    (family, cases): (Family, &[&ReproducedCase]),
) {
    canvas.bold_text((16, top + HEADING / 2 + 2), Anchor::Left, INK, family.name);
    let first = top + HEADING;
    let paper = panel.x(axis, family.paper);
    let bottom = top + height_of(cases);
    for from in (first - 6..bottom).step_by(8) {
        canvas.line(vec![(paper, from), (paper, (from + 4).min(bottom))], PAPER, 2);
    }
    canvas.text((paper, first - 14), Anchor::Center, PAPER, &format!("{:.2}", family.paper));
    for (y, case) in (first..).step_by(CASE as usize).zip(cases) {
        canvas.text((LEFT - 10, y + CASE / 2), Anchor::Right, INK, &label(case));
        for (y, ((planner, _), color)) in (y + 4..).step_by(BAR as usize).zip(RIVALS.iter().zip(COLORS)) {
            let Some(ratio) = case.ratio_to(planner) else { continue };
            let (from, to) = (panel.x(axis, 1.0), panel.x(axis, ratio));
            canvas.rectangle((from.min(to), y), (from.max(to).max(from.min(to) + 1), y + BAR - 1), color);
        }
        let ratios: Vec<f64> = RIVALS.iter().filter_map(|(planner, _)| case.ratio_to(planner)).collect();
        let text = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect::<Vec<_>>().join(", ");
        let end = panel.x(axis, ratios.into_iter().fold(1.0, f64::max));
        // White behind it: the paper's line may pass there.
        canvas.rectangle((end + 4, y + 5), (end - 6 + legend_width(&text), y + CASE - 5), WHITE);
        canvas.text((end + 6, y + CASE / 2), Anchor::Left, FAINT_INK, &text);
    }
}

/// Pixels of a family: its heading and its cases.
fn height_of(cases: &[&ReproducedCase]) -> i32 {
    cases.iter().fold(HEADING, |height, _| height + CASE)
}

/// `6.7B: 8 A100 + 4 H800`: the model's size where a family has several, and the counts by type.
fn label(case: &ReproducedCase) -> String {
    let short = |part: &str| match part.split_once(' ') {
        Some((count, gpu)) => format!("{count} {}", gpu.split("-80").next().unwrap_or(gpu)),
        None => part.to_owned(),
    };
    let cluster: Vec<String> = case.cluster.split(" + ").map(short).collect();
    let size = case.model.strip_prefix("gpt3-").map(|size| format!("{}: ", size.to_uppercase()));
    let text = format!("{}{}", size.unwrap_or_default(), cluster.join(" + "));
    text.replace("RTX-", "").replace("V100-32", "V100")
}
