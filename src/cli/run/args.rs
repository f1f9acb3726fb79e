//! Arguments of `autohet-run`.

mod check;
mod examples;

pub(super) use check::CheckArgs;

use super::settings::RecoverFrom;
use crate::cli::args::{Format, HelpArgs, ReadingArgs};
use crate::model::Precision;
use crate::training::KillPoint;
use crate::training::SIGN_OF_LIFE;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Trains a model on this machine, one process per rank.
///
/// Prints after each step the loss before it (mean over the tokens of the global batch, in nats), the norm of the gradient
/// before it was clipped, tokens per second of wall-clock time, what the ranks compute (model FLOPs per second, or the MFU
/// where the devices' peak is known), the memory of the largest process, and the measured and the predicted time of the
/// iteration: from the start of the first instruction to the end of the last. All processes end with this one.
#[derive(Debug, Parser)]
#[command(name = "autohet-run", version, after_help = examples::RUN, after_long_help = examples::LONG_RUN, args_conflicts_with_subcommands = true, disable_help_flag = true)]
pub struct RunArgs {
    #[command(subcommand)]
    pub(super) command: Option<RunCommand>,
    #[command(flatten)]
    pub(super) planning: PlanningArgs,
    #[command(flatten)]
    pub(super) data: DataArgs,
    /// Optimizer steps
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) steps: u32,
    /// Seed of weights and samples: any plan starts from the same ones
    #[arg(long, default_value_t = 0, hide_short_help = true)]
    pub(super) seed: u64,
    #[command(flatten)]
    pub(super) optimizer: OptimizerArgs,
    #[command(flatten)]
    pub(super) devices: DeviceArgs,
    #[command(flatten)]
    pub(super) checkpoints: CheckpointArgs,
    #[command(flatten)]
    pub(super) injection: InjectionArgs,
    #[command(flatten)]
    pub(super) hosts: HostArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) help: HelpArgs,
}

/// What is trained, and how it is spread.
#[derive(Debug, Args)]
#[command(next_help_heading = "Plan")]
pub(super) struct PlanningArgs {
    /// Plan file [default: planned for the devices that are there]
    ///
    /// As `autohet-sim plan --out` or `--plan-out` writes it.
    #[arg(long, value_name = "FILE")]
    pub(super) plan: Option<PathBuf>,
    /// Model: a preset, or a file that describes one; with a plan, the plan's
    #[arg(long, value_name = "NAME|FILE")]
    pub(super) model: Option<String>,
    /// Tokens per sample; with a plan, the plan's [default: as the model says]
    #[arg(long, value_name = "TOKENS", hide_short_help = true)]
    pub(super) seq_length: Option<u32>,
    /// Samples per optimizer step; with a plan, the plan's [default: 8]
    #[arg(long, value_name = "SAMPLES", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub(super) global_batch_size: Option<u32>,
    /// Number format; with a plan, the plan's [default: fp32 on the CPU, bf16 on GPUs]
    #[arg(long, value_parser = crate::cli::args::parse_precision, value_name = "fp32|bf16", hide_short_help = true)]
    pub(super) precision: Option<Precision>,
    /// Processes to plan for [default: one a core, or one an entry of `--device-map`]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=64), hide_short_help = true)]
    pub(super) ranks: Option<u32>,
    /// Also write the plan that was made, to use it again
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(super) plan_out: Option<PathBuf>,
}

/// What is trained on.
#[derive(Debug, Args)]
#[command(next_help_heading = "Data")]
pub(super) struct DataArgs {
    /// Text or tokens to train on [default: synthetic]
    #[arg(long, value_name = "FILE")]
    pub(super) data: Option<PathBuf>,
    /// How the file holds its tokens [default: u16 for .bin and .u16, u32 for .u32, else text]
    #[arg(long, value_name = "FORMAT", value_enum, requires = "data", hide_short_help = true)]
    pub(super) data_format: Option<DataFormat>,
}

