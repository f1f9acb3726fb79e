//! One iteration: all ranks run it, all say that their gradients are there, the step counts, all complete it.

use super::{Doing, Event, Observe, World, tell};
use crate::ids::Rank;
use crate::runtime::device::messages::{Commit, RankStep, ToWorker, WorkerId};
use crate::training::TrainingError;
use crate::training::progress::{Progress, StepReport, reports, timeline};
use std::time::Instant;

/// An iteration under way; everything by rank.
pub(super) struct Iteration {
    /// Part of the squared gradient norm, and sum of losses.
    ready: Vec<Option<(f64, f64)>>,
    /// Once the step counts: gradient norm and mean loss.
    committed: Option<(f64, f64)>,
    stepped: Vec<Option<RankStep>>,
    /// Ranks that were lost after the step counted.
    lost: Vec<bool>,
}

impl Iteration {
    fn new(ranks: usize) -> Self {
        Self {
            ready: vec![None; ranks],
            committed: None,
            stepped: (0..ranks).map(|_| None).collect(),
            lost: vec![false; ranks],
        }
    }

    /// Whether the step counts, so that it is completed whoever is lost.
    pub(super) fn counts(&self) -> bool {
        self.committed.is_some()
    }

    fn is_complete(&self) -> bool {
        self.counts() && self.stepped.iter().zip(&self.lost).all(|(stepped, lost)| stepped.is_some() || *lost)
    }

    pub(super) fn lose(&mut self, rank: Rank) {
        self.lost[rank.index()] = true;
    }
}

impl World<'_> {
    pub(super) fn start_iteration(&mut self) {
        let cast = self.cast.as_ref().expect("iterations run after a change of plan");
        let workers = cast.workers.clone();
        self.doing = Doing::Iterating(Iteration::new(workers.len()));
        self.resumed();
        for worker in workers {
            self.workers.tell(worker, &ToWorker::Step);
        }
    }

    /// A rank's gradients are reduced. When those of all are, the step counts.
    pub(super) fn gradients_ready(
        &mut self,
        worker: WorkerId,
        squared_norm: f64,
        loss: f64,
    ) -> Result<(), TrainingError> {
        let (Some(cast), Doing::Iterating(iteration)) = (&self.cast, &mut self.doing) else { return Ok(()) };
        let Some(rank) = cast.rank_of(worker) else { return Ok(()) };
        iteration.ready[rank.index()] = Some((squared_norm, loss));
        let Some(ready) = iteration.ready.iter().copied().collect::<Option<Vec<_>>>() else { return Ok(()) };
        let job = &self.training.job;
        let plan = &cast.placed.plan;
        // Every replica has the same gradients once they are reduced: the first one's norm is that of all.
        let of_first = ready.iter().zip(cast.program.ranks()).filter(|(_, rank)| rank.replica.index() == 0);
        let squared_norm: f64 = of_first.map(|((squared_norm, _), _)| squared_norm).sum();
        let micro_batches = f64::from(plan.global_batch_size / plan.micro_batch_size);
        let loss = ready.iter().map(|(_, loss)| loss).sum::<f64>() / micro_batches;
        let gradient_norm = squared_norm.sqrt();
        for (what, value) in [("loss", loss), ("gradient norm", gradient_norm)] {
            if !value.is_finite() {
                return Err(TrainingError::Diverged { step: self.step + 1, what, value });
            }
        }
        iteration.committed = Some((gradient_norm, loss));
        let commit = Commit { gradient_scale: job.gradient_scale(squared_norm) };
        for worker in cast.workers.clone() {
            self.workers.tell(worker, &ToWorker::Commit(commit));
        }
        Ok(())
    }

    pub(super) fn stepped(
        &mut self,
        worker: WorkerId,
        part: RankStep,
        observe: &mut Observe<'_>,
    ) -> Result<(), TrainingError> {
        let (Some(cast), Doing::Iterating(iteration)) = (&self.cast, &mut self.doing) else { return Ok(()) };
        let Some(rank) = cast.rank_of(worker) else { return Ok(()) };
        iteration.stepped[rank.index()] = Some(part);
        self.end_iteration_if_complete(observe)
    }

    /// Reports the step once every rank that is left has completed it, and tells the controller; then of those that were
    /// lost meanwhile.
    pub(super) fn end_iteration_if_complete(&mut self, observe: &mut Observe<'_>) -> Result<(), TrainingError> {
        let (Some(cast), Doing::Iterating(iteration)) = (&self.cast, &mut self.doing) else { return Ok(()) };
        let (true, Some((gradient_norm, loss))) = (iteration.is_complete(), iteration.committed) else { return Ok(()) };
        let parts = std::mem::take(&mut iteration.stepped);
        let job = &self.training.job;
        self.step += 1;
        let report = StepReport {
            step: self.step,
            loss,
            gradient_norm,
            tokens: u64::from(cast.placed.plan.global_batch_size) * u64::from(job.model.seq_length),
            predicted_iteration_s: cast.placed.iteration_s(),
            plan: cast.placed.plan.clone(),
            timeline: timeline(&parts),
            memory_bytes: cast.workers.iter().map(|&worker| self.workers.memory_bytes(worker)).collect(),
            ranks: reports(parts),
        };
        tell(observe, &Progress::Step(&report))?;
        if self.lost_meanwhile.is_empty() {
            return self.handle(Event::IterationDone, observe);
        }
        // What the controller wants next, it wants of nodes some of which are gone.
        let began = Instant::now();
        self.controller.handle(self.clock.now(), Event::IterationDone)?;
        self.thought += began.elapsed();
        let lost = std::mem::take(&mut self.lost_meanwhile);
        self.tell_lost(lost, observe)?;
        self.tell_joined(observe)
    }
}
