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
pub mod grouping;
pub(in crate::planner) mod joint;
mod mapping;
pub(in crate::planner) mod outer;
mod pipeline;
pub mod polish;
pub(in crate::planner) mod setting;
pub(in crate::planner) mod shortage;
mod stage_one;
#[cfg(test)]
mod tests;

pub use shortage::fitting_changes;

use super::{baselines, ranking};
use crate::plan::{Judge, PlanError, PlanRequest, PlannedIteration, Planner};
use outer::Outer;
use polish::PolishBudget;

/// Most plans of its own that are executed before one is returned.
const MAX_JUDGED: usize = 3;

/// What the last step may do where the judge is a closed form.
const RANKED_BY_CLOSED_FORM: PolishBudget = PolishBudget { work: 0, ranked_gpus: 40_000_000, unlike_degrees: true };
/// What it may do where plans are executed: about as much as everything before it.
const EXECUTED: PolishBudget = PolishBudget { work: 500_000, ranked_gpus: 100_000, unlike_degrees: false };

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

impl Planner for AutoHet {
    fn name(&self) -> &'static str {
        "autohet"
    }

    fn plan(&self, request: &PlanRequest) -> Result<PlannedIteration, PlanError> {
        let PlanRequest { cluster, judge, .. } = *request;
        if cluster.nodes.iter().all(|node| node.gpu_count == 0) {
            return Err(PlanError::EmptyCluster);
        }
        let outer = Outer::new(request, self.name())?;
        let mut plans = outer.best_plans(self.engine)?;
        plans.truncate(MAX_JUDGED);
        let grids =
            if self.engine.tries_grids() { baselines::most_promising(request, self.name())? } else { Vec::new() };
        for plan in grids {
            if !plans.contains(&plan) {
                plans.push(plan);
            }
        }
        let mut judged = ranking::judge_all(request, plans)?;
        if let Some(budget) = self.engine.polish_budget(judge) {
            judged = polish::polish(request, judged, budget);
        }
        let planned = PlannedIteration::best_of(judged, |known_s| outer.lower_bound_s(known_s));
        let planned = planned.ok_or_else(|| shortage::explain(request))?;
        debug_assert_eq!(planned.plan.validate(cluster, request.cost), Ok(()));
        Ok(planned)
    }
}
