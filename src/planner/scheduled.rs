//! Any planner under a schedule that the user asks for.

use super::autohet::AutoHet;
use crate::cluster::Cluster;
use crate::cost::{CostError, CostModel};
use crate::plan::{Judge, JudgedPlan, Plan, PlanError, PlanRequest, PlannedIteration, Planner, ScheduleChoice};

/// A planner whose plans run under one schedule.
///
/// The planner searches as it does, with memory and closed forms of 1F1B, but what it has executed is executed under the
/// asked schedule, and what doesn't fit under it isn't taken.
pub struct Scheduled {
    /// Who plans.
    pub planner: Box<dyn Planner>,
    /// The schedule.
    pub choice: ScheduleChoice,
}

impl Planner for Scheduled {
    fn name(&self) -> &'static str {
        self.planner.name()
    }

    fn plan(&self, request: &PlanRequest) -> Result<PlannedIteration, PlanError> {
        let judge = ScheduledJudge { judge: request.judge, choice: self.choice };
        let planned = match self.planner.plan(&PlanRequest { judge: &judge, ..*request }) {
            // Not for want of memory, if there is a plan under another schedule.
            Err(PlanError::DoesNotFit { .. }) if self.planner.plan(request).is_ok() => return Err(self.does_not_go()),
            planned => planned?,
        };
        if !planned.predicted_iteration_s.is_finite() {
            return Err(self.does_not_go());
        }
        let rescheduled = |plan: &Plan| plan.rescheduled(self.choice).ok_or_else(|| self.does_not_go());
        let lower_bound_s = if self.choice.is_within_bounds() {
            planned.lower_bound_s
        } else {
            AutoHet::conserved_bound_s(request)?.min(planned.predicted_iteration_s)
        };
        let alternatives = planned.alternatives.iter().map(|other| -> Result<JudgedPlan, PlanError> {
            let JudgedPlan { plan, predicted_iteration_s } = other;
            Ok(JudgedPlan { plan: rescheduled(plan)?, predicted_iteration_s: *predicted_iteration_s })
        });
        Ok(PlannedIteration {
            plan: rescheduled(&planned.plan)?,
            predicted_iteration_s: planned.predicted_iteration_s,
            lower_bound_s,
            gap: (planned.predicted_iteration_s - lower_bound_s) / lower_bound_s,
            alternatives: alternatives.filter_map(Result::ok).collect(),
        })
    }
}

impl Scheduled {
    fn does_not_go(&self) -> PlanError {
        PlanError::DoesNotFit {
            reason: format!("none of the plans that were found can run under `{}`", self.choice),
            hint: "interleaved needs micro batches that are a multiple of the stages, zb-h1 and gpipe need more memory than 1f1b: try another global batch size, more memory, or `--schedule 1f1b`"
                .to_owned(),
        }
    }
}

/// The judge, told of each plan under the schedule. A plan that can't run so takes for ever.
struct ScheduledJudge<'a> {
    judge: &'a dyn Judge,
    choice: ScheduleChoice,
}

impl Judge for ScheduledJudge<'_> {
    fn iteration_s(&self, plan: &Plan, cluster: &Cluster, cost: &CostModel) -> Result<f64, CostError> {
        match plan.rescheduled(self.choice).filter(|plan| plan.validate(cluster, cost).is_ok()) {
            Some(plan) => self.judge.iteration_s(&plan, cluster, cost),
            None => Ok(f64::INFINITY),
        }
    }

    fn name(&self) -> &'static str {
        self.judge.name()
    }

    fn is_closed_form(&self) -> bool {
        self.judge.is_closed_form()
    }

    fn work(&self, plan: &Plan) -> u64 {
        self.judge.work(plan)
    }
}
