//! Arguments of `autohet-sim`.

mod across;
mod iteration;
mod planning;
mod prices;
mod recommend;
mod sweep;
mod terminal;
mod trace;
mod variation;

pub(super) use across::{AcrossArgs, MarketArgs};
pub(super) use iteration::IterationArgs;
pub(super) use planning::{CompareArgs, JudgeName, ObjectiveName, PlanArgs, ProblemArgs};
pub(super) use prices::PriceArgs;
pub(super) use recommend::RecommendArgs;
pub(super) use sweep::{MergeArgs, SweepArgs, SweepCommand, SweepResultsArgs};
pub(super) use terminal::{
    CompletionsArgs, DoctorArgs, ListArgs, ListedKind, ManArgs, ShowCollectivesArgs, ShowCommand, ShowGpuArgs,
    ShowModelArgs, ShowSchemaArgs,
};
pub(super) use trace::{ClockArgs, ConvertArgs, GenerateArgs, StatsArgs, TraceCommand};
pub(super) use variation::VariationArgs;

use super::reproduce::{RecoveryArgs, SailorArgs};
use super::validate::ValidateArgs;
use crate::cost::Framework;
use crate::model::Precision;
use crate::suggest;
use crate::trace::{Polarity, TimeUnit, TraceFormat, WhichNode};
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

const REPLAY_EXAMPLES: &str = "\
Examples:
  autohet-sim --trace traces/aws-spot.csv
  autohet-sim --trace traces/aws-spot.csv --model llama-7b --policies all --report report.html
  autohet-sim plan --cluster 2x8xA100-80+4x8xH20 --model gpt3-6.7b";

const MORE_REPLAY_EXAMPLES: &str = "
  autohet-sim --trace bamboo.csv --gpu-type V100-16 --gpus-per-node 1 --model gpt3-1.3b
  autohet-sim --trace p4d.csv:8xA100-40@us-east-1a --trace p3.json:1xV100-16@us-east-1b --horizon 24h
  autohet-sim --trace p3.csv:1xV100-16@us-east-1b --prices history.json --trace-start 2026-01-31T18:00:00Z
  autohet-sim --scenario results/aws-spot/resolved.toml --out results/again";

/// Plans and simulates asymmetric 3D-parallel training on heterogeneous spot GPUs.
///
/// Without a subcommand it replays a trace of spot nodes under several policies, prints how far each one trained and
/// what it cost, and writes the details to a folder under results/ with the name of the trace.
#[derive(Debug, Parser)]
#[command(name = "autohet-sim", version, after_help = REPLAY_EXAMPLES, after_long_help = REPLAY_EXAMPLES.to_owned() + MORE_REPLAY_EXAMPLES, args_conflicts_with_subcommands = true, disable_help_flag = true)]
pub struct SimArgs {
    #[command(subcommand)]
    pub(super) command: Option<SimCommand>,
    #[command(flatten)]
    pub(super) replay: ReplayArgs,
    #[command(flatten)]
    pub(super) help: HelpArgs,
}

#[derive(Debug, Subcommand)]
pub(super) enum SimCommand {
    /// Plans training on a cluster and prints the plan.
    Plan(PlanArgs),
    /// Puts the plans of several planners side by side.
    Compare(CompareArgs),
    /// Executes one iteration of a plan, and draws it.
    Iteration(IterationArgs),
    /// Repeats published comparisons.
    #[command(subcommand, after_help = "Example:\n  autohet-sim reproduce paper")]
    Reproduce(ReproduceCommand),
    /// Makes and measures availability traces.
    #[command(subcommand, after_help = "Example:\n  autohet-sim trace stats traces/aws-spot.csv")]
    Trace(TraceCommand),
    /// Replays many traces, or many markets made from one description.
    Across(AcrossArgs),
    /// Predicts runs that others measured: how far off is it?
    Validate(ValidateArgs),
    /// Does many runs over whatever is varied, against a baseline.
    Sweep(SweepArgs),
    /// Says which mix of GPUs to rent for a budget.
    Recommend(RecommendArgs),
    /// Says what works here, and what to do about the rest.
    Doctor(DoctorArgs),
    /// Lists models, GPU types, policies and so on by name.
    List(ListArgs),
    /// Shows one of them in full.
    #[command(subcommand, after_help = "Example:\n  autohet-sim show gpu H20")]
    Show(ShowCommand),
    /// Prints a completion script for a shell.
    Completions(CompletionsArgs),
    /// Prints or writes manual pages.
    Man(ManArgs),
}

/// Help in two lengths: what most people need, on one screen, and all of it.
#[derive(Debug, Args)]
pub(super) struct HelpArgs {
    /// Print this help
    #[arg(long, short, global = true, action = ArgAction::HelpShort)]
    help: Option<bool>,
    /// Print all options, at length
    #[arg(long, global = true, action = ArgAction::HelpLong)]
    help_all: Option<bool>,
}

