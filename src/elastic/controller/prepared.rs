//! Changes of plan that are prepared beside training: planned, and communicators made, before anybody stops.

use super::Controller;
use crate::elastic::events::Action;
use crate::elastic::plan_cache::PlacedPlan;
use crate::elastic::reconfiguration::{Cause, Spared};
use crate::plan::PlanError;
use crate::units::SimTime;

/// A change that is prepared.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    cause: Cause,
    placed: PlacedPlan,
    /// When its communicators began to be made: when the plan was there.
    since: SimTime,
    /// When they are there.
    ready: SimTime,
}

impl Controller<'_> {
    /// Begins to prepare a change to the plan for the nodes that stay, if the policy does so. Where the plan `is_known` nobody
    /// waits for it.
    pub(super) fn begin_to_prepare(&mut self, cause: Cause, is_known: bool) -> Result<bool, PlanError> {
        if !self.policy.connects_ahead || self.current.is_none() {
            return Ok(false);
        }
        let placed = match self.plan_to_go_on() {
            Ok(placed) => placed,
            Err(PlanError::DoesNotFit { .. } | PlanError::EmptyCluster) => return Ok(false),
            Err(error) => return Err(error),
        };
        let settings = self.settings.reconfiguration;
        let planning_s = if is_known || self.policy.plans_ahead { 0.0 } else { settings.planning_s };
        let since = self.now.saturating_add(SimTime::from_seconds(planning_s));
        let ready = since.saturating_add(SimTime::from_seconds(settings.connect_s(&placed.plan)));
        self.wanted = None;
        self.prepared = Some(Prepared { cause, placed, since, ready });
        Ok(true)
    }

    /// Between iterations: over to what is prepared, once it is, or once another iteration would take too long.
    pub(super) fn go_over(&mut self, at: SimTime) -> Option<Action> {
        let prepared = self.prepared.take()?;
        if at < prepared.ready && !self.has_to_leave(&prepared) {
            self.prepared = Some(prepared);
            return None;
        }
        let cause = prepared.cause;
        Some(self.go_over_to(prepared, cause))
    }

    /// Over to what is prepared, as far as it is.
    pub(super) fn go_over_to(&mut self, prepared: Prepared, cause: Cause) -> Action {
        let Prepared { placed, since, .. } = prepared;
        let spared = Spared { planning: since <= self.now, connected: self.now.saturating_sub(since) };
        let change = self.prepare(placed, cause, spared);
        // Others may have come since it was begun.
        (self.wanted, self.postponed) = (Some(Cause::Join), None);
        self.change_to(change)
    }

    /// Whether the change can't wait for another iteration: a node would be gone before what only it has could be read.
    fn has_to_leave(&self, prepared: &Prepared) -> bool {
        let Some(current) = &self.current else { return false };
        let Some(first_loss) = self.membership.first_loss(|node| current.uses(node)) else { return false };
        let spared = Spared { planning: true, connected: SimTime::MAX };
        let fetch = self.prepare(prepared.placed.clone(), prepared.cause, spared).time.fetch;
        let iteration = SimTime::from_seconds(current.iteration_s());
        self.now.saturating_add(iteration).saturating_add(fetch) > first_loss
    }

    /// Lets go of what was prepared if one of its nodes is gone or about to go, or if it was for a notice and some are void.
    pub(super) fn drop_what_is_void(&mut self, some_notices_are: bool) {
        let is_threatened = self.current.as_ref().is_some_and(|current| {
            self.policy.heeds_notice && self.membership.first_loss(|node| current.uses(node)).is_some()
        });
        let needless = |cause: Cause| some_notices_are && cause == Cause::Notice && !is_threatened;
        self.wanted.take_if(|cause| needless(*cause));
        let staying = self.membership.staying();
        let is_void = |prepared: &mut Prepared| {
            needless(prepared.cause) || prepared.placed.nodes().any(|node| !staying.has(node))
        };
        if let Some(Prepared { cause, .. }) = self.prepared.take_if(is_void).filter(|void| !needless(void.cause)) {
            self.wanted = Some(if is_threatened { Cause::Notice } else { cause });
        }
    }
}
