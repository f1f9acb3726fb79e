//! Arguments of `recommend`.

use super::{Format, JobArgs, ObjectiveName, parse_positive};
use crate::sweep::Effort;
use crate::trace::TraceFormat;
use clap::{Args, ValueEnum};
use std::num::NonZero;
use std::path::PathBuf;

const RECOMMEND_EXAMPLES: &str = "\
Examples:
  autohet-sim recommend --model llama-7b --budget-usd-per-hour 60 --types A100-80,H20
  autohet-sim recommend --budget-usd-per-hour 60 --types A100-40,T4 --trace traces/aws-spot.csv";

const MORE_RECOMMEND_EXAMPLES: &str = "
  autohet-sim recommend --model gpt3-13b --budget-usd-per-hour 40 --types A100-80:1.9,L40S:0.8 --plot front.svg";

/// How hard plans are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum EffortName {
    /// Simple constructions.
    Fast,
    /// The planner's own search, as in a replay.
    Search,
    /// All that `plan` does.
    Full,
}

impl From<EffortName> for Effort {
    fn from(name: EffortName) -> Self {
        match name {
            EffortName::Fast => Self::Fast,
            EffortName::Search => Self::Search,
            EffortName::Full => Self::Full,
        }
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = RECOMMEND_EXAMPLES,
    after_long_help = RECOMMEND_EXAMPLES.to_owned() + MORE_RECOMMEND_EXAMPLES,
    override_usage = "autohet-sim recommend --budget-usd-per-hour <USD> --types <TYPE[:USD],…>"
)]
pub(in crate::cli) struct RecommendArgs {
    /// Most that all nodes of a mix may cost
    #[arg(long, value_name = "USD", value_parser = parse_positive, allow_negative_numbers = true)]
    pub(in crate::cli) budget_usd_per_hour: f64,
    /// GPU types to choose from, with prices where yours are others: A100-80:1.9
    ///
    /// Prices are dollars of a GPU-hour; `autohet-sim show gpu` has the catalog's.
    #[arg(long, value_name = "TYPE[:USD],…", value_delimiter = ',', required = true)]
    pub(in crate::cli) types: Vec<String>,
    /// GPUs of a node, as it is rented
    ///
    /// Also those of nodes for which the trace gives no number.
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(in crate::cli) gpus_per_node: u32,
    /// Most nodes of a type that can be had
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=3072), hide_short_help = true)]
    pub(in crate::cli) most_nodes: u32,
    /// What the recommended mix is best at, among those that no other beats
    #[arg(long, value_enum, default_value_t = ObjectiveName::Throughput)]
    pub(in crate::cli) objective: ObjectiveName,
    /// Fewest tokens a second that it may train
    #[arg(long, value_name = "TOKENS", value_parser = parse_positive, allow_negative_numbers = true, hide_short_help = true)]
    pub(in crate::cli) min_tokens_per_s: Option<f64>,
    /// Trace of spot nodes whose losses are counted in, by GPU type
    #[arg(long, value_name = "FILE", conflicts_with = "losses_per_node_hour")]
    pub(in crate::cli) trace: Option<PathBuf>,
    /// Losses of a node in an hour, counted in for all types
    #[arg(long, value_name = "LOSSES", value_parser = parse_positive, allow_negative_numbers = true)]
    pub(in crate::cli) losses_per_node_hour: Option<f64>,
    /// With it, the mean time until a node is replaced
    #[arg(long, value_name = "MINUTES", default_value_t = 25.0, requires = "losses_per_node_hour", conflicts_with = "trace", value_parser = parse_positive, allow_negative_numbers = true, hide_short_help = true)]
    pub(in crate::cli) away_minutes: f64,
    #[command(flatten)]
    pub(in crate::cli) job: JobArgs,
    /// Format of the trace [default: recognised by content]
    #[arg(long, value_name = "FORMAT", hide_short_help = true)]
    pub(in crate::cli) trace_format: Option<TraceFormat>,
    /// How hard the plan of each mix is looked for
    #[arg(long, value_enum, default_value_t = EffortName::Search)]
    pub(in crate::cli) effort: EffortName,
    /// Mixes planned side by side [default: one a core]
    #[arg(long, short, value_name = "COUNT", hide_short_help = true)]
    pub(in crate::cli) jobs: Option<NonZero<usize>>,
    /// Also draw all mixes and the front
    #[arg(long, value_name = "SVG")]
    pub(in crate::cli) plot: Option<PathBuf>,
    /// What to print on stdout
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(in crate::cli) format: Format,
    /// Print nothing on stderr but errors
    #[arg(long, short)]
    pub(in crate::cli) quiet: bool,
}
