//! Arguments of the commands that tell what there is.

use super::Format;
use clap::{Args, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  autohet-sim doctor")]
pub(in crate::cli) struct DoctorArgs {
    /// Folder in which results are to be written
    #[arg(long, value_name = "FOLDER", default_value = "results")]
    pub(in crate::cli) out: PathBuf,
    /// What to print on stdout
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(in crate::cli) format: Format,
}

/// What can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ListedKind {
    /// Model presets, for `--model`.
    Models,
    /// GPU types, for clusters.
    Gpus,
    /// What to do when nodes come and go, for `--policies`.
    Policies,
    /// Who makes plans, for `--planner`.
    Planners,
    /// Formats of traces, for `--trace-format`.
    Formats,
    /// JSON schemas of files.
    Schemas,
}

const LIST_EXAMPLES: &str = "\
Examples:
  autohet-sim list gpus
  autohet-sim list models --format csv";

#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(in crate::cli) struct ListArgs {
    /// What to list
    #[arg(value_enum, value_name = "WHAT")]
    pub(in crate::cli) what: ListedKind,
    /// What to print on stdout
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(in crate::cli) format: Format,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ShowCommand {
    /// Every figure of a GPU type, with its source.
    Gpu(ShowGpuArgs),
    /// The shapes of a model, its parameters, and the FLOPs of training it.
    Model(ShowModelArgs),
    /// How long GPUs of a cluster take to communicate where nothing else is going on.
    Collectives(ShowCollectivesArgs),
    /// The JSON schema of a kind of file.
    Schema(ShowSchemaArgs),
}

const COLLECTIVES_EXAMPLES: &str = "\
All-reduces by a ring, NCCL's trees, a hierarchy, and as NCCL would choose; reduce-scatter, all-gather, all-to-all, sends.

Examples:
  autohet-sim show collectives 2x8xA100-80
  autohet-sim show collectives 4x4xT4+1x8xA100-80 --nic-gbit-per-s 25 --sizes 1MB,1GB --format csv";

#[derive(Debug, Args)]
#[command(after_help = COLLECTIVES_EXAMPLES)]
pub(in crate::cli) struct ShowCollectivesArgs {
    /// Nodes: 2x8xA100-80+4x8xH20, or a TOML file
    #[arg(value_name = "MIX|FILE")]
    pub(in crate::cli) cluster: String,
    /// Sizes of each GPU's buffer, such as 64kB or 1GB
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = parse_size, default_value = "64kB,1MB,16MB,256MB")]
    pub(in crate::cli) sizes: Vec<u64>,
    /// Network interfaces of each node, at most one for each GPU [default: 1]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub(in crate::cli) nics_per_node: Option<u32>,
    /// Bandwidth of each network interface [default: 100]
    #[arg(long, value_name = "GBIT", allow_negative_numbers = true)]
    pub(in crate::cli) nic_gbit_per_s: Option<f64>,
    /// Latency of each network interface [default: 20]
    #[arg(long, value_name = "MICROSECONDS", allow_negative_numbers = true)]
    pub(in crate::cli) nic_latency_us: Option<f64>,
    /// What to print on stdout
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(in crate::cli) format: Format,
}

/// Bytes: `64kB`, `1.5 GB`, `4096`.
fn parse_size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, f64); 5] = [("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12), ("B", 1.0)];
    let text = text.trim();
    let unit = UNITS.into_iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)));
    let (number, scale) = unit.unwrap_or((text, 1.0));
    let bytes = number.trim().parse::<f64>().ok().map(|number| (number * scale).round());
    let bytes = bytes.filter(|bytes| (1.0..=1e15).contains(bytes)).map(|bytes| bytes as u64);
    bytes.ok_or_else(|| "not a size\nhint: write `64kB`, `16MB` or `1GB`, from one byte to 1000 TB".into())
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  autohet-sim show model llama-7b\n  autohet-sim show model config.json")]
pub(in crate::cli) struct ShowModelArgs {
    /// A preset, a description in TOML or JSON, or Hugging Face's config.json
    #[arg(value_name = "NAME|FILE")]
    pub(in crate::cli) model: String,
    /// Tokens per sample [default: as the model says]
    #[arg(long, value_name = "TOKENS")]
    pub(in crate::cli) seq_length: Option<u32>,
    /// What to print on stdout
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(in crate::cli) format: Format,
}

const SCHEMA_EXAMPLES: &str = "\
Examples:
  autohet-sim show schema plan > plan.schema.json
  autohet-sim list schemas";

#[derive(Debug, Args)]
#[command(after_help = SCHEMA_EXAMPLES)]
pub(in crate::cli) struct ShowSchemaArgs {
    /// Kind of file: plan, cluster, scenario, profile or summary
    #[arg(value_name = "FILE")]
    pub(in crate::cli) name: String,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  autohet-sim show gpu H20")]
pub(in crate::cli) struct ShowGpuArgs {
    /// GPU type, by any of its names
    #[arg(value_name = "TYPE")]
    pub(in crate::cli) gpu_type: String,
    /// What to print on stdout
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(in crate::cli) format: Format,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  autohet-sim completions bash > ~/.local/share/bash-completion/completions/autohet-sim
  autohet-sim completions zsh > ~/.zfunc/_autohet-sim
  autohet-sim completions fish > ~/.config/fish/completions/autohet-sim.fish";

#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(in crate::cli) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub(in crate::cli) shell: Shell,
}

const MAN_EXAMPLES: &str = "\
Examples:
  autohet-sim man | man -l -
  autohet-sim man --out ~/.local/share/man/man1";

#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(in crate::cli) struct ManArgs {
    /// Folder for the pages of all commands [default: that of autohet-sim, on stdout]
    #[arg(long, value_name = "FOLDER")]
    pub(in crate::cli) out: Option<PathBuf>,
}
