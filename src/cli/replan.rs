//! `autohet-sim plan --incumbent`: a plan from one that runs.

use super::problem::Problem;
use crate::input;
use crate::plan::{JudgedPlan, LowerBound, Plan, PlanError, PlanLimits, PlanRequest, PlannedIteration};
use crate::planner::autohet::AutoHet;
use crate::planner::replan::{self, Incumbent, Replanned};
use anyhow::anyhow;
use std::path::Path;

/// A plan from the one in the file.
pub(super) fn replan(
    problem: &Problem,
    path: &Path,
    horizon_s: f64,
    limits: PlanLimits<'_>,
) -> anyhow::Result<Replanned> {
    let name = path.display().to_string();
    let text = input::read_text(path)
        .map_err(|error| anyhow!("cannot read `{name}`: {error}\nhint: `autohet-sim plan --out` writes plans"))?;
    let old = Plan::from_json(&text, &name)?;
    if let Err(violations) = old.validate_shape(problem.cost.model()) {
        return Err(anyhow!(
            "`{name}` isn't a plan for this job: {}\nhint: give the model that it was made for",
            violations[0]
        ));
    }
    let settings = &problem.scenario.reconfiguration;
    let incumbent = Incumbent {
        plan: &old,
        horizon_s,
        pause_s: settings.detection_s + settings.planning_s + settings.rendezvous_s + settings.communicators_s,
        store_bytes_per_s: problem.scenario.checkpoint.bandwidths().object_store_bytes_per_s,
    };
    Ok(replan::replan(&PlanRequest { limits, ..problem.request() }, &incumbent)?)
}

/// The bound is worked out behind: re-planning does without it. Where there is a deadline it is one that takes no time.
pub(super) fn with_bound(
    problem: &Problem,
    replanned: &Replanned,
    has_deadline: bool,
) -> Result<PlannedIteration, PlanError> {
    let request = problem.request();
    let judged = JudgedPlan { plan: replanned.plan.clone(), predicted_iteration_s: replanned.iteration_s };
    let bound = if has_deadline {
        LowerBound::of_all(AutoHet::conserved_bound_s(&request)?.min(replanned.iteration_s))
    } else {
        AutoHet::lower_bound(&request, std::slice::from_ref(&judged))?
    };
    Ok(PlannedIteration::new(judged, bound, Vec::new()))
}
