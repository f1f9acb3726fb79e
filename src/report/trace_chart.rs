//! What a trace is like, in a figure: nodes up over time, and how long up-times and the times between losses last, beside the
//! laws that fit them best.

mod availability;
mod survival;

use super::canvas::{Anchor, Canvas, FAINT_INK, INK, Point};
use super::panel::Panel;
use crate::trace::Trace;
use crate::trace::durations::Durations;

const SIZE: Point = (900, 700);
const AVAILABILITY: Panel = Panel { left: 62, right: SIZE.0 - 150, top: 84, bottom: 262 };
const UP_TIMES: Panel = Panel { left: 62, right: 436, top: 352, bottom: 566 };
const BETWEEN: Panel = Panel { left: 516, right: SIZE.0 - 10, top: 352, bottom: 566 };

/// Draws a trace as SVG.
pub fn trace_svg(name: &str, trace: &Trace) -> String {
    let mut svg = String::new();
    {
        let canvas = Canvas::new(&mut svg, SIZE);
        canvas.bold_text((16, 20), Anchor::Left, INK, name);
        availability::draw(&canvas, &AVAILABILITY, trace);
        title(&canvas, (UP_TIMES.left, UP_TIMES.top - 34), 'b', "Up-times: share of nodes that stay longer");
        survival::draw(&canvas, &UP_TIMES, &Durations::up_times(trace));
        title(&canvas, (BETWEEN.left, BETWEEN.top - 34), 'c', "Time between losses: share that is longer");
        survival::draw(&canvas, &BETWEEN, &Durations::between_losses(trace));
        canvas.finish();
    }
    svg
}

fn title(canvas: &Canvas<'_>, (x, y): Point, letter: char, text: &str) {
    canvas.bold_text((x - 46, y), Anchor::Left, INK, &format!("({letter})"));
    canvas.bold_text((x - 18, y), Anchor::Left, INK, text);
}

/// A note in the middle of a panel that has nothing to show.
fn empty(canvas: &Canvas<'_>, panel: &Panel, text: &str) {
    let middle = (i32::midpoint(panel.left, panel.right), i32::midpoint(panel.top, panel.bottom));
    canvas.text(middle, Anchor::Center, FAINT_INK, text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::parse;

    #[test]
    fn the_figure_says_what_it_shows() {
        let trace = crate::trace::read(std::path::Path::new("traces/aws-spot.csv")).unwrap();
        let svg = trace_svg("aws-spot", &trace);
        for text in [
            "aws-spot",
            "Nodes up, by type",
            "A100-40",
            "observed",
            "exponential",
            "Weibull",
            "lognormal",
            "AIC",
            "cut off",
        ] {
            assert!(svg.contains(text), "{text} is missing");
        }
    }

    #[test]
    fn little_and_nothing_are_drawn_too() {
        for text in [
            "time_s,event,node\n0,end,\n",
            "time_s,event,node\n0,up,a\n",
            "time_s,event,node\n0,up,a\n0,down,a\n",
            "time_s,event,node,gpu_type\n0,up,a,<T4>\n60,down,a,\n3153600000,up,a,\n",
        ] {
            let svg = trace_svg("t", &parse(text, "t").unwrap());
            assert!(
                !svg.contains("NaN") && !svg.contains("-2147483648") && svg.trim_end().ends_with("</svg>"),
                "{text}"
            );
        }
    }
}
