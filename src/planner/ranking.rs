//! What candidates are ranked by before the judge has the last word.

use super::estimate;
use crate::cost::CostError;
use crate::plan::{JudgedPlan, Plan, PlanError, PlanRequest};
use rayon::prelude::*;

/// Seconds of one iteration by the request's judge where that is a closed form itself, else by that of [`estimate`].
/// Infinite where such a judge has no figures for the plan, which isn't in that judge's space, and where the plan can't run
/// under the schedule that the judge executes plans under.
pub fn rank_s(plan: &Plan, request: &PlanRequest) -> Result<f64, CostError> {
    let PlanRequest { cluster, cost, judge, .. } = *request;
    if !judge.is_closed_form() {
        let Some(choice) = judge.schedule() else { return estimate::iteration_s(plan, cluster, cost) };
        return match plan.rescheduled(choice).filter(|plan| plan.validate(cluster, cost).is_ok()) {
            Some(plan) => estimate::iteration_s(&plan, cluster, cost),
            None => Ok(f64::INFINITY),
        };
    }
    match judge.iteration_s(plan, cluster, cost) {
        Err(CostError::Judge { .. }) => Ok(f64::INFINITY),
        judged => judged,
    }
}

/// The plans with the judge's word on them. What a closed form knows nothing of is left out, unless that is
/// all of them, and so is what it takes for too large.
pub fn judge_all(request: &PlanRequest, plans: Vec<Plan>) -> Result<Vec<JudgedPlan>, PlanError> {
    let PlanRequest { cluster, cost, judge, .. } = *request;
    // On all cores: a replay re-plans a hundred times, and this is most of it.
    let times_s: Vec<_> = plans.par_iter().map(|plan| judge.iteration_s(plan, cluster, cost)).collect();
    let (mut judged, mut unknown) = (Vec::new(), None);
    for (plan, time_s) in plans.into_iter().zip(times_s) {
        match time_s {
            Ok(predicted_iteration_s) if predicted_iteration_s.is_finite() => {
                judged.push(JudgedPlan { plan, predicted_iteration_s });
            }
            // Too large for its GPUs by the judge's own count.
            Ok(_) => {}
            Err(error @ CostError::Judge { .. }) => unknown = Some(error),
            Err(error) => return Err(error.into()),
        }
    }
    match unknown {
        Some(error) if judged.is_empty() => Err(error.into()),
        _ => Ok(judged),
    }
}
