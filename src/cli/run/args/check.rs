//! Arguments of `autohet-run check`.

use super::super::settings::RecoverFrom;
use super::{DeviceArgs, InjectedTraceArgs, PlanningArgs, examples};
use crate::cli::args::Format;
use crate::model::Precision;
use clap::Args;
use std::path::PathBuf;

/// Predicts an iteration with the simulator, runs the plan, and compares.
///
/// What is compared: iteration time, busy time of each rank, bubble, exposed
/// communication, bytes sent, memory. Ends with 1 where the iteration or a rank's busy time is off by more than the
/// tolerance.
///
/// On `cpu` the layers are profiled first, unless a profile is given; on `emulated` they take what the cost model or the
/// profile says, and what is checked is the runtime.
///
/// With `--inject` a trace is replayed twice, by the simulator and on real processes until it ends, and what came of it is
/// compared: goodput and the mean recovery time decide. On `cpu` each GPU of the trace is a core of this machine.
#[derive(Debug, Args)]
#[command(after_help = examples::CHECK)]
pub(in crate::cli::run) struct CheckArgs {
    #[command(flatten)]
    pub(in crate::cli::run) plan: CheckPlanArgs,
    #[command(flatten)]
    pub(in crate::cli::run) devices: DeviceArgs,
    #[command(flatten)]
    pub(in crate::cli::run) injection: CheckInjectionArgs,
    #[command(flatten)]
    pub(in crate::cli::run) output: CheckOutputArgs,
}

/// What is checked.
#[derive(Debug, Args)]
#[command(next_help_heading = "Plan")]
pub(in crate::cli::run) struct CheckPlanArgs {
    /// Plan, as `autohet-sim plan --out` writes it; without a trace there has to be one
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli::run) plan: Option<PathBuf>,
    /// Model, a preset or a file that describes one, to plan for a trace
    #[arg(long, value_name = "NAME|FILE")]
    pub(in crate::cli::run) model: Option<String>,
    /// Tokens per sample, to plan for a trace [default: as the model says]
    #[arg(long, value_name = "TOKENS", hide_short_help = true)]
    pub(in crate::cli::run) seq_length: Option<u32>,
    /// Samples per optimizer step, to plan for a trace [default: 8]
    #[arg(long, value_name = "SAMPLES", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub(in crate::cli::run) global_batch_size: Option<u32>,
    /// Number format, to plan for a trace [default: fp32]
    #[arg(long, value_parser = crate::cli::args::parse_precision, value_name = "fp32|bf16", hide_short_help = true)]
    pub(in crate::cli::run) precision: Option<Precision>,
}

impl CheckPlanArgs {
    /// The same as a run has it.
    pub(in crate::cli::run) fn planning(&self) -> PlanningArgs {
        let Self { plan, model, seq_length, global_batch_size, precision } = self;
        PlanningArgs {
            plan: plan.clone(),
            model: model.clone(),
            seq_length: *seq_length,
            global_batch_size: *global_batch_size,
            precision: *precision,
            ranks: None,
            plan_out: None,
        }
    }
}

/// A trace that is replayed in both worlds.
#[derive(Debug, Args)]
#[command(next_help_heading = "Nodes that come and go")]
pub(in crate::cli::run) struct CheckInjectionArgs {
    #[command(flatten)]
    pub(in crate::cli::run) trace: InjectedTraceArgs,
    /// Where the state of lost ranks is read from
    #[arg(long, value_enum, default_value_t = RecoverFrom::All, requires = "inject", hide_short_help = true)]
    pub(in crate::cli::run) recover_from: RecoverFrom,
    /// Folder for checkpoints, new or empty [default: a temporary one]
    #[arg(long, value_name = "FOLDER", requires = "inject", hide_short_help = true)]
    pub(in crate::cli::run) checkpoint_dir: Option<PathBuf>,
    /// Iterations from one checkpoint to the next
    #[arg(long, value_name = "ITERATIONS", default_value_t = 50, requires = "inject", value_parser = clap::value_parser!(u64).range(1..), hide_short_help = true)]
    pub(in crate::cli::run) checkpoint_every: u64,
    /// Nodes that keep a copy of each part of a checkpoint in memory, beside those that train it
    #[arg(long, value_name = "NODES", default_value_t = 0, requires = "inject", value_parser = clap::value_parser!(u32).range(..=8), hide_short_help = true)]
    pub(in crate::cli::run) peer_copies: u32,
}

/// How much is measured, how it is judged, and what is told of it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(in crate::cli::run) struct CheckOutputArgs {
    /// Steps measured, after two that aren't
    #[arg(long, value_name = "COUNT", default_value_t = 10, conflicts_with = "inject", value_parser = clap::value_parser!(u32).range(1..))]
    pub(in crate::cli::run) steps: u32,
    /// Largest relative error that is accepted [default: 8%, with a trace 25%]
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    pub(in crate::cli::run) tolerance: Option<String>,
    /// What to print on stdout
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(in crate::cli::run) format: Format,
    /// Folder for summary.json, table.txt and, without a trace, the predicted and the measured timeline
    #[arg(long, value_name = "FOLDER")]
    pub(in crate::cli::run) out: Option<PathBuf>,
}
