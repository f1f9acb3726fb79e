//! The controller: events in, actions out. It has no clock and does no I/O: the world that feeds it, simulated or real,
//! tells it the time with each event and carries out what it asks for.

mod changes;
mod prepared;
mod under_way;

use super::checkpoint::{CheckpointSettings, Expected};
use super::coordinator::Coordinator;
use super::events::{Action, CheckpointPlace, Event, LostCopies, MembershipChange, Snapshot};
use super::exposure::Exposure;
use super::layer_bitmap::{AllowedSources, LayerBitmap};
use super::layout::StateLayout;
use super::membership::Membership;
use super::peer_copies::{PeerCopies, place_copies};
use super::plan_cache::{PlacedPlan, PlanCache};
use super::policies::{JoinRule, Policy};
use super::reconfiguration::{Cause, ReconfigurationSettings};
use crate::plan::{PlanError, PlanRequest};
use crate::units::SimTime;
use prepared::Prepared;
use std::collections::BTreeSet;
use std::sync::Arc;
use under_way::UnderWay;

/// Fixed inputs of a controller beside its policy.
#[derive(Clone, Copy)]
pub struct ControllerSettings<'a> {
    /// When to take checkpoints, and how fast storage is.
    pub checkpoint: &'a CheckpointSettings,
    /// What a change of plan costs beside moving state.
    pub reconfiguration: &'a ReconfigurationSettings,
}

/// Keeps training going on whatever nodes there are, under one policy.
pub struct Controller<'a> {
    policy: &'a Policy,
    settings: ControllerSettings<'a>,
    plans: PlanCache<'a>,
    membership: Membership,
    coordinator: Coordinator,
    bitmap: LayerBitmap,
    /// Iterations done and not rolled back.
    step: u64,
    phase: Phase,
    /// The plan in force, or the one being changed to.
    current: Option<PlacedPlan>,
    /// A change to make at the next end of an iteration.
    wanted: Option<Cause>,
    /// A change that didn't pay when it was weighed, and when it would: the longer things stay as they are, the more a change
    /// can gain by the next one. It is weighed again then, and after each checkpoint.
    postponed: Option<(Cause, SimTime)>,
    /// A change that is prepared beside training.
    prepared: Option<Prepared>,
    /// How many of the losses of nodes in use the current plan would have needed a checkpoint for.
    fatal_losses: f64,
    /// When the last snapshot was taken, or training began, and after which iteration.
    last_snapshot: (SimTime, u64),
    persisting: Option<Persisting>,
    last_recovery: SimTime,
    refusal: Option<PlanError>,
    /// The time of the event being handled.
    now: SimTime,
    /// When the iteration under way began.
    iteration_since: SimTime,
    upload_cost_s: f64,
}

/// A snapshot on its way to the host memory of others, disks and object store, until all have it, a node that holds it is
/// lost, or a newer one begins.
struct Persisting {
    step: u64,
    /// The plan whose nodes hold it.
    placed: PlacedPlan,
    /// Whether the copies that go to others are there.
    with_peers: bool,
    on_disk: bool,
    in_object_store: bool,
}

/// Whether a change that could be put off is made now.
enum Weighed {
    Pays,
    /// It doesn't, and if nothing else changes not before this time.
    Not {
        again: SimTime,
    },
}

#[derive(Clone, Debug)]
enum Phase {
    Waiting,
    Reconfiguring(UnderWay),
    Training,
    Snapshotting(Snapshot),
}

impl<'a> Controller<'a> {
    /// A controller of a cluster without nodes.
    pub fn new(policy: &'a Policy, request: PlanRequest<'a>, settings: ControllerSettings<'a>) -> Self {
        Self {
            policy,
            settings,
            plans: PlanCache::new(policy, request),
            membership: Membership::new(policy.heeds_notice),
            coordinator: Coordinator::default(),
            bitmap: LayerBitmap::new(StateLayout::new(request.cost, request.training.precision)),
            step: 0,
            phase: Phase::Waiting,
            current: None,
            wanted: None,
            postponed: None,
            prepared: None,
            fatal_losses: 0.0,
            last_snapshot: (SimTime::ZERO, 0),
            persisting: None,
            last_recovery: SimTime::ZERO,
            refusal: None,
            now: SimTime::ZERO,
            iteration_since: SimTime::ZERO,
            upload_cost_s: 0.0,
        }
    }

