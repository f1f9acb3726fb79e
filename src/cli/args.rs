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
    CompletionsArgs, DoctorArgs, ListArgs, ListedKind, ManArgs, ShowCommand, ShowGpuArgs, ShowModelArgs,
};
pub(super) use trace::{ClockArgs, ConvertArgs, GenerateArgs, StatsArgs, TraceCommand};
pub(super) use variation::VariationArgs;

use super::reproduce::{RecoveryArgs, SailorArgs};
use super::validate::ValidateArgs;
use crate::cost::Framework;
use crate::model::Precision;
use crate::suggest;
use crate::trace::{Polarity, TimeUnit, TraceFormat, WhichNode};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

const REPLAY_EXAMPLES: &str = "\
Examples:
  autohet-sim --trace traces/aws-spot.csv
  autohet-sim --trace traces/aws-spot.csv --model llama-7b --policies autohet,varuna
  autohet-sim --trace bamboo.csv --gpu-type V100-16 --gpus-per-node 1 --model gpt3-1.3b
  autohet-sim --trace p4d.csv:8xA100-40@us-east-1a --trace p3.json:1xV100-16@us-east-1b --horizon 24h
  autohet-sim --trace p3.csv:1xV100-16@us-east-1b --prices history.json --trace-start 2026-01-31T18:00:00Z
  autohet-sim --scenario results/aws-spot/resolved.toml --out results/again
  autohet-sim plan --cluster 2x8xA100-80+4x8xH20 --model gpt3-6.7b";

/// Plans and simulates asymmetric 3D-parallel training on heterogeneous spot GPUs.
///
/// Without a subcommand it replays a trace of spot nodes under several policies, prints how far each one trained and
/// what it cost, and writes the details to a folder under results/ with the name of the trace.
#[derive(Debug, Parser)]
#[command(name = "autohet-sim", version, after_help = REPLAY_EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct SimArgs {
    #[command(subcommand)]
    pub(super) command: Option<SimCommand>,
    #[command(flatten)]
    pub(super) replay: ReplayArgs,
}

#[derive(Debug, Subcommand)]
pub(super) enum SimCommand {
    /// Plans training on a cluster and prints the plan.
    Plan(PlanArgs),
    /// Puts the plans of several planners side by side, all judged by the simulator.
    Compare(CompareArgs),
    /// Executes one iteration of a plan in simulated time: what its GPUs do, what fills their memory, and a chart of it.
    Iteration(IterationArgs),
    /// Repeats published comparisons: the paper's on the simulator, a peer's by its own judge.
    #[command(subcommand)]
    Reproduce(ReproduceCommand),
    /// Makes and measures availability traces.
    #[command(subcommand)]
    Trace(TraceCommand),
    /// Replays many traces, or many markets made from one description, and puts the policies side by side.
    Across(AcrossArgs),
    /// Predicts runs that others measured, and says how far off the predictions are.
    Validate(ValidateArgs),
    /// Does many runs, plans or replays, over whatever is varied, and compares them with earlier ones.
    Sweep(SweepArgs),
    /// Says which mix of GPUs to rent for a budget, and how to train on it.
    Recommend(RecommendArgs),
    /// Says what of this machine works, and what to do about the rest.
    Doctor(DoctorArgs),
    /// Lists what there is by name: models, GPU types, policies, planners, trace formats.
    List(ListArgs),
    /// Shows one of them in full.
    #[command(subcommand)]
    Show(ShowCommand),
    /// Prints a completion script for a shell.
    Completions(CompletionsArgs),
    /// Prints or writes manual pages.
    Man(ManArgs),
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people.
    Table,
    /// For machines.
    Json,
}

