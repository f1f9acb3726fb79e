//! What a run is made to meet beside this machine as it is: emulated devices, slowed ranks, throttled links.

use super::transport::throttle::Interface;
use crate::cluster::Cluster;
use crate::cost::{CostError, CostModel};
use crate::ids::LayerId;
use crate::model::Block;
use crate::plan::{Plan, Stage};
use crate::program::{LowerOptions, Op, Program};
use serde::{Deserialize, Serialize};

/// Conditions of an experiment, in the ranks of one plan. By default there are none: tensors compute, and sockets are as
/// fast as they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// By rank, what stands in for computing; empty where tensors compute.
    pub emulated: Vec<EmulatedRank>,
    /// By rank, how many times as long its passes take; empty where none is slowed.
    pub slowdown: Vec<f64>,
    /// By rank, the interfaces that its messages pass; empty where nothing is throttled.
    pub interfaces: Vec<Interface>,
}

/// The times and sizes of a rank that computes nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EmulatedRank {
    /// The blocks of its stage, from the input side.
    pub blocks: Vec<EmulatedBlock>,
    /// Seconds of the optimizer step.
    pub optimizer_s: f64,
    /// Bytes of an activation, and of its gradient, between stages.
    pub boundary_bytes: u64,
    /// Bytes of the gradients that it reduces with others, reduction by reduction, by the block that they name.
    pub reduced: Vec<(Block, u64)>,
}

/// What one block takes on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EmulatedBlock {
    /// The block.
    pub block: Block,
    /// Seconds of the forward pass of a micro batch, collectives of tensor parallelism included.
    pub forward_s: f64,
    /// Seconds of the backward pass, recomputation included.
    pub backward_s: f64,
    /// Parameters that the rank holds of it.
    pub parameters: u64,
}

/// Why devices can't be emulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EmulationError {
    /// The plan names a node that isn't there.
    #[error("the plan uses node `{0}`, which isn't in the cluster\nhint: name the cluster that the plan was made for")]
    UnknownNode(String),
    /// Something has no price.
    #[error(transparent)]
    Cost(#[from] CostError),
}

impl Conditions {
    /// Whether tensors are left out.
    pub fn is_emulated(&self) -> bool {
        !self.emulated.is_empty()
    }

    /// Conditions in which each rank of the plan takes the time that the cost model foresees for its GPU, times
    /// `time_scale`.
    ///
    /// # Errors
    /// Where a node isn't in the cluster, or a block has no price.
    pub fn emulating(
        plan: &Plan,
        cluster: &Cluster,
        cost: &CostModel,
        time_scale: f64,
    ) -> Result<Self, EmulationError> {
        let options = LowerOptions { tie_word_embeddings: cost.model().tie_word_embeddings, ..LowerOptions::default() };
        let program = Program::lower(plan, options);
        let mut emulated = Vec::with_capacity(plan.world_size());
        for replica in &plan.replicas {
            for (place, stage) in replica.stages.iter().enumerate() {
                let ends = (place == 0, place + 1 == replica.stages.len());
                let priced = emulated_stage(plan, stage, ends, cluster, cost)?;
                for _ in &stage.gpus {
                    let mut rank = priced.clone().scaled(time_scale);
                    rank.reduced = reduced(&program, emulated.len(), plan, cost);
                    emulated.push(rank);
                }
            }
        }
        Ok(Self { emulated, ..Self::default() })
    }

    /// The same with links as slow as those of the cluster, times `time_scale`.
    ///
    /// # Errors
    /// Where a node isn't in the cluster.
    pub fn throttled(mut self, plan: &Plan, cluster: &Cluster, time_scale: f64) -> Result<Self, EmulationError> {
        self.interfaces.clear();
        for stage in plan.replicas.iter().flat_map(|replica| &replica.stages) {
            let id = cluster.find(&stage.node).ok_or_else(|| EmulationError::UnknownNode(stage.node.clone()))?;
            let interface = Interface::of(cluster.node(id), id.0, time_scale);
            self.interfaces.extend(stage.gpus.iter().map(|_| interface.clone()));
        }
        Ok(self)
    }
}

/// The stage of one rank; `ends` says whether it is the first and the last one. Reductions are left open.
fn emulated_stage(
    plan: &Plan,
    stage: &Stage,
    (is_first, is_last): (bool, bool),
    cluster: &Cluster,
    cost: &CostModel,
) -> Result<EmulatedRank, EmulationError> {
    let id = cluster.find(&stage.node).ok_or_else(|| EmulationError::UnknownNode(stage.node.clone()))?;
    let gpu = &cluster.node(id).gpu;
    let execution = plan.execution(stage);
    let layers = stage.chunks().flat_map(|range| range.first_layer..range.first_layer + range.num_layers);
    let layers = layers.map(|layer| Block::Layer(LayerId(layer)));
    let blocks = is_first.then_some(Block::Embedding).into_iter().chain(layers).chain(is_last.then_some(Block::Head));
    let priced = blocks.map(|block| -> Result<EmulatedBlock, CostError> {
        let price = cost.block_cost(block, gpu, &execution)?;
        Ok(EmulatedBlock {
            block,
            forward_s: price.forward.total_s(),
            backward_s: price.backward.total_s(),
            parameters: cost.parameters_per_gpu(block, &execution),
        })
    });
    let blocks = priced.collect::<Result<Vec<_>, _>>()?;
    let held = blocks.iter().map(|block| block.parameters).sum();
    Ok(EmulatedRank {
        blocks,
        optimizer_s: cost.optimizer_step_s(gpu, held, plan.precision),
        boundary_bytes: cost.boundary_bytes(&execution),
        reduced: Vec::new(),
    })
}

/// How many numbers of four bytes take so many bytes.
pub(super) fn numbers(bytes: u64) -> usize {
    bytes.div_ceil(4) as usize
}

/// What a rank reduces, and how many bytes of it.
fn reduced(program: &Program, rank: usize, plan: &Plan, cost: &CostModel) -> Vec<(Block, u64)> {
    let reductions = program.ranks()[rank].instructions.iter().filter_map(|instruction| match instruction.op {
        Op::AllReduce { block, group } => {
            let slices = program.groups()[group as usize].share.of;
            Some((block, cost.gradient_bytes(block, &plan.execution_at(slices))))
        }
        _ => None,
    });
    reductions.collect()
}

impl EmulatedRank {
    /// Numbers of an activation between stages.
    pub(super) fn boundary_numbers(&self) -> usize {
        numbers(self.boundary_bytes)
    }

    /// Bytes that it holds: parameters and moments in fp32, and the gradients that it reduces.
    pub fn held_bytes(&self) -> u64 {
        let state = self.blocks.iter().map(|block| 12 * block.parameters).sum::<u64>();
        state + self.reduced.iter().map(|(_, bytes)| bytes).sum::<u64>()
    }

    fn scaled(mut self, time_scale: f64) -> Self {
        for block in &mut self.blocks {
            block.forward_s *= time_scale;
            block.backward_s *= time_scale;
        }
        self.optimizer_s *= time_scale;
        self
    }
}
