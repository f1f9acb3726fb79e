//! What devices cost at one tensor-parallel degree, micro-batch size and recompute setting: the figures that the published
//! planners measure before they plan.

use crate::cluster::{Cluster, GpuSpec};
use crate::cost::{CostError, CostModel, StageShape};
use crate::ids::LayerId;
use crate::model::{Block, Execution, Recompute};
use crate::plan::{PlanRequest, TrainingSettings};
use std::sync::Arc;

/// What a stage holds beside its layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    /// Whether it's the first stage, which holds the embedding.
    pub embedding: bool,
    /// Whether it's the last stage, which holds the head.
    pub head: bool,
}

impl Ends {
    /// The ends at stage `stage` of `depth`.
    pub fn at(stage: usize, depth: usize) -> Self {
        Self { embedding: stage == 0, head: stage + 1 == depth }
    }

    fn index(self) -> usize {
        usize::from(self.embedding) + 2 * usize::from(self.head)
    }
}

/// Tensor-parallel units of one GPU type.
#[derive(Clone, Debug)]
pub(super) struct Class {
    /// Device memory.
    pub memory_bytes: u64,
    /// Seconds of one layer for one micro batch, forward and backward; infinite where the type can't run the model.
    pub layer_s: f64,
    embedding_s: f64,
    head_s: f64,
    /// Most layers by [`Ends`] and micro batches in flight, which count from one.
    max_layers: [Vec<u32>; 4],
}

impl Class {
    /// Layers per second.
    pub fn layer_rate_per_s(&self) -> f64 {
        1.0 / self.layer_s
    }

    /// Seconds that a stage's ends add to its layers.
    pub fn fixed_s(&self, ends: Ends) -> f64 {
        (if ends.embedding { self.embedding_s } else { 0.0 }) + (if ends.head { self.head_s } else { 0.0 })
    }

    /// Most layers whose state and activations fit a stage of this class.
    pub fn max_layers(&self, ends: Ends, in_flight: u32) -> u32 {
        self.max_layers[ends.index()].get(in_flight as usize - 1).copied().unwrap_or(0)
    }
}

/// One tensor-parallel degree with a micro-batch size and a recompute setting.
#[derive(Clone, Debug)]
pub(super) struct Point {
    /// How layers are executed.
    pub execution: Execution,
    /// By GPU type, as in [`gpu_types`].
    pub classes: Vec<Class>,
    /// Transformer layers, `L`.
    pub num_layers: u32,
    /// Micro batches of an iteration over all replicas, `B / b`.
    pub micro_batches: u32,
}

impl Point {
    fn new(request: &PlanRequest, types: &[Arc<GpuSpec>], execution: Execution) -> Self {
        let PlanRequest { cost, cluster, training, .. } = *request;
        let num_layers = cost.model().num_layers;
        let micro_batches = training.global_batch_size / execution.micro_batch_size;
        // Other stages may have a smaller degree, so the pipeline may be deeper than the units of this one.
        let deepest = cluster.gpu_count().min(num_layers).min(micro_batches);
        let class = |gpu: &Arc<GpuSpec>| price(cost, gpu, &execution, deepest).unwrap_or_else(|_| unusable(gpu));
        Self { execution, classes: types.iter().map(class).collect(), num_layers, micro_batches }
    }

    /// The degree.
    pub fn degree(&self) -> u32 {
        self.execution.tensor_parallel_size
    }
}

/// The GPU types of the cluster, in the order of its nodes.
pub(super) fn gpu_types(cluster: &Cluster) -> Vec<Arc<GpuSpec>> {
    let mut types: Vec<Arc<GpuSpec>> = Vec::new();
    for node in &cluster.nodes {
        if !types.contains(&node.gpu) {
            types.push(node.gpu.clone());
        }
    }
    types
}

/// Every micro-batch size and recompute setting of a request, each with all degrees, the smallest first.
pub(super) fn points(request: &PlanRequest) -> Vec<Vec<Point>> {
    let TrainingSettings { precision, .. } = *request.training;
    let model = request.cost.model();
    let widest = request.cluster.nodes.iter().map(|node| node.gpu_count).max().unwrap_or(0);
    let mut degrees = request.training.tensor_parallel_sizes.clone();
    degrees.retain(|&t| (1..=widest).contains(&t) && model.supports_tensor_parallel(t));
    let mut sizes = request.training.micro_batch_sizes.clone();
    sizes.retain(|&size| size > 0 && request.training.global_batch_size.is_multiple_of(size));
    let mut recomputes = request.training.recompute.clone();
    for list in [&mut degrees, &mut sizes] {
        list.sort_unstable();
        list.dedup();
    }
    recomputes.sort_unstable();
    recomputes.dedup();
    let types = gpu_types(request.cluster);
    let of = |micro_batch_size: u32, recompute: Recompute| {
        let point = |&tensor_parallel_size: &u32| {
            let sequence_parallel = tensor_parallel_size > 1;
            let execution =
                Execution { tensor_parallel_size, micro_batch_size, recompute, sequence_parallel, precision };
            Point::new(request, &types, execution)
        };
        degrees.iter().map(point).collect::<Vec<Point>>()
    };
    sizes
        .iter()
        .flat_map(|&size| recomputes.iter().map(move |&recompute| (size, recompute)))
        .map(|(b, r)| of(b, r))
        .collect()
}

fn price(cost: &CostModel, gpu: &Arc<GpuSpec>, execution: &Execution, deepest: u32) -> Result<Class, CostError> {
    let seconds = |block| Ok::<f64, CostError>(cost.block_cost(block, gpu, execution)?.total_s());
    let table = |index: usize| {
        let mut table = Vec::new();
        let mut num_layers = cost.model().num_layers;
        // Fewer layers fit with more micro batches in flight, so one pass does.
        for in_flight in 1..=deepest {
            let fits = |num_layers| {
                let (has_embedding, has_head) = (index & 1 != 0, index & 2 != 0);
                let shape = StageShape { num_layers, has_embedding, has_head, in_flight };
                cost.stage_memory(&shape, execution).total_bytes() <= gpu.memory_bytes
            };
            while num_layers > 0 && !fits(num_layers) {
                num_layers -= 1;
            }
            if num_layers == 0 {
                break;
            }
            table.push(num_layers);
        }
        table
    };
    Ok(Class {
        memory_bytes: gpu.memory_bytes,
        layer_s: seconds(Block::Layer(LayerId(0)))?,
        embedding_s: seconds(Block::Embedding)?,
        head_s: seconds(Block::Head)?,
        max_layers: [0, 1, 2, 3].map(table),
    })
}

/// A type that can't run the model, as one without units of its number format.
fn unusable(gpu: &GpuSpec) -> Class {
    let max_layers = [const { Vec::new() }; 4];
    Class { memory_bytes: gpu.memory_bytes, layer_s: f64::INFINITY, embedding_s: 0.0, head_s: 0.0, max_layers }
}