/// How results are printed: the same in four forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people.
    Table,
    /// For machines, in full.
    Json,
    /// For a spreadsheet: a row for each thing.
    Csv,
    /// For a document.
    Markdown,
}

/// Engines of the planner autohet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum EngineName {
    /// The search, SCIP for the most promising groupings of few units, and the grids of the baselines.
    Auto,
    /// The same, with the joint integer program for clusters of few units.
    Scip,
    /// The search alone.
    Search,
}

/// The training job: shared by replays and plans.
#[derive(Debug, Default, Args)]
pub(super) struct JobArgs {
    /// Model: a preset, or a file that describes one [default: gpt3-6.7b]
    ///
    /// Files are descriptions in TOML or JSON, or Hugging Face's config.json.
    #[arg(long, value_name = "NAME|FILE", help_heading = "Job")]
    pub(super) model: Option<String>,
    /// Tokens per sample [default: as the model says]
    #[arg(long, value_name = "TOKENS", hide_short_help = true, help_heading = "Job")]
    pub(super) seq_length: Option<u32>,
    /// Samples per optimizer step, over all replicas [default: 512]
    #[arg(long, value_name = "SAMPLES", allow_negative_numbers = true, help_heading = "Job")]
    pub(super) global_batch_size: Option<u32>,
    /// Number format of the matrix products [default: fp16]
    #[arg(long, value_parser = parse_precision, value_name = "fp32|fp16|bf16", hide_short_help = true, help_heading = "Job")]
    pub(super) precision: Option<Precision>,
    /// JSON file of measured layer times, which replace the estimate, or a folder of such files; may be repeated
    #[arg(long, value_name = "FILE|FOLDER", hide_short_help = true, help_heading = "Job")]
    pub(super) profile: Vec<PathBuf>,
    /// What the training framework does: plain, megatron-lm or deepspeed [default: plain]
    #[arg(long, value_parser = parse_framework, value_name = "NAME", hide_short_help = true, help_heading = "Job")]
    pub(super) framework: Option<Framework>,
    /// Share the optimizer's state out among replicas (ZeRO-1)
    #[arg(long, hide_short_help = true, help_heading = "Job")]
    pub(super) zero1: bool,
    /// Network interfaces of each node, at most one for each GPU [default: 1]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, hide_short_help = true, help_heading = "Job")]
    pub(super) nics_per_node: Option<u32>,
    /// Bandwidth of each network interface [default: 100]
    #[arg(long, value_name = "GBIT", allow_negative_numbers = true, hide_short_help = true, help_heading = "Job")]
    pub(super) nic_gbit_per_s: Option<f64>,
    /// Latency of each network interface [default: 20]
    #[arg(
        long,
        value_name = "MICROSECONDS",
        allow_negative_numbers = true,
        hide_short_help = true,
        help_heading = "Job"
    )]
    pub(super) nic_latency_us: Option<f64>,
}

/// What a trace leaves open: shared by everything that reads one.
#[derive(Debug, Args)]
pub(super) struct ReadingArgs {
    /// Format of the trace, such as skypilot or slurm-jobs [default: recognised by content]
    #[arg(long, value_name = "FORMAT", hide_short_help = true, help_heading = "What the trace leaves open")]
    pub(super) trace_format: Option<TraceFormat>,
    /// Unit of times that are bare numbers [default: told by their span]
    #[arg(long, value_name = "ms|s|h", hide_short_help = true, help_heading = "What the trace leaves open")]
    pub(super) time_unit: Option<TimeUnit>,
    /// What the numbers of a trace of counts stand for [default: what the format says]
    #[arg(
        long,
        value_name = "available|preempted",
        hide_short_help = true,
        help_heading = "What the trace leaves open"
    )]
    pub(super) polarity: Option<Polarity>,
    /// Nodes that go when a count falls: newest, oldest, random, random:SEED or zone [default: newest]
    #[arg(long, value_name = "WHICH", hide_short_help = true, help_heading = "What the trace leaves open")]
    pub(super) which_node: Option<WhichNode>,
    /// GPU type of nodes for which the trace names none
    #[arg(long, value_name = "TYPE", hide_short_help = true, help_heading = "What the trace leaves open")]
    pub(super) gpu_type: Option<String>,
    /// GPUs of nodes for which the trace gives no number; counts of GPUs are divided by it
    #[arg(
        long,
        value_name = "COUNT",
        allow_negative_numbers = true,
        hide_short_help = true,
        help_heading = "What the trace leaves open"
    )]
    pub(super) gpus_per_node: Option<u32>,
    /// When the trace ends, such as 90min, 36h, 30d or seconds: earlier than its last row, or later, with the nodes taken to
    /// stay that are up then [default: at its last row]
    #[arg(long, value_name = "TIME", value_parser = trace::parse_horizon, allow_negative_numbers = true, hide_short_help = true, help_heading = "What the trace leaves open")]
    pub(super) horizon: Option<f64>,
}

