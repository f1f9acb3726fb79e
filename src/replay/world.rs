//! One policy's world: an event queue, a controller that reacts, and books that record.

use super::books::{Booking, Books};
use super::iterations::{LastPersisted, RememberingJudge};
use super::oracle::Known;
use super::outcome::{FetchedBytes, Phase, PolicyOutcome, RecoveryRecord};
use super::{ReplayError, ReplaySettings};
use crate::cluster::Cluster;
use crate::elastic::checkpoint::PersistTimes;
use crate::elastic::{
    Action, Cause, CheckpointPlace, Controller, Event, MembershipChange, PlacedPlan, Policy, Reconfiguration, Snapshot,
    copy_time,
};
use crate::metrics::{Activity, IterationBreakdown};
use crate::plan::PlannedIteration;
use crate::runtime::sim::queue::EventQueue;
use crate::units::SimTime;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What can happen next.
#[derive(Clone, Copy, Debug)]
enum Due {
    /// A change of what is paid for, by index.
    Change(usize),
    /// A change of what training sees, by index.
    Seen(usize),
    /// What the controller asked for is done, unless it has asked for something else since.
    Done { action: u64 },
    /// A snapshot has reached a place, unless a newer one was begun since.
    Durable { snapshot: u64, step: u64, place: CheckpointPlace },
}

/// What is under way.
#[derive(Clone, Debug)]
enum Doing {
    Waiting,
    Iteration { plan: Running, since: SimTime },
    Snapshot { plan: Running, snapshot: Snapshot },
    Reconfiguration { plan: Running },
}

/// A plan with what its iterations go into.
#[derive(Clone, Debug)]
struct Running {
    placed: PlacedPlan,
    breakdown: Arc<IterationBreakdown>,
    /// By stage, the share of an iteration in which its node's interface is in use.
    interface_use: Arc<[f64]>,
    /// Index in the outcome.
    number: usize,
}

/// A shape of plan, simulated once: breakdown of an iteration, use of interfaces, index in the outcome.
type Shape = (Arc<IterationBreakdown>, Arc<[f64]>, usize);

/// What came of a policy, and the plans that it has run.
pub(super) struct Ran {
    pub(super) outcome: PolicyOutcome,
    pub(super) known: Vec<Known>,
}

pub(super) struct World<'a> {
    controller: Controller<'a>,
    settings: ReplaySettings<'a>,
    judge: &'a RememberingJudge<'a>,
    changes: &'a [(SimTime, MembershipChange)],
    seen: &'a [(SimTime, MembershipChange)],
    span: SimTime,
    now: SimTime,
    queue: EventQueue<Due>,
    doing: Doing,
    running: Option<Running>,
    actions: u64,
    snapshots: u64,
    books: Books,
    plans: Vec<Arc<PlannedIteration>>,
    /// By number of the shape.
    shapes: BTreeMap<usize, Shape>,
    known: Vec<Known>,
    /// Iterations beside an upload, by number of the shape.
    slower: BTreeMap<usize, Arc<IterationBreakdown>>,
    persisting: LastPersisted,
    /// When the last checkpoint is in the object store.
    uploaded: SimTime,
    recoveries: Vec<RecoveryRecord>,
    /// The recovery under way; none at the first start.
    recovery: Option<RecoveryRecord>,
    /// Iterations lost when waiting began, for the record of the recovery that ends it.
    lost_waiting: u64,
    started: bool,
    /// When checkpoints were whole in the object store.
    stored: Vec<SimTime>,
}

impl Running {
    /// What training leaves of a node's interface.
    fn free_share(&self, node: &str) -> f64 {
        let stages = self.placed.plan.replicas.iter().flat_map(|replica| &replica.stages);
        let used = stages.zip(&*self.interface_use).find(|(stage, _)| stage.node == node);
        1.0 - used.map_or(0.0, |(_, share)| *share)
    }
}

/// Of the nodes that are there, by time.
type Changes<'a> = &'a [(SimTime, MembershipChange)];