/// How a file holds its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DataFormat {
    /// UTF-8 text, one token a byte.
    Text,
    /// Numbers of two bytes, little endian.
    U16,
    /// Numbers of four bytes, little endian.
    U32,
}

/// `AdamW`, and its step size over time.
#[derive(Debug, Args)]
#[command(next_help_heading = "Optimizer")]
pub(super) struct OptimizerArgs {
    /// Learning rate, at its peak
    #[arg(long, value_name = "RATE", default_value_t = 1e-3, allow_negative_numbers = true, hide_short_help = true)]
    pub(super) learning_rate: f32,
    /// Steps in which it rises to its peak
    #[arg(long, value_name = "STEPS", default_value_t = 0, hide_short_help = true)]
    pub(super) warmup_steps: u64,
    /// Step at which it has fallen to its minimum, by half a cosine [default: it doesn't fall]
    #[arg(long, value_name = "STEP", hide_short_help = true)]
    pub(super) decay_steps: Option<u64>,
    /// Learning rate after that [default: 0]
    #[arg(long, value_name = "RATE", allow_negative_numbers = true, hide_short_help = true)]
    pub(super) min_learning_rate: Option<f32>,
    /// Largest norm of the gradient; a larger one is scaled down to it; 0 for no limit
    #[arg(long, value_name = "NORM", default_value_t = 1.0, allow_negative_numbers = true, hide_short_help = true)]
    pub(super) clip_norm: f32,
    /// Share of each weight that is taken off per unit of learning rate
    #[arg(long, value_name = "SHARE", default_value_t = 1e-2, allow_negative_numbers = true, hide_short_help = true)]
    pub(super) weight_decay: f32,
}

/// What computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Backend {
    /// Tensors on this machine's processors, a core for each rank.
    Cpu,
    /// Tensors on NVIDIA GPUs; needs a build with the feature `cuda`.
    Cuda,
    /// Nothing: each rank sleeps for as long as its GPU would take, and sends as many bytes.
    Emulated,
}

/// What the plan runs on.
#[derive(Debug, Args)]
#[command(next_help_heading = "Devices")]
pub(super) struct DeviceArgs {
    /// What computes
    #[arg(long, value_enum, default_value_t = Backend::Cpu)]
    pub(super) backend: Backend,
    /// GPU of each rank as `nvidia-smi` counts them; several ranks may share one, and a shorter list is dealt out in turn
    /// [default: 0] [example: 0,0,1,1]
    #[arg(long, value_name = "GPUS", value_delimiter = ',', hide_short_help = true)]
    pub(super) device_map: Option<Vec<u32>>,
    /// Ranks that are slowed down, each with a factor: 0:1.0,1:2.5
    #[arg(long, value_name = "RANK:FACTOR", value_delimiter = ',', hide_short_help = true)]
    pub(super) slowdown: Option<Vec<String>>,
    /// Cluster that the plan is for, as a mix or a TOML file; its links are emulated, and without a plan it is planned for
    /// [default: on emulated devices the plan's nodes]
    #[arg(long, value_name = "MIX|FILE", hide_short_help = true)]
    pub(super) cluster: Option<String>,
    /// Emulated bandwidth of each node's interface where the cluster doesn't say
    #[arg(long, value_name = "GBIT", allow_negative_numbers = true, hide_short_help = true)]
    pub(super) nic_gbit_per_s: Option<f64>,
    /// Emulated latency of each node's interface where the cluster doesn't say
    #[arg(long, value_name = "MICROSECONDS", allow_negative_numbers = true, hide_short_help = true)]
    pub(super) nic_latency_us: Option<f64>,
    /// JSON file of measured layer times
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(super) profile: Option<PathBuf>,
    /// How many times slower than the real ones emulated devices and links are: slow motion, for more ranks than cores
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, allow_negative_numbers = true, hide_short_help = true)]
    pub(super) time_scale: f64,
}