#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    /// Trace of spot nodes, in any of 16 formats; may be repeated
    ///
    /// The format is recognised by content (traces/README.md lists them). Of several traces, one for each GPU type or zone, the
    /// nodes of all are there at once. `FILE:GPUSxTYPE@ZONE` says what its nodes are.
    #[arg(long = "trace", value_name = "FILE")]
    pub(super) traces: Vec<PathBuf>,
    /// TOML file of settings; other options go before it
    #[arg(long, value_name = "FILE")]
    pub(super) scenario: Option<PathBuf>,
    /// Policies, or all [default: autohet,varuna,restart]
    ///
    /// There are autohet, varuna, restart, bamboo, oobleck, parcae, on-demand and oracle; `autohet-sim list policies` says what they
    /// do.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(super) policies: Option<Vec<String>>,
    #[command(flatten)]
    pub(super) job: JobArgs,
    #[command(flatten)]
    pub(super) reading: ReadingArgs,
    #[command(flatten)]
    pub(super) clock: ClockArgs,
    #[command(flatten)]
    pub(super) prices: PriceArgs,
    /// Time between checkpoints [default: what costs least for the losses observed]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, hide_short_help = true)]
    pub(super) checkpoint_interval_s: Option<f64>,
    /// Folder for the results [default: results/<trace>]
    #[arg(long, value_name = "FOLDER")]
    pub(super) out: Option<PathBuf>,
    /// Also write all of it as one page of HTML
    #[arg(long, value_name = "HTML")]
    pub(super) report: Option<PathBuf>,
    /// What to print on stdout
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(super) format: Format,
    /// Print nothing on stderr but errors
    #[arg(long, short, global = true)]
    pub(super) quiet: bool,
    /// Say on stderr what is done, and how long it takes
    #[arg(long, short, global = true, conflicts_with = "quiet")]
    pub(super) verbose: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum ReproduceCommand {
    /// Plans every case of AutoHet's comparison with Megatron-LM and Whale, and writes the ratios beside the paper's
    Paper(ReproduceArgs),
    /// Loses nodes under AutoHet's policy and Varuna's, with the lost state near or far, and writes how long each stands still
    Recovery(RecoveryArgs),
    /// OPT-350M on six clusters of A100 and V100, by the closed form of Sailor (SOSP'25) on its own profiles
    Sailor(SailorArgs),
}

const REPRODUCE_EXAMPLES: &str = "\
Examples:
  autohet-sim reproduce paper
  autohet-sim reproduce paper --scenario scenarios/paper-llama-7b-5a100-3h20.toml --out results/one";

#[derive(Debug, Args)]
#[command(after_help = REPRODUCE_EXAMPLES)]
pub(super) struct ReproduceArgs {
    /// A case; may be repeated [default: scenarios/paper-*.toml]
    #[arg(long = "scenario", value_name = "FILE")]
    pub(super) scenarios: Vec<PathBuf>,
    /// Folder for the results
    #[arg(long, value_name = "FOLDER", default_value = "results/paper")]
    pub(super) out: PathBuf,
    /// What to print on stdout
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(super) format: Format,
    /// Print nothing on stderr but errors
    #[arg(long, short)]
    pub(super) quiet: bool,
}

/// A time such as `100ms`, `2s` or `1.5s`.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, scale_s) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s').unwrap_or_default(), 1.0),
    };
    let seconds = number.trim().parse::<f64>().ok().map(|number| number * scale_s);
    seconds
        .filter(|seconds| (0.0..=1e6).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "not a time\nhint: write `100ms` or `2s`".into())
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=1e9).contains(seconds));
    seconds.ok_or_else(|| "not a number of seconds\nhint: from 0 to 1e9".into())
}

pub(super) fn parse_precision(text: &str) -> Result<Precision, String> {
    match text {
        "fp32" => Ok(Precision::Fp32),
        "fp16" => Ok(Precision::Fp16),
        "bf16" => Ok(Precision::Bf16),
        _ => Err("expected fp32, fp16 or bf16".into()),
    }
}

fn parse_framework(text: &str) -> Result<Framework, String> {
    let hint = || format!("no such framework\nhint: {}", suggest::hint(text, Framework::NAMES));
    Framework::preset(text).ok_or_else(hint)
}

/// A number above zero that isn't infinite.
fn parse_positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err("expected a number above zero".into()),
    }
}
