//! Arguments of `plan` and `compare`.

use super::{EngineName, Format, JobArgs, VariationArgs, parse_duration, parse_positive, parse_seconds};
use crate::plan::{ScheduleChoice, ScheduleChoiceError};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

const PLAN_EXAMPLES: &str = "\
Examples:
  autohet-sim plan --cluster 2x8xA100-80+4x8xH20 --model gpt3-6.7b --global-batch-size 512
  autohet-sim plan --cluster cluster.toml --model llama-7b --planner whale --out plan.json
  autohet-sim plan --cluster 1x2xA100-40+1x2xV100-16 --model gpt3-1.3b --explain --report plan.html";

const MORE_PLAN_EXAMPLES: &str = "
  autohet-sim plan --cluster 3x8xV100-16 --model gpt3-1.3b --format json
  autohet-sim plan --cluster 4x1xA100-80 --model gpt3-1.3b --global-batch-size 16 --schedule zb-h1
  autohet-sim plan --scenario scenarios/paper-llama-7b-5a100-3h20.toml --explain
  autohet-sim plan --scenario scenarios/sailor-32a100-96v100.toml --profile profiles/ --judge sailor --export plan.json
  autohet-sim plan --cluster 4x8xA100-80+8x4xT4 --model llama-7b --objective usd-per-token --min-tokens-per-s 20000
  autohet-sim plan --cluster 4x8xA100-80+8x4xT4 --model llama-7b --pareto
  autohet-sim plan --cluster without-a-node.toml --model llama-7b --incumbent plan.json --deadline 100ms

The cluster is written nodes × GPUs × type, joined by `+`, or as a TOML file of [[nodes]] tables.";

/// What is planned: shared by `plan` and `compare`.
#[derive(Debug, Args)]
pub(in crate::cli) struct ProblemArgs {
    /// Nodes to plan for: 2x8xA100-80+4x8xH20, or a TOML file
    #[arg(long, value_name = "MIX|FILE", required_unless_present = "scenario")]
    pub(in crate::cli) cluster: Option<String>,
    /// TOML file with cluster, model and settings; other options go before it
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) scenario: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) job: JobArgs,
    #[command(flatten)]
    pub(in crate::cli) variation: VariationArgs,
    /// Who says how long an iteration takes
    #[arg(long, value_enum, default_value_t = JudgeName::Simulator, hide_short_help = true)]
    pub(in crate::cli) judge: JudgeName,
    /// Order of the passes: 1f1b, gpipe, zb-h1, redundant, interleaved:2 [default: the faster of 1f1b and gpipe]
    ///
    /// The number of interleaved is that of chunks a stage.
    #[arg(long, value_name = "SCHEDULE", value_parser = parse_schedule)]
    pub(in crate::cli) schedule: Option<ScheduleChoice>,
}

fn parse_schedule(text: &str) -> Result<ScheduleChoice, ScheduleChoiceError> {
    text.parse()
}

/// Who says how long an iteration takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum JudgeName {
    /// Executes it in simulated time, links and overlap included.
    Simulator,
    /// Sailor's closed form (SOSP'25), on its profiles: to compare plans on a peer's terms.
    Sailor,
}

/// What makes one plan better than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ObjectiveName {
    /// Most tokens a second.
    Throughput,
    /// Fewest dollars a token, at the price of whole nodes: idle ones are given back.
    UsdPerToken,
}

