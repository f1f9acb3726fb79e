//! How a rank in the middle of an iteration is made to leave it: what it waits for is taken away.

use super::DeviceError;
use super::messages::Commit;
use super::transport::TcpTransport;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// All that one part in a plan may wait for: its peers, and the coordinator's word.
#[derive(Debug, Default)]
pub(super) struct Interrupt {
    is_raised: AtomicBool,
    connections: Mutex<Vec<TcpStream>>,
    commits: Mutex<Option<Sender<Commit>>>,
}

impl Interrupt {
    /// Ends every wait, now and later.
    pub(super) fn raise(&self) {
        self.is_raised.store(true, Ordering::SeqCst);
        *open(&self.commits) = None;
        for connection in open(&self.connections).drain(..) {
            // One that is closed already needn't be.
            drop(connection.shutdown(Shutdown::Both));
        }
    }

    /// Whether that happened.
    pub(super) fn is_raised(&self) -> bool {
        self.is_raised.load(Ordering::SeqCst)
    }

    /// An error once it happened.
    pub(super) fn check(&self) -> Result<(), DeviceError> {
        if self.is_raised() { Err(DeviceError::Interrupted) } else { Ok(()) }
    }

    /// From here on, waits on this connection end with the others.
    pub(super) fn cover(&self, connection: &TcpTransport) -> Result<(), DeviceError> {
        open(&self.connections).push(connection.stream()?);
        // It may have been raised between two of these lines, by another thread.
        if self.is_raised() {
            self.raise();
        }
        self.check()
    }

    /// Where the coordinator's words arrive; the receiver's waits end with the others.
    pub(super) fn commits(&self) -> Receiver<Commit> {
        let (commit, commits) = channel();
        let mut waiting = open(&self.commits);
        *waiting = (!self.is_raised()).then_some(commit);
        commits
    }

    /// Hands on the coordinator's word.
    pub(super) fn commit(&self, commit: Commit) {
        if let Some(waiting) = &*open(&self.commits) {
            // A rank that failed in between has no use for it.
            waiting.send(commit).ok();
        }
    }
}

fn open<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
