//! Losing nodes: processes that die, are killed on purpose, or lose touch with their peers.

use super::{Doing, Event, MembershipChange, Observe, World, tell};
use crate::elastic::LostCopies;
use crate::runtime::device::messages::{ShardOrigin, WorkerId};
use crate::training::TrainingError;
use crate::training::progress::Progress;
use std::time::{Duration, Instant};

/// How long to wait after a peer was missed for word of its death, which explains it.
const AFTERMATH: Duration = Duration::from_millis(500);

/// What the object store is called where it is told of.
pub(super) const OBJECT_STORE: &str = "the object store";

/// A worker that misses a peer of which nobody has heard that it is gone.
pub(super) struct Suspicion {
    worker: WorkerId,
    message: String,
    pub(super) until: Instant,
}

/// How a node is lost.
#[derive(Clone, Copy)]
pub(super) struct Loss<'a> {
    /// For people.
    pub(super) how: &'a str,
    /// Whether it isn't to be started again.
    pub(super) is_for_good: bool,
}

impl World<'_> {
    /// A worker's connection is closed, or it has been silent for too long: it hangs, or its machine is gone.
    pub(super) fn gone(
        &mut self,
        worker: WorkerId,
        silent_for: Option<Duration>,
        observe: &mut Observe<'_>,
    ) -> Result<(), TrainingError> {
        let Some(node) = self.nodes.node_of(worker).map(str::to_owned) else { return Ok(()) };
        let ended = self.workers.end(worker);
        let silent = |silence: Duration| format!("gave no sign of life for {} s", silence.as_secs());
        let how = silent_for.map_or(ended, silent);
        self.lose(&node, Loss { how: &how, is_for_good: false }, observe)
    }

    /// A worker stands where its node is to be killed.
    pub(super) fn stopped(&mut self, worker: WorkerId, observe: &mut Observe<'_>) -> Result<(), TrainingError> {
        let Some(node) = self.nodes.node_of(worker).map(str::to_owned) else { return Ok(()) };
        self.schedule.forget_kill(&node);
        let how = self.workers.end(worker);
        self.lose(&node, Loss { how: &how, is_for_good: false }, observe)
    }

    /// Remembers who complains: most often word of a death follows at once.
    pub(super) fn suspect(&mut self, worker: WorkerId, message: String) {
        let until = Instant::now() + AFTERMATH;
        self.suspicion.get_or_insert(Suspicion { worker, message, until });
    }

    /// Nobody died, and still a worker couldn't reach its peers: its node counts as lost.
    pub(super) fn convict(&mut self, suspicion: &Suspicion, observe: &mut Observe<'_>) -> Result<(), TrainingError> {
        let Some(node) = self.nodes.node_of(suspicion.worker).map(str::to_owned) else { return Ok(()) };
        let how = format!("lost touch: {}", suspicion.message);
        self.lose(&node, Loss { how: &how, is_for_good: false }, observe)
    }

    /// State can't be read where it was to be: the controller finds another way.
    pub(super) fn copy_lost(
        &mut self,
        reader: WorkerId,
        origin: &ShardOrigin,
        message: &str,
        observe: &mut Observe<'_>,
    ) -> Result<(), TrainingError> {
        let step = match &self.doing {
            Doing::Changing(change) => change.resume_step(),
            _ => return Ok(()),
        };
        let at = |address| self.workers.at(address).and_then(|worker| self.nodes.node_of(worker)).map(str::to_owned);
        let copies = match *origin {
            ShardOrigin::ObjectStore => LostCopies::ObjectStore { step },
            ShardOrigin::Copy(address) => match at(address) {
                Some(node) => LostCopies::Host { node },
                None => return Ok(()),
            },
            ShardOrigin::Disk(address) => match at(address) {
                Some(node) => LostCopies::Disk { node },
                // It is gone, and word of that is under way.
                None => return Ok(()),
            },
            ShardOrigin::Seed | ShardOrigin::Own | ShardOrigin::Memory(_) => {
                let who = self.nodes.describe(reader);
                return Err(TrainingError::Failed { who, message: message.to_owned() });
            }
        };
        let who = match &copies {
            LostCopies::Host { node } => format!("the host memory of `{node}`"),
            LostCopies::Disk { node } => format!("the disk of `{node}`"),
            LostCopies::ObjectStore { .. } => {
                self.unreadable = Some(message.to_owned());
                OBJECT_STORE.to_owned()
            }
        };
        tell(observe, &Progress::CheckpointFailed { step, who: &who, message })?;
        self.handle(Event::CopiesLost(copies), observe)
    }

    /// Loses one node.
    pub(super) fn lose(&mut self, name: &str, loss: Loss<'_>, observe: &mut Observe<'_>) -> Result<(), TrainingError> {
        self.lose_all(&[name.to_owned()], loss, observe)
    }

    /// Loses nodes, all of them before the controller hears of any: a plan for some of them would be of no use. It is told
    /// at once, or when the step that counts already is complete.
    pub(super) fn lose_all(
        &mut self,
        names: &[String],
        loss: Loss<'_>,
        observe: &mut Observe<'_>,
    ) -> Result<(), TrainingError> {
        let (mut lost, mut was_there) = (Vec::new(), false);
        for name in names {
            if let Some(had_joined) = self.end_node(name, loss, observe)? {
                was_there = true;
                lost.extend(had_joined.then(|| name.clone()));
            }
        }
        if lost.is_empty() {
            // Those of the start that are there waited for this one.
            self.tell_joined(observe)?;
            let is_hopeless = was_there && matches!(self.doing, Doing::Waiting);
            return if is_hopeless { self.wait(self.step, observe) } else { Ok(()) };
        }
        if matches!(&self.doing, Doing::Iterating(iteration) if iteration.counts()) {
            self.lost_meanwhile.extend(lost);
            return self.end_iteration_if_complete(observe);
        }
        self.tell_lost(lost, observe)?;
        self.tell_joined(observe)
    }

    /// Ends what is left of a node, and starts it again if that is wanted. Returns whether all of its workers had joined,
    /// if there was such a node.
    fn end_node(
        &mut self,
        name: &str,
        loss: Loss<'_>,
        observe: &mut Observe<'_>,
    ) -> Result<Option<bool>, TrainingError> {
        let Some((node, had_joined, workers)) = self.nodes.remove(name) else { return Ok(None) };
        if self.cast.as_ref().is_some_and(|cast| cast.placed.uses(name)) {
            self.halted.get_or_insert_with(Instant::now);
        }
        self.suspicion = None;
        self.noticed_early.remove(name);
        self.early.retain(|early| early.name != name);
        self.checkpoints.forget(name, &workers)?;
        for worker in workers {
            self.workers.end(worker);
            let rank = self.cast.as_ref().and_then(|cast| cast.rank_of(worker));
            if let (Some(rank), Doing::Iterating(iteration)) = (rank, &mut self.doing) {
                iteration.lose(rank);
            }
        }
        tell(observe, &Progress::Lost { node: name, how: loss.how })?;
        if self.restarts_left > 0 && !loss.is_for_good {
            self.restarts_left -= 1;
            self.start_node(node)?;
        }
        Ok(Some(had_joined))
    }

    pub(super) fn tell_lost(&mut self, lost: Vec<String>, observe: &mut Observe<'_>) -> Result<(), TrainingError> {
        self.handle(Event::Membership(MembershipChange { lost, ..MembershipChange::default() }), observe)
    }
}
