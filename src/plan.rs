//! What goes where: the [`Plan`], pure data without time in it. Both binaries read and write the same file.

mod json;
mod objective;
mod planner;
mod validate;

pub use json::PlanFileError;
pub use objective::{Goal, Objective, PricedPlan};
pub use planner::{Judge, JudgedPlan, PlanError, PlanLimits, PlanRequest, PlannedIteration, Planner, TrainingSettings};
pub use validate::{PlanViolation, StagePlace};

use crate::ids::LayerId;
use crate::model::{Block, Execution, Precision, Recompute};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Version of the plan's JSON schema.
pub const SCHEMA_VERSION: u32 = 2;

/// An asymmetric 3D-parallel training plan: replicas of unlike depth, GPU types, layer splits and tensor-parallel degrees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// Name of the planner that made it.
    pub planner: String,
    /// Name of the model.
    pub model: String,
    /// Samples per optimizer step, over all replicas: `B`.
    pub global_batch_size: u32,
    /// Samples per micro batch: `b`.
    pub micro_batch_size: u32,
    /// Whether sequence parallelism is on, in all stages of more than one GPU.
    pub sequence_parallel: bool,
    /// What is stored for the backward pass.
    pub recompute: Recompute,
    /// Number format.
    pub precision: Precision,
    /// Order of forward and backward passes.
    pub schedule: ScheduleKind,
    /// The data-parallel replicas.
    pub replicas: Vec<Replica>,
}

/// One pipeline that holds the whole model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replica {
    /// Micro batches per iteration, `K_j`.
    pub micro_batches: u32,
    /// Its stages, from the input side.
    pub stages: Vec<Stage>,
}

/// One pipeline stage: consecutive layers on the GPUs of one tensor-parallel group, all in one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Name of the node.
    pub node: String,
    /// Local indices of its GPUs in the node, one per tensor-parallel rank: their number is the stage's degree `t`.
    pub gpus: Vec<u32>,
    /// GPU type, for people and for exports; must agree with the node.
    pub gpu_type: String,
    /// First transformer layer.
    pub first_layer: u32,
    /// Number of transformer layers, at least one. The first stage also holds the embedding, the last one the head.
    pub num_layers: u32,
}

/// Order of forward and backward passes within a pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ScheduleKind {
    /// One forward, one backward, with pipeline flush (PipeDream-Flush, Narayanan et al. 2021).
    #[default]
    #[serde(rename = "1f1b")]
    OneForwardOneBackward,
    /// All forwards, then all backwards (Huang et al. 2019).
    #[serde(rename = "gpipe")]
    GPipe,
}

impl Plan {
    /// How each layer of a stage is executed under this plan.
    pub fn execution(&self, stage: &Stage) -> Execution {
        self.execution_at(stage.tensor_parallel_size())
    }

    /// How each layer of a stage of so many GPUs is executed under this plan.
    pub fn execution_at(&self, tensor_parallel_size: u32) -> Execution {
        Execution {
            tensor_parallel_size,
            micro_batch_size: self.micro_batch_size,
            recompute: self.recompute,
            sequence_parallel: self.sequence_parallel,
            precision: self.precision,
        }
    }

    /// The tensor-parallel degrees of its stages, each once, the smallest first.
    pub fn tensor_parallel_sizes(&self) -> Vec<u32> {
        let stages = self.replicas.iter().flat_map(|replica| &replica.stages);
        let sizes: BTreeSet<u32> = stages.map(Stage::tensor_parallel_size).collect();
        sizes.into_iter().collect()
    }

    /// Its tensor-parallel degrees for people: `2`, or `1, 2 and 4` where stages differ.
    pub fn tensor_parallel_text(&self) -> String {
        let sizes: Vec<String> = self.tensor_parallel_sizes().iter().map(ToString::to_string).collect();
        match sizes.split_last() {
            Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
            _ => sizes.concat(),
        }
    }

    /// Number of ranks, one per GPU in use.
    pub fn world_size(&self) -> usize {
        self.replicas.iter().flat_map(|replica| &replica.stages).map(|stage| stage.gpus.len()).sum()
    }
}

impl Stage {
    /// Its tensor-parallel degree `t`: GPUs that share each of its layers.
    pub fn tensor_parallel_size(&self) -> u32 {
        self.gpus.len() as u32
    }
}

impl Replica {
    /// The blocks that a stage holds, from the input side: the first stage has the embedding, the last one the head.
    pub fn blocks(&self, stage: usize) -> Vec<Block> {
        let Stage { first_layer, num_layers, .. } = self.stages[stage];
        let layers = (first_layer..first_layer + num_layers).map(|layer| Block::Layer(LayerId(layer)));
        let embedding = (stage == 0).then_some(Block::Embedding);
        let head = (stage + 1 == self.stages.len()).then_some(Block::Head);
        embedding.into_iter().chain(layers).chain(head).collect()
    }
}

impl ScheduleKind {
    /// Micro batches that stage `stage` of `depth` holds in flight at most, out of `micro_batches`: `min(K, P - p)`
    /// under 1F1B (Narayanan et al. 2021, section 2.2), all of them under GPipe.
    pub fn in_flight(self, stage: usize, depth: usize, micro_batches: u32) -> u32 {
        match self {
            Self::OneForwardOneBackward => micro_batches.min((depth - stage) as u32),
            Self::GPipe => micro_batches,
        }
    }
}

#[cfg(test)]
mod tests;