    /// Starts from a checkpoint of `step` that the object store has from an earlier run. To be called before any event.
    pub fn resume_from(&mut self, step: u64) {
        self.bitmap.record_earlier_checkpoint(step);
    }

    /// Training is over: the last checkpoint to take, if there is none of the last iteration yet. To be called between
    /// iterations.
    pub fn finish(&mut self, at: SimTime) -> Option<Snapshot> {
        if self.bitmap.object_store_step() == Some(self.step)
            || self.persisting.as_ref().is_some_and(|p| p.step == self.step)
        {
            return None;
        }
        match self.take_snapshot(at, false, PeerCopies::default()) {
            Action::TakeSnapshot(snapshot) => Some(snapshot),
            _ => None,
        }
    }

    /// What the last checkpoint costs beside the time that training stands still for it: seconds by which iterations take longer
    /// while it is on its way to the object store.
    pub fn note_upload_cost(&mut self, seconds: f64) {
        self.upload_cost_s = seconds;
    }

    /// Why nothing fitted, the last time that nothing did; `None` if there was no node to fit anything on.
    pub fn refusal(&self) -> Option<&PlanError> {
        self.refusal.as_ref()
    }

    /// What to do now; `None` to go on with what is under way.
    pub fn handle(&mut self, at: SimTime, event: Event) -> Result<Option<Action>, PlanError> {
        self.now = at;
        match event {
            Event::Membership(change) => self.on_membership(at, change),
            Event::IterationDone => {
                self.step += 1;
                self.bitmap.advance_live(self.step);
                self.at_boundary(at).map(Some)
            }
            Event::SnapshotDone => self.on_snapshot_done(at).map(Some),
            Event::CheckpointDurable { step, place } => {
                self.on_durable(step, place);
                Ok(None)
            }
            Event::CheckpointFailed { step } => {
                if self.persisting.as_ref().is_some_and(|snapshot| snapshot.step == step) {
                    self.end_persisting();
                }
                Ok(None)
            }
            Event::Reconfigured => {
                let placed = self.current.as_ref().expect("a change of plan ends with a plan");
                self.bitmap.set_live(&placed.plan, self.step);
                // Back at a checkpoint, or begun: nothing was done since. Where training moved on with what it had, the time goes on.
                if self.step <= self.last_snapshot.1 || self.bitmap.object_store_step() == Some(self.step) {
                    self.last_snapshot = (at, self.step);
                }
                self.at_boundary(at).map(Some)
            }
            Event::CopiesLost(copies) => self.on_copies_lost(&copies).map(Some),
        }
    }

    /// A recovery that was to read them begins anew, from what is left.
    fn on_copies_lost(&mut self, copies: &LostCopies) -> Result<Action, PlanError> {
        match copies {
            LostCopies::Host { node } => self.bitmap.forget_host(node),
            LostCopies::Disk { node } => self.bitmap.forget_disk(node),
            LostCopies::ObjectStore { step } => self.bitmap.forget_object_store(*step),
        }
        let is_known = self.has_plan();
        self.reconfigure(Cause::Loss, is_known)
    }