impl<'a> World<'a> {
    pub(super) fn new(
        controller: Controller<'a>,
        settings: ReplaySettings<'a>,
        judge: &'a RememberingJudge<'a>,
        (changes, seen): (Changes<'a>, Changes<'a>),
        span: SimTime,
    ) -> Self {
        let mut queue = EventQueue::default();
        for (index, (time, _)) in changes.iter().enumerate() {
            queue.push(*time, Due::Change(index));
        }
        for (index, (time, _)) in seen.iter().enumerate() {
            queue.push(*time, Due::Seen(index));
        }
        Self {
            controller,
            settings,
            judge,
            changes,
            seen,
            span,
            now: SimTime::ZERO,
            queue,
            doing: Doing::Waiting,
            running: None,
            actions: 0,
            snapshots: 0,
            books: Books::new(),
            plans: Vec::new(),
            shapes: BTreeMap::new(),
            known: Vec::new(),
            slower: BTreeMap::new(),
            persisting: LastPersisted::default(),
            uploaded: SimTime::ZERO,
            recoveries: Vec::new(),
            recovery: None,
            lost_waiting: 0,
            started: false,
            stored: Vec::new(),
        }
    }

    /// Runs to the end of the trace. Ends, since simulated time passes: every iteration takes some.
    pub(super) fn run(mut self, policy: &Policy, progress: &(dyn Fn(SimTime) + Sync)) -> Result<Ran, ReplayError> {
        let mut told = SimTime::ZERO;
        while let Some((time, due)) = self.queue.pop().filter(|(time, _)| *time <= self.span) {
            self.advance(time);
            let Some(event) = self.happen(due)? else { continue };
            if let Some(action) = self.controller.handle(time, event)? {
                self.act(action)?;
            }
            if (time - told).0 > self.span.0 / 200 {
                progress(time - told);
                told = time;
            }
        }
        self.advance(self.span);
        self.cut_off();
        progress(self.span - told);
        let closed = self.books.close(self.span);
        let refusal = self.controller.refusal().map(ToString::to_string);
        let outcome = PolicyOutcome::new(policy, closed, self.settings, self.plans, refusal);
        Ok(Ran {
            outcome: PolicyOutcome { recoveries: self.recoveries, stored: self.stored, ..outcome },
            known: self.known,
        })
    }

    /// Books the time up to `time`.
    fn advance(&mut self, time: SimTime) {
        self.now = time;
        match &self.doing {
            Doing::Waiting => self.books.advance_waiting(time),
            Doing::Iteration { plan, .. } => self.books.advance(time, plan.breakdown.gpus, Booking::Deferred),
            Doing::Snapshot { plan, .. } => {
                self.books.advance(time, plan.breakdown.gpus, Booking::As(Activity::CheckpointStall));
            }
            Doing::Reconfiguration { plan, .. } => {
                self.books.advance(time, plan.breakdown.gpus, Booking::As(Activity::Recovery));
            }
        }
    }

    /// Lets what is due happen in the books; returns what the controller is to know.
    fn happen(&mut self, due: Due) -> Result<Option<Event>, ReplayError> {
        Ok(match due {
            Due::Change(index) => {
                let (_, change) = &self.changes[index];
                for name in &change.lost {
                    self.books.node_down(self.now, name);
                }
                for node in &change.joined {
                    self.books.node_up(self.now, node.clone());
                }
                None
            }
            Due::Seen(index) => Some(Event::Membership(self.seen[index].1.clone())),
            Due::Done { action } if action == self.actions => Some(self.done()?),
            Due::Durable { snapshot, step, place } if snapshot == self.snapshots => {
                if place == CheckpointPlace::ObjectStore {
                    self.stored.push(self.now);
                }
                Some(Event::CheckpointDurable { step, place })
            }
            Due::Done { .. } | Due::Durable { .. } => None,
        })
    }

