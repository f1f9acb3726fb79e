//! The event loop: what happens to workers becomes events for the controller, and its actions become orders.

mod change;
mod checkpointing;
mod iteration;
mod losses;

use super::checkpoints::{Checkpoints, Resumed};
use super::holders::Cast;
use super::nodes::Nodes;
use super::progress::Progress;
use super::schedule::Schedule;
use super::workers::{Heard, Workers};
use super::{Training, TrainingError};
use crate::cluster::Node;
use crate::elastic::{Action, Controller, Event, MembershipChange, Snapshot};
use crate::runtime::device::messages::{FromWorker, WorkerId};
use crate::runtime::device::{Clock, SILENCE, StoreError};
use change::Change;
use iteration::Iteration;
use losses::{Loss, Suspicion};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

type Observe<'a> = dyn FnMut(&Progress<'_>) -> Result<(), String> + 'a;

/// What is under way.
enum Doing {
    /// Nothing fits.
    Waiting,
    /// From one plan to another.
    Changing(Box<Change>),
    /// An iteration.
    Iterating(Iteration),
    /// Workers copy their state.
    Snapshotting { snapshot: Snapshot, missing: BTreeSet<WorkerId> },
    /// All iterations are done; the last checkpoint isn't.
    Finishing,
    /// Everything is done.
    Done,
}

pub(super) struct World<'a> {
    training: &'a Training,
    controller: Controller<'a>,
    workers: Workers,
    nodes: Nodes,
    clock: Clock,
    schedule: Schedule,
    checkpoints: Checkpoints,
    doing: Doing,
    /// The plan in force, or the last one that was: who holds which state.
    cast: Option<Cast>,
    /// Iterations done.
    step: u64,
    /// Changes of plan so far.
    epoch: u64,
    restarts_left: u32,
    /// Nodes that have joined and aren't told of yet.
    early: Vec<Node>,
    suspicion: Option<Suspicion>,
    /// Since when training doesn't go on, where it doesn't, and how long the controller has thought since.
    halted: Option<Instant>,
    thought: Duration,
    /// Steps lost when waiting began, for the report of the change that ends it.
    lost_waiting: u64,
    /// Nodes under notice that haven't joined yet.
    noticed_early: BTreeSet<String>,
    /// Lost while a step that counts was being completed.
    lost_meanwhile: Vec<String>,
    /// Damaged checkpoints that were passed over, until that is told.
    skipped: Vec<(u64, StoreError)>,
    /// What is trained with now and wasn't by the run whose checkpoint this one goes on from, until that is told.
    differences: Vec<String>,
    /// What is wrong with a checkpoint of the object store from which training was to go on.
    unreadable: Option<String>,
}

impl<'a> World<'a> {
    pub(super) fn new(training: &'a Training, mut controller: Controller<'a>) -> Result<Self, TrainingError> {
        let mut checkpoints = Checkpoints::new(training.checkpoints.as_ref(), &training.job, &training.data)?;
        let Resumed { steps, skipped, differences } = checkpoints.resume()?;
        for step in &steps {
            controller.resume_from(*step);
        }
        let (clock, origin) = Clock::start();
        Ok(Self {
            training,
            controller,
            workers: Workers::new(
                training.command.clone(),
                training.data.clone(),
                &training.elsewhere,
                origin,
                training.silence,
            )?,
            nodes: Nodes::default(),
            clock,
            schedule: training.schedule.clone(),
            checkpoints,
            doing: Doing::Waiting,
            cast: None,
            step: steps.last().copied().unwrap_or(0),
            epoch: 0,
            restarts_left: training.max_restarts,
            early: Vec::new(),
            suspicion: None,
            halted: Some(Instant::now()),
            thought: Duration::ZERO,
            lost_waiting: 0,
            noticed_early: BTreeSet::new(),
            lost_meanwhile: Vec::new(),
            skipped,
            differences,
            unreadable: None,
        })
    }

