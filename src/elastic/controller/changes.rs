//! Changes of plan: to what, and whether one that could be put off is made.

use super::under_way::UnderWay;
use super::{Controller, Exposure, Phase, Weighed};
use crate::elastic::composition::Composition;
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
    /// Whether the plan for the nodes that are there to stay has been made before.
    pub(super) fn has_plan(&self) -> bool {
        self.plans.has(self.membership.staying())
    }

    /// Plans for the nodes that are there to stay, and says how to get there. Where the plan `is_known` nobody waits for it.
    pub(super) fn reconfigure(&mut self, cause: Cause, is_known: bool) -> Result<Action, PlanError> {
        (self.wanted, self.postponed) = (None, None);
        if matches!(self.phase, Phase::Snapshotting(_)) {
            self.end_persisting();
        }
        if cause == Cause::Loss
            && let Some(placed) = self.stand_in()?
        {
            // A new plan may pay once it is weighed.
            self.postponed = Some((Cause::Join, self.now));
            // All meet, and nobody's communicators are made anew.
            let settings = self.settings.reconfiguration;
            let connected = SimTime::from_seconds(settings.connect_s(&placed.plan) - settings.rendezvous_s);
            return Ok(self.change_to(self.prepare(placed, cause, Spared { planning: true, connected })));
        }
        if let Some(prepared) = self.prepared.take() {
            // Nodes that were to be left, and what was to be done without them.
            return Ok(self.go_over_to(prepared, cause));
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
        let spared = Spared { planning: is_known || self.policy.plans_ahead, connected: SimTime::ZERO };
        Ok(self.change_to(self.prepare(placed, cause, spared)))
    }

    /// The plan for the nodes that stay: without those that came lately, or with them where nothing fits else.
    pub(super) fn plan_to_go_on(&mut self) -> Result<PlacedPlan, PlanError> {
        let (number, nodes) = self.shape_to_go_on()?;
        self.plans.placed(number, &nodes, &self.bitmap)
    }

    /// The number of its shape, and the nodes that it is for.
    fn shape_to_go_on(&mut self) -> Result<(usize, Arc<Composition>), PlanError> {
        let outlook = self.membership.expected_losses(self.now);
        let (staying, proven) = (Arc::clone(self.membership.staying()), Arc::clone(self.membership.proven()));
        if proven.cluster.nodes.len() < staying.cluster.nodes.len()
            && let Ok(number) = self.plans.shape_for(&proven, outlook)
        {
            return Ok((number, proven));
        }
        Ok((self.plans.shape_for(&staying, outlook)?, staying))
    }

    /// Whether the iteration under way would end too late to take along what only nodes have that are about to go, and there is
    /// time for that now. Training that reads from the object store only has nothing to take along.
    pub(super) fn has_to_leave_at_once(
        &mut self,
        at: SimTime,
        losses_at: Option<SimTime>,
        is_known: bool,
    ) -> Result<bool, PlanError> {
        let (Some(losses_at), Phase::Training, Some(current)) = (losses_at, &self.phase, &self.current) else {
            return Ok(false);
        };
        if self.policy.sources == AllowedSources::ObjectStore {
            return Ok(false);
        }
        let iteration_ends = self.iteration_since.saturating_add(SimTime::from_seconds(current.iteration_s())).max(at);
        let mut left = self.membership.present().clone();
        left.nodes.retain(|node| !self.membership.is_doomed(&node.name));
        if self.bitmap.newest_recoverable_step(&left, self.policy.sources) == Some(self.step) {
            return Ok(false);
        }
        let placed = match self.plan_to_go_on() {
            Ok(placed) => placed,
            Err(PlanError::DoesNotFit { .. } | PlanError::EmptyCluster) => return Ok(false),
            Err(error) => return Err(error),
        };
        let spared = Spared { planning: is_known || self.policy.plans_ahead, connected: SimTime::ZERO };
        let time = self.prepare(placed, Cause::Notice, spared).time;
        let is_in_time = |begin: SimTime| begin.saturating_add(time.plan + time.fetch) <= losses_at;
        Ok(is_in_time(at) && !is_in_time(iteration_ends))
    }

    pub(super) fn change_to(&mut self, reconfiguration: Reconfiguration) -> Action {
        self.prepared = None;
        self.step = reconfiguration.recovery.resume_step;
        self.last_recovery = reconfiguration.time.total();
        self.membership.settle(|node| reconfiguration.placed.uses(node));
        self.current = Some(reconfiguration.placed.clone());
        self.membership.note_change();
        self.fatal_losses = self.fatal_losses();
        let reconfiguration = Arc::new(reconfiguration);
        self.phase = Phase::Reconfiguring(UnderWay::new(&reconfiguration, self.now));
        Action::Reconfigure(reconfiguration)
    }

    /// The plan in force with neighbours in the place of lost stages, if the policy has such, they are there, and have
    /// everything.
    fn stand_in(&mut self) -> Result<Option<PlacedPlan>, PlanError> {
        let Some(current) = self.current.as_ref().filter(|_| self.policy.stands_in) else { return Ok(None) };
        let present = self.membership.present();
        let is_whole = self.bitmap.newest_recoverable_step(present, self.policy.sources) == self.bitmap.live_step();
        let is_up = |name: &str| present.nodes.iter().any(|node| node.name == name);
        let Some(redundant) = stand_in(&current.plan, is_up).filter(|_| is_whole) else { return Ok(None) };
        // Where there is no room for new copies beside the stage that was taken over, training goes on without any.
        let plain = Plan { schedule: ScheduleKind::default(), ..redundant.clone() };
        match self.plans.adopt(redundant, present)? {
            Some(placed) => Ok(Some(placed)),
            None => self.plans.adopt(plain, present),
        }
    }

    /// Nothing fits. What was lost with the last copies is known now, not only when training goes on.
    pub(super) fn wait(&mut self) -> Action {
        (self.current, self.prepared) = (None, None);
        self.phase = Phase::Waiting;
        let recoverable = self.bitmap.newest_recoverable_step(self.membership.present(), self.policy.sources);
        self.step = self.step.min(recoverable.unwrap_or(0));
        Action::Wait { resume_step: self.step }
    }

    pub(super) fn prepare(&self, placed: PlacedPlan, cause: Cause, spared: Spared) -> Reconfiguration {
        let present = self.membership.present();
        let bandwidths = self.settings.checkpoint.bandwidths();
        let options = RecoveryOptions { sources: self.policy.sources, bandwidths };
        let recovery = plan_recovery(&self.bitmap, &placed.plan, present, &options);
        let mut time = self.settings.reconfiguration.time(cause, &placed.plan, &recovery, present, &bandwidths, spared);
        time.detect = time.detect.max(self.coordinator.wait(self.now));
        Reconfiguration { placed, recovery, cause, time }
    }

    /// How many of the losses of nodes in use the plan in force would have needed a checkpoint for: all, where nothing is read
    /// from memory.
    fn fatal_losses(&self) -> f64 {
        let Some(current) = self.current.as_ref().filter(|_| self.policy.sources != AllowedSources::ObjectStore) else {
            return self.membership.fatal_losses(|lost, _| if lost > 0 { 1.0 } else { 0.0 });
        };
        let exposure = Exposure::of(&current.plan, self.bitmap.layout());
        self.membership.fatal_losses(|lost, of| exposure.fatal_share(lost, of))
    }

    /// Whether a change that could be put off is made now. Leaving a node under notice is, unless nothing fits without
    /// it; taking in new nodes is if that gains more iterations by the next expected change than the pause costs.
    pub(super) fn weigh(&mut self, cause: Cause) -> Result<Weighed, PlanError> {
        const NEVER: Weighed = Weighed::Not { again: SimTime::MAX };
        let Some(now_s) = self.current.as_ref().map(PlacedPlan::iteration_s) else { return Ok(Weighed::Pays) };
        let (number, nodes) = match self.shape_to_go_on() {
            Ok(found) => found,
            Err(PlanError::DoesNotFit { .. } | PlanError::EmptyCluster) => return Ok(NEVER),
            Err(error) => return Err(error),
        };
        if cause == Cause::Notice {
            return Ok(Weighed::Pays);
        }
        let shape = Arc::clone(self.plans.shape(number));
        let then_s = shape.predicted_iteration_s;
        if then_s >= now_s {
            return Ok(NEVER);
        }
        if self.policy.joins == JoinRule::WhenFaster {
            return Ok(Weighed::Pays);
        }
        let horizon_s = self.membership.mean_time_between_changes_s(self.now);
        let pays = |pause_s: f64| (horizon_s - pause_s) / then_s > horizon_s / now_s;
        // That is, if the horizon is longer than `pause now / (now - then)`.
        let not = |controller: &Self, pause_s: f64| {
            let again = controller.membership.when_mean_time_between_changes_is(pause_s * now_s / (now_s - then_s));
            Ok(Weighed::Not { again: again.max(controller.now.saturating_add(SimTime(1))) })
        };
        // Who reads what from where is only worked out where it matters.
        let settings = self.settings.reconfiguration;
        let connect_s = if self.policy.connects_ahead { 0.0 } else { settings.connect_s(&shape.plan) };
        if !pays(connect_s) {
            return not(self, connect_s);
        }
        let connected = if self.policy.connects_ahead { SimTime::MAX } else { SimTime::ZERO };
        let placed = match self.plans.placed(number, &nodes, &self.bitmap) {
            Ok(placed) => placed,
            Err(PlanError::DoesNotFit { .. }) => return Ok(NEVER),
            Err(error) => return Err(error),
        };
        let pause_s = self.prepare(placed, cause, Spared { planning: true, connected }).time.total().as_seconds();
        if pays(pause_s) { Ok(Weighed::Pays) } else { not(self, pause_s) }
    }
}
