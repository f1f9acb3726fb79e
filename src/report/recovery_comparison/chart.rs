//! `recovery.svg`: how many times as long Varuna stands still, case by case, beside the paper's range.

use super::{LostState, PAPER, RecoveryCase, RecoveryComparison};
use crate::report::canvas::{Anchor, Canvas, FAINT_INK, GRID, INK};
use crate::report::palette::{BLUE, GREEN, ORANGE, PURPLE, VERMILION};
use crate::report::panel::{Axis, Panel};
use plotters::style::RGBColor;

const WIDTH: i32 = 900;
const LEFT: i32 = 330;
const RIGHT: i32 = WIDTH - 40;
const ROW: i32 = 20;
const HEADING: i32 = 30;
const TOP: i32 = 70;
const FOOT: i32 = 46;
/// Half the width of a mark.
const MARK: i32 = 5;

/// By link speed.
const COLORS: [RGBColor; 5] = [ORANGE, GREEN, BLUE, VERMILION, PURPLE];
const PAPER_FILL: RGBColor = RGBColor(238, 238, 226);

/// A model on a cluster, and its cases.
type Row<'a> = (String, Vec<&'a RecoveryCase>);

/// Draws the ratios of the stop as SVG: a row for each model and cluster, a mark for each link speed.
pub fn recovery_svg(comparison: &RecoveryComparison) -> String {
    let links = links(comparison);
    let rows: Vec<(LostState, Vec<Row<'_>>)> =
        LostState::ALL.into_iter().map(|lost| (lost, rows_of(comparison, lost))).collect();
    let tall: i32 = rows.iter().map(|(_, rows)| rows.iter().fold(HEADING, |height, _| height + ROW)).sum();
    let panel = Panel { left: LEFT, right: RIGHT, top: TOP, bottom: TOP + tall };
    let ratios = || comparison.cases.iter().map(RecoveryCase::stop_ratio);
    let axis = Axis::of_range(ratios().fold(1.0, f64::min), ratios().fold(PAPER[1], f64::max) * 1.02, 8.0);
    let mut svg = String::new();
    {
        let canvas = Canvas::new(&mut svg, (WIDTH, TOP + tall + FOOT));
        let [from, to] = PAPER.map(|ratio| panel.x(&axis, ratio));
        canvas.rectangle((from, panel.top), (to, panel.bottom), PAPER_FILL);
        for (value, label) in axis.ticks() {
            let x = panel.x(&axis, value);
            canvas.line(vec![(x, panel.top), (x, panel.bottom)], GRID, 1);
            canvas.text((x, panel.bottom + 14), Anchor::Center, INK, &label);
        }
        let one = panel.x(&axis, 1.0);
        canvas.line(vec![(one, panel.top), (one, panel.bottom)], FAINT_INK, 1);
        let mut y = TOP;
        for (lost, rows) in &rows {
            canvas.bold_text((16, y + HEADING / 2 + 2), Anchor::Left, INK, lost.title());
            y += HEADING;
            for (name, cases) in rows {
                canvas.text((LEFT - 10, y + ROW / 2), Anchor::Right, INK, name);
                canvas.line(vec![(panel.left, y + ROW / 2), (panel.right, y + ROW / 2)], GRID, 1);
                for case in cases {
                    let color = links.iter().position(|link| *link == case.nic_gbit_per_s.to_bits());
                    draw_mark(&canvas, (panel.x(&axis, case.stop_ratio()), y + ROW / 2), color.unwrap_or(0));
                }
                y += ROW;
            }
        }
        canvas.bold_text((16, 18), Anchor::Left, INK, "Recovery of AutoHet against Varuna");
        let mut x = LEFT;
        for (index, link) in links.iter().enumerate() {
            x += canvas.legend_entry(
                (x, 44),
                COLORS[index % COLORS.len()],
                &format!("{} Gbit/s", f64::from_bits(*link)),
            );
        }
        canvas.legend_entry((x, 44), PAPER_FILL, &format!("paper: {:.2} to {:.2}", PAPER[0], PAPER[1]));
        let middle = i32::midpoint(panel.left, panel.right);
        let what = "times as long from the loss until training goes on, Varuna over AutoHet";
        canvas.text((middle, TOP + tall + FOOT - 14), Anchor::Center, INK, what);
        canvas.finish();
    }
    svg
}

/// A diamond.
fn draw_mark(canvas: &Canvas<'_>, (x, y): (i32, i32), color: usize) {
    let corners = vec![(x - MARK, y), (x, y - MARK), (x + MARK, y), (x, y + MARK)];
    canvas.polygon(corners, COLORS[color % COLORS.len()]);
}

/// The link speeds, as bits, each once, the slowest first.
fn links(comparison: &RecoveryComparison) -> Vec<u64> {
    let mut links: Vec<f64> = comparison.cases.iter().map(|case| case.nic_gbit_per_s).collect();
    links.sort_by(f64::total_cmp);
    let mut links: Vec<u64> = links.into_iter().map(f64::to_bits).collect();
    links.dedup();
    links
}

/// The cases of one kind, by model and cluster.
fn rows_of(comparison: &RecoveryComparison, lost: LostState) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for case in comparison.cases.iter().filter(|case| case.lost_state == lost) {
        let name = format!("{}: {}", case.model, case.cluster);
        match rows.iter_mut().find(|(known, _)| *known == name) {
            Some((_, cases)) => cases.push(case),
            None => rows.push((name, vec![case])),
        }
    }
    rows
}