    fn on_membership(&mut self, at: SimTime, change: MembershipChange) -> Result<Option<Action>, PlanError> {
        if !change.lost.is_empty() && self.settings.reconfiguration.is_as_foreseen {
            self.keep_what_has_arrived(at);
        }
        let in_use =
            |nodes: &[String]| self.current.as_ref().is_some_and(|placed| nodes.iter().any(|n| placed.uses(n)));
        let foreseen = self.settings.reconfiguration.is_as_foreseen;
        let is_read = |node: &String| matches!(&self.phase, Phase::Reconfiguring(under_way) if under_way.needs(node, at, foreseen));
        let lost_in_use = in_use(&change.lost) || change.lost.iter().any(is_read);
        let noticed_in_use = in_use(&change.noticed);
        let mut joined = !change.joined.is_empty() || !change.spared.is_empty();
        let (losses_at, some_notices_are_void) = (change.losses_at, !change.spared.is_empty());
        self.note_lost(&change.lost);
        let takeover = SimTime::from_seconds(self.settings.reconfiguration.coordinator_s);
        self.coordinator.apply(at, &change, takeover);
        self.membership.apply(at, change, SimTime::from_seconds(self.settings.reconfiguration.min_up_s));
        joined |= self.keeps_away_from_others();
        self.drop_what_is_void(some_notices_are_void);
        let is_known = self.has_plan();
        if lost_in_use {
            return self.reconfigure(Cause::Loss, is_known).map(Some);
        }
        if matches!(self.phase, Phase::Waiting) {
            return if joined { self.reconfigure(Cause::Resume, is_known).map(Some) } else { Ok(Some(self.wait())) };
        }
        if noticed_in_use && self.policy.heeds_notice {
            self.wanted = Some(Cause::Notice);
            if self.has_to_leave_at_once(at, losses_at, is_known)? {
                return self.reconfigure(Cause::Notice, is_known).map(Some);
            }
            if !matches!(self.phase, Phase::Reconfiguring(_)) {
                self.begin_to_prepare(Cause::Notice, is_known)?;
            }
        } else if joined && self.policy.joins != JoinRule::Never {
            self.want_join();
        }
        Ok(None)
    }

    /// Nodes are lost, with what they held.
    fn note_lost(&mut self, lost: &[String]) {
        if let Some(placed) = &self.current {
            let used: BTreeSet<&str> = placed.nodes().collect();
            let hit = lost.iter().filter(|name| used.contains(name.as_str())).count();
            self.membership.note_hit(hit as u32, used.len() as u32);
        }
        for node in lost {
            self.bitmap.forget_node(node);
            if self.persisting.as_ref().is_some_and(|snapshot| snapshot.placed.uses(node)) {
                self.end_persisting();
            }
        }
    }

    /// Whether there are zones to keep away from, or to come back to, that were others before.
    fn keeps_away_from_others(&mut self) -> bool {
        let Some(placed) = self.current.as_ref().filter(|_| self.policy.avoids_zones) else { return false };
        let ReconfigurationSettings { detection_s, planning_s, .. } = *self.settings.reconfiguration;
        let pause_s = detection_s + planning_s + self.settings.reconfiguration.connect_s(&placed.plan);
        self.membership.judge_zones(pause_s)
    }

    /// Nodes are there that the plan doesn't use, or may be.
    fn want_join(&mut self) {
        let postponed = self.postponed.take().map(|(cause, _)| cause);
        self.wanted = self.wanted.or(postponed).or(Some(Cause::Join));
    }

    /// Between iterations: change the plan if that is wanted, take a checkpoint if one is due, or go on.
    fn at_boundary(&mut self, at: SimTime) -> Result<Action, PlanError> {
        if self.membership.has_matured(at) && self.policy.joins != JoinRule::Never {
            self.want_join();
        }
        if let Some(action) = self.go_over(at) {
            return Ok(action);
        }
        if self.prepared.is_some() {
            return Ok(self.go_on(at));
        }
        if let Some((cause, _)) = self.postponed.take_if(|(_, again)| *again <= at) {
            self.wanted = self.wanted.or(Some(cause));
        }
        if let Some(cause) = self.wanted.take() {
            if let Weighed::Not { again } = self.weigh(cause)? {
                self.postponed = Some((cause, again));
                return Ok(self.go_on(at));
            }
            if self.policy.saves_before_change && self.bitmap.object_store_step() != Some(self.step) {
                self.wanted = Some(cause);
                return Ok(self.take_snapshot(at, true, PeerCopies::default()));
            }
            // The plan was made beside training, when the change was weighed.
            if self.begin_to_prepare(cause, true)? {
                return Ok(self.go_over(at).unwrap_or_else(|| self.go_on(at)));
            }
            return self.reconfigure(cause, true);
        }
        Ok(self.go_on(at))
    }

