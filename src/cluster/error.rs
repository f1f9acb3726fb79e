//! What can be wrong with a cluster.

/// Why a cluster can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The catalog has no such GPU type.
    #[error("unknown GPU type `{name}`\nhint: {hint}")]
    UnknownGpu {
        /// Name asked for.
        name: String,
        /// Near matches and the known names.
        hint: String,
    },
    /// A plan for the cores of the machine that it was made on.
    #[error(
        "a plan for CPU cores can't be simulated or emulated: a core is as fast as its machine\nhint: `autohet-run --plan` and `autohet-run check --plan` run it on cores; a plan for GPUs is made with `--cluster`, such as `--cluster 1x2xT4`"
    )]
    Cores,
    /// A part of the mix notation can't be read.
    #[error(
        "cluster `{part}`: {problem}\nhint: write nodes × GPUs × type, joined by `+`: `2x8xA100-80+4x8xH20`; `8xT4` is one node"
    )]
    Mix {
        /// The part between two `+`.
        part: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A file can't be read.
    #[error("cannot read cluster file `{path}`: {problem}\nhint: check the path")]
    Read {
        /// Path.
        path: String,
        /// What the system says.
        problem: String,
    },
    /// A file isn't a cluster description.
    #[error(
        "{path}:{line}: {problem}\nhint: a cluster file has `[[nodes]]` tables with `count`, `gpus`, `type` and optionally `zone`, `nic_gbit_per_s`, `nic_latency_us`, `nics`, `pcie_switch`, `flow`, `price_usd_per_hour`"
    )]
    File {
        /// Path.
        path: String,
        /// Line, counted from 1.
        line: usize,
        /// What was found and expected, with the key.
        problem: String,
    },
    /// There is nothing in it.
    #[error("the cluster has no nodes\nhint: name at least one, for example `2x8xA100-80`")]
    Empty,
    /// More GPUs than anybody has.
    #[error("the cluster has {gpus} GPUs, at most {limit} are supported\nhint: check the counts for a typing error")]
    TooLarge {
        /// GPUs asked for.
        gpus: u64,
        /// The limit.
        limit: u64,
    },
    /// A figure is out of its range.
    #[error("`{what}` is `{value}`, expected a number {expected}\nhint: correct `{what}`")]
    Number {
        /// Name of the option or key.
        what: String,
        /// What was found.
        value: String,
        /// What was expected: `from 0 to 10`.
        expected: String,
    },
}
