//! A measured run, whatever file it came from.

use crate::cluster::Cluster;
use crate::cost::{CostSettings, Framework};
use crate::ids::LayerId;
use crate::model::{Block, MatrixProduct, ModelSpec, Recompute};
use crate::plan::Plan;
use serde::Serialize;
use std::fmt;

/// What became of one record of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// It can be executed.
    Run(Box<MeasuredRun>),
    /// It can't, or shouldn't count.
    Skipped(Skip),
}

/// A record that isn't predicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skip {
    /// The record.
    pub id: String,
    /// Its source: how its id begins.
    pub source: String,
    /// Why, in words that are the same for all records of a kind.
    pub reason: String,
}

/// One run: what was trained on what, and what was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredRun {
    /// The record's id.
    pub id: String,
    /// Its source: how its id begins.
    pub source: String,
    /// Whether somebody doubts a field that the prediction rests on, mostly a link's bandwidth.
    pub is_unconfirmed: bool,
    /// What was trained.
    pub model: ModelSpec,
    /// Whether a profile of the model has all that ran.
    pub is_as_profiled: bool,
    /// The nodes.
    pub cluster: Cluster,
    /// What stood where.
    pub plan: Plan,
    /// What the framework holds for each parameter.
    pub cost: CostSettings,
    /// How the framework executes a plan.
    pub framework: Framework,
    /// What was measured.
    pub measured: Vec<(Quantity, f64)>,
}

/// What a figure says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Seconds of one iteration.
    IterationTime,
    /// Tokens per second and GPU.
    TokensPerSecond,
    /// Operations per second and GPU that the model needs: recomputation isn't counted.
    ModelFlops,
    /// Operations per second and GPU that are done: with recomputation.
    HardwareFlops,
    /// Bytes of the fullest GPU.
    Memory(MemoryScope),
}

/// What a figure of memory counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryScope {
    /// All that the device has in use, as its driver says.
    Device,
    /// Tensors at their peak, as the framework's allocator says.
    Allocated,
    /// Weights, gradients, optimizer state and stored activations, added up.
    StateAndActivations,
    /// Stored activations as a share of those of the same run without recomputation and sequence parallelism.
    ActivationShare,
}

impl Quantity {
    /// Whether it is a time, in whatever unit it was published.
    pub fn is_time(self) -> bool {
        !matches!(self, Self::Memory(_))
    }

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::IterationTime => "iteration_time",
            Self::TokensPerSecond => "tokens_per_s",
            Self::ModelFlops => "model_flops",
            Self::HardwareFlops => "hardware_flops",
            Self::Memory(MemoryScope::Device) => "device_memory",
            Self::Memory(MemoryScope::Allocated) => "allocated_memory",
            Self::Memory(MemoryScope::StateAndActivations) => "state_and_activations",
            Self::Memory(MemoryScope::ActivationShare) => "activation_share",
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl MeasuredRun {
    /// A measured figure as seconds of an iteration, or as bytes (shares stay shares).
    pub fn in_base_unit(&self, quantity: Quantity, value: f64) -> f64 {
        let gpus = self.plan.world_size() as f64;
        match quantity {
            Quantity::IterationTime | Quantity::Memory(_) => value,
            Quantity::TokensPerSecond => {
                f64::from(self.plan.global_batch_size) * f64::from(self.model.seq_length) / (gpus * value)
            }
            Quantity::ModelFlops => self.model.model_flops_per_iteration(self.plan.global_batch_size) / (gpus * value),
            Quantity::HardwareFlops => self.hardware_flops() / (gpus * value),
        }
    }

    /// Operations of one iteration, what is computed again included (Narayanan et al. 2021, equation 3, where everything
    /// is).
    fn hardware_flops(&self) -> f64 {
        let batch = self.plan.global_batch_size;
        let layer = Block::Layer(LayerId(0));
        let again = match self.plan.recompute {
            Recompute::None => 0.0,
            Recompute::Full => self.model.block_forward_flops(layer, batch),
            Recompute::Selective => {
                let products = self.model.layer_products(&self.plan.execution_at(1));
                let core: f64 =
                    products.iter().filter(|product| product.attention_core).map(MatrixProduct::flops).sum();
                core * f64::from(batch) / f64::from(self.plan.micro_batch_size)
            }
        };
        self.model.model_flops_per_iteration(batch) + f64::from(self.model.num_layers) * again
    }
}
