//! What a training framework does with a plan: how it sends between stages, when it reduces gradients, and who holds the
//! optimizer's state.

use super::StageMemory;
use serde::{Deserialize, Serialize};

/// How a framework executes a plan. Each of the fields can be set by itself; [`Framework::preset`] has them as they come
/// in frameworks that people use.
///
/// ```
/// use autohet::cost::{Framework, PointToPoint};
/// assert_eq!(Framework::preset("plain"), Some(Framework::default()));
/// assert_eq!(Framework::preset("deepspeed").unwrap().point_to_point, PointToPoint::Sequential);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Framework {
    /// Whether sends and receives between stages hold up the passes.
    pub point_to_point: PointToPoint,
    /// Whether the ranks of a stage each send their part of an activation and gather the rest where it arrives (the
    /// scatter/gather of Narayanan et al. 2021, section 4.1). Under sequence parallelism they hold parts anyway.
    pub partitioned_boundaries: bool,
    /// How gradients are put together for a reduction.
    pub buckets: Buckets,
    /// When gradients are reduced.
    pub reduction: ReductionTime,
    /// Who holds the optimizer's state.
    pub optimizer: OptimizerState,
    /// How gradients are reduced.
    pub collectives: Collectives,
}

/// Whether sends and receives between stages hold up the passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PointToPoint {
    /// They have queues of their own; a pass waits for its input only.
    #[default]
    Asynchronous,
    /// A stage waits for what it sends as well as for what it receives; both are under way at once where the schedule
    /// sends in one direction and receives from there, as in Megatron-LM's `send_forward_recv_backward`.
    Paired,
    /// One after the other, each to its end, as in DeepSpeed's pipeline engine: gradients before activations.
    Sequential,
}

/// How gradients are put together for a reduction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Buckets {
    /// Each layer by itself.
    #[default]
    Layer,
    /// All that a rank reduces with the same others.
    Whole,
    /// So many parameters of one rank at least, of layers in the order in which they go backward.
    Parameters(u64),
}

/// When gradients are reduced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReductionTime {
    /// As soon as they are there, while the layers before them go backward.
    #[default]
    Overlapped,
    /// After the rank's last backward pass.
    AfterBackward,
}

/// Who holds the optimizer's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OptimizerState {
    /// Every replica all of it.
    #[default]
    Replicated,
    /// Every replica its share (ZeRO-1; Rajbhandari et al. 2020): gradients are reduced to who holds the share, which
    /// updates its weights and gives them to the others.
    Sharded,
}

/// How collectives over the network are done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Collectives {
    /// By rings whose ranks send and receive in step.
    #[default]
    Ring,
    /// As NCCL does: by rings or trees, whatever it expects to be faster.
    Nccl,
    /// Within each node, then between those who hold the same share, then within each node again; by rings in step where
    /// a group has not as many members in each of its nodes.
    Hierarchical,
}

/// Megatron-LM, all of its defaults: `overlap_grad_reduce` is off, so that one buffer of all gradients is reduced after the
/// pipeline has drained.
const MEGATRON_LM: Framework = Framework {
    point_to_point: PointToPoint::Paired,
    partitioned_boundaries: true,
    buckets: Buckets::Whole,
    reduction: ReductionTime::AfterBackward,
    optimizer: OptimizerState::Replicated,
    collectives: Collectives::Nccl,
};

/// DeepSpeed's pipeline engine without sharding: `allreduce_gradients` after the schedule, in buffers of 500 million elements
/// (`MEMORY_OPT_ALLREDUCE_SIZE`). Its releases cut them into parts for the ranks of a tensor-parallel group and
/// gather them; here whole tensors are sent, because the times of the runs that Sailor (SOSP'25) measured say so.
const DEEPSPEED: Framework = Framework {
    point_to_point: PointToPoint::Sequential,
    partitioned_boundaries: false,
    buckets: Buckets::Parameters(500_000_000),
    reduction: ReductionTime::AfterBackward,
    optimizer: OptimizerState::Replicated,
    collectives: Collectives::Nccl,
};

impl Framework {
    /// Names of the presets.
    pub const NAMES: [&'static str; 3] = ["plain", "megatron-lm", "deepspeed"];

    /// The framework of this name. `plain` hides what can be hidden: nothing blocks, and each layer is reduced as soon as
    /// its gradient is there, which is what `autohet-run` does.
    pub fn preset(name: &str) -> Option<Self> {
        match name {
            "plain" => Some(Self::default()),
            "megatron-lm" => Some(MEGATRON_LM),
            "deepspeed" => Some(DEEPSPEED),
            _ => None,
        }
    }

    /// Replicas among which the optimizer's state of a plan with so many is shared out.
    pub fn optimizer_shards(self, replicas: usize) -> u64 {
        match self.optimizer {
            OptimizerState::Replicated => 1,
            OptimizerState::Sharded => (replicas as u64).max(1),
        }
    }
}

impl StageMemory {
    /// The memory of a stage whose optimizer state is shared out among so many.
    #[must_use]
    pub fn with_optimizer_shards(self, shards: u64) -> Self {
        Self { optimizer_bytes: self.optimizer_bytes.div_ceil(shards.max(1)), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_preset_and_others_have_none() {
        assert!(Framework::NAMES.iter().all(|name| Framework::preset(name).is_some()));
        assert_eq!(Framework::preset("horovod"), None);
    }

    #[test]
    fn the_optimizer_is_shared_out_and_nothing_else() {
        let memory = StageMemory { optimizer_bytes: 1001, parameters_bytes: 7, ..StageMemory::default() };
        let expected = StageMemory { optimizer_bytes: 126, ..memory };
        assert_eq!(memory.with_optimizer_shards(8), expected);
        assert_eq!(memory.with_optimizer_shards(1), memory);
    }

    #[test]
    fn shards_of_the_optimizer() {
        let sharded = Framework { optimizer: OptimizerState::Sharded, ..Framework::default() };
        assert_eq!(
            [sharded.optimizer_shards(8), sharded.optimizer_shards(0), DEEPSPEED.optimizer_shards(8)],
            [8, 1, 1]
        );
    }
}