    fn done(&mut self) -> Result<Event, ReplayError> {
        Ok(match std::mem::replace(&mut self.doing, Doing::Waiting) {
            Doing::Iteration { plan, .. } => {
                self.books.count_iteration(&plan.breakdown);
                Event::IterationDone
            }
            Doing::Snapshot { plan, snapshot } => {
                self.persist(&plan, &snapshot)?;
                Event::SnapshotDone
            }
            Doing::Reconfiguration { plan, .. } => {
                self.running = Some(plan);
                self.started = true;
                if let Some(recovery) = self.recovery.take() {
                    self.recoveries.push(RecoveryRecord { end: self.now, ..recovery });
                }
                Event::Reconfigured
            }
            Doing::Waiting => unreachable!("waiting is never done"),
        })
    }

    /// Carries out an action in place of what was under way.
    fn act(&mut self, action: Action) -> Result<(), ReplayError> {
        self.cut_off();
        self.actions += 1;
        match action {
            Action::StartIteration => {
                let plan = self.running.clone().expect("iterations run after a change of plan");
                let plan = self.beside_uploads(plan)?;
                self.books.enter(self.now, Phase::Training, Some(plan.number));
                self.finish_after(plan.breakdown.makespan.max(SimTime(1)));
                self.doing = Doing::Iteration { plan, since: self.now };
            }
            Action::TakeSnapshot(snapshot) => {
                let plan = self.running.clone().expect("snapshots are taken after a change of plan");
                self.books.enter(self.now, Phase::Checkpointing, Some(plan.number));
                let durable =
                    if snapshot.until_durable { self.persist_times(&plan, true).object_store } else { SimTime::ZERO };
                self.snapshots += 1;
                self.finish_after(plan.placed.snapshot_stall + durable);
                self.doing = Doing::Snapshot { plan, snapshot };
            }
            Action::Reconfigure(to) => self.reconfigure(&to)?,
            Action::Wait { resume_step } => {
                self.books.enter(self.now, Phase::Waiting, None);
                self.lost_waiting += self.books.roll_back(resume_step);
                self.running = None;
                self.recovery = None;
                self.doing = Doing::Waiting;
            }
        }
        Ok(())
    }

    fn reconfigure(&mut self, to: &Reconfiguration) -> Result<(), ReplayError> {
        if to.cause == Cause::Loss {
            // What was on its way was partly on the lost nodes.
            self.uploaded = SimTime::ZERO;
        }
        let plan = self.run_plan(&to.placed)?;
        self.books.enter(self.now, Phase::Recovering, Some(plan.number));
        let lost_iterations = self.books.roll_back(to.recovery.resume_step) + std::mem::take(&mut self.lost_waiting);
        let record = RecoveryRecord {
            start: self.now,
            end: self.now,
            cause: to.cause,
            lost_iterations,
            attempts_overtaken: 0,
            time: to.time,
            fetched: FetchedBytes::of(&to.recovery),
            plan: Arc::clone(&to.placed.plan),
        };
        self.recovery = match self.recovery.take() {
            Some(overtaken) => Some(RecoveryRecord {
                start: overtaken.start,
                cause: overtaken.cause,
                lost_iterations: overtaken.lost_iterations + lost_iterations,
                attempts_overtaken: overtaken.attempts_overtaken + 1,
                ..record
            }),
            None => self.started.then_some(record),
        };
        self.finish_after(to.time.total());
        self.doing = Doing::Reconfiguration { plan };
        Ok(())
    }

    /// An iteration that another action overtakes is lost.
    fn cut_off(&mut self) {
        if let Doing::Iteration { plan, since } = &self.doing {
            self.books.cut_off_iteration(plan.breakdown.gpus, self.now - *since);
        }
        self.doing = Doing::Waiting;
    }

    /// The plan whose iteration begins now, slower if more than half of it runs while a checkpoint is on its way to the object
    /// store.
    fn beside_uploads(&mut self, plan: Running) -> Result<Running, ReplayError> {
        if self.uploaded <= self.now {
            return Ok(plan);
        }
        let slower = self.while_uploading(&plan)?;
        let runs_beside = self.uploaded - self.now > SimTime(slower.makespan.0 / 2);
        Ok(if runs_beside { Running { breakdown: slower, ..plan } } else { plan })
    }

