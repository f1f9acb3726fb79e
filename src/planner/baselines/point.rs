//! What devices cost at one tensor-parallel degree, micro-batch size and recompute setting: the figures that the published
//! planners measure before they plan.

use crate::cluster::{Cluster, GpuSpec};
use crate::cost::{CostError, CostModel};
use crate::ids::LayerId;
use crate::model::{Block, Execution, Recompute};
use crate::plan::{PlanRequest, ScheduleChoice};
use crate::planner::autohet::setting::executions;
use crate::planner::room::{Ends, Place, Room};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Tensor-parallel units of one GPU type.
#[derive(Clone, Debug)]
pub(super) struct Class {
    /// Device memory.
    pub memory_bytes: u64,
    /// Seconds of one layer for one micro batch, forward and backward; infinite where the type can't run the model.
    pub layer_s: f64,
    embedding_s: f64,
    head_s: f64,
    room: Room,
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

    /// Most layers whose state and activations fit a stage of this class at this place.
    pub fn max_layers(&self, place: Place) -> u32 {
        self.room.layers(place)
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
        let PlanRequest { cost, cluster, training, judge, .. } = *request;
        let num_layers = cost.model().num_layers;
        let micro_batches = training.global_batch_size / execution.micro_batch_size;
        // Other stages may have a smaller degree, so the pipeline may be deeper than the units of this one.
        let deepest = cluster.gpu_count().min(num_layers).min(micro_batches);
        let class = |gpu: &Arc<GpuSpec>| {
            price(cost, gpu, &execution, (deepest, judge.schedule())).unwrap_or_else(|_| unusable(gpu))
        };
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
    let PlanRequest { cluster, cost, training, .. } = *request;
    let widest = cluster.nodes.iter().map(|node| node.gpu_count).max().unwrap_or(0);
    let types = gpu_types(cluster);
    let mut points: BTreeMap<(u32, Recompute), Vec<Point>> = BTreeMap::new();
    // Where no size divides the batch there is nothing to enumerate.
    for execution in executions(cost, training).unwrap_or_default() {
        let degree = execution.tensor_parallel_size;
        if degree <= widest && cost.model().supports_tensor_parallel(degree) {
            let setting = points.entry((execution.micro_batch_size, execution.recompute)).or_default();
            setting.push(Point::new(request, &types, execution));
        }
    }
    points.into_values().collect()
}

fn price(
    cost: &CostModel,
    gpu: &Arc<GpuSpec>,
    execution: &Execution,
    (deepest, schedule): (u32, Option<ScheduleChoice>),
) -> Result<Class, CostError> {
    let seconds = |block| Ok::<f64, CostError>(cost.block_cost(block, gpu, execution)?.total_s());
    Ok(Class {
        memory_bytes: gpu.memory_bytes,
        layer_s: seconds(Block::Layer(LayerId(0)))?,
        embedding_s: seconds(Block::Embedding)?,
        head_s: seconds(Block::Head)?,
        room: Room::new(cost, gpu, execution, (deepest, schedule)),
    })
}

/// A type that can't run the model, as one without units of its number format.
fn unusable(gpu: &GpuSpec) -> Class {
    let (memory_bytes, room) = (gpu.memory_bytes, Room::default());
    Class { memory_bytes, layer_s: f64::INFINITY, embedding_s: 0.0, head_s: 0.0, room }
}
