//! Arguments of `across`, and of a market.

use super::{Format, JobArgs, PriceArgs, ReadingArgs};
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  autohet-sim across traces/aws-spot.csv --policies all
  autohet-sim across traces --gpu-type V100-16 --gpus-per-node 1 --model gpt3-1.3b --policies all
  autohet-sim across --pool 5x8xA100-40@us-east-1a:8.0 --pool 3x8xT4@us-east-1a:2.9 --seeds 1000 --policies autohet";

/// A generated market.
#[derive(Debug, Args)]
pub(in crate::cli) struct MarketArgs {
    /// Seed of all randomness [default: 0]
    #[arg(long, allow_negative_numbers = true, help_heading = "Market")]
    pub(in crate::cli) seed: Option<u64>,
    /// Length of the trace [default: 24]
    #[arg(long, allow_negative_numbers = true, help_heading = "Market")]
    pub(in crate::cli) hours: Option<f64>,
    /// Equal nodes in one zone; may be repeated
    #[arg(long = "pool", value_name = "POOL", help_heading = "Market")]
    pub(in crate::cli) pools: Vec<String>,
    /// TOML file of market settings; other options go before it
    #[arg(long, value_name = "FILE", help_heading = "Market")]
    pub(in crate::cli) settings: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct AcrossArgs {
    /// Traces, or folders of them
    #[arg(value_name = "FILE[:GPUSxTYPE@ZONE]|FOLDER")]
    pub(in crate::cli) traces: Vec<PathBuf>,
    /// Markets to make, of as many seeds in a row
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(in crate::cli) seeds: Option<u32>,
    #[command(flatten)]
    pub(in crate::cli) market: MarketArgs,
    /// Policies to replay, as of a single trace [default: autohet,varuna,restart]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(in crate::cli) policies: Option<Vec<String>>,
    #[command(flatten)]
    pub(in crate::cli) job: JobArgs,
    #[command(flatten)]
    pub(in crate::cli) reading: ReadingArgs,
    #[command(flatten)]
    pub(in crate::cli) prices: PriceArgs,
    /// CSV file with a row for each replay and policy
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) out: Option<PathBuf>,
    /// What to print on stdout
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(in crate::cli) format: Format,
    /// Print nothing on stderr but errors
    #[arg(long, short)]
    pub(in crate::cli) quiet: bool,
}
