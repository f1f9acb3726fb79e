//! The planner for heterogeneous clusters, after AutoHet (arXiv 2512.20953).
//!
//! An outer enumeration over tensor-parallel degree, micro-batch size, recompute and number of replicas; for each of
//! these, three stages: [`grouping`] of units into replicas, mapping of units to stages, and [`balance`] of
//! layers and micro batches. Unlike the paper's, the stages aren't only solved one after another: the groupings that look
//! best are improved by a local search that sees the balanced pipelines. The best plans are executed by the runtime before
//! one is returned, and with them the best grids of the [baselines], which are plans like any other.
//!
//! What is pruned is pruned by a proven lower bound, which each plan carries.

pub mod balance;
mod bounds;
mod candidates;
mod counts;
mod effort;
pub mod grouping;
pub(in crate::planner) mod joint;
mod mapping;
pub(in crate::planner) mod outer;
mod pipeline;
pub mod polish;
mod regrouping;
pub(in crate::planner) mod setting;
pub(in crate::planner) mod shortage;
mod stage_one;
#[cfg(test)]
mod tests;

pub use shortage::fitting_changes;

use super::{baselines, ranking};
use crate::plan::{
    Judge, JudgedPlan, LowerBound, Plan, PlanError, PlanLimits, PlanRequest, PlannedIteration, Planner, Replica,
};
use outer::Outer;
use polish::PolishBudget;
pub(in crate::planner) use regrouping::{Regrouped, Regrouping};

/// Most plans of its own that are executed before one is returned.
const MAX_JUDGED: usize = 10;
/// Of improved groupings, whose order is nearly right, where nobody asks how good the plan is: in replays.
const MAX_JUDGED_AT_ONCE: usize = 4;
/// Instructions that are executed to judge plans, beyond those of the first two.
const MAX_INSTRUCTIONS: u64 = 1_000_000;

/// What the last step may do where the judge is a closed form.
const RANKED_BY_CLOSED_FORM: PolishBudget = PolishBudget { work: 0, ranked_gpus: 40_000_000 };
/// What it may do where plans are executed: about as much as everything before it.
const EXECUTED: PolishBudget = PolishBudget { work: 500_000, ranked_gpus: 100_000 };

/// The planner. `AutoHet::default()` uses SCIP where it's compiled in.
#[derive(Clone, Copy, Debug, Default)]
pub struct AutoHet {
    /// How groupings are found.
    pub engine: Engine,
}

/// What groupings are improved from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// [`Engine::Scip`] where it's compiled in, else [`Engine::Search`].
    #[default]
    Auto,
    /// The search of stage 1, and SCIP's solutions for the most promising numbers of replicas.
    #[cfg(feature = "scip")]
    Scip,
    /// The search of stage 1.
    Search,
    /// Simple constructions: milliseconds, for re-planning on every event. Its plans are rarely slower.
    Fast,
}

impl Engine {
    /// Whether the grids of the baselines are executed beside the planner's own plans: not where milliseconds count.
    fn tries_grids(self) -> bool {
        match self {
            Self::Fast | Self::Search => false,
            #[cfg(feature = "scip")]
            Self::Scip => true,
            Self::Auto => true,
        }
    }

    fn most_judged(self, limits: &PlanLimits) -> usize {
        if self == Self::Search && limits.bound_work == 0 { MAX_JUDGED_AT_ONCE } else { MAX_JUDGED }
    }

    /// What the last step may do: nothing where milliseconds count.
    fn polish_budget(self, judge: &dyn Judge) -> Option<PolishBudget> {
        if !self.tries_grids() {
            return None;
        }
        Some(if judge.is_closed_form() { RANKED_BY_CLOSED_FORM } else { EXECUTED })
    }

    #[cfg(feature = "scip")]
    fn uses_scip(self) -> bool {
        matches!(self, Self::Auto | Self::Scip)
    }
}

fn effort_is_over(request: &PlanRequest) -> bool {
    request.limits.out_of_time.is_some_and(|is_over| is_over())
}

