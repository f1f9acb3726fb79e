//! One run: its settings, worked out once and checked, and the work itself.

use super::file::EXTRAS;
use super::hash::hash;
use super::memory::Shared;
use super::{PROGRAM, SweepFile, plan, replay};
use crate::cluster::{Cluster, ClusterError, GpuSpec};
use crate::report::{SweepKind, SweepOutcome, SweepStatus};
use crate::scenario::Scenario;
use crate::trace::TraceSource;
use crate::trace::generator::GeneratorSettings;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use toml::{Table, Value};

/// One run of a sweep.
#[derive(Clone, Debug)]
pub struct Run {
    /// The values of its axes, the planner or the policy last.
    pub key: Vec<serde_json::Value>,
    /// The planner or the policy.
    pub(super) who: String,
    pub(super) point: Point,
}

/// The settings of a run, beside its planner or policy.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) scenario: Scenario,
    /// Nodes in the mix notation or a cluster file; none where all counts are zero, or in a replay.
    pub(super) cluster: Option<String>,
    /// The market whose trace is replayed, where it is a generated one.
    pub(super) market: Option<GeneratorSettings>,
    /// The traces that are replayed otherwise.
    pub(super) sources: Vec<TraceSource>,
}

/// The hint of a message that has none.
const KEYS_HINT: &str = "\nhint: `scenarios/aws-spot.toml` shows every key of a scenario";

impl Point {
    /// Whether a document is one of a scenario, whatever is to be done with it.
    pub(super) fn check(document: &Table) -> Result<(), String> {
        let (scenario, extras) = split(document)?;
        scenario.check().map_err(|error| error.to_string())?;
        scenario.model_spec().map_err(|error| error.to_string())?;
        mix(&extras)?;
        market(&extras)?;
        Ok(())
    }

    /// The settings that a document holds. What is wrong, with its hint, where they can't be used.
    pub(super) fn new(document: &Table, kind: SweepKind) -> Result<Self, String> {
        let (scenario, extras) = split(document)?;
        scenario.check().map_err(|error| error.to_string())?;
        let (mix, market) = (mix(&extras)?, market(&extras)?);
        let has_counts = extras.contains_key("gpus") || extras.contains_key("nodes");
        let (cluster, market) = match kind {
            SweepKind::Plans => {
                let cluster = match (has_counts, &scenario.cluster) {
                    (true, Some(_)) => return Err("both `cluster` and counts are given\nhint: leave one out".into()),
                    (true, None) => mix,
                    (false, None) => {
                        return Err("no cluster is given\nhint: name `cluster`, or counts as `gpus.A100-80`".into());
                    }
                    (false, Some(cluster)) => Some(cluster.clone()),
                };
                // Files are read once, before the first run.
                if let Some(cluster) = cluster.as_deref().filter(|cluster| !Path::new(cluster).is_file()) {
                    let read = Cluster::from_argument(cluster, &scenario.network.node_defaults());
                    read.map_err(|error| error.to_string())?;
                }
                (cluster, None)
            }
            SweepKind::Replays if has_counts || scenario.cluster.is_some() => {
                return Err("a replay has the nodes of its trace\nhint: leave out `cluster` and counts of GPUs".into());
            }
            SweepKind::Replays => match (scenario.trace.file.is_empty(), market) {
                (false, Some(_)) => return Err("both a trace and a market are given\nhint: leave one out".into()),
                (true, None) => return Err("no trace is given\nhint: name `trace.file`, or a `[market]`".into()),
                (_, market) => (None, market),
            },
        };
        let sources = scenario.trace.sources().map_err(|error| error.to_string())?;
        Ok(Self { scenario, cluster, market, sources })
    }

