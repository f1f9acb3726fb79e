//! Everything that is in force in a replay, in one file: what `--scenario` reads and what `resolved.toml` records. A plan has
//! a part of it: the cluster, the model, the training job, the network.
//!
//! Nothing in a replay is random, so a scenario has no seed: the randomness is in the trace, and its generator's seed
//! stands there.

mod check;
mod file;
mod one_or_many;
mod resolve;

pub use file::ScenarioFile;
pub use resolve::JobError;

use crate::cost::{CostSettings, Framework};
use crate::elastic::checkpoint::CheckpointSettings;
use crate::elastic::{ReconfigurationSettings, policies};
use crate::input;
use crate::plan::TrainingSettings;
use crate::replay::Tariff;
use crate::trace::{Align, Polarity, ReadOptions, TimeUnit, TraceError, TraceFormat, TraceSource, WhichNode, Zero};
use crate::units::SimTime;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A replay's inputs, or a plan's. Every key has a default except the trace and the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// Name of a model preset, or a file that describes a model.
    pub model: String,
    /// Tokens per sample, where they aren't as many as the model says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq_length: Option<u32>,
    /// Nodes to plan for, in the mix notation or as a cluster file; a replay has those of its trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Policies to replay, side by side.
    pub policies: Vec<String>,
    /// Files of measured layer times, or folders of them, which replace the estimate; one of them may stand by itself.
    #[cfg_attr(test, schemars(with = "one_or_many::OneOrMany"))]
    #[serde(with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub profile: Vec<PathBuf>,
    /// Who wrote this file; absent where a person did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_by: Option<WrittenBy>,
    /// The trace.
    pub trace: TraceSettings,
    /// The network between nodes.
    pub network: NetworkSettings,
    /// The training job.
    pub training: TrainingSettings,
    /// What the framework does that trains.
    pub framework: Framework,
    /// Checkpoints and storage.
    pub checkpoint: CheckpointSettings,
    /// What a change of plan costs.
    pub reconfiguration: ReconfigurationSettings,
    /// What the cost model takes as given.
    pub cost: CostSettings,
    /// Prices over time, and of what isn't a GPU.
    pub prices: PriceSettings,
}

/// The program that wrote a resolved scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WrittenBy {
    /// Version of autohet.
    pub version: String,
    /// Commit that it was built from.
    pub commit: String,
}

/// The trace, and what it leaves open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct TraceSettings {
    /// The file, or several, each perhaps with what its nodes are: [`TraceSource`].
    #[cfg_attr(test, schemars(with = "one_or_many::OneOrMany"))]
    #[serde(with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub file: Vec<PathBuf>,
    /// Its format, where it isn't to be recognised by its content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_format: Option<TraceFormat>,
    /// The unit of its times, where they are bare numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_unit: Option<TimeUnit>,
    /// Whether its counts are of nodes that are there or of nodes that are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub polarity: Option<Polarity>,
    /// Which nodes go when its counts fall.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub which_node: Option<WhichNode>,
    /// GPU type of nodes for which the trace names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_type: Option<String>,
    /// GPUs of nodes for which the trace gives no number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus_per_node: Option<u32>,
    /// When it ends, where it isn't at its last row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub horizon_s: Option<f64>,
    /// How the clocks of several files are set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub align: Option<Align>,
    /// What time its zero stands for, where its files don't say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Zero>,
}

/// Prices over time, and of what isn't a GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct PriceSettings {
    /// AWS's history of spot prices, which takes the place of the trace's prices and the catalog's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<PathBuf>,
    /// Instance types whose prices are taken from it; all by default.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<String>,
    /// A gigabyte kept in the object store for a month of 730 h.
    pub storage_usd_per_gb_month: f64,
    /// Whole checkpoints that are kept there.
    pub checkpoints_kept: u32,
    /// A gigabyte read from the object store.
    pub egress_usd_per_gb: f64,
    /// A gigabyte that training sends from one zone to another.
    pub cross_zone_usd_per_gb: f64,
}

impl Default for PriceSettings {
    fn default() -> Self {
        let Tariff { storage_usd_per_gb_month, checkpoints_kept, egress_usd_per_gb, cross_zone_usd_per_gb } =
            Tariff::default();
        Self {
            history: None,
            instances: Vec::new(),
            storage_usd_per_gb_month,
            checkpoints_kept,
            egress_usd_per_gb,
            cross_zone_usd_per_gb,
        }
    }
}

impl PriceSettings {
    /// What else than GPUs costs how much.
    pub fn tariff(&self) -> Tariff {
        Tariff {
            storage_usd_per_gb_month: self.storage_usd_per_gb_month,
            checkpoints_kept: self.checkpoints_kept,
            egress_usd_per_gb: self.egress_usd_per_gb,
            cross_zone_usd_per_gb: self.cross_zone_usd_per_gb,
        }
    }
}

/// The network interfaces of every node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct NetworkSettings {
    /// Bandwidth of one interface, per direction.
    pub nic_gbit_per_s: f64,
    /// Latency.
    pub nic_latency_us: f64,
    /// Interfaces of a node, at most one for each of its GPUs.
    pub nics_per_node: u32,
    /// What single flows reach, by GPU type of their nodes; the interface is their only limit where a type isn't named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowSettings>,
}