/// How a comparison is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ComparisonFormat {
    /// For people.
    Table,
    /// For machines, with the plans.
    Json,
    /// For a document.
    Markdown,
    /// For a spreadsheet: a row for each planner.
    Csv,
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
    /// Model: a preset, a description in TOML or JSON, or Hugging Face's config.json [default: gpt3-6.7b]
    #[arg(long, value_name = "NAME|FILE")]
    pub(super) model: Option<String>,
    /// Tokens per sample [default: as the model says]
    #[arg(long, value_name = "TOKENS")]
    pub(super) seq_length: Option<u32>,
    /// Samples per optimizer step, over all replicas [default: 512]
    #[arg(long, value_name = "SAMPLES", allow_negative_numbers = true)]
    pub(super) global_batch_size: Option<u32>,
    /// Number format of the matrix products [default: fp16]
    #[arg(long, value_parser = parse_precision, value_name = "fp32|fp16|bf16")]
    pub(super) precision: Option<Precision>,
    /// JSON file of measured layer times, which replace the estimate, or a folder of such files; may be repeated
    #[arg(long, value_name = "FILE|FOLDER")]
    pub(super) profile: Vec<PathBuf>,
    /// What the training framework does: plain, megatron-lm or deepspeed [default: plain]
    #[arg(long, value_parser = parse_framework, value_name = "NAME")]
    pub(super) framework: Option<Framework>,
    /// Share the optimizer's state out among replicas (ZeRO-1)
    #[arg(long)]
    pub(super) zero1: bool,
    /// Network interfaces of each node, at most one for each GPU [default: 1]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub(super) nics_per_node: Option<u32>,
    /// Bandwidth of each network interface [default: 100]
    #[arg(long, value_name = "GBIT", allow_negative_numbers = true)]
    pub(super) nic_gbit_per_s: Option<f64>,
    /// Latency of each network interface [default: 20]
    #[arg(long, value_name = "MICROSECONDS", allow_negative_numbers = true)]
    pub(super) nic_latency_us: Option<f64>,
}

/// What a trace leaves open: shared by everything that reads one.
#[derive(Debug, Args)]
pub(super) struct ReadingArgs {
    /// Format of the trace, such as skypilot or slurm-jobs [default: recognised by content]
    #[arg(long, value_name = "FORMAT")]
    pub(super) trace_format: Option<TraceFormat>,
    /// Unit of times that are bare numbers [default: told by their span]
    #[arg(long, value_name = "ms|s|h")]
    pub(super) time_unit: Option<TimeUnit>,
    /// What the numbers of a trace of counts stand for [default: what the format says]
    #[arg(long, value_name = "available|preempted")]
    pub(super) polarity: Option<Polarity>,
    /// Nodes that go when a count falls: newest, oldest, random, random:SEED or zone [default: newest]
    #[arg(long, value_name = "WHICH")]
    pub(super) which_node: Option<WhichNode>,
    /// GPU type of nodes for which the trace names none
    #[arg(long, value_name = "TYPE")]
    pub(super) gpu_type: Option<String>,
    /// GPUs of nodes for which the trace gives no number; counts of GPUs are divided by it
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub(super) gpus_per_node: Option<u32>,
    /// When the trace ends, such as 90min, 36h, 30d or seconds: earlier than its last row, or later, with the nodes taken to
    /// stay that are up then [default: at its last row]
    #[arg(long, value_name = "TIME", value_parser = trace::parse_horizon, allow_negative_numbers = true)]
    pub(super) horizon: Option<f64>,
}

#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    /// Trace of spot nodes in any of 16 formats, recognised by content (traces/README.md lists them); may be repeated, one for
    /// each GPU type or zone: the nodes of all are there at once
    #[arg(long = "trace", value_name = "FILE[:GPUSxTYPE@ZONE]")]
    pub(super) traces: Vec<PathBuf>,
    /// TOML file of settings; other options go before it
    #[arg(long, value_name = "FILE")]
    pub(super) scenario: Option<PathBuf>,
    /// Policies to replay: autohet, varuna, restart, bamboo, oobleck, parcae, on-demand, oracle, or all [default:
    /// autohet,varuna,restart]
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
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(super) checkpoint_interval_s: Option<f64>,
    /// Folder for the results [default: results/<name of the trace>]
    #[arg(long, value_name = "FOLDER")]
    pub(super) out: Option<PathBuf>,
    /// Also write all of it as one page of HTML, which needs nothing else
    #[arg(long, value_name = "HTML")]
    pub(super) report: Option<PathBuf>,
    /// What to print on stdout: a table, or the summary as JSON
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(super) format: Format,
    /// Print nothing on stderr but errors
    #[arg(long, short)]
    pub(super) quiet: bool,
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