    /// Everything that its runs depend on, as text.
    fn content(&self, shared: &Shared) -> String {
        let mut scenario = self.scenario.clone();
        scenario.policies.clear();
        scenario.written_by = None;
        let mut text = scenario.to_toml();
        let mut file = |what: &str, hash: u128| writeln!(text, "{what} {hash:032x}").expect("text has room");
        scenario.profile.iter().for_each(|path| file("profile", shared.content_of(path)));
        let model = Path::new(&scenario.model);
        if model.is_file() {
            file("model", shared.content_of(model));
        }
        self.sources.iter().for_each(|source| file("trace", shared.content_of(&source.path)));
        scenario.prices.history.iter().for_each(|path| file("prices", shared.content_of(path)));
        if let Some(cluster) = &self.cluster {
            let path = Path::new(cluster);
            if path.is_file() {
                file("cluster", shared.content_of(path));
            }
            text += cluster;
        }
        if let Some(market) = &self.market {
            text += &toml::to_string(market).unwrap_or_else(|_| format!("{market:?}"));
        }
        text
    }
}

/// The scenario of a document, and what stands beside it.
fn split(document: &Table) -> Result<(Scenario, Table), String> {
    let mut scenario = document.clone();
    let extras = EXTRAS.iter().filter_map(|key| Some(((*key).to_owned(), scenario.remove(*key)?))).collect();
    let scenario = Value::Table(scenario).try_into::<Scenario>();
    Ok((scenario.map_err(|error| error.message().to_owned() + KEYS_HINT)?, extras))
}

/// The mix that counts describe, in their order: `gpus.T4 = 3` is a node of three, `nodes.T4 = 3` are three nodes. `None`
/// where there is nothing.
fn mix(extras: &Table) -> Result<Option<String>, String> {
    let count = |key: &str, value: &Value| match value {
        Value::Integer(count) if (0..=1 << 20).contains(count) => Ok(*count),
        other => Err(format!("`{key}` is `{other}`, expected a whole number from 0 on\nhint: 0 leaves the type out")),
    };
    let per_node = extras.get("gpus_per_node").map_or(Ok(8), |value| count("gpus_per_node", value))?;
    let mut parts = Vec::new();
    for table in ["gpus", "nodes"] {
        let Some(Value::Table(counts)) = extras.get(table) else { continue };
        for (gpu_type, value) in counts {
            let gpu = GpuSpec::lookup(gpu_type).map_err(|error: ClusterError| error.to_string())?;
            let count = count(&format!("{table}.{gpu_type}"), value)?;
            match table {
                _ if count == 0 => {}
                "gpus" => parts.push(format!("1x{count}x{}", gpu.name)),
                _ => parts.push(format!("{count}x{per_node}x{}", gpu.name)),
            }
        }
    }
    Ok((!parts.is_empty()).then(|| parts.join("+")))
}

fn market(extras: &Table) -> Result<Option<GeneratorSettings>, String> {
    let Some(market) = extras.get("market") else { return Ok(None) };
    let market = market
        .clone()
        .try_into::<GeneratorSettings>()
        .map_err(|error| format!("market: {}\nhint: `docs/formats.md` has every key of a market", error.message()))?;
    market.pools.iter().try_for_each(|pool| GpuSpec::lookup(&pool.gpu_type).map(drop).map_err(|e| e.to_string()))?;
    Ok(Some(market))
}

impl Run {
    /// Everything that its outcome depends on, as text: two runs of the same text have the same outcome.
    pub fn content(&self, sweep: &SweepFile, shared: &Shared) -> String {
        let SweepFile { kind, effort, bound, .. } = sweep;
        let head = format!("{PROGRAM} {kind:?} {effort:?} {bound} {}\n", self.who);
        head + &self.point.content(shared)
    }

    /// Does it, or finds what came of it in memory or on disk. It never fails: what goes wrong is an outcome too.
    pub fn outcome(&self, sweep: &SweepFile, shared: &Arc<Shared>) -> SweepOutcome {
        let content = self.content(sweep, shared);
        let key = hash(&[content.as_bytes()]);
        if let Some(known) = shared.known(key, &content) {
            return known;
        }
        let work = || match sweep.kind {
            SweepKind::Plans => plan::run(&self.point, &self.who, sweep, shared),
            SweepKind::Replays => replay::run(&self.point, &self.who, shared),
        };
        // A fault of ours in one run must not take the others with it.
        let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            let reason = format!("internal error: {}", said.unwrap_or("no message"));
            SweepOutcome::without_figures(SweepStatus::Error, reason)
        });
        shared.keep(key, &content, &outcome);
        outcome
    }
}
