//! Checkpoints: ordered, awaited, reported.

use super::{Doing, Event, Observe, World, tell};
use crate::elastic::{CheckpointPlace, Snapshot};
use crate::runtime::device::messages::{Saved, SnapshotOrder, ToWorker, WorkerId};
use crate::training::TrainingError;
use crate::training::checkpoints::Whole;
use crate::training::copies::KeptCopies;
use crate::training::progress::Progress;
use std::collections::BTreeSet;

impl World<'_> {
    pub(super) fn take_snapshot(&mut self, snapshot: Snapshot) -> Result<(), TrainingError> {
        let cast = self.cast.as_ref().expect("snapshots are taken of a running plan");
        let (step, copies) = (snapshot.step, &*snapshot.copies);
        let kept = (!copies.copies.is_empty()).then(|| KeptCopies::new(step, cast, copies, &self.nodes));
        if kept.is_some() {
            // What an attempt has left that never came to its end is of no use.
            let earlier = self.checkpoints.copies().map(|copies| copies.step);
            for worker in self.workers.present() {
                self.workers.tell(worker, &ToWorker::Keep { earlier, from: step });
            }
        }
        let deliveries = kept.as_ref().map(|kept| kept.deliveries(cast, copies, &self.workers)).unwrap_or_default();
        let orders = self.checkpoints.orders(step, cast, kept, deliveries)?;
        let workers: BTreeSet<WorkerId> = orders.keys().copied().collect();
        for (worker, order) in orders {
            let stop = self.nodes.node_of(worker).is_some_and(|node| {
                cast.workers.contains(&worker) && self.schedule.stops_in_checkpoint(node, snapshot.step)
            });
            self.workers.tell(worker, &ToWorker::Snapshot(Box::new(SnapshotOrder { stop, ..order })));
        }
        self.doing = Doing::Snapshotting { snapshot, missing: workers };
        Ok(())
    }

    pub(super) fn snapshotted(
        &mut self,
        worker: WorkerId,
        step: u64,
        observe: &mut Observe<'_>,
    ) -> Result<(), TrainingError> {
        let Doing::Snapshotting { snapshot, missing } = &mut self.doing else { return Ok(()) };
        if snapshot.step == step {
            missing.remove(&worker);
        }
        if !missing.is_empty() || snapshot.until_durable {
            return Ok(());
        }
        self.handle(Event::SnapshotDone, observe)
    }

    /// Iterations are done; a last checkpoint may be left to take, or to be waited for.
    pub(super) fn finish(&mut self) -> Result<(), TrainingError> {
        if !self.checkpoints.are_kept() || self.checkpoints.is_durable(self.step) {
            self.doing = Doing::Done;
            return Ok(());
        }
        match self.controller.finish(self.clock.now()) {
            Some(snapshot) => return self.take_snapshot(snapshot),
            None => self.doing = Doing::Finishing,
        }
        Ok(())
    }

    /// Part of a checkpoint is written.
    pub(super) fn saved(
        &mut self,
        worker: WorkerId,
        saved: Saved,
        observe: &mut Observe<'_>,
    ) -> Result<(), TrainingError> {
        let step = saved.step;
        let Some(whole) = self.checkpoints.saved(worker, saved)? else { return Ok(()) };
        let in_object_store = whole == Whole::InObjectStore;
        let place = match whole {
            Whole::InHosts => CheckpointPlace::Host,
            Whole::OnDisks => CheckpointPlace::Disk,
            Whole::InObjectStore => CheckpointPlace::ObjectStore,
        };
        if place == CheckpointPlace::Host {
            for worker in self.workers.present() {
                self.workers.tell(worker, &ToWorker::Keep { earlier: None, from: step });
            }
        }
        tell(observe, &Progress::Checkpoint { step, place })?;
        if let (true, Doing::Snapshotting { snapshot: Snapshot { until_durable: true, .. }, .. }) =
            (in_object_store, &self.doing)
        {
            return self.handle(Event::SnapshotDone, observe);
        }
        self.handle(Event::CheckpointDurable { step, place }, observe)?;
        if matches!(self.doing, Doing::Finishing) { self.finish() } else { Ok(()) }
    }

    /// Part of a checkpoint didn't get to those who are to keep it: it counts once it is written.
    pub(super) fn not_copied(
        &mut self,
        worker: WorkerId,
        step: u64,
        message: &str,
        observe: &mut Observe<'_>,
    ) -> Result<(), TrainingError> {
        let who = format!("copies of {}", self.nodes.describe(worker));
        tell(observe, &Progress::CheckpointFailed { step, who: &who, message })
    }

    /// Part of a checkpoint can't be written: it is given up, and training goes on without it, unless it waits for it.
    pub(super) fn not_saved(
        &mut self,
        worker: WorkerId,
        step: u64,
        message: &str,
        observe: &mut Observe<'_>,
    ) -> Result<(), TrainingError> {
        if !self.checkpoints.abandon(step) {
            return Ok(());
        }
        let who = self.nodes.describe(worker);
        tell(observe, &Progress::CheckpointFailed { step, who: &who, message })?;
        self.handle(Event::CheckpointFailed { step }, observe)?;
        let is_awaited = match &self.doing {
            Doing::Finishing => true,
            Doing::Snapshotting { snapshot, .. } => snapshot.until_durable,
            _ => false,
        };
        if is_awaited {
            return Err(TrainingError::Failed { who, message: message.to_owned() });
        }
        Ok(())
    }
}
