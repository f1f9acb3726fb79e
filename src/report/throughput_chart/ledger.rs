//! Panel (d): where the GPU time went, one bar a policy.

use super::{BAR_PITCH, policy_color, title};
use crate::metrics::Activity;
use crate::replay::{PolicyOutcome, Replay};
use crate::report::canvas::{Anchor, Canvas, GRID, INK, legend_width};
use crate::report::figures::percent;
use crate::report::panel::Panel;
use plotters::style::{RGBColor, WHITE};

/// Height of the shares' labels and two lines of legend.
pub(super) const LEGEND_HEIGHT: i32 = 72;
const BAR: i32 = 18;

/// Colours told apart by readers of any colour vision (Okabe and Ito 2008), greys for what was there and not used.
pub(super) fn color(activity: Activity) -> RGBColor {
    match activity {
        Activity::Useful => RGBColor(0, 158, 115),
        Activity::Recomputation => RGBColor(86, 180, 233),
        Activity::ExposedCommunication => RGBColor(0, 114, 178),
        Activity::Bubble => RGBColor(240, 228, 66),
        Activity::CheckpointStall => RGBColor(204, 121, 167),
        Activity::LostWork => RGBColor(213, 94, 0),
        Activity::Recovery => RGBColor(230, 159, 0),
        Activity::IdleByPlan => RGBColor(200, 200, 200),
        Activity::Waiting => RGBColor(90, 90, 90),
    }
}

pub(super) fn draw(canvas: &Canvas<'_>, panel: &Panel, replay: &Replay) {
    title(canvas, panel.top, 'd', "where the GPU time paid for went, and the share of useful work");
    let width = f64::from(panel.right - panel.left);
    let x = |share: f64| panel.left + (share * width).round() as i32;
    for tenths in (0..=10).step_by(2) {
        let x = x(f64::from(tenths) / 10.0);
        canvas.line(vec![(x, panel.top), (x, panel.bottom)], GRID, 1);
        canvas.text((x, panel.bottom + 12), Anchor::Center, INK, &format!("{} %", tenths * 10));
    }
    let mut top = panel.top + (BAR_PITCH - BAR) / 2;
    for (index, outcome) in replay.policies.iter().enumerate() {
        draw_bar(canvas, outcome, top, x);
        let middle = top + BAR / 2;
        canvas.bold_legend_entry((panel.right + 12, middle), policy_color(index), outcome.policy);
        let goodput = percent(outcome.ledger.goodput_share());
        canvas.text((super::WIDTH - 8, middle), Anchor::Right, INK, &goodput);
        top += BAR_PITCH;
    }
    draw_legend(canvas, panel);
}

fn draw_bar(canvas: &Canvas<'_>, outcome: &PolicyOutcome, top: i32, x: impl Fn(f64) -> i32) {
    let total = outcome.ledger.total().0 as f64;
    let mut before = 0.0;
    for activity in Activity::ALL {
        let after = before + outcome.ledger.get(activity).0 as f64;
        if after > before {
            let (start, end) = (x(before / total), x(after / total));
            canvas.rectangle((start, top), (end, top + BAR), color(activity));
            canvas.line(vec![(end, top), (end, top + BAR)], WHITE, 1);
        }
        before = after;
    }
}

/// All rows in the order of the bars, in as many lines as they need.
fn draw_legend(canvas: &Canvas<'_>, panel: &Panel) {
    let (mut x, mut y) = (panel.left, panel.bottom + 36);
    for activity in Activity::ALL {
        let name = activity.key().replace('_', " ");
        if x + legend_width(&name) > super::WIDTH {
            (x, y) = (panel.left, y + 20);
        }
        x += canvas.legend_entry((x, y), color(activity), &name);
    }
}