/// Leaves out what the closed form takes for so much slower than the best that executing it would hardly show otherwise.
fn keep_promising(request: &PlanRequest, plans: &mut Vec<Plan>) -> Result<(), PlanError> {
    let ranks = plans.iter().map(|plan| ranking::rank_s(plan, request)).collect::<Result<Vec<f64>, _>>()?;
    let least_s = ranks.iter().copied().fold(f64::INFINITY, f64::min);
    let mut ranks = ranks.into_iter();
    plans.retain(|_| ranks.next().is_some_and(|rank_s| rank_s <= least_s * outer::WORTH_A_LOOK));
    Ok(())
}

/// Keeps as many of the first plans as may be executed. The more GPUs and micro batches, the fewer.
fn within_instructions(plans: &mut Vec<Plan>) {
    let mut instructions = 0;
    let mut kept = 0;
    plans.retain(|plan| {
        instructions += instructions_of(plan);
        kept += 1;
        kept <= 2 || instructions <= MAX_INSTRUCTIONS
    });
}

/// About how many instructions the plan's program has: for each micro batch on each GPU two passes, with a transfer before
/// and behind.
fn instructions_of(plan: &Plan) -> u64 {
    let of_replica = |replica: &Replica| {
        let gpus: usize = replica.stages.iter().map(|stage| stage.gpus.len()).sum();
        6 * gpus as u64 * u64::from(replica.micro_batches)
    };
    plan.replicas.iter().map(of_replica).sum()
}

impl AutoHet {
    /// Plans, the best by the closed form first, none of which was executed; none where nothing fits.
    pub(in crate::planner) fn unjudged(self, request: &PlanRequest) -> Result<Vec<Plan>, PlanError> {
        Outer::new(request, self.name())?.best_plans(self.engine)
    }

    /// No plan is faster than this under any schedule, in seconds.
    pub fn conserved_bound_s(request: &PlanRequest) -> Result<f64, PlanError> {
        outer::conserved_bound_s(request)
    }

    /// What no plan of the request's space is faster than, of which some are known: the fastest first, one at least.
    pub fn lower_bound(request: &PlanRequest, known: &[JudgedPlan]) -> Result<LowerBound, PlanError> {
        Ok(Outer::new(request, "autohet")?.lower_bound(known))
    }

    /// No plan of one tensor-parallel degree is faster than this, and none at all than the other; in seconds, at most `known_s`.
    pub fn lower_bounds_s(request: &PlanRequest, known_s: f64) -> Result<(f64, f64), PlanError> {
        Ok(Outer::new(request, "autohet")?.lower_bounds_s(known_s))
    }
}

impl Planner for AutoHet {
    fn name(&self) -> &'static str {
        "autohet"
    }

    fn plan(&self, request: &PlanRequest) -> Result<PlannedIteration, PlanError> {
        let PlanRequest { cluster, judge, .. } = *request;
        if cluster.nodes.iter().all(|node| node.gpu_count == 0) {
            return Err(PlanError::EmptyCluster);
        }
        let mut outer = Outer::new(request, self.name())?;
        let grids = || {
            let wanted = self.engine.tries_grids() && !effort_is_over(request);
            if wanted { baselines::most_promising(request, self.name()) } else { Ok(Vec::new()) }
        };
        let (plans, grids) = rayon::join(|| outer.best_plans(self.engine), grids);
        let mut plans = plans?;
        if !self.engine.tries_grids() && judge.schedule().is_none() {
            keep_promising(request, &mut plans)?;
        }
        plans.truncate(if effort_is_over(request) { 1 } else { self.engine.most_judged(&request.limits) });
        for plan in grids? {
            if !plans.contains(&plan) {
                plans.push(plan);
            }
        }
        within_instructions(&mut plans);
        let mut judged = ranking::judge_all(request, plans)?;
        if let Some(budget) = self.engine.polish_budget(judge)
            && !effort_is_over(request)
        {
            judged = polish::polish(request, judged, budget);
        }
        let planned = PlannedIteration::best_of(judged, |judged| outer.lower_bound(judged));
        let planned = planned.ok_or_else(|| shortage::explain(request))?;
        debug_assert_eq!(planned.plan.validate(cluster, request.cost), Ok(()));
        Ok(planned)
    }
}