/// Where state is kept.
#[derive(Debug, Args)]
#[command(next_help_heading = "Checkpoints")]
pub(super) struct CheckpointArgs {
    /// Folder for checkpoints; training goes on from the newest
    ///
    /// Where it has some of this job.
    #[arg(long, value_name = "FOLDER")]
    pub(super) checkpoint_dir: Option<PathBuf>,
    /// Iterations from one checkpoint to the next
    #[arg(long, value_name = "ITERATIONS", default_value_t = 50, requires = "checkpoint_dir", value_parser = clap::value_parser!(u64).range(1..), hide_short_help = true)]
    pub(super) checkpoint_every: u64,
    /// Nodes that keep a copy of each part of a checkpoint in memory, beside those that train it: where all those are lost it
    /// is read from there
    #[arg(long, value_name = "NODES", default_value_t = 0, requires = "checkpoint_dir", value_parser = clap::value_parser!(u32).range(..=8), hide_short_help = true)]
    pub(super) peer_copies: u32,
    /// Slow the object store down to this rate, in megabytes (10⁶ bytes) a second for each process [default: as fast as the
    /// disk]
    #[arg(
        long,
        value_name = "RATE",
        requires = "checkpoint_dir",
        allow_negative_numbers = true,
        hide_short_help = true
    )]
    pub(super) store_mb_per_s: Option<f64>,
    /// Slow the object store down to this rate for all processes together
    #[arg(
        long,
        value_name = "RATE",
        requires = "checkpoint_dir",
        allow_negative_numbers = true,
        hide_short_help = true
    )]
    pub(super) store_total_mb_per_s: Option<f64>,
    /// Let the object store take so long before the first byte
    #[arg(
        long,
        value_name = "MILLISECONDS",
        default_value_t = 0.0,
        requires = "checkpoint_dir",
        allow_negative_numbers = true,
        hide_short_help = true
    )]
    pub(super) store_latency_ms: f64,
}

/// What is done to the nodes on purpose.
#[derive(Debug, Args)]
#[command(next_help_heading = "Nodes that come and go")]
pub(super) struct InjectionArgs {
    #[command(flatten)]
    pub(super) trace: InjectedTraceArgs,
    /// Where the state of lost ranks is read from
    #[arg(long, value_enum, default_value_t = RecoverFrom::All, hide_short_help = true)]
    pub(super) recover_from: RecoverFrom,
    /// Restart nodes whose processes die, at most this many times in all
    #[arg(long, value_name = "COUNT", default_value_t = 3, hide_short_help = true)]
    pub(super) max_restarts: u32,
    /// Seconds without a sign of life after which a node counts as lost: it hangs, or its machine is gone
    #[arg(long, value_name = "SECONDS", default_value_t = SIGN_OF_LIFE.as_secs(), value_parser = clap::value_parser!(u64).range(2..=3600), hide_short_help = true)]
    pub(super) silence_s: u64,
    /// Kill a node at a moment of training: its processes get SIGKILL. Phases: warm-up, steady, all-reduce, optimizer,
    /// checkpoint, recovery [example: n1@3:all-reduce]
    #[arg(long, value_name = "NODE@ITERATION:PHASE", hide_short_help = true)]
    pub(super) kill: Vec<KillPoint>,
}

/// A trace that is replayed on real processes.
#[derive(Debug, Args)]
pub(super) struct InjectedTraceArgs {
    /// Trace to replay on real processes
    ///
    /// Nodes that come are started, nodes under notice are told of, and nodes that go get SIGKILL (traces/README.md lists the
    /// formats).
    #[arg(long, value_name = "FILE")]
    pub(super) inject: Option<PathBuf>,
    /// How many times faster than in the trace its time passes
    #[arg(
        long,
        value_name = "FACTOR",
        default_value_t = 1.0,
        requires = "inject",
        allow_negative_numbers = true,
        hide_short_help = true
    )]
    pub(super) trace_speed: f64,
    #[command(flatten)]
    pub(super) reading: ReadingArgs,
}