#[derive(Debug, Args)]
#[command(after_help = PLAN_EXAMPLES, after_long_help = PLAN_EXAMPLES.to_owned() + MORE_PLAN_EXAMPLES)]
pub(in crate::cli) struct PlanArgs {
    #[command(flatten)]
    pub(in crate::cli) problem: ProblemArgs,
    /// Planner: autohet, megatron, whale, varuna, amp, metis or alpa
    #[arg(long, value_name = "NAME", default_value = "autohet")]
    pub(in crate::cli) planner: String,
    /// Also say why this plan, what was rejected and what would help
    ///
    /// Some twenty more plans are made for that; where nothing fits, every change is named that would make it.
    #[arg(long, conflicts_with_all = ["top_k", "pareto"])]
    pub(in crate::cli) explain: bool,
    /// What makes one plan better than another
    #[arg(long, value_enum, default_value_t = ObjectiveName::Throughput)]
    pub(in crate::cli) objective: ObjectiveName,
    /// Fewest tokens a second that a plan may train
    #[arg(long, value_name = "TOKENS", value_parser = parse_positive, allow_negative_numbers = true, hide_short_help = true)]
    pub(in crate::cli) min_tokens_per_s: Option<f64>,
    /// Most that the nodes of a plan may cost; nodes that it doesn't use are given back
    #[arg(long, value_name = "USD", value_parser = parse_positive, allow_negative_numbers = true, hide_short_help = true)]
    pub(in crate::cli) max_usd_per_hour: Option<f64>,
    /// Print this many of the best plans, each of another kind
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100), conflicts_with = "pareto", hide_short_help = true)]
    pub(in crate::cli) top_k: Option<u32>,
    /// Print the front of throughput and cost: the plans that no other beats in both
    #[arg(long)]
    pub(in crate::cli) pareto: bool,
    /// What the planner autohet groups GPUs by: its own search, SCIP beside it, or whichever of these is quick [default:
    /// auto]
    #[arg(long, value_enum, hide_short_help = true)]
    pub(in crate::cli) engine: Option<EngineName>,
    /// Plan from this one, which runs: nodes of it that the cluster lacks are lost. State that stays where it is costs
    /// nothing, and what the change takes counts
    #[arg(long, value_name = "FILE", conflicts_with_all = ["planner", "engine", "explain", "objective", "min_tokens_per_s", "max_usd_per_hour", "top_k", "pareto", "schedule"], hide_short_help = true)]
    pub(in crate::cli) incumbent: Option<PathBuf>,
    /// With --incumbent, the expected time until the plan is changed again
    #[arg(long, value_name = "SECONDS", default_value_t = 3600.0, requires = "incumbent", value_parser = parse_seconds, hide_short_help = true)]
    pub(in crate::cli) horizon_s: f64,
    /// Have autohet stop looking for better plans after so long, as 100ms or 2s, and prove little of how good the plan is;
    /// the same plan isn't sure to come out again
    #[arg(long, value_name = "TIME", value_parser = parse_duration, hide_short_help = true)]
    pub(in crate::cli) deadline: Option<Duration>,
    /// Also write the plan file, to use the plan again
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) out: Option<PathBuf>,
    /// Also write one iteration as a timeline for ui.perfetto.dev
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(in crate::cli) perfetto: Option<PathBuf>,
    /// Also write the plan as Sailor writes it: equal replicas as one pipeline, in JSON
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(in crate::cli) export: Option<PathBuf>,
    /// Also write all of it as one page of HTML
    #[arg(long, value_name = "HTML")]
    pub(in crate::cli) report: Option<PathBuf>,
    /// What to print on stdout
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(in crate::cli) format: Format,
}

const COMPARE_EXAMPLES: &str = "\
Examples:
  autohet-sim compare --cluster 2x8xA100-80+4x8xH20 --model gpt3-6.7b
  autohet-sim compare --scenario scenarios/paper-llama-7b-5a100-3h20.toml
  autohet-sim compare --cluster 2x8xA100-80 --model llama-7b --planner autohet,megatron --schedule interleaved:2
  autohet-sim compare --cluster 1x8xA100-40+2x8xV100-16 --model gpt3-1.3b --planner autohet,whale --format json";

#[derive(Debug, Args)]
#[command(after_help = COMPARE_EXAMPLES)]
pub(in crate::cli) struct CompareArgs {
    #[command(flatten)]
    pub(in crate::cli) problem: ProblemArgs,
    /// Planners, of autohet, megatron, whale, varuna, amp, metis and alpa [default: all]
    #[arg(long = "planner", value_name = "NAMES", value_delimiter = ',')]
    pub(in crate::cli) planners: Option<Vec<String>>,
    /// What to print on stdout
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(in crate::cli) format: Format,
}
