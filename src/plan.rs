//! What goes where: the [`Plan`], pure data without time in it. Both binaries read and write the same file.

mod json;
mod nodes;
mod objective;
mod planner;
mod rescheduled;
mod schedule;
mod validate;
mod violation;

pub use json::PlanFileError;
pub use nodes::{cluster_of_plan, nodes_of_plan};
pub use objective::{Goal, Objective, PricedPlan};
pub use planner::{
    Judge, JudgedPlan, LowerBound, PlanError, PlanLimits, PlanRequest, PlannedIteration, Planner, TrainingSettings,
};
pub use rescheduled::{ScheduleChoice, ScheduleChoiceError};
pub use schedule::{Held, ScheduleKind, ScheduleNameError, StagePosition};
pub use violation::{PlanViolation, StagePlace};

use crate::ids::{ChunkId, LayerId};
use crate::model::{Block, Execution, PlannedModel, Precision, Recompute};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Version of the plan's JSON schema.
pub const SCHEMA_VERSION: u32 = 2;

/// An asymmetric 3D-parallel training plan: replicas of unlike depth, GPU types, layer splits and tensor-parallel degrees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`SCHEMA_VERSION`] of the writer.
    #[cfg_attr(test, schemars(extend("const" = SCHEMA_VERSION)))]
    pub schema_version: u32,
    /// Name of the planner that made it.
    pub planner: String,
    /// The model: a preset's name, or the shape of another.
    pub model: PlannedModel,
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Replica {
    /// Micro batches per iteration, `K_j`.
    pub micro_batches: u32,
    /// Its stages, from the input side.
    pub stages: Vec<Stage>,
}

/// One pipeline stage: layers on the GPUs of one tensor-parallel group, all in one node.
///
/// Its layers are consecutive, but under the interleaved schedule: there it holds several chunks of consecutive layers
/// (virtual stages), and a micro batch passes all first chunks of the pipeline, then all second ones, and so on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Name of the node.
    pub node: String,
    /// Local indices of its GPUs in the node, one per tensor-parallel rank: their number is the stage's degree `t`.
    pub gpus: Vec<u32>,
    /// GPU type, for people and for exports; must agree with the node.
    pub gpu_type: String,
    /// First transformer layer of the first chunk.
    pub first_layer: u32,
    /// Number of transformer layers of the first chunk, at least one. The first stage also holds the embedding, the last
    /// one the head. All layers of the stage: [`layer_count`](Self::layer_count).
    pub num_layers: u32,
    /// Chunks behind the first one, from the input side, under the interleaved schedule; as many in each stage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub later_chunks: Vec<LayerRange>,
}

/// Consecutive transformer layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LayerRange {
    /// The first of them.
    pub first_layer: u32,
    /// How many there are, at least one.
    pub num_layers: u32,
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

    /// The stage of the same replica whose layers this stage holds a second copy of: under redundant computation the next
    /// one, and the first one behind the last.
    pub fn stands_in_for(&self, replica: &Replica, stage: usize) -> Option<usize> {
        let depth = replica.stages.len();
        (self.schedule == ScheduleKind::Redundant && depth > 1).then(|| (stage + 1) % depth)
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

    /// The chunks that it holds, from the input side.
    pub fn chunks(&self) -> impl Iterator<Item = LayerRange> {
        let first = LayerRange { first_layer: self.first_layer, num_layers: self.num_layers };
        std::iter::once(first).chain(self.later_chunks.iter().copied())
    }

    /// How many chunks it holds: virtual stages, one but under the interleaved schedule.
    pub fn chunk_count(&self) -> usize {
        1 + self.later_chunks.len()
    }

    /// Transformer layers of all its chunks.
    pub fn layer_count(&self) -> u32 {
        self.chunks().fold(0, |sum, chunk| sum.saturating_add(chunk.num_layers))
    }
}

impl Replica {
    /// The blocks that a stage holds, from the input side: the first stage has the embedding, the last one the head.
    pub fn blocks(&self, stage: usize) -> Vec<Block> {
        (0..self.stages[stage].chunk_count()).flat_map(|chunk| self.chunk_blocks(stage, ChunkId::from(chunk))).collect()
    }

    /// The blocks of one chunk of a stage, from the input side.
    pub fn chunk_blocks(&self, stage: usize, chunk: ChunkId) -> Vec<Block> {
        let layers = self.stages[stage].chunks().nth(chunk.index()).into_iter();
        let layers = layers.flat_map(|range| range.first_layer..range.first_layer + range.num_layers);
        let [has_embedding, has_head] = self.chunk_ends(stage, chunk);
        let embedding = has_embedding.then_some(Block::Embedding);
        let head = has_head.then_some(Block::Head);
        embedding.into_iter().chain(layers.map(|layer| Block::Layer(LayerId(layer)))).chain(head).collect()
    }

    /// Whether a chunk of a stage is the pipeline's first, which has the embedding, and whether it is the last, which has
    /// the head.
    pub fn chunk_ends(&self, stage: usize, chunk: ChunkId) -> [bool; 2] {
        let is_last = chunk.index() + 1 == self.stages[stage].chunk_count();
        [stage == 0 && chunk.index() == 0, stage + 1 == self.stages.len() && is_last]
    }

    /// Chunks of each of its stages.
    pub fn chunk_count(&self) -> usize {
        self.stages.first().map_or(1, Stage::chunk_count)
    }

    /// A stage's place in this pipeline.
    pub fn position(&self, stage: usize) -> StagePosition {
        let (depth, chunks) = (self.stages.len(), self.stages[stage].chunk_count());
        StagePosition { stage, depth, chunks, micro_batches: self.micro_batches }
    }
}

#[cfg(test)]
mod tests;