    /// Takes a checkpoint if one is due, else trains.
    fn go_on(&mut self, at: SimTime) -> Action {
        let is_safe = self.persisting.as_ref().is_none_or(|snapshot| snapshot.in_object_store);
        if is_safe && self.checkpoint_is_due(at) {
            let copies = self.peer_copies();
            return self.take_snapshot(at, false, copies);
        }
        self.phase = Phase::Training;
        self.iteration_since = at;
        Action::StartIteration
    }

    /// What others are to keep of the next checkpoint, where the policy would read it. Nodes under notice keep nothing.
    fn peer_copies(&self) -> PeerCopies {
        let (Some(placed), count) = (&self.current, self.settings.checkpoint.peer_copies) else {
            return PeerCopies::default();
        };
        if count == 0 || self.policy.sources == AllowedSources::ObjectStore {
            return PeerCopies::default();
        }
        place_copies(self.bitmap.layout(), &placed.plan, &self.membership.staying().cluster, count)
    }

    fn take_snapshot(&mut self, at: SimTime, until_durable: bool, copies: PeerCopies) -> Action {
        let snapshot = Snapshot { step: self.step, until_durable, copies: Arc::new(copies) };
        let placed = self.current.clone().expect("only a running plan takes snapshots");
        self.end_persisting();
        self.bitmap.begin_checkpoint(&placed.plan, self.step, &snapshot.copies);
        let with_peers = snapshot.copies.copies.is_empty();
        let (step, on_disk, in_object_store) = (self.step, false, false);
        self.persisting = Some(Persisting { step, placed, with_peers, on_disk, in_object_store });
        self.last_snapshot = (at, self.step);
        self.phase = Phase::Snapshotting(snapshot.clone());
        Action::TakeSnapshot(snapshot)
    }

    fn on_snapshot_done(&mut self, at: SimTime) -> Result<Action, PlanError> {
        if let Phase::Snapshotting(Snapshot { step, until_durable: true, .. }) = self.phase {
            self.on_durable(step, CheckpointPlace::ObjectStore);
        }
        self.phase = Phase::Training;
        self.wanted = self.wanted.or(self.postponed.take().map(|(cause, _)| cause));
        self.at_boundary(at)
    }

    fn on_durable(&mut self, step: u64, place: CheckpointPlace) {
        let Some(snapshot) = self.persisting.as_mut().filter(|snapshot| snapshot.step == step) else { return };
        match place {
            CheckpointPlace::Host => {
                snapshot.with_peers = true;
                self.bitmap.record_host(step);
            }
            CheckpointPlace::Disk => {
                snapshot.on_disk = true;
                self.bitmap.record_disk(step);
            }
            CheckpointPlace::ObjectStore => {
                snapshot.in_object_store = true;
                self.bitmap.record_object_store(step);
            }
        }
        if snapshot.with_peers && snapshot.on_disk && snapshot.in_object_store {
            self.end_persisting();
        }
    }

    fn end_persisting(&mut self) {
        if let Some(Persisting { step, .. }) = self.persisting.take() {
            self.bitmap.end_checkpoint(step);
        }
    }

    fn checkpoint_is_due(&self, at: SimTime) -> bool {
        let expected = Expected {
            save_s: self.upload_cost_s + self.current.as_ref().map_or(0.0, |placed| placed.snapshot_stall.as_seconds()),
            mean_time_between_failures_s: self.membership.mean_time_between_fatal_losses_s(at, self.fatal_losses),
            recovery_s: self.last_recovery.as_seconds(),
        };
        let (last, last_step) = self.last_snapshot;
        let elapsed_s = at.saturating_sub(last).as_seconds();
        self.settings.checkpoint.is_due(self.step.saturating_sub(last_step), elapsed_s, expected)
    }
}