/// What a single flow between nodes of one GPU type reaches, by the size of its messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FlowSettings {
    /// GPU type, by any of its names.
    pub gpu_type: String,
    /// `a`, `b` and `c` of [`FlowCurve`](crate::cluster::FlowCurve).
    pub gbyte_per_s: [f64; 3],
    /// Smallest message that was measured.
    pub from_bytes: f64,
    /// Largest message that was measured.
    pub to_bytes: f64,
}

impl FlowSettings {
    /// The curve.
    pub fn curve(&self) -> crate::cluster::FlowCurve {
        let Self { gbyte_per_s, from_bytes, to_bytes, .. } = *self;
        crate::cluster::FlowCurve { gbyte_per_s, from_bytes, to_bytes }
    }
}

/// Why a scenario can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// The file can't be read.
    #[error("cannot read the scenario `{file}`: {source}\nhint: check the path")]
    Read {
        /// The file.
        file: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file isn't a scenario.
    #[error("`{file}` line {line}, column {column}: {problem}\nhint: `scenarios/aws-spot.toml` shows every key")]
    Parse {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What was expected and found.
        problem: String,
    },
    /// A value is out of its range.
    #[error("`{key}` is `{value}`, expected {expected}\nhint: {hint}")]
    Value {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it can be.
        expected: String,
        /// What to do.
        hint: String,
    },
    /// The same, in a file.
    #[error("{place}: `{key}` is `{value}`, expected {expected}\nhint: {hint}")]
    Placed {
        /// The file and the line.
        place: String,
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it can be.
        expected: String,
        /// What to do.
        hint: String,
    },
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            model: "gpt3-6.7b".into(),
            seq_length: None,
            cluster: None,
            policies: policies::DEFAULTS.map(str::to_owned).to_vec(),
            profile: Vec::new(),
            written_by: None,
            trace: TraceSettings::default(),
            network: NetworkSettings::default(),
            training: TrainingSettings::default(),
            framework: Framework::default(),
            checkpoint: CheckpointSettings::default(),
            reconfiguration: ReconfigurationSettings::default(),
            cost: CostSettings::default(),
            prices: PriceSettings::default(),
        }
    }
}

impl Default for NetworkSettings {
    fn default() -> Self {
        let crate::cluster::NodeDefaults { nic, wiring, .. } = crate::cluster::NodeDefaults::default();
        Self {
            nic_gbit_per_s: nic.bytes_per_s * 8.0 / 1e9,
            nic_latency_us: nic.latency_s * 1e6,
            nics_per_node: wiring.nics,
            flows: Vec::new(),
        }
    }
}

impl TraceSettings {
    /// What the reader of the trace is told.
    pub fn read_options(&self) -> ReadOptions {
        ReadOptions {
            format: self.trace_format,
            time_unit: self.time_unit,
            polarity: self.polarity,
            gpus_per_node: self.gpus_per_node,
            gpu_type: self.gpu_type.clone(),
            which_node: self.which_node,
            zone: None,
            horizon: self.horizon_s.map(SimTime::from_seconds),
            start: self.start,
            align: self.align,
        }
    }

    /// Its files, with what is known of their nodes.
    pub fn sources(&self) -> Result<Vec<TraceSource>, TraceError> {
        self.file.iter().map(|file| TraceSource::parse(file)).collect()
    }
}

impl Scenario {
    /// Reads a scenario file.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let file = path.display().to_string();
        match input::read_text(path) {
            Ok(text) => Self::parse(&text, &file),
            Err(source) => Err(ScenarioError::Read { file, source }),
        }
    }

    /// Reads a scenario from text; `file` stands for the file in messages.
    ///
    /// ```
    /// use autohet::scenario::Scenario;
    /// let scenario = Scenario::parse("model = \"llama-7b\"", "mine.toml")?;
    /// assert_eq!((scenario.model_spec().unwrap().num_layers, scenario.training.global_batch_size), (32, 512));
    /// assert!(Scenario::parse("modle = 1", "mine.toml").unwrap_err().to_string().contains("line 1"));
    /// # Ok::<(), autohet::scenario::ScenarioError>(())
    /// ```
    pub fn parse(text: &str, file: &str) -> Result<Self, ScenarioError> {
        toml::from_str(text).map_err(|error| {
            let before = &text[..error.span().map_or(0, |span| span.start)];
            let line = 1 + before.bytes().filter(|byte| *byte == b'\n').count();
            let column = 1 + before.chars().rev().take_while(|c| *c != '\n').count();
            ScenarioError::Parse { file: file.into(), line, column, problem: error.message().to_owned() }
        })
    }

    /// The scenario as a file that gives the same replay again.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a scenario has only keys that TOML can hold")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_survives_the_way_through_its_file() {
        let scenario = Scenario { model: "llama-7b".into(), ..Scenario::default() };
        assert_eq!(Scenario::parse(&scenario.to_toml(), "t").unwrap(), scenario);
    }

    #[test]
    fn an_unknown_key_is_named_with_its_place() {
        let error =
            Scenario::parse("model = \"gpt3-13b\"\n[training]\n  bacth = 3\n", "t.toml").unwrap_err().to_string();
        assert!(error.starts_with("`t.toml` line 3, column 3: unknown field `bacth`"), "{error}");
    }
}