/// Nodes on other machines.
#[derive(Debug, Args)]
#[command(next_help_heading = "Several hosts")]
pub(super) struct HostArgs {
    /// File with the names of nodes, one a line, whose workers you start yourself, there, with `autohet-run worker`
    #[arg(long, value_name = "FILE", requires = "secret_file", hide_short_help = true)]
    pub(super) hosts: Option<PathBuf>,
    /// Address where this process listens to workers [default: the loopback interface, any free port]
    #[arg(long, value_name = "ADDRESS:PORT", requires = "hosts", hide_short_help = true)]
    pub(super) listen: Option<SocketAddr>,
    /// File with the secret that workers have to know: 64 hexadecimal digits, readable by you alone
    #[arg(long, value_name = "FILE", requires = "hosts", hide_short_help = true)]
    pub(super) secret_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(super) struct OutputArgs {
    /// What to print on stdout, a step a line
    ///
    /// As it happens; JSON has a line for each event, too.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(super) format: Format,
    /// Print nothing but errors and what `--format` asks for
    ///
    /// JSON, CSV or Markdown, that is: not the table.
    #[arg(long, short)]
    pub(super) quiet: bool,
    /// Folder for what was measured, of failed runs too
    ///
    /// It gets metrics.csv, events.jsonl, loss.svg, summary.json and timeline.perfetto.json (the last step, for
    /// ui.perfetto.dev).
    #[arg(long, value_name = "FOLDER")]
    pub(super) out: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(super) enum RunCommand {
    /// One device of a run, on another host than the coordinator
    #[command(after_help = examples::WORKER)]
    Worker(WorkerArgs),
    #[command(after_help = examples::PROFILE)]
    Profile(ProfileArgs),
    Check(Box<CheckArgs>),
}

/// Measures layers, optimizer and links of this machine, for `--profile`.
///
/// It does so with the ranks that train: a model cut to two layers, for each tensor-parallel degree and
/// micro-batch size. The bar is on stderr.
#[derive(Debug, Args)]
pub(super) struct ProfileArgs {
    /// Model: a preset, or a file that describes one
    #[arg(long, value_name = "NAME|FILE")]
    pub(super) model: String,
    /// Tokens per sample [default: as the model says]
    #[arg(long, value_name = "TOKENS", hide_short_help = true)]
    pub(super) seq_length: Option<u32>,
    /// Tensor-parallel degrees
    #[arg(long, value_name = "SIZES", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) tensor_parallel_sizes: Vec<u32>,
    /// Samples per micro batch
    #[arg(long, value_name = "SIZES", value_delimiter = ',', default_value = "1,2,4", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(super) micro_batch_sizes: Vec<u32>,
    /// Ranks that compute at the same time, as in the run that is to be predicted [default: one a core]
    #[arg(long, value_name = "RANKS", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) concurrency: Option<u32>,
    /// What computes
    #[arg(long, value_enum, default_value_t = Backend::Cpu)]
    pub(super) backend: Backend,
    /// What the device is called in the profile [default: cpu, or cuda]
    #[arg(long, value_name = "NAME")]
    pub(super) gpu_type: Option<String>,
    /// Number format [default: fp32 on the CPU, bf16 on GPUs]
    #[arg(long, value_parser = crate::cli::args::parse_precision, value_name = "fp32|bf16", hide_short_help = true)]
    pub(super) precision: Option<Precision>,
    /// Steps measured at each point
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) steps: u32,
    /// File for the profile [default: stdout]
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
}

/// Where a worker belongs. Without any of it, the environment says, as the coordinator sets it.
#[derive(Debug, Args)]
pub(super) struct WorkerArgs {
    /// Where the coordinator listens
    #[arg(long, value_name = "HOST:PORT", requires_all = ["node", "secret_file"])]
    pub(super) coordinator: Option<String>,
    /// Name of the node, as the plan or the trace has it
    #[arg(long, value_name = "NAME", requires = "coordinator")]
    pub(super) node: Option<String>,
    /// Index of the device in the node
    #[arg(long, value_name = "INDEX", default_value_t = 0, requires = "coordinator")]
    pub(super) gpu: u32,
    /// File with the secret of the run
    #[arg(long, value_name = "FILE", requires = "coordinator")]
    pub(super) secret_file: Option<PathBuf>,
}
