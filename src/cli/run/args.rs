//! Arguments of `autohet-run`.

use clap::{Parser, Subcommand};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Any plan of a small GPT in fp32 with tensor parallel size 1 can be run: this program takes replicas, stages, layers,
micro batches and schedule from it, and starts one process per GPU of the plan on this machine, whatever type the plan
names. Nodes of one GPU each have tensor parallel size 1.

Examples:
  autohet-sim plan --cluster 1x1xL4+1x1xT4 --model gpt-tiny --global-batch-size 8 --precision fp32 --out plan.json
  autohet-run --plan plan.json --steps 50
  autohet-run --plan plan.json --data corpus.txt --steps 200 --out results/tiny";

/// Trains the model of a plan on this machine's CPU, one process per rank.
///
/// Prints after each step the loss before it (mean over the tokens of the global batch, in nats), tokens per second of
/// wall-clock time, and the measured time of the iteration: from the start of the first instruction to the end of the
/// last. All processes end with this one.
#[derive(Debug, Parser)]
#[command(name = "autohet-run", version, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct RunArgs {
    #[command(subcommand)]
    pub(super) command: Option<RunCommand>,
    /// Plan, as `autohet-sim plan --out` writes it
    #[arg(long, value_name = "FILE")]
    pub(super) plan: Option<PathBuf>,
    /// Text to train on, one token a byte [default: a synthetic language drawn from the seed]
    #[arg(long, value_name = "FILE")]
    pub(super) data: Option<PathBuf>,
    /// Optimizer steps
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) steps: u32,
    /// Seed of weights and samples: any plan starts from the same ones
    #[arg(long, default_value_t = 0)]
    pub(super) seed: u64,
    /// Learning rate
    #[arg(long, value_name = "RATE", default_value_t = 1e-3, allow_negative_numbers = true)]
    pub(super) learning_rate: f32,
    /// Folder for metrics.csv, summary.json and timeline.perfetto.json (the last step, for ui.perfetto.dev)
    #[arg(long, value_name = "FOLDER")]
    pub(super) out: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(super) enum RunCommand {
    /// One rank of a run; its coordinator starts it.
    #[command(hide = true)]
    Rank,
}
