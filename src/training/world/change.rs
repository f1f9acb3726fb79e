//! A change of plan: all workers let go of what they do and hold their state, those of the new plan get theirs together
//! from it, and when all have, the new plan counts. Whoever is lost before that, nothing that was held is gone.

use super::losses::OBJECT_STORE;
use super::{Doing, Event, Observe, World, tell};
use crate::elastic::{Origin, Reconfiguration};
use crate::ids::Rank;
use crate::runtime::device::messages::{Assignment, BytesRead, Job, StopPhase, ToWorker, WorkerId};
use crate::training::TrainingError;
use crate::training::holders::Cast;
use crate::training::parts::Directory;
use crate::training::progress::{Progress, RecoveryReport};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A change under way.
pub(super) struct Change {
    to: Arc<Reconfiguration>,
    epoch: u64,
    /// Workers that still do something else.
    leaving: BTreeSet<WorkerId>,
    gathering: Option<Gathering>,
}

/// Workers that get their state together.
struct Gathering {
    cast: Cast,
    missing: BTreeSet<WorkerId>,
    read: BytesRead,
    since: Instant,
}

impl Change {
    /// Iterations done in the state that the workers get together.
    pub(super) fn resume_step(&self) -> u64 {
        self.to.recovery.resume_step
    }
}

impl World<'_> {
    /// Begins a change of plan. From the seed it only goes where there was no checkpoint: one that can't be read may be
    /// mended, and isn't to be written over.
    pub(super) fn reconfigure(&mut self, to: Arc<Reconfiguration>) -> Result<(), TrainingError> {
        if to.recovery.origin == Origin::InitialWeights
            && let Some(message) = self.unreadable.take()
        {
            return Err(TrainingError::Failed { who: OBJECT_STORE.to_owned(), message });
        }
        let leaving = self.park_all();
        let is_over = leaving.is_empty();
        self.doing = Doing::Changing(Box::new(Change { to, epoch: self.epoch, leaving, gathering: None }));
        if is_over { self.assign() } else { Ok(()) }
    }

    /// Has all workers let go of what they do.
    pub(super) fn park_all(&mut self) -> BTreeSet<WorkerId> {
        self.epoch += 1;
        self.suspicion = None;
        let workers = self.workers.present();
        for &worker in &workers {
            self.workers.tell(worker, &ToWorker::Park { epoch: self.epoch });
        }
        workers.into_iter().collect()
    }

    pub(super) fn parked(&mut self, worker: WorkerId, epoch: u64) -> Result<(), TrainingError> {
        let Doing::Changing(change) = &mut self.doing else { return Ok(()) };
        if change.epoch != epoch || !change.leaving.remove(&worker) || !change.leaving.is_empty() {
            return Ok(());
        }
        self.assign()
    }

    /// All hold still: gives out the parts.
    fn assign(&mut self) -> Result<(), TrainingError> {
        let Doing::Changing(change) = &mut self.doing else { return Ok(()) };
        let cast = Cast::new(&change.to.placed, &self.training.job, &self.nodes);
        let job = Job {
            plan: (*change.to.placed.plan).clone(),
            conditions: (self.training.conditions)(&change.to.placed.plan)?,
            ..self.training.job.clone()
        };
        let directory = Directory {
            nodes: &self.nodes,
            workers: &self.workers,
            before: self.cast.as_ref(),
            copies: self.checkpoints.copies(),
        };
        let addresses: Option<Vec<_>> = cast.workers.iter().map(|&worker| self.workers.address(worker)).collect();
        let mut assignments = Vec::new();
        for (index, &worker) in cast.workers.iter().enumerate() {
            let rank = Rank::from(index);
            let sources = directory.sources(&cast, rank, &change.to.recovery);
            // One that is missing has gone since; word of it is under way, and with it the next change of plan.
            let (Some(addresses), Some(shards)) = (addresses.clone(), sources) else { return Ok(()) };
            let stop_at = self.schedule.stop_point(cast.node(rank));
            let assignment = Assignment {
                epoch: change.epoch,
                job: job.clone(),
                rank,
                addresses,
                step: change.to.recovery.resume_step,
                shards,
                stop_at: stop_at.filter(|at| change.epoch > 1 || at.phase != StopPhase::Recovery),
            };
            assignments.push((worker, ToWorker::Assign(Box::new(assignment))));
        }
        let missing = cast.workers.iter().copied().collect();
        change.gathering = Some(Gathering { cast, missing, read: BytesRead::default(), since: Instant::now() });
        for (worker, assignment) in &assignments {
            self.workers.tell(*worker, assignment);
        }
        Ok(())
    }

    /// A worker has its part. When all have, the new plan counts.
    pub(super) fn ready(
        &mut self,
        worker: WorkerId,
        epoch: u64,
        read: BytesRead,
        observe: &mut Observe<'_>,
    ) -> Result<(), TrainingError> {
        let Doing::Changing(change) = &mut self.doing else { return Ok(()) };
        let Some(gathering) = change.gathering.as_mut().filter(|_| change.epoch == epoch) else { return Ok(()) };
        gathering.missing.remove(&worker);
        gathering.read.add(&read);
        if !gathering.missing.is_empty() {
            return Ok(());
        }
        let Doing::Changing(change) = std::mem::replace(&mut self.doing, Doing::Waiting) else { return Ok(()) };
        let Some(Gathering { cast, read, since, .. }) = change.gathering else { return Ok(()) };
        let resume_step = change.to.recovery.resume_step;
        for worker in self.workers.present() {
            self.workers.tell(worker, &ToWorker::Adopt { step: resume_step });
        }
        let (halted, planning) = self.resumed();
        let report = RecoveryReport {
            cause: change.to.cause,
            plan: Arc::clone(&cast.placed.plan),
            resume_step,
            lost_steps: self.step.saturating_sub(resume_step) + std::mem::take(&mut self.lost_waiting),
            total: halted.map(|since| since.elapsed()).unwrap_or_default(),
            planning,
            gather: since.elapsed(),
            predicted: Duration::from_nanos(change.to.time.total().0),
            read,
        };
        self.cast = Some(cast);
        self.unreadable = None;
        self.checkpoints.go_back_to(resume_step)?;
        self.step = resume_step;
        tell(observe, &Progress::Reconfigured(&report))?;
        self.handle(Event::Reconfigured, observe)
    }
}
