//! Arguments of `trace`, and of several traces at once.

use super::{Format, MarketArgs, ReadingArgs};
use crate::trace::Align;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// How several traces become one.
#[derive(Debug, Args)]
pub(in crate::cli) struct ClockArgs {
    /// How the clocks of several traces are set: by the time of the calendar, or each from its start [default: time where all
    /// have it, else start]
    #[arg(long, value_name = "time|start", hide_short_help = true, help_heading = "What the trace leaves open")]
    pub(in crate::cli) align: Option<Align>,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum TraceCommand {
    /// Makes a trace of a heterogeneous spot market from a seed
    Generate(GenerateArgs),
    /// Prints what a trace is like: availability, losses, up-times
    Stats(StatsArgs),
    /// Writes a trace of any known format as canonical CSV
    Convert(ConvertArgs),
}

const GENERATE_EXAMPLES: &str = "\
A pool is written NODESxGPUSxTYPE[@ZONE][:USD_PER_NODE_HOUR].

Examples:
  autohet-sim trace generate --seed 7 --pool 5x8xA100-40@us-east-1a:8.0 --out market.csv
  autohet-sim trace generate --fit recorded.csv:1xV100-16 --hours 720 --out month.csv";

const MORE_ON_GENERATE: &str = "\
A pool is written NODESxGPUSxTYPE[@ZONE][:USD_PER_NODE_HOUR]. A settings file has a key for every parameter of the market \
(docs/formats.md describes them); pools from the command line are added to it.

Example of a settings file:
  seed = 7
  hours = 48.0
  [[pools]]
  gpu_type = \"A100-40\"
  gpu_count = 8
  nodes = 5
  zone = \"us-east-1a\"
  price_usd_per_hour = 8.2
  up_time_mean_hours = 3.0
  notice_s = 120

Examples:
  autohet-sim trace generate --seed 7 --pool 5x8xA100-40@us-east-1a:8.0 --pool 3x8xT4@us-east-1a:2.9 --out market.csv
  autohet-sim trace generate --seed 7 --hours 72 --pool 16x1xV100-16 > market.csv
  autohet-sim trace generate --fit recorded.csv:1xV100-16 --hours 720 --seed 1 --out month.csv --settings-out market.toml
  autohet-sim trace generate --pool 5x8xA100-40@us-east-1a:8.0 --out market.csv --prices-out prices.json";

#[derive(Debug, Args)]
#[command(after_help = GENERATE_EXAMPLES, after_long_help = MORE_ON_GENERATE)]
pub(in crate::cli) struct GenerateArgs {
    #[command(flatten)]
    pub(in crate::cli) market: MarketArgs,
    /// Take the market from a trace; may be repeated
    ///
    /// Its losses, as they were, are drawn again and again, for as long as the trace unless `--hours` says otherwise; one for
    /// each GPU type or zone.
    #[arg(long, value_name = "FILE[:GPUSxTYPE@ZONE]")]
    pub(in crate::cli) fit: Vec<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) reading: ReadingArgs,
    /// Write the market as a file of settings, for `--settings`
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) settings_out: Option<PathBuf>,
    /// Write prices of the pools over time, as AWS's price history, for `--prices` of a replay
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) prices_out: Option<PathBuf>,
    /// File to write [default: stdout]
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) out: Option<PathBuf>,
}

const STATS_EXAMPLES: &str = "\
Examples:
  autohet-sim trace stats traces/aws-spot.csv
  autohet-sim trace stats traces/*.csv --format json
  autohet-sim trace stats traces/aws-spot.csv --plot aws-spot.svg
  autohet-sim trace stats probes.csv --polarity preempted --which-node random:7
  autohet-sim trace stats --merge a.csv:A100-40 b.json:V100-16 --plot market.svg";

#[derive(Debug, Args)]
#[command(after_help = STATS_EXAMPLES)]
pub(in crate::cli) struct StatsArgs {
    /// Traces, perhaps with what their nodes are
    #[arg(required = true, value_name = "FILE[:GPUSxTYPE@ZONE]")]
    pub(in crate::cli) traces: Vec<PathBuf>,
    /// Take all of them for one, on one clock, as a replay does
    #[arg(long)]
    pub(in crate::cli) merge: bool,
    /// Draw it as SVG: nodes up over time, how long up-times and times between losses last, and the laws that fit them
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) plot: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) reading: ReadingArgs,
    #[command(flatten)]
    pub(in crate::cli) clock: ClockArgs,
    /// What to print on stdout
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(in crate::cli) format: Format,
}

const CONVERT_EXAMPLES: &str = "\
Examples:
  autohet-sim trace convert counts.json --gpu-type V100-16 --gpus-per-node 1 --out counts.csv
  autohet-sim trace convert sacct.txt --gpu-type A100-80 --gpus-per-node 8 > cluster.csv
  autohet-sim trace convert a.csv:8xA100-40@us-east-1a b.json:1xV100-16 --horizon 24h --out both.csv";

#[derive(Debug, Args)]
#[command(after_help = CONVERT_EXAMPLES)]
pub(in crate::cli) struct ConvertArgs {
    /// Trace, or several, which become one
    #[arg(required = true, value_name = "FILE[:GPUSxTYPE@ZONE]")]
    pub(in crate::cli) traces: Vec<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) reading: ReadingArgs,
    #[command(flatten)]
    pub(in crate::cli) clock: ClockArgs,
    /// File to write [default: stdout]
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) out: Option<PathBuf>,
    /// Print nothing on stderr but errors
    #[arg(long, short)]
    pub(in crate::cli) quiet: bool,
}

/// A time such as `90min`, `36h`, `30d`, `5s` or `3600`, in seconds; whether it makes sense is asked where scenarios are.
pub(super) fn parse_horizon(text: &str) -> Result<f64, String> {
    const UNITS: [(&str, f64); 4] = [("min", 60.0), ("h", 3600.0), ("d", 86_400.0), ("s", 1.0)];
    let unit = UNITS.iter().find_map(|(unit, scale_s)| Some((text.strip_suffix(unit)?, *scale_s)));
    let (number, scale_s) = unit.unwrap_or((text, 1.0));
    let number = number.trim().parse::<f64>().ok();
    number
        .map(|number| number * scale_s)
        .ok_or_else(|| "not a time\nhint: write `90min`, `36h`, `30d`, or seconds".into())
}
