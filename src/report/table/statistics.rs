//! What traces are like, side by side.

use super::Screen;
use super::grid::{Best, Grid};
use crate::report::figures::{ABSENT, count, figure, percent};
use crate::report::records::Records;
use crate::trace::durations::Durations;
use crate::trace::fits::{Fit, Law};
use crate::trace::statistics::Spread;
use crate::trace::{Trace, TraceFormat, TraceStatistics};
use crate::units::format_seconds;
use serde::Serialize;
use serde_json::{Value, json};

/// A row for each trace: its file, the format that was recognised, and its statistics.
pub fn statistics_records(traces: &[(String, TraceFormat, TraceStatistics)], laws: &[TraceLaws]) -> Records {
    let row = |((file, format, statistics), laws): (&(String, TraceFormat, TraceStatistics), &TraceLaws)| {
        let laws = json!({ "up_times": laws.up_times.record(), "between_losses": laws.between_losses.record() });
        json!({ "file": file, "format": format, "statistics": statistics, "laws": laws })
    };
    Records::of_json(&traces.iter().zip(laws).map(row).collect::<Vec<_>>())
}

/// Rows of what is fitted to up-times, and to times between losses.
const UP_TIME: [&str; 5] = [
    "up-time, exponential: mean",
    "up-time, Weibull: shape, scale",
    "up-time, lognormal: median, sigma",
    "up-time, AIC of the three",
    "up-time, law of least AIC",
];
const LOSS_INTERVAL: [&str; 5] = [
    "loss interval, exponential: mean",
    "loss interval, Weibull: shape, scale",
    "loss interval, lognormal: median, sigma",
    "loss interval, AIC of the three",
    "loss interval, law of least AIC",
];
/// What stands in them.
const CELLS: [fn(&Fitted) -> String; 5] = [
    |fitted| fitted.parameters("exponential"),
    |fitted| fitted.parameters("Weibull"),
    |fitted| fitted.parameters("lognormal"),
    |fitted| match &fitted.fits[..] {
        [] => ABSENT.to_owned(),
        fits => fits.iter().map(|fit| figure(fit.aic)).collect::<Vec<_>>().join(" / "),
    },
    |fitted| fitted.best.unwrap_or(ABSENT).to_owned(),
];

fn up_times(laws: &TraceLaws) -> &Fitted {
    &laws.up_times
}

fn between_losses(laws: &TraceLaws) -> &Fitted {
    &laws.between_losses
}

/// Durations, and the laws that fit them best.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fitted {
    /// How many ended.
    pub ended: usize,
    /// How many the end of the trace cut off, which is counted in.
    pub cut_off: usize,
    /// How many lasted no time, which are left out.
    pub of_no_time: usize,
    /// The laws with their largest likelihood; none where too few ended.
    pub fits: Vec<Fit>,
    /// The law with the least AIC.
    pub best: Option<&'static str>,
}

/// What durations of a trace are like.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceLaws {
    /// From each coming of a node to its loss.
    pub up_times: Fitted,
    /// From one loss, of however many nodes, to the next.
    pub between_losses: Fitted,
}

impl TraceLaws {
    /// Fits them.
    pub fn of(trace: &Trace) -> Self {
        let fitted = |durations: Durations| {
            let fits = Fit::all(&durations);
            Fitted {
                ended: durations.ended_s.len(),
                cut_off: durations.censored_s.len(),
                of_no_time: durations.zeros,
                best: Fit::best(&fits).map(|fit| fit.law.name()),
                fits,
            }
        };
        Self { up_times: fitted(Durations::up_times(trace)), between_losses: fitted(Durations::between_losses(trace)) }
    }
}

impl Fitted {
    /// The laws by name, for a row.
    fn record(&self) -> Value {
        let Self { ended, cut_off, of_no_time, fits, best } = self;
        let mut record = json!({ "ended": ended, "cut_off": cut_off, "of_no_time": of_no_time, "best": best });
        for name in ["exponential", "Weibull", "lognormal"] {
            let fit = fits.iter().find(|fit| fit.law.name() == name);
            let value = |of: fn(&Fit) -> f64| fit.map(of);
            record[name.to_lowercase()] = match fit.map(|fit| fit.law) {
                Some(Law::Exponential { mean_s }) => json!({ "mean_s": mean_s }),
                Some(Law::Weibull { shape, scale_s }) => json!({ "shape": shape, "scale_s": scale_s }),
                Some(Law::Lognormal { median_s, sigma }) => json!({ "median_s": median_s, "sigma": sigma }),
                None => json!({}),
            };
            record[name.to_lowercase()]["log_likelihood"] = value(|fit| fit.log_likelihood).into();
            record[name.to_lowercase()]["aic"] = value(|fit| fit.aic).into();
        }
        record
    }

