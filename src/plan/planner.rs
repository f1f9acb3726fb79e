//! The contract between planners and everybody else.

use super::Plan;
use crate::cluster::Cluster;
use crate::cost::{CostError, CostModel};
use crate::model::{Precision, Recompute};
use serde::{Deserialize, Serialize};

/// A planner: cluster in, plan out. Pure: the same request gives the same plan.
pub trait Planner: Send + Sync {
    /// Name on the command line and in reports.
    fn name(&self) -> &'static str;

    /// The best plan that this planner finds for the cluster.
    fn plan(&self, request: &PlanRequest) -> Result<PlannedIteration, PlanError>;
}

/// What a plan is asked for.
#[derive(Clone, Copy)]
pub struct PlanRequest<'a> {
    /// The nodes that may be used.
    pub cluster: &'a Cluster,
    /// Prices compute, memory and communication of the model.
    pub cost: &'a CostModel,
    /// What the user fixed of the training job.
    pub training: &'a TrainingSettings,
    /// Executes a candidate and says how long an iteration takes: the simulator, seen from here.
    pub judge: &'a dyn Judge,
    /// How long the planner may look for better plans. Those that search find one plan that fits in any case, if they can.
    pub limits: PlanLimits<'a>,
}

/// What ends a search for better plans.
#[derive(Clone, Copy)]
pub struct PlanLimits<'a> {
    /// Counted work, in stages that the search looks at: some ten nanoseconds each. The same limit gives the same plan on
    /// every machine.
    pub work: u64,
    /// Says that time is up; asked again and again. Planners have no clock, and a plan that depends on one isn't the same
    /// every time.
    pub out_of_time: Option<&'a (dyn Fn() -> bool + Sync)>,
}

impl Default for PlanLimits<'_> {
    /// No limits but the planner's own.
    fn default() -> Self {
        Self { work: u64::MAX, out_of_time: None }
    }
}

/// What the user fixes of a training job; everything else is the planner's choice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainingSettings {
    /// Samples per optimizer step: `B`.
    pub global_batch_size: u32,
    /// Number format.
    pub precision: Precision,
    /// Recompute settings that the planner may choose from.
    pub recompute: Vec<Recompute>,
    /// Micro-batch sizes that the planner may choose from.
    pub micro_batch_sizes: Vec<u32>,
    /// Tensor-parallel degrees that the planner may choose from.
    pub tensor_parallel_sizes: Vec<u32>,
}

impl Default for TrainingSettings {
    /// A global batch of 512 samples in fp16, and everything else left to the planner.
    fn default() -> Self {
        Self {
            global_batch_size: 512,
            precision: Precision::default(),
            recompute: vec![Recompute::None, Recompute::Selective, Recompute::Full],
            micro_batch_sizes: vec![1, 2, 4, 8],
            tensor_parallel_sizes: vec![1, 2, 4, 8],
        }
    }
}

/// Executes one iteration of a plan in simulated time.
pub trait Judge: Sync {
    /// Seconds of one iteration.
    fn iteration_s(&self, plan: &Plan, cluster: &Cluster, cost: &CostModel) -> Result<f64, CostError>;
}

/// A plan and what is known about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedIteration {
    /// The plan.
    pub plan: Plan,
    /// Seconds of one iteration, by the simulator.
    pub predicted_iteration_s: f64,
    /// No plan of the searched space is faster than this.
    pub lower_bound_s: f64,
    /// `(predicted - bound) / bound`.
    pub gap: f64,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// There is no GPU to plan for.
    #[error("the cluster has no GPUs\nhint: name at least one node, for example `--cluster 2x8xA100-80`")]
    EmptyCluster,
    /// The global batch can't be cut into micro batches.
    #[error(
        "no micro batch size of {sizes:?} divides the global batch size `{global_batch_size}`\nhint: add a size that divides it to `micro_batch_sizes`"
    )]
    Indivisible {
        /// The global batch size.
        global_batch_size: u32,
        /// The sizes tried.
        sizes: Vec<u32>,
    },
    /// No plan fits the memory of the cluster.
    #[error("no plan fits: {reason}\nhint: {hint}")]
    DoesNotFit {
        /// What binds, with figures: "needs 213 GB, the cluster has 180 GB usable".
        reason: String,
        /// The smallest change that would help.
        hint: String,
    },
    /// A cost could not be computed.
    #[error(transparent)]
    Cost(#[from] CostError),
}
