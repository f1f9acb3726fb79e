//! What candidates are ranked by before the judge has the last word.

use super::estimate;
use crate::cost::CostError;
use crate::plan::{Plan, PlanRequest};

/// Seconds of one iteration by the request's judge where that is a closed form itself, else by that of [`estimate`].
/// Infinite where such a judge has no figures for the plan: it isn't in that judge's space.
pub fn rank_s(plan: &Plan, request: &PlanRequest) -> Result<f64, CostError> {
    let PlanRequest { cluster, cost, judge, .. } = *request;
    if !judge.is_closed_form() {
        return estimate::iteration_s(plan, cluster, cost);
    }
    match judge.iteration_s(plan, cluster, cost) {
        Err(CostError::Judge { .. }) => Ok(f64::INFINITY),
        judged => judged,
    }
}