    /// The parameters of a law.
    fn parameters(&self, law: &str) -> String {
        let fit = self.fits.iter().find(|fit| fit.law.name() == law);
        fit.map_or_else(
            || ABSENT.to_owned(),
            |fit| match fit.law {
                Law::Exponential { mean_s } => format_seconds(mean_s),
                Law::Weibull { shape, scale_s } => format!("{shape:.2}, {}", format_seconds(scale_s)),
                Law::Lognormal { median_s, sigma } => format!("{}, {sigma:.2}", format_seconds(median_s)),
            },
        )
    }
}

/// One column a trace: its file, the format that was recognised, its statistics, and what its durations are like.
pub fn statistics_table(
    traces: &[(String, TraceFormat, TraceStatistics)],
    laws: &[TraceLaws],
    screen: Screen,
) -> String {
    let of =
        |figure: &dyn Fn(&TraceStatistics) -> Option<f64>| traces.iter().map(|(_, _, s)| figure(s)).collect::<Vec<_>>();
    let whole = |value: f64| count(value as u64);
    let bulk = |part: fn(&Spread) -> f64| move |s: &TraceStatistics| s.nodes_lost_per_loss_event.as_ref().map(part);
    let up_time = |part: fn(&Spread) -> f64| move |s: &TraceStatistics| s.up_time_s.as_ref().map(part);
    let mut grid =
        Grid { corner: "trace", names: traces.iter().map(|(file, _, _)| file.clone()).collect(), rows: Vec::new() };
    grid.text_row("format", traces.iter().map(|(_, format, _)| format.to_string()).collect());
    grid.row("observed", Best::Neither, &of(&|s| Some(s.span_s)), format_seconds);
    grid.row("nodes, distinct", Best::Neither, &of(&|s| Some(s.node_count as f64)), whole);
    grid.row("most nodes up at once", Best::Neither, &of(&|s| Some(s.peak_nodes_up as f64)), whole);
    grid.row("mean availability", Best::Neither, &of(&|s| Some(s.mean_availability)), percent);
    grid.row("losses", Best::Neither, &of(&|s| Some(s.loss_count as f64)), whole);
    grid.row("losses per node-hour", Best::Neither, &of(&|s| Some(s.losses_per_node_hour)), figure);
    grid.row("loss events", Best::Neither, &of(&|s| Some(s.loss_event_count as f64)), whole);
    grid.row("nodes lost per event, mean", Best::Neither, &of(&bulk(|spread| spread.mean)), figure);
    grid.row("nodes lost per event, p90", Best::Neither, &of(&bulk(|spread| spread.p90)), figure);
    grid.row("nodes lost per event, max", Best::Neither, &of(&bulk(|spread| spread.max)), figure);
    grid.row("up-time, mean", Best::Neither, &of(&up_time(|spread| spread.mean)), format_seconds);
    grid.row("up-time, median", Best::Neither, &of(&up_time(|spread| spread.median)), format_seconds);
    grid.row("up-time, p90", Best::Neither, &of(&up_time(|spread| spread.p90)), format_seconds);
    grid.row("cv of time between losses", Best::Neither, &of(&|s| s.loss_interval_cv), figure);
    for (what, of_trace) in [(UP_TIME, up_times as fn(&TraceLaws) -> &Fitted), (LOSS_INTERVAL, between_losses)] {
        for (label, cell) in what.into_iter().zip(CELLS) {
            grid.text_row(label, laws.iter().map(|laws| cell(of_trace(laws))).collect());
        }
    }
    grid.row("losses without notice", Best::Neither, &of(&|s| Some(s.losses_without_notice as f64)), whole);
    grid.render(screen)
}