    /// Runs to the end of training.
    pub(super) fn run(mut self, observe: &mut Observe<'_>) -> Result<(), TrainingError> {
        for (step, error) in std::mem::take(&mut self.skipped) {
            let message = error.to_string();
            tell(observe, &Progress::CheckpointFailed { step, who: "the folder of checkpoints", message: &message })?;
        }
        if self.step >= u64::from(self.training.job.steps) {
            return tell(observe, &Progress::NothingLeft { step: self.step });
        }
        for difference in std::mem::take(&mut self.differences) {
            tell(observe, &Progress::OtherSetting { message: &difference })?;
        }
        for node in &self.training.cluster.nodes {
            self.start_node(node.clone())?;
        }
        if !self.training.elsewhere.nodes.is_empty() {
            tell(observe, &Progress::Listening { address: self.workers.door() })?;
        }
        let mut heard_last = Instant::now();
        while !matches!(self.doing, Doing::Done) && !self.schedule.has_ended(self.clock.now()) {
            let heard = self.workers.next(self.deadline(heard_last));
            if heard.as_ref().is_some_and(|heard| !matches!(heard, Heard::TurnedAway(_))) {
                heard_last = Instant::now();
            }
            match heard {
                Some(Heard::Joined(worker)) => self.joined(worker, observe)?,
                Some(Heard::Said(worker, message)) => self.said(worker, message, observe)?,
                Some(Heard::TurnedAway(message)) => tell(observe, &Progress::TurnedAway { message: &message })?,
                Some(Heard::Gone { worker, silent_for }) => self.gone(worker, silent_for, observe)?,
                None => self.nothing_heard(heard_last, observe)?,
            }
            while let Some(change) = self.schedule.take_due(self.clock.now()) {
                self.carry_out(change, observe)?;
            }
        }
        self.workers.dismiss();
        let nodes = self.schedule.nodes_to_kill();
        if nodes.is_empty() { Ok(()) } else { tell(observe, &Progress::NotKilled { nodes: &nodes }) }
    }

    /// Until when there is nothing else to do than to listen.
    fn deadline(&self, heard_last: Instant) -> Instant {
        let now = Instant::now();
        let due = self.schedule.next_time().map(|time| {
            let left = time.saturating_sub(self.clock.now());
            now + Duration::from_nanos(left.0)
        });
        let suspicion = self.suspicion.as_ref().map(|suspicion| suspicion.until);
        let attention = self.schedule.attention().map(|time| now + time);
        [due, suspicion, attention, Some(heard_last + SILENCE)].into_iter().flatten().min().unwrap_or(now)
    }

    fn nothing_heard(&mut self, heard_last: Instant, observe: &mut Observe<'_>) -> Result<(), TrainingError> {
        if let Some(suspicion) = self.suspicion.take_if(|suspicion| suspicion.until <= Instant::now()) {
            return self.convict(&suspicion, observe);
        }
        let is_patient = matches!(self.doing, Doing::Waiting);
        if !is_patient && heard_last.elapsed() >= SILENCE {
            let during = match self.doing {
                Doing::Changing(_) => "changing the plan",
                Doing::Snapshotting { .. } | Doing::Finishing => "writing a checkpoint",
                _ => "training",
            };
            return Err(TrainingError::Silent { waited_s: SILENCE.as_secs(), during });
        }
        Ok(())
    }

    /// A change of the trace: nodes that come are started, nodes that go are killed, those of one time together.
    fn carry_out(&mut self, change: MembershipChange, observe: &mut Observe<'_>) -> Result<(), TrainingError> {
        self.lose_all(&change.lost, Loss { how: "was taken away", is_for_good: true }, observe)?;
        for node in change.joined {
            if !self.nodes.contains(&node.name) {
                self.start_node(node)?;
            }
        }
        let mut spared = change.spared;
        spared.retain(|name| !self.noticed_early.remove(name) && self.nodes.has_joined(name));
        if !spared.is_empty() {
            self.handle(Event::Membership(MembershipChange { spared, ..MembershipChange::default() }), observe)?;
        }
        let noticed: Vec<String> = change.noticed.into_iter().filter(|name| self.nodes.contains(name)).collect();
        if noticed.is_empty() {
            return Ok(());
        }
        tell(observe, &Progress::Noticed { nodes: &noticed })?;
        // The controller hears of nodes when they have joined.
        let (noticed, early) = noticed.into_iter().partition::<Vec<_>, _>(|name| self.nodes.has_joined(name));
        self.noticed_early.extend(early);
        if noticed.is_empty() {
            return Ok(());
        }
        self.handle(Event::Membership(MembershipChange { noticed, ..MembershipChange::default() }), observe)
    }

    fn start_node(&mut self, node: Node) -> Result<(), TrainingError> {
        let mut start = |gpu| self.workers.start(&node.name, gpu, self.checkpoints.places(&node.name, gpu));
        let workers = (0..node.gpu_count).map(&mut start).collect::<Result<_, _>>()?;
        self.nodes.insert(node, workers);
        Ok(())
    }

    /// A worker has joined. Its node is there once all of its workers are.
    fn joined(&mut self, worker: WorkerId, observe: &mut Observe<'_>) -> Result<(), TrainingError> {
        self.early.extend(self.nodes.join(worker));
        self.tell_joined(observe)
    }

