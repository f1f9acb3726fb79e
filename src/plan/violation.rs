//! Why a plan can't run.

use super::SCHEMA_VERSION;
use crate::units::format_bytes;
use std::fmt;

/// Largest global batch: more instructions than that many micro batches have fit no memory.
pub(super) const MOST_SAMPLES: u32 = 1 << 20;

/// Where in a plan something is wrong: replica and stage, both counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StagePlace {
    /// Index into [`Plan::replicas`](super::Plan::replicas).
    pub replica: usize,
    /// Index into [`Replica::stages`](super::Replica::stages).
    pub stage: usize,
}

impl fmt::Display for StagePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "replica {} stage {}", self.replica, self.stage)
    }
}

/// One reason why a plan can't run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanViolation {
    /// Written for another version of the schema.
    #[error("the plan has schema version {found}, this program reads {SCHEMA_VERSION}")]
    SchemaVersion {
        /// Version in the plan.
        found: u32,
    },
    /// Made for another model.
    #[error("the plan is for model `{found}`, not `{expected}`")]
    Model {
        /// Model that is to be trained.
        expected: String,
        /// Model in the plan.
        found: String,
    },
    /// Nothing would run.
    #[error("the plan has no replicas")]
    NoReplicas,
    /// A replica without stages.
    #[error("replica {replica} has no stages")]
    NoStages {
        /// Index of the replica.
        replica: usize,
    },
    /// More samples than an iteration is executed with.
    #[error("the plan has a global batch of {found} samples, at most {MOST_SAMPLES} can be executed")]
    TooManySamples {
        /// Samples in the plan.
        found: u32,
    },
    /// A replica that would compute nothing.
    #[error("replica {replica} has no micro batches")]
    NoMicroBatches {
        /// Index of the replica.
        replica: usize,
    },
    /// The micro batches don't add up to the global batch.
    #[error(
        "{micro_batches} micro batches of {micro_batch_size} samples don't make the global batch of {global_batch_size}"
    )]
    GlobalBatch {
        /// Sum over the replicas.
        micro_batches: u64,
        /// Samples per micro batch.
        micro_batch_size: u32,
        /// Samples per iteration.
        global_batch_size: u32,
    },
    /// A stage on a node that isn't there.
    #[error("{place}: there is no node `{node}` in the cluster")]
    UnknownNode {
        /// The stage.
        place: StagePlace,
        /// Name of the node.
        node: String,
    },
    /// A stage on a GPU that the node lacks.
    #[error("{place}: node `{node}` has {gpu_count} GPUs, there is no GPU {gpu}")]
    GpuOutOfRange {
        /// The stage.
        place: StagePlace,
        /// Name of the node.
        node: String,
        /// Local index in the plan.
        gpu: u32,
        /// GPUs of the node.
        gpu_count: u32,
    },
    /// Two stages on one GPU.
    #[error("{place}: GPU {gpu} of node `{node}` is used already")]
    GpuUsedTwice {
        /// The later of the stages.
        place: StagePlace,
        /// Name of the node.
        node: String,
        /// Local index.
        gpu: u32,
    },
    /// The plan believes in another GPU type.
    #[error("{place}: node `{node}` has GPUs of type `{found}`, the plan says `{expected}`")]
    GpuType {
        /// The stage.
        place: StagePlace,
        /// Name of the node.
        node: String,
        /// Type in the plan.
        expected: String,
        /// Type in the cluster.
        found: String,
    },
    /// A stage of a degree by which the model's layers can't be shared, or without GPUs.
    #[error(
        "{place}: has {tensor_parallel_size} GPUs, which can't share the model's {num_attention_heads} attention heads and its MLP width {ffn_hidden_size} evenly"
    )]
    TensorParallel {
        /// The stage.
        place: StagePlace,
        /// Its degree: the number of its GPUs.
        tensor_parallel_size: u32,
        /// Query heads of the model.
        num_attention_heads: u32,
        /// Inner width of the model's MLP.
        ffn_hidden_size: u32,
    },
    /// Layers left out or held twice.
    #[error("{place}: starts at layer {found}, expected layer {expected}")]
    LayersNotContiguous {
        /// The stage.
        place: StagePlace,
        /// Layer that follows the previous stage.
        expected: u64,
        /// Layer in the plan.
        found: u32,
    },
    /// A stage with another number of chunks than the first one, or with several where the schedule has one.
    #[error("{place}: has {found} chunks of layers, expected {expected}")]
    Chunks {
        /// The stage.
        place: StagePlace,
        /// Chunks of the first stage, or one.
        expected: usize,
        /// Chunks of the stage.
        found: usize,
    },
    /// A replica whose micro batches can't go through its chunks in turn.
    #[error(
        "replica {replica} has {micro_batches} micro batches, which isn't a multiple of its {depth} stages, as several chunks a stage need"
    )]
    InterleavedMicroBatches {
        /// Index of the replica.
        replica: usize,
        /// Its micro batches.
        micro_batches: u32,
        /// Its stages.
        depth: usize,
    },
    /// A stage or a chunk without a layer.
    #[error("{place}: holds no layers")]
    NoLayers {
        /// The stage.
        place: StagePlace,
    },
    /// A replica that holds more or fewer layers than the model has.
    #[error("replica {replica} holds {found} layers, the model has {expected}")]
    LayersNotCovered {
        /// Index of the replica.
        replica: usize,
        /// Layers of the model.
        expected: u32,
        /// Layers of the replica.
        found: u64,
    },
    /// A GPU that would run out of memory.
    #[error("{place}: needs {} per GPU, `{gpu_type}` has {}", format_bytes(*needed_bytes), format_bytes(*available_bytes))]
    Memory {
        /// The stage.
        place: StagePlace,
        /// GPU type of the stage.
        gpu_type: String,
        /// Peak of one GPU of the stage.
        needed_bytes: u64,
        /// Memory of that GPU.
        available_bytes: u64,
    },
}
