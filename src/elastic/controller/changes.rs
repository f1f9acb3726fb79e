//! Changes of plan: to what, and whether one that could be put off is made.

use super::under_way::UnderWay;
use super::{Controller, Phase};
use crate::elastic::events::Action;
use crate::elastic::layer_bitmap::AllowedSources;
use crate::elastic::plan_cache::PlacedPlan;
use crate::elastic::policies::JoinRule;
use crate::elastic::reconfiguration::{Cause, Reconfiguration, Spared};
use crate::elastic::recovery::{RecoveryOptions, plan_recovery};
use crate::elastic::stand_in::stand_in;
use crate::plan::{Plan, PlanError, ScheduleKind};
use crate::units::SimTime;
use std::sync::Arc;

impl Controller<'_> {
    /// Plans for the nodes that are there to stay, and says how to get there.
    pub(super) fn reconfigure(&mut self, cause: Cause) -> Result<Action, PlanError> {
        (self.wanted, self.postponed) = (None, None);
        if matches!(self.phase, Phase::Snapshotting(_)) {
            self.end_persisting();
        }
        if cause == Cause::Loss
            && let Some(placed) = self.stand_in()?
        {
            // A new plan may pay once it is weighed.
            self.postponed = Some(Cause::Join);
            return Ok(self.change_to(self.prepare(placed, cause, true)));
        }
        let placed = match self.plan_to_go_on() {
            Ok(placed) => placed,
            Err(refusal @ PlanError::DoesNotFit { .. }) => {
                self.refusal = Some(refusal);
                return Ok(self.wait());
            }
            Err(PlanError::EmptyCluster) => {
                self.refusal = None;
                return Ok(self.wait());
            }
            Err(error) => return Err(error),
        };
        Ok(self.change_to(self.prepare(placed, cause, false)))
    }

    /// The plan for the nodes that stay: without those that came lately, or with them where nothing fits else.
    fn plan_to_go_on(&mut self) -> Result<PlacedPlan, PlanError> {
        let outlook = self.membership.expected_losses(self.now);
        let staying = self.membership.staying(self.policy.heeds_notice);
        let proven = self.membership.proven(self.policy.heeds_notice);
        if proven.nodes.len() < staying.nodes.len()
            && let Ok(placed) = self.plans.plan_for(&proven, &self.bitmap, outlook)
        {
            return Ok(placed);
        }
        self.plans.plan_for(&staying, &self.bitmap, outlook)
    }

    /// Whether the iteration under way would end too late to take along what only nodes have that are about to go, and there is
    /// time for that now. Training that reads from the object store only has nothing to take along.
    pub(super) fn has_to_leave_at_once(&mut self, at: SimTime, losses_at: Option<SimTime>) -> Result<bool, PlanError> {
        let (Some(losses_at), Phase::Training, Some(current)) = (losses_at, &self.phase, &self.current) else {
            return Ok(false);
        };
        if self.policy.sources == AllowedSources::ObjectStore {
            return Ok(false);
        }
        let iteration_ends = self.iteration_since.saturating_add(SimTime::from_seconds(current.iteration_s())).max(at);
        let mut left = self.membership.present();
        left.nodes.retain(|node| !self.membership.is_doomed(&node.name));
        if self.bitmap.newest_recoverable_step(&left, self.policy.sources) == Some(self.step) {
            return Ok(false);
        }
        let placed = match self.plan_to_go_on() {
            Ok(placed) => placed,
            Err(PlanError::DoesNotFit { .. } | PlanError::EmptyCluster) => return Ok(false),
            Err(error) => return Err(error),
        };
        let time = self.prepare(placed, Cause::Notice, false).time;
        let is_in_time = |begin: SimTime| begin.saturating_add(time.plan + time.fetch) <= losses_at;
        Ok(is_in_time(at) && !is_in_time(iteration_ends))
    }

    fn change_to(&mut self, reconfiguration: Reconfiguration) -> Action {
        self.step = reconfiguration.recovery.resume_step;
        self.last_recovery = reconfiguration.time.total();
        self.membership.settle(|node| reconfiguration.placed.uses(node));
        self.current = Some(reconfiguration.placed.clone());
        self.membership.note_change();
        let reconfiguration = Arc::new(reconfiguration);
        self.phase = Phase::Reconfiguring(UnderWay::new(&reconfiguration, self.now));
        Action::Reconfigure(reconfiguration)
    }

    /// The plan in force with neighbours in the place of lost stages, if the policy has such, they are there, and have
    /// everything.
    fn stand_in(&mut self) -> Result<Option<PlacedPlan>, PlanError> {
        let Some(current) = self.current.as_ref().filter(|_| self.policy.stands_in) else { return Ok(None) };
        let present = self.membership.present();
        let is_whole = self.bitmap.newest_recoverable_step(&present, self.policy.sources) == self.bitmap.live_step();
        let is_up = |name: &str| present.nodes.iter().any(|node| node.name == name);
        let Some(redundant) = stand_in(&current.plan, is_up).filter(|_| is_whole) else { return Ok(None) };
        // Where there is no room for new copies beside the stage that was taken over, training goes on without any.
        let plain = Plan { schedule: ScheduleKind::default(), ..redundant.clone() };
        match self.plans.adopt(redundant, &present)? {
            Some(placed) => Ok(Some(placed)),
            None => self.plans.adopt(plain, &present),
        }
    }

    /// Nothing fits. What was lost with the last copies is known now, not only when training goes on.
    pub(super) fn wait(&mut self) -> Action {
        self.current = None;
        self.phase = Phase::Waiting;
        let recoverable = self.bitmap.newest_recoverable_step(&self.membership.present(), self.policy.sources);
        self.step = self.step.min(recoverable.unwrap_or(0));
        Action::Wait { resume_step: self.step }
    }

    fn prepare(&self, placed: PlacedPlan, cause: Cause, stands_in: bool) -> Reconfiguration {
        let present = self.membership.present();
        let bandwidths = self.settings.checkpoint.bandwidths();
        let options = RecoveryOptions { sources: self.policy.sources, bandwidths };
        let recovery = plan_recovery(&self.bitmap, &placed.plan, &present, &options);
        let spared = Spared { planning: stands_in || self.policy.plans_ahead, communicators: stands_in };
        let time = self.settings.reconfiguration.time(cause, &placed.plan, &recovery, &present, &bandwidths, spared);
        Reconfiguration { placed, recovery, cause, time }
    }

    /// Whether a change that could be put off is made now. Leaving a node under notice is, unless nothing fits without
    /// it; taking in new nodes is if that gains more iterations by the next expected change than the pause costs.
    pub(super) fn change_pays(&mut self, cause: Cause) -> Result<bool, PlanError> {
        let Some(now_s) = self.current.as_ref().map(PlacedPlan::iteration_s) else { return Ok(true) };
        let changed = match self.plan_to_go_on() {
            Ok(changed) => changed,
            Err(PlanError::DoesNotFit { .. } | PlanError::EmptyCluster) => return Ok(false),
            Err(error) => return Err(error),
        };
        if cause == Cause::Notice {
            return Ok(true);
        }
        let then_s = changed.iteration_s();
        if self.policy.joins == JoinRule::WhenFaster {
            return Ok(then_s < now_s);
        }
        if then_s >= now_s {
            return Ok(false);
        }
        let horizon_s = self.membership.mean_time_between_changes_s(self.now);
        let pays = |pause_s: f64| (horizon_s - pause_s) / then_s > horizon_s / now_s;
        // Who reads what from where is only worked out where it matters.
        let connect_s = self.settings.reconfiguration.connect_s(&changed.plan);
        Ok(pays(connect_s) && pays(self.prepare(changed, cause, false).time.total().as_seconds()))
    }
}
