//! The processes of the workers: whatever happens, none outlives the coordinator.

use super::{TrainingError, memory};
use crate::runtime::device::messages::WorkerId;
use crate::runtime::device::{SECRET_VARIABLE, Secret};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The environment variable that tells a worker where its coordinator listens.
pub const COORDINATOR_VARIABLE: &str = "AUTOHET_RUN_COORDINATOR";
/// The environment variable that tells a worker its number.
pub const WORKER_VARIABLE: &str = "AUTOHET_RUN_WORKER";

/// How long processes may take to end by themselves once they have nothing to do.
const GRACE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);

/// How a worker's process is started: a program that calls [`run_worker`](crate::runtime::device::run_worker) with what
/// the environment says.
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// The running processes. Dropped, it ends those that still run.
#[derive(Default)]
pub(super) struct Processes(BTreeMap<WorkerId, Child>);

impl Processes {
    /// Starts the process of a worker.
    pub(super) fn start(
        &mut self,
        command: &WorkerCommand,
        worker: WorkerId,
        coordinator: SocketAddr,
        secret: &Secret,
    ) -> Result<(), TrainingError> {
        let child = Command::new(&command.program)
            .args(&command.arguments)
            .env(COORDINATOR_VARIABLE, coordinator.to_string())
            .env(SECRET_VARIABLE, secret.to_hex())
            .env(WORKER_VARIABLE, worker.0.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|source| TrainingError::Spawn { worker, source })?;
        self.0.insert(worker, child);
        Ok(())
    }

    /// Memory that a process has in use, where the system says.
    pub(super) fn memory_bytes(&self, worker: WorkerId) -> Option<u64> {
        memory::resident_bytes(self.0.get(&worker)?.id())
    }

    /// A process that has ended, and how.
    pub(super) fn find_ended(&mut self) -> Option<(WorkerId, String)> {
        let ended = |(&worker, child): (&WorkerId, &mut Child)| {
            let status = child.try_wait().ok().flatten()?;
            Some((worker, format!("ended with {status}")))
        };
        self.0.iter_mut().find_map(ended)
    }

    /// Ends a process with SIGKILL if it still runs; says how it ended.
    pub(super) fn end(&mut self, worker: WorkerId) -> String {
        let Some(mut child) = self.0.remove(&worker) else { return "is gone".to_owned() };
        // One that can't be ended has ended already.
        drop(child.kill());
        child.wait().map_or_else(|_| "is gone".to_owned(), |status| format!("ended with {status}"))
    }

    /// Waits for all processes to end, as they do when they are told that there is nothing more to do.
    pub(super) fn wait(mut self) {
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline {
            self.0.retain(|_, child| !matches!(child.try_wait(), Ok(Some(_))));
            if self.0.is_empty() {
                return;
            }
            thread::sleep(PAUSE);
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.0.values_mut().for_each(|child| drop(child.kill()));
        self.0.values_mut().for_each(|child| drop(child.wait()));
    }
}