    fn while_uploading(&mut self, plan: &Running) -> Result<Arc<IterationBreakdown>, ReplayError> {
        if let Some(known) = self.slower.get(&plan.placed.shape_number) {
            return Ok(Arc::clone(known));
        }
        let upload_bytes_per_s = self.settings.checkpoint.object_store_bytes_per_s;
        let (slower, _) =
            self.judge.measure(&plan.placed.plan, &self.cluster(), self.settings.cost, upload_bytes_per_s)?;
        // Less bandwidth can make a schedule faster by a hair, where queues come to another order.
        let normal = &self.shapes[&plan.placed.shape_number].0;
        let slower = if slower.makespan < normal.makespan { Arc::clone(normal) } else { slower };
        self.slower.insert(plan.placed.shape_number, Arc::clone(&slower));
        Ok(slower)
    }

    fn finish_after(&mut self, time: SimTime) {
        self.queue.push(self.now.saturating_add(time), Due::Done { action: self.actions });
    }

    fn run_plan(&mut self, placed: &PlacedPlan) -> Result<Running, ReplayError> {
        if !self.shapes.contains_key(&placed.shape_number) {
            let (breakdown, interface_use) =
                self.judge.measure(&placed.plan, &self.cluster(), self.settings.cost, 0.0)?;
            self.shapes.insert(placed.shape_number, (Arc::clone(&breakdown), interface_use, self.plans.len()));
            let plan = Arc::unwrap_or_clone(Arc::clone(&placed.plan));
            let shape = PlannedIteration::clone(&placed.shape);
            let planned = Arc::new(PlannedIteration { plan, ..shape });
            self.known.push(Known::new(Arc::clone(&planned), breakdown, &self.cluster()));
            self.plans.push(planned);
        }
        let (breakdown, interface_use, number) = self.shapes[&placed.shape_number].clone();
        Ok(Running { placed: placed.clone(), breakdown, interface_use, number })
    }

    /// A snapshot goes on to where it isn't yet: one that was waited for is in the object store, and as long on its way
    /// to the disks. Copies for others take the interfaces first, then the object store has them.
    ///
    /// While training goes on, an upload shares interfaces with it: the upload takes as long as its half of them allows, and
    /// iterations take longer.
    fn persist(&mut self, plan: &Running, snapshot: &Snapshot) -> Result<(), ReplayError> {
        let &Snapshot { step, until_durable, .. } = snapshot;
        let times = self.persist_times(plan, until_durable);
        let waited = if until_durable { times.object_store } else { SimTime::ZERO };
        if until_durable {
            self.stored.push(self.now);
        }
        let copied = copy_time(&snapshot.copies, &self.cluster(), |node| plan.free_share(node));
        let places = [
            (copied, CheckpointPlace::Host, snapshot.copies.copies.is_empty()),
            (times.disk, CheckpointPlace::Disk, false),
            (copied + times.object_store, CheckpointPlace::ObjectStore, until_durable),
        ];
        for (after, place, is_done) in places {
            if !is_done {
                let after = after.saturating_sub(waited);
                let due = Due::Durable { snapshot: self.snapshots, step, place };
                self.queue.push(self.now.saturating_add(after), due);
            }
        }
        if !until_durable {
            self.uploaded = self.now.saturating_add(copied + times.object_store);
            let slower_s = self.while_uploading(plan)?.makespan.as_seconds();
            let lost_share = 1.0 - plan.breakdown.makespan.as_seconds() / slower_s.max(1e-9);
            self.controller.note_upload_cost(times.object_store.as_seconds() * lost_share.max(0.0));
        }
        Ok(())
    }

    /// How long a checkpoint is on its way, with the interfaces to itself or with half of them.
    fn persist_times(&mut self, plan: &Running, alone: bool) -> PersistTimes {
        let cluster = self.cluster();
        self.persisting.times(&plan.placed.plan, alone, &cluster, self.settings)
    }

    fn cluster(&self) -> Cluster {
        Cluster { nodes: self.books.nodes().cloned().collect() }
    }
}
