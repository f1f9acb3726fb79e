//! The contract between planners and everybody else.

use super::{Plan, ScheduleChoice};
use crate::cluster::Cluster;
use crate::cost::{CostError, CostModel};
use crate::model::{Precision, Recompute};
use serde::{Deserialize, Serialize};

/// A planner: cluster in, plan out. Pure: the same request gives the same plan.
///
/// ```
/// use autohet::cluster::{Cluster, NodeDefaults};
/// use autohet::cost::{CostModel, CostSettings};
/// use autohet::model::ModelSpec;
/// use autohet::plan::{PlanLimits, PlanRequest, TrainingSettings};
/// use autohet::runtime::sim::Simulator;
///
/// let cluster = Cluster::parse_mix("1x2xT4+1x1xV100-16", &NodeDefaults::default())?;
/// let cost = CostModel::new(ModelSpec::preset("opt-350m")?, CostSettings::default(), None);
/// let training = TrainingSettings { global_batch_size: 16, ..TrainingSettings::default() };
/// let limits = PlanLimits::default();
/// let request = PlanRequest { cluster: &cluster, cost: &cost, training: &training, judge: &Simulator, limits };
/// let planned = autohet::planner::by_name("megatron").unwrap().plan(&request)?;
/// assert_eq!(planned.plan.validate(&cluster, &cost), Ok(()));
/// assert!(planned.lower_bound_s <= planned.predicted_iteration_s);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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

impl PlanRequest<'_> {
    /// The same, where nobody will ask how good the plan is.
    #[must_use]
    pub fn without_proof(self) -> Self {
        Self { limits: PlanLimits { bound_work: 0, ..self.limits }, ..self }
    }
}

/// Well below a second.
const BOUND_WORK: u64 = 30_000_000;

/// What ends a search for better plans, and the proof of how good they are.
#[derive(Clone, Copy)]
pub struct PlanLimits<'a> {
    /// Counted work, in stages that the search looks at: some ten nanoseconds each. The same limit gives the same plan on
    /// every machine.
    pub work: u64,
    /// Counted work of proving how good the plan is, in steps of dynamic programs: with less of it the bound is lower.
    pub bound_work: u64,
    /// Says that time is up; asked again and again. Planners have no clock, and a plan that depends on one isn't the same
    /// every time.
    pub out_of_time: Option<&'a (dyn Fn() -> bool + Sync)>,
}

impl Default for PlanLimits<'_> {
    /// No limits but the planner's own.
    fn default() -> Self {
        Self { work: u64::MAX, bound_work: BOUND_WORK, out_of_time: None }
    }
}

/// What the user fixes of a training job; everything else is the planner's choice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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

    /// Name on the command line and in reports.
    fn name(&self) -> &'static str {
        "simulator"
    }

    /// Whether it is a closed form, cheap enough to rank plans by itself.
    fn is_closed_form(&self) -> bool {
        false
    }

    /// The schedule under which it executes all plans; `None` where it executes each as it is.
    fn schedule(&self) -> Option<ScheduleChoice> {
        None
    }

    /// What judging a plan takes, in passes that are executed: what a search is bounded by, since it has no clock.
    fn work(&self, plan: &Plan) -> u64 {
        let passes = |replica: &super::Replica| u64::from(replica.micro_batches) * 2 * replica.stages.len() as u64;
        1 + plan.replicas.iter().map(passes).sum::<u64>()
    }
}

/// A plan and what is known about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedIteration {
    /// The plan.
    pub plan: Plan,
    /// Seconds of one iteration, by the simulator.
    pub predicted_iteration_s: f64,
    /// No plan of one tensor-parallel degree throughout is faster than this, in seconds.
    pub lower_bound_s: f64,
    /// `(predicted - bound) / bound`: below 0 where the plan's stages differ in degree and no plan of one degree is as fast.
    pub gap: f64,
    /// No plan at all is faster than this, in seconds; for plans whose stages differ in degree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub any_degrees_bound_s: Option<f64>,
    /// The other plans that were executed before this one was chosen, the fastest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<JudgedPlan>,
}

/// What plans can't be faster than, in seconds of an iteration.
///
/// The planning problem of AutoHet (arXiv 2512.20953) has one tensor-parallel degree: gradients of shards that don't line up
/// must be laid out anew before they are reduced. So the bound speaks of such plans. Those whose stages differ in degree are
/// looked for beside them, and may be faster than any of these.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LowerBound {
    /// Of plans with one tensor-parallel degree throughout.
    pub one_degree_s: f64,
    /// Of all plans: no greater, and worked out for a plan whose stages differ in degree.
    pub any_degrees_s: Option<f64>,
}

impl LowerBound {
    /// A bound of all plans.
    pub fn of_all(seconds: f64) -> Self {
        Self { one_degree_s: seconds, any_degrees_s: None }
    }
}

/// A plan that has been executed in simulated time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JudgedPlan {
    /// The plan.
    pub plan: Plan,
    /// Seconds of one iteration, by the simulator.
    pub predicted_iteration_s: f64,
}

impl PlannedIteration {
    /// A plan with what is proven, and the others that were executed.
    pub fn new(judged: JudgedPlan, bound: LowerBound, alternatives: Vec<JudgedPlan>) -> Self {
        let JudgedPlan { plan, predicted_iteration_s } = judged;
        let LowerBound { one_degree_s: lower_bound_s, any_degrees_s: any_degrees_bound_s } = bound;
        let gap = (predicted_iteration_s - lower_bound_s) / lower_bound_s;
        Self { plan, predicted_iteration_s, lower_bound_s, gap, any_degrees_bound_s, alternatives }
    }

    /// The fastest of these plans, the first of equals, with the others as its alternatives; `None` of none. `bound` is
    /// told of all, the fastest first.
    pub fn best_of(mut judged: Vec<JudgedPlan>, bound: impl FnOnce(&[JudgedPlan]) -> LowerBound) -> Option<Self> {
        judged.sort_by(|a, b| a.predicted_iteration_s.total_cmp(&b.predicted_iteration_s));
        let bound = if judged.is_empty() { return None } else { bound(&judged) };
        let mut judged = judged.into_iter();
        Some(Self::new(judged.next()?, bound, judged.collect()))
    }

    /// What is proven of it.
    pub fn bound(&self) -> LowerBound {
        LowerBound { one_degree_s: self.lower_bound_s, any_degrees_s: self.any_degrees_bound_s }
    }
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
    /// Prices decide, and a node has none.
    #[error(
        "node `{node}` has no price\nhint: add `price_usd_per_hour` to the `[[nodes]]` table of `{gpu_type}` in the cluster file"
    )]
    NoPrice {
        /// Name of the node.
        node: String,
        /// Its GPU type.
        gpu_type: String,
    },
    /// Plans fit, but none keeps within the limits.
    #[error(
        "no plan keeps within the limits: {reason}\nhint: loosen `--min-tokens-per-s` or `--max-usd-per-hour`, or offer other nodes"
    )]
    Unmet {
        /// What is wanted and what was found.
        reason: String,
    },
    /// A cost could not be computed.
    #[error(transparent)]
    Cost(#[from] CostError),
}
