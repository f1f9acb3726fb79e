//! The comparison for people.

use super::inject::InjectReport;
use super::percent;
use crate::elastic::Cause;
use crate::units::{format_bytes, format_seconds};
use crate::validation::{CheckReport, Judged, Quantity, Recovered, WorldQuantity};
use std::fmt::Write as _;

/// One line a quantity, then where the time of each rank went.
pub(super) fn table(report: &CheckReport) -> String {
    let mut text = String::new();
    let mut line = |line: String| writeln!(text, "{line}").unwrap_or_default();
    line(format!("{}, {} ranks, {} devices", report.model, report.world_size, report.backend));
    line(format!("on {}", report.machine));
    if (report.time_scale - 1.0).abs() > 0.0 {
        line(format!("times are {} times those of the devices that are emulated", report.time_scale));
    }
    line(String::new());
    line(format!("{:<28} {:>12} {:>12} {:>9}", "", "predicted", "measured", "error"));
    for row in &report.rows {
        let name = match row.rank {
            Some(rank) => format!("{}, rank {rank}", name(row.quantity)),
            None => name(row.quantity).to_owned(),
        };
        let measured = row.measured.map_or("-".to_owned(), |measured| figure(row.quantity, measured));
        let error = row.relative_error.map_or("-".to_owned(), |error| format!("{:+.1} %", error * 100.0));
        let verdict = match row.judged {
            Judged::Fails => "  beyond the tolerance",
            Judged::Holds | Judged::No => "",
        };
        line(format!("{name:<28} {:>12} {measured:>12} {error:>9}{verdict}", figure(row.quantity, row.predicted)));
    }
    line(String::new());
    line(format!("{:<28} {:>12} {:>12} {:>9}", "instructions", "predicted", "measured", "number"));
    for row in &report.operations {
        let name = format!("{}, rank {}", row.operation, row.rank);
        let (predicted, measured) = (format_seconds(row.predicted_s), format_seconds(row.measured_s));
        line(format!("{name:<28} {predicted:>12} {measured:>12} {:>9}", row.count));
    }
    line(String::new());
    let verdict = if report.holds { "holds" } else { "fails" };
    line(format!(
        "{verdict}: iteration and busy times within {} over {} steps",
        percent(report.tolerance),
        report.steps
    ));
    text
}

/// One line a quantity, then the changes of plan of both worlds.
pub(super) fn trace_table(report: &InjectReport) -> String {
    let mut text = String::new();
    let mut line = |line: String| writeln!(text, "{line}").unwrap_or_default();
    line(format!("{}, {} devices, a trace of {}", report.model, report.backend, format_seconds(report.span_s)));
    line(format!("on {}", report.machine));
    if (report.time_scale - 1.0).abs() > 0.0 {
        line(format!("iterations take {} times those of the devices that are emulated", report.time_scale));
    }
    line(String::new());
    line(format!("{:<28} {:>12} {:>12} {:>9}", "", "predicted", "measured", "error"));
    for row in &report.rows {
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), |value| world_figure(row.quantity, value));
        let error = row.relative_error.map_or("-".to_owned(), |error| format!("{:+.1} %", error * 100.0));
        let verdict = if row.judged == Judged::Fails { "  beyond the tolerance" } else { "" };
        let (predicted, measured) = (shown(row.predicted), shown(row.measured));
        line(format!("{:<28} {predicted:>12} {measured:>12} {error:>9}{verdict}", world_name(row.quantity)));
    }
    let plans = &report.plans;
    let equal = if report.plans_equal { "equal".to_owned() } else { format!("{} equal", plans.equal) };
    line(format!("{:<28} {:>12} {:>12} {equal:>9}", "plans", plans.predicted, plans.measured));
    for (title, recoveries) in [("predicted", &report.predicted_recoveries), ("measured", &report.measured_recoveries)]
    {
        line(String::new());
        line(format!("{:<9} {:>10} {:>12} {:>6}  {}", title, "goes on at", "after", "lost", "plan"));
        recoveries.iter().map(recovery_line).for_each(&mut line);
    }
    line(String::new());
    let verdict = if report.holds { "holds" } else { "fails" };
    line(format!("{verdict}: goodput and mean recovery time within {}", percent(report.tolerance)));
    text
}

fn recovery_line(recovery: &Recovered) -> String {
    let Recovered { end_s, time_s, cause, lost_iterations, plan } = recovery;
    let cause = match cause {
        Cause::Loss => "loss",
        Cause::Notice => "notice",
        Cause::Join => "join",
        Cause::Resume => "resume",
    };
    let (end, time) = (format_seconds(*end_s), format_seconds(*time_s));
    format!("{cause:<9} {end:>10} {time:>12} {lost_iterations:>6}  {plan}")
}

fn world_name(quantity: WorldQuantity) -> &'static str {
    match quantity {
        WorldQuantity::GoodputTokensPerS => "goodput, tokens/s",
        WorldQuantity::Iterations => "iterations",
        WorldQuantity::IterationsLost => "iterations lost",
        WorldQuantity::Recoveries => "recoveries",
        WorldQuantity::MeanRecoveryS => "recovery, mean",
        WorldQuantity::MaxRecoveryS => "recovery, longest",
        WorldQuantity::OwnMemoryBytes => "state from own memory",
        WorldQuantity::PeerBytes => "state from peers and disks",
        WorldQuantity::ObjectStoreBytes => "state from the object store",
    }
}

fn world_figure(quantity: WorldQuantity, value: f64) -> String {
    match quantity {
        WorldQuantity::GoodputTokensPerS => format!("{value:.1}"),
        WorldQuantity::Iterations | WorldQuantity::IterationsLost | WorldQuantity::Recoveries => format!("{value:.0}"),
        WorldQuantity::MeanRecoveryS | WorldQuantity::MaxRecoveryS => format_seconds(value),
        WorldQuantity::OwnMemoryBytes | WorldQuantity::PeerBytes | WorldQuantity::ObjectStoreBytes => {
            format_bytes(value.round() as u64)
        }
    }
}

fn name(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::IterationS => "iteration",
        Quantity::BusyS => "busy",
        Quantity::BubbleS => "bubble, mean",
        Quantity::ExposedCommunicationS => "exposed communication, mean",
        Quantity::SentBytes => "sent",
        Quantity::MemoryBytes => "memory",
    }
}

fn figure(quantity: Quantity, value: f64) -> String {
    match quantity {
        Quantity::SentBytes | Quantity::MemoryBytes => format_bytes(value.round() as u64),
        _ => format_seconds(value),
    }
}
