//! What the simulator says of a measured run.

use super::{MeasuredRun, MemoryScope, Quantity, Skip};
use crate::cost::{CostError, CostModel, StageMemory};
use crate::model::{Block, ModelSpec, Recompute};
use crate::plan::Plan;
use crate::profile::{LayerProfile, ProfileError};
use crate::runtime::sim::{SimError, simulate};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// One measured figure beside what was predicted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Record {
    /// The run.
    pub id: String,
    /// Its source.
    #[serde(skip)]
    pub source: String,
    /// What was measured.
    pub kind: &'static str,
    /// Seconds of an iteration, bytes, or a share; throughputs are turned into the seconds that they mean.
    pub measured: f64,
    /// The same, predicted.
    pub predicted: f64,
    /// `predicted / measured - 1`.
    pub error: f64,
    /// The figure as it was published: in the unit of `kind`.
    pub reported: f64,
    /// Name of the model.
    pub model: String,
    /// GPUs in use.
    pub gpus: usize,
    /// GPU types, each once.
    pub gpu_types: Vec<String>,
    /// Whether measured layer times were used.
    pub profiled: bool,
    /// Whether somebody doubts a field of the run, mostly a link's bandwidth.
    pub unconfirmed: bool,
    /// Whether it is of a time.
    #[serde(skip)]
    pub is_time: bool,
    /// Runs of one model, among which ranks are compared.
    #[serde(skip)]
    pub group: String,
}

/// Predicts runs, with measured layer times where there are some.
#[derive(Clone, Debug, Default)]
pub struct Predictor {
    profiles: BTreeMap<String, LayerProfile>,
}

impl Predictor {
    /// Reads what the files and folders measure of the runs' models.
    ///
    /// # Errors
    /// Where a file can't be read or is no profile. Models that nothing measures are estimated.
    pub fn new<'a>(
        profiles: &[PathBuf],
        runs: impl IntoIterator<Item = &'a MeasuredRun>,
    ) -> Result<Self, ProfileError> {
        let mut found = BTreeMap::new();
        let models: BTreeMap<&str, &ModelSpec> =
            runs.into_iter().map(|run| (run.model.name.as_str(), &run.model)).collect();
        for (name, model) in models.into_iter().filter(|_| !profiles.is_empty()) {
            match LayerProfile::read_all(profiles, model) {
                Ok(profile) => {
                    found.insert(name.to_owned(), profile);
                }
                Err(ProfileError::OtherModel { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { profiles: found })
    }

    /// Puts every figure of a run beside its prediction, or says why there is none.
    pub fn predict(&self, run: &MeasuredRun) -> Result<Vec<Record>, Skip> {
        let profile = self.profiles.get(&run.model.name).cloned();
        let profile = if run.is_as_profiled { profile.map(LayerProfile::of_whole_model) } else { profile };
        let profiled = profile.is_some();
        let model = profile.as_ref().map_or_else(|| run.model.clone(), |profile| as_profiled(&run.model, profile));
        let cost = CostModel::new(model, run.cost, profile).with_framework(run.framework);
        let skip = |error: &SimError| Skip { id: run.id.clone(), source: run.source.clone(), reason: reason(error) };
        let mut records = Vec::new();
        for &(quantity, reported) in &run.measured {
            let predicted = match quantity {
                Quantity::Memory(scope) => fullest(&run.plan, &cost, scope),
                _ => simulate(&run.plan, &run.cluster, &cost)
                    .map_err(|error| skip(&error))?
                    .timeline
                    .makespan()
                    .as_seconds(),
            };
            records.push(record(run, quantity, reported, predicted, profiled));
        }
        Ok(records)
    }
}

fn record(run: &MeasuredRun, quantity: Quantity, reported: f64, predicted: f64, profiled: bool) -> Record {
    let measured = run.in_base_unit(quantity, reported);
    let mut gpu_types: Vec<String> = run.cluster.nodes.iter().map(|node| node.gpu.name.clone()).collect();
    gpu_types.sort();
    gpu_types.dedup();
    let ModelSpec { name, num_layers, hidden_size, .. } = &run.model;
    // Throughputs of models that grow with the number of GPUs aren't configurations of one model.
    let group =
        format!("{name}/{num_layers}/{hidden_size}/{}", if quantity.is_time() { "time" } else { quantity.name() });
    Record {
        id: run.id.clone(),
        source: run.source.clone(),
        kind: quantity.name(),
        measured,
        predicted,
        error: predicted / measured - 1.0,
        reported,
        model: run.model.name.clone(),
        gpus: run.plan.world_size(),
        gpu_types,
        profiled,
        unconfirmed: run.is_unconfirmed,
        is_time: quantity.is_time(),
        group,
    }
}

/// The model with the vocabulary of the embedding that was profiled: what a tokenizer leaves of the vocabulary that a
/// description names is known there only.
fn as_profiled(model: &ModelSpec, profile: &LayerProfile) -> ModelSpec {
    let of_positions = model.block_parameters(Block::Embedding) - model.word_embedding_parameters();
    let words = profile.embedding_parameters().and_then(|parameters| parameters.checked_sub(of_positions));
    let vocab_size = words.map(|parameters| parameters / u64::from(model.hidden_size));
    let known = vocab_size.and_then(|size| u32::try_from(size).ok()).filter(|size| *size > 0);
    ModelSpec { vocab_size: known.unwrap_or(model.vocab_size), ..model.clone() }
}

/// Why a run has no prediction, in words that are the same for all runs of a kind.
fn reason(error: &SimError) -> String {
    match error {
        SimError::Cost(CostError::Profile(ProfileError::NotMeasured { .. })) => {
            "the profile doesn't measure this degree and micro-batch size".to_owned()
        }
        SimError::Cost(CostError::TensorParallel { .. }) => {
            "heads can't be split over the tensor-parallel group".to_owned()
        }
        other => other.to_string().lines().next().unwrap_or_default().to_owned(),
    }
}

/// What the fullest GPU of a plan holds, as far as the scope counts it.
fn fullest(plan: &Plan, cost: &CostModel, scope: MemoryScope) -> f64 {
    let most = |plan: &Plan, part: fn(&StageMemory) -> u64| {
        let of_replica = |replica: &crate::plan::Replica| {
            (0..replica.stages.len()).map(|p| part(&plan.memory_in(replica, p, cost))).max()
        };
        plan.replicas.iter().filter_map(of_replica).max().unwrap_or(0) as f64
    };
    match scope {
        MemoryScope::Device => most(plan, StageMemory::total_bytes),
        MemoryScope::Allocated => most(plan, |memory| memory.total_bytes() - memory.reserve_bytes),
        MemoryScope::StateAndActivations => {
            most(plan, |m| m.parameters_bytes + m.gradients_bytes + m.optimizer_bytes + m.activations_bytes)
        }
        MemoryScope::ActivationShare => {
            let whole = Plan { recompute: Recompute::None, sequence_parallel: false, ..plan.clone() };
            most(plan, |memory| memory.activations_bytes) / most(&whole, |memory| memory.activations_bytes)
        }
    }
}
