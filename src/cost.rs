//! What things cost: seconds of compute, seconds on a link, bytes of memory.
//!
//! Float seconds live here only; the runtime rounds them once, through [`SimTime::from_seconds`](crate::units::SimTime::from_seconds).

pub mod communication;
mod compute;
mod framework;
mod memory;
mod settings;

pub use framework::{Buckets, Collectives, Framework, OptimizerState, PointToPoint, ReductionTime};
pub use memory::{HeldChunk, StageShape};
pub use settings::{CostSettings, Kernels};

use crate::cluster::GpuSpec;
use crate::model::{Execution, ModelSpec, PlannedModel, Precision};
use crate::profile::{LayerProfile, ProfileError};
use serde::{Deserialize, Serialize};

/// Prices the blocks of one model on any GPU.
///
/// ```
/// use autohet::cluster::GpuSpec;
/// use autohet::cost::{CostModel, CostSettings};
/// use autohet::ids::LayerId;
/// use autohet::model::{Block, Execution, ModelSpec, Precision, Recompute};
///
/// let cost = CostModel::new(ModelSpec::preset("gpt3-6.7b").unwrap(), CostSettings::default(), None);
/// let execution = Execution {
///     tensor_parallel_size: 4,
///     micro_batch_size: 1,
///     recompute: Recompute::Selective,
///     sequence_parallel: true,
///     precision: Precision::Fp16,
/// };
/// let slow = cost.block_cost(Block::Layer(LayerId(0)), &*GpuSpec::lookup("T4").unwrap(), &execution).unwrap();
/// let fast = cost.block_cost(Block::Layer(LayerId(0)), &*GpuSpec::lookup("A100-80").unwrap(), &execution).unwrap();
/// assert!(slow.total_s() > 3.0 * fast.total_s());
/// ```
#[derive(Clone, Debug)]
pub struct CostModel {
    model: ModelSpec,
    planned: PlannedModel,
    settings: CostSettings,
    framework: Framework,
    profile: Option<LayerProfile>,
}

impl CostModel {
    /// Prices `model`; a profile, where given, replaces the estimate for what it measures. The framework is the plain one.
    pub fn new(model: ModelSpec, settings: CostSettings, profile: Option<LayerProfile>) -> Self {
        let planned = PlannedModel::from(&model);
        Self { model, planned, settings, framework: Framework::default(), profile }
    }

    /// The same under another framework.
    #[must_use]
    pub fn with_framework(self, framework: Framework) -> Self {
        Self { framework, ..self }
    }

    /// What executes the plans.
    pub fn framework(&self) -> Framework {
        self.framework
    }

    /// The model that is priced, as plans name it.
    pub fn planned_model(&self) -> &PlannedModel {
        &self.planned
    }

    /// The model that is priced.
    pub fn model(&self) -> &ModelSpec {
        &self.model
    }

    /// What was measured, where something was.
    pub fn profile(&self) -> Option<&LayerProfile> {
        self.profile.as_ref()
    }

    /// The settings in force.
    pub fn settings(&self) -> &CostSettings {
        &self.settings
    }

    /// Bytes that one tensor-parallel rank sends over a stage boundary for one micro batch, in either direction.
    pub fn boundary_bytes(&self, execution: &Execution) -> u64 {
        // Under sequence parallelism it has its part only, which is the same part.
        let sequence_parallel = execution.sequence_parallel || self.framework.partitioned_boundaries;
        self.model.boundary_bytes(&Execution { sequence_parallel, ..*execution })
    }

    /// Checks that the model can be cut for this execution and that the GPU computes in its precision.
    fn check(&self, gpu: &GpuSpec, execution: &Execution) -> Result<(), CostError> {
        if execution.precision == Precision::Bf16 && gpu.bf16_flops_per_s.is_none() {
            let (gpu, precision) = (gpu.name.clone(), execution.precision.to_string());
            return Err(CostError::Precision { gpu, precision });
        }
        if self.model.supports_tensor_parallel(execution.tensor_parallel_size) {
            return Ok(());
        }
        Err(CostError::TensorParallel {
            model: self.model.name.clone(),
            tensor_parallel_size: execution.tensor_parallel_size,
            heads: self.model.num_attention_heads,
            ffn_hidden_size: self.model.ffn_hidden_size,
        })
    }
}

/// Why something has no price.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CostError {
    /// The GPU doesn't compute in this precision.
    #[error("`{gpu}` has no {precision} units\nhint: use `--precision fp16`")]
    Precision {
        /// GPU type.
        gpu: String,
        /// Precision asked for.
        precision: String,
    },
    /// The layers can't be shared evenly by so many GPUs.
    #[error(
        "model `{model}` can't be split over tensor-parallel size `{tensor_parallel_size}`\nhint: choose a divisor of its {heads} heads and of its MLP width {ffn_hidden_size}"
    )]
    TensorParallel {
        /// Model.
        model: String,
        /// Degree asked for.
        tensor_parallel_size: u32,
        /// Its query heads.
        heads: u32,
        /// Its MLP's inner width.
        ffn_hidden_size: u32,
    },
    /// A judge other than the simulator has no figure for it.
    #[error("{problem}\nhint: {hint}")]
    Judge {
        /// What it lacks.
        problem: String,
        /// What to do.
        hint: String,
    },
    /// The measured profile doesn't cover the point.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

/// Seconds of one pass (forward or backward) through some blocks on one tensor-parallel unit, by what they are spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PassCost {
    /// Arithmetic that a pass without recomputation needs too.
    pub compute_s: f64,
    /// Forward arithmetic that is done again during the backward pass.
    pub recompute_s: f64,
    /// Tensor-parallel collectives, which block the pass.
    pub tensor_parallel_s: f64,
}

/// Forward and backward of one micro batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BlockCost {
    /// The forward pass.
    pub forward: PassCost,
    /// The backward pass, recomputation included.
    pub backward: PassCost,
}

/// Memory of one GPU of a stage at its peak, by what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageMemory {
    /// Weights in the compute precision.
    pub parameters_bytes: u64,
    /// Gradients.
    pub gradients_bytes: u64,
    /// Optimizer state: fp32 master weights and Adam's two moments.
    pub optimizer_bytes: u64,
    /// Activations of the micro batches in flight.
    pub activations_bytes: u64,
    /// The largest buffer that lives only within a pass: logits, recomputed activations.
    pub transient_bytes: u64,
    /// CUDA context, communicators and allocator slack.
    pub reserve_bytes: u64,
}

impl PassCost {
    /// Seconds in all.
    pub fn total_s(&self) -> f64 {
        self.compute_s + self.recompute_s + self.tensor_parallel_s
    }
}

impl std::ops::Add for PassCost {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            compute_s: self.compute_s + other.compute_s,
            recompute_s: self.recompute_s + other.recompute_s,
            tensor_parallel_s: self.tensor_parallel_s + other.tensor_parallel_s,
        }
    }
}

impl BlockCost {
    /// Seconds of forward and backward.
    pub fn total_s(&self) -> f64 {
        self.forward.total_s() + self.backward.total_s()
    }
}

impl StageMemory {
    /// Bytes in all.
    pub fn total_bytes(&self) -> u64 {
        self.parameters_bytes
            + self.gradients_bytes
            + self.optimizer_bytes
            + self.activations_bytes
            + self.transient_bytes
            + self.reserve_bytes
    }
}
