//! Arguments of `iteration`.

use super::{Format, VariationArgs};
use clap::Args;
use std::path::PathBuf;

const ITERATION_EXAMPLES: &str = "\
Without a cluster the plan's own nodes are taken, of the GPU types that it names, with the default network.

Examples:
  autohet-sim plan --cluster 4x1xA100-80 --model gpt3-1.3b --global-batch-size 16 --schedule zb-h1 --out plan.json
  autohet-sim iteration --plan plan.json --gantt iteration.svg
  autohet-sim iteration --plan plan.json --cluster cluster.toml --perfetto iteration.json --format json
  autohet-sim iteration --plan plan.json --profile profiles/ --nic-gbit-per-s 25
  autohet-sim iteration --plan plan.json --jitter 0.05 --stragglers 0.01:0.3";

#[derive(Debug, Args)]
#[command(after_help = ITERATION_EXAMPLES)]
pub(in crate::cli) struct IterationArgs {
    /// Plan file, as `plan --out` writes it
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) plan: PathBuf,
    /// Nodes that it runs on: 2x8xA100-80+4x8xH20, or a TOML file [default: those that the plan names]
    #[arg(long, value_name = "MIX|FILE")]
    pub(in crate::cli) cluster: Option<String>,
    /// TOML file with cluster, profile and network; other options go before it
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) scenario: Option<PathBuf>,
    /// JSON file of measured layer times, which replace the estimate, or a folder of such files; may be repeated
    #[arg(long, value_name = "FILE|FOLDER")]
    pub(in crate::cli) profile: Vec<PathBuf>,
    /// Bandwidth of each node's network interface [default: 100]
    #[arg(long, value_name = "GBIT", allow_negative_numbers = true, hide_short_help = true)]
    pub(in crate::cli) nic_gbit_per_s: Option<f64>,
    /// Latency of each node's network interface [default: 20]
    #[arg(long, value_name = "MICROSECONDS", allow_negative_numbers = true, hide_short_help = true)]
    pub(in crate::cli) nic_latency_us: Option<f64>,
    /// Write a Gantt chart of it: an SVG with a row for each stage
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) gantt: Option<PathBuf>,
    /// Write its timeline for ui.perfetto.dev, with the memory of each stage
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) perfetto: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) variation: VariationArgs,
    /// What to print on stdout
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(in crate::cli) format: Format,
}
