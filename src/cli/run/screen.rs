//! What a run prints while it goes on: steps on stdout, everything else on stderr; or all of it as JSON on stdout.

use super::args::OutputArgs;
use super::record::{Record, StepRecord, What};
use crate::cli::args::Format;
use crate::report::Records;
use crate::units::{format_bytes, format_seconds};

/// Steps between two headings.
const HEADING_EVERY: u64 = 40;

/// Where a run is shown.
pub(super) struct Screen {
    format: Format,
    is_quiet: bool,
    rows: u64,
}

impl Screen {
    pub(super) fn new(args: &OutputArgs) -> Self {
        Self { format: args.format, is_quiet: args.quiet, rows: 0 }
    }

    /// Says something for people.
    pub(super) fn note(&self, text: &str) {
        if !self.is_quiet {
            eprintln!("{text}");
        }
    }

    /// Shows what happened.
    pub(super) fn show(&mut self, record: &Record) -> anyhow::Result<()> {
        match (self.format, &record.what) {
            (Format::Json, _) => crate::cli::print(&serde_json::to_string(record)?),
            (Format::Table, _) if self.is_quiet => Ok(()),
            (Format::Table, What::Step(step)) => {
                if self.rows.is_multiple_of(HEADING_EVERY) {
                    crate::cli::print(&heading(step))?;
                }
                self.rows += 1;
                crate::cli::print(&row(step))
            }
            (Format::Csv | Format::Markdown, What::Step(_)) => {
                let records = Records::of_json([&serde_json::to_value(record)?]);
                let (text, heading) = match self.format {
                    Format::Csv => (records.csv(), 1),
                    _ => (records.markdown(), 2),
                };
                let shown = text.lines().skip(if self.rows == 0 { 0 } else { heading });
                self.rows += 1;
                crate::cli::print(&shown.collect::<Vec<_>>().join("\n"))
            }
            (_, _) if self.is_quiet => Ok(()),
            (_, event) => {
                eprintln!("[{:>9}] {event}", format_seconds(record.time_s));
                Ok(())
            }
        }
    }
}

fn heading(step: &StepRecord) -> String {
    let computed = if step.mfu.is_some() { "MFU" } else { "FLOP/s/rank" };
    format!(
        "{:>7}  {:>8}  {:>9}  {:>9}  {computed:>11}  {:>8}  {:>10}  {:>10}",
        "step", "loss", "grad norm", "tokens/s", "memory", "iteration", "predicted"
    )
}

/// One line of the table.
fn row(step: &StepRecord) -> String {
    let computed = match step.mfu {
        Some(share) => format!("{:.1} %", share * 100.0),
        None => flops(step.flops_per_s_per_rank),
    };
    let (loss, norm) = if step.emulated {
        ("emulated".to_owned(), "-".to_owned())
    } else {
        (format!("{:.4}", step.loss), format!("{:.4}", step.gradient_norm))
    };
    let memory = step.memory_bytes.map_or_else(|| "-".to_owned(), format_bytes);
    format!(
        "{:>7}  {loss:>8}  {norm:>9}  {:>9.0}  {computed:>11}  {memory:>8}  {:>10}  {:>10}",
        step.step,
        step.tokens_per_s,
        format_seconds(step.iteration_s),
        step.predicted_iteration_s.map_or_else(|| "-".to_owned(), format_seconds)
    )
}

/// FLOPs a second, to three digits.
fn flops(per_s: f64) -> String {
    match per_s {
        large if large >= 1e12 => format!("{:.2} T", large / 1e12),
        _ => format!("{:.2} G", per_s / 1e9),
    }
}
