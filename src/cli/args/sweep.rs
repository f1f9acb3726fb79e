//! Arguments of `sweep`.

use super::Format;
use crate::report::Tolerance;
use crate::sweep::Shard;
use clap::{Args, Subcommand};
use std::num::NonZero;
use std::path::PathBuf;

const SWEEP_EXAMPLES: &str = "\
Examples:
  autohet-sim sweep scenarios/mix-sweep.toml
  autohet-sim sweep scenarios/mix-sweep.toml --baseline results/mix-sweep/rows.csv --tolerance 2%
  autohet-sim sweep scenarios/mix-1000.toml --shard 2/4 --resume --cache ~/.cache/autohet
  autohet-sim sweep merge results/mix-1000-*-of-4 --out results/mix-1000";

#[derive(Debug, Args)]
#[command(after_help = SWEEP_EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(in crate::cli) struct SweepArgs {
    #[command(subcommand)]
    pub(in crate::cli) command: Option<SweepCommand>,
    /// TOML file that says what is varied (docs/formats.md)
    #[arg(value_name = "FILE", required = true)]
    pub(in crate::cli) file: Option<PathBuf>,
    /// Runs side by side [default: one a core]
    #[arg(long, short, value_name = "COUNT")]
    pub(in crate::cli) jobs: Option<NonZero<usize>>,
    /// Do a part of the runs only: 2/4 is the second of four [default: what Slurm, Kubernetes or Open MPI say, else all]
    #[arg(long, value_name = "I/N", value_parser = parse_shard)]
    pub(in crate::cli) shard: Option<Shard>,
    /// Go on where an interrupted sweep has stopped
    #[arg(long)]
    pub(in crate::cli) resume: bool,
    /// Folder that keeps outcomes from sweep to sweep; several processes may share it
    #[arg(long, value_name = "FOLDER")]
    pub(in crate::cli) cache: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) results: SweepResultsArgs,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum SweepCommand {
    /// Puts the results of shards together
    Merge(MergeArgs),
}

const MERGE_EXAMPLES: &str = "\
Example:
  autohet-sim sweep merge results/mix-1000-*-of-4 --out results/mix-1000";

#[derive(Debug, Args)]
#[command(after_help = MERGE_EXAMPLES)]
pub(in crate::cli) struct MergeArgs {
    /// Folders of all shards
    #[arg(required = true, value_name = "FOLDER")]
    pub(in crate::cli) shards: Vec<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) results: SweepResultsArgs,
}

/// What becomes of rows.
#[derive(Debug, Args)]
pub(in crate::cli) struct SweepResultsArgs {
    /// Folder for the results [default: results/<name of the file>]
    #[arg(long, value_name = "FOLDER")]
    pub(in crate::cli) out: Option<PathBuf>,
    /// Rows of an earlier sweep to compare with; exit code 1 where something got worse
    #[arg(long, value_name = "CSV")]
    pub(in crate::cli) baseline: Option<PathBuf>,
    /// By how much figures may be worse
    #[arg(long, value_name = "SHARE", default_value = "2%", requires = "baseline", allow_hyphen_values = true)]
    pub(in crate::cli) tolerance: Tolerance,
    /// Also write the comparison, or the best rows, as Markdown: for the summary page of a CI job
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(in crate::cli) summary_markdown: Option<PathBuf>,
    /// Also write the comparison as XML for CI systems, in the way of `JUnit`: a test a row
    #[arg(long, value_name = "FILE", requires = "baseline", hide_short_help = true)]
    pub(in crate::cli) junit: Option<PathBuf>,
    /// Also write all of it as one page of HTML
    #[arg(long, value_name = "HTML")]
    pub(in crate::cli) report: Option<PathBuf>,
    /// What to print on stdout
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(in crate::cli) format: Format,
    /// Print nothing on stderr but errors
    #[arg(long, short)]
    pub(in crate::cli) quiet: bool,
}

fn parse_shard(text: &str) -> Result<Shard, String> {
    text.parse().map_err(|error: crate::sweep::SweepError| error.to_string())
}
