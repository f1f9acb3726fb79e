//! Any planner under a schedule that the user asks for.

use super::autohet::AutoHet;
use crate::cluster::Cluster;
use crate::cost::{CostError, CostModel};
use crate::plan::{
    Judge, JudgedPlan, LowerBound, Plan, PlanError, PlanRequest, PlannedIteration, Planner, ScheduleChoice,
    TrainingSettings,
};

/// A planner whose plans run under one schedule.
///
/// The planner searches as it does over the closed form of 1F1B, with the memory of the asked schedule; what it ranks and has
/// executed is ranked and executed under that, and what doesn't fit under it isn't taken.
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
        let request = &PlanRequest { judge: &judge, ..*request };
        let planned = match self.planner.plan(request) {
            Err(PlanError::DoesNotFit { .. }) => self.with_other_settings(request, judge.judge)?,
            planned => planned?,
        };
        let rescheduled = |plan: &Plan| plan.rescheduled(self.choice).ok_or_else(|| self.does_not_go());
        let bound = if self.choice.is_within_bounds() {
            planned.bound()
        } else {
            LowerBound::of_all(AutoHet::conserved_bound_s(request)?.min(planned.predicted_iteration_s))
        };
        let alternatives = planned.alternatives.iter().map(|other| -> Result<JudgedPlan, PlanError> {
            let JudgedPlan { plan, predicted_iteration_s } = other;
            Ok(JudgedPlan { plan: rescheduled(plan)?, predicted_iteration_s: *predicted_iteration_s })
        });
        let alternatives = alternatives.filter_map(Result::ok).collect();
        let plan = rescheduled(&planned.plan)?;
        let judged = JudgedPlan { plan, predicted_iteration_s: planned.predicted_iteration_s };
        Ok(PlannedIteration::new(judged, bound, alternatives))
    }
}

impl Scheduled {
    /// The best plan with each recompute setting and micro-batch size alone: the few plans that are executed without such
    /// limits may all need more memory under this schedule than under the one that they were made for.
    fn with_other_settings(&self, request: &PlanRequest, judge: &dyn Judge) -> Result<PlannedIteration, PlanError> {
        // Nothing is to be found where nothing fits under any schedule.
        self.planner.plan(&PlanRequest { judge, ..*request })?;
        let TrainingSettings { recompute, micro_batch_sizes, .. } = request.training;
        let mut best: Option<PlannedIteration> = None;
        for (&recompute, &size) in recompute.iter().flat_map(|r| micro_batch_sizes.iter().map(move |size| (r, size))) {
            let (recompute, micro_batch_sizes) = (vec![recompute], vec![size]);
            let training = TrainingSettings { recompute, micro_batch_sizes, ..request.training.clone() };
            let Ok(found) = self.planner.plan(&PlanRequest { training: &training, ..*request }) else { continue };
            if best.as_ref().is_none_or(|best| found.predicted_iteration_s < best.predicted_iteration_s) {
                best = Some(found);
            }
        }
        best.ok_or_else(|| self.does_not_go())
    }

    fn does_not_go(&self) -> PlanError {
        PlanError::DoesNotFit {
            reason: format!("none of the plans that were found can run under `{}`", self.choice),
            hint: "interleaved needs micro batches that are a multiple of the stages, zb-h1 and gpipe need more memory than 1f1b, redundant needs pipelines of two stages or more: try another global batch size, more memory, or `--schedule 1f1b`"
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

    fn schedule(&self) -> Option<ScheduleChoice> {
        Some(self.choice)
    }

    fn work(&self, plan: &Plan) -> u64 {
        self.judge.work(plan)
    }
}