    /// Tells of nodes that have joined. Those of the start come together: a plan for a part of them would be of no use. And
    /// one that comes again while the controller doesn't know yet that it was lost comes after that.
    fn tell_joined(&mut self, observe: &mut Observe<'_>) -> Result<(), TrainingError> {
        let is_start = self.epoch == 0 && self.nodes.are_on_their_way();
        if is_start || !self.lost_meanwhile.is_empty() || self.early.is_empty() {
            return Ok(());
        }
        let mut joined = std::mem::take(&mut self.early);
        joined.sort_by(|one, other| one.name.cmp(&other.name));
        let names: Vec<String> = joined.iter().map(|node| node.name.clone()).collect();
        tell(observe, &Progress::Joined { nodes: &names })?;
        let noticed = names.into_iter().filter(|name| self.noticed_early.remove(name)).collect();
        self.handle(Event::Membership(MembershipChange { joined, noticed, ..MembershipChange::default() }), observe)
    }

    fn said(&mut self, worker: WorkerId, message: FromWorker, observe: &mut Observe<'_>) -> Result<(), TrainingError> {
        match message {
            FromWorker::Parked { epoch } => self.parked(worker, epoch),
            FromWorker::Ready { epoch, read } => self.ready(worker, epoch, read, observe),
            FromWorker::GradientsReady { squared_norm, loss } => self.gradients_ready(worker, squared_norm, loss),
            FromWorker::Stepped(part) => self.stepped(worker, part, observe),
            FromWorker::Snapshotted { step } => self.snapshotted(worker, step, observe),
            FromWorker::Saved(saved) => self.saved(worker, saved, observe),
            FromWorker::NotSaved { step, message } => self.not_saved(worker, step, &message, observe),
            FromWorker::NotCopied { step, message } => self.not_copied(worker, step, &message, observe),
            FromWorker::AtStopPoint => self.stopped(worker, observe),
            FromWorker::PeerLost { epoch, message } => {
                // A complaint from before the last change of plan is settled by it.
                if epoch == self.epoch {
                    self.suspect(worker, message);
                }
                Ok(())
            }
            FromWorker::CopyLost { epoch, origin, message } => {
                // By now there may be another change of plan.
                if epoch == self.epoch { self.copy_lost(worker, &origin, &message, observe) } else { Ok(()) }
            }
            FromWorker::Failed { message } => Err(TrainingError::Failed { who: self.nodes.describe(worker), message }),
            FromWorker::Joined { .. } | FromWorker::Alive => Ok(()),
        }
    }

    /// Tells the controller, and does what it says.
    fn handle(&mut self, event: Event, observe: &mut Observe<'_>) -> Result<(), TrainingError> {
        let began = Instant::now();
        let Some(action) = self.controller.handle(self.clock.now(), event)? else { return Ok(()) };
        if matches!(action, Action::Reconfigure(_)) {
            // Planning is part of the change: nothing is trained meanwhile.
            self.halted.get_or_insert(began);
            self.thought += began.elapsed();
        }
        self.act(action, observe)
    }

    fn act(&mut self, action: Action, observe: &mut Observe<'_>) -> Result<(), TrainingError> {
        match action {
            Action::StartIteration if self.step >= u64::from(self.training.job.steps) => self.finish()?,
            Action::StartIteration => self.start_iteration(),
            Action::TakeSnapshot(snapshot) => self.take_snapshot(snapshot)?,
            Action::Reconfigure(to) => self.reconfigure(to)?,
            Action::Wait { resume_step } => self.wait(resume_step, observe)?,
        }
        Ok(())
    }

    /// What training had stopped for is over: returns since when it had, and how long the controller thought.
    fn resumed(&mut self) -> (Option<Instant>, Duration) {
        (self.halted.take(), std::mem::take(&mut self.thought))
    }

    /// Nothing fits: all state is kept until nodes come, if any can.
    fn wait(&mut self, resume_step: u64, observe: &mut Observe<'_>) -> Result<(), TrainingError> {
        self.lost_waiting += self.step.saturating_sub(resume_step);
        self.step = resume_step;
        self.resumed();
        self.park_all();
        self.doing = Doing::Waiting;
        let reason = self.controller.refusal().map_or_else(|| "no node is left".to_owned(), ToString::to_string);
        if self.nodes.are_on_their_way() || !self.early.is_empty() || self.schedule.is_worth_waiting() {
            return tell(observe, &Progress::Waiting { reason: &reason, resume_step });
        }
        let hint = "let nodes be started again with `--max-restarts`, or start again from a checkpoint";
        Err(TrainingError::NothingLeft { reason, hint })
    }
}

fn tell(observe: &mut Observe<'_>, progress: &Progress<'_>) -> Result<(), TrainingError> {
    observe(progress).map_err(TrainingError::Observer)
}
