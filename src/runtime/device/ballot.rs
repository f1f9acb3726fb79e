//! Whether a step counts. Each rank says when its gradients are reduced; once all have, the coordinator says that the
//! step counts, and from then on no loss can undo it: whoever is left completes it alone, without its peers. Without
//! that word nobody has moved a parameter, and the step can be given up everywhere.

use super::DeviceError;
use super::control::Control;
use super::messages::{Commit, FromWorker};
use std::sync::mpsc::Receiver;

/// One rank's side.
pub(super) trait Ballot: Send {
    /// Says that this rank's gradients are there, with their part of the squared norm and the loss, and waits until those
    /// of all ranks are.
    fn vote(&mut self, squared_norm: f64, loss: f64) -> Result<Commit, DeviceError>;
}

/// The coordinator decides.
pub(super) struct ByCoordinator {
    pub(super) control: Control,
    pub(super) commits: Receiver<Commit>,
    /// Called when the step counts, before any parameter moves.
    pub(super) committed: Box<dyn FnMut() + Send>,
}

impl Ballot for ByCoordinator {
    fn vote(&mut self, squared_norm: f64, loss: f64) -> Result<Commit, DeviceError> {
        self.control.tell(&FromWorker::GradientsReady { squared_norm, loss })?;
        let commit = self.commits.recv().map_err(|_| DeviceError::Interrupted)?;
        (self.committed)();
        Ok(commit)
    }
}
