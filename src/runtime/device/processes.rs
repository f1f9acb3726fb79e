//! The processes of the ranks: started together, ended together.

use super::{DeviceError, SECRET_VARIABLE, Secret};
use crate::ids::Rank;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The environment variable that tells a rank where its coordinator listens.
pub const COORDINATOR_VARIABLE: &str = "AUTOHET_RUN_COORDINATOR";
/// The environment variable that tells a rank which one it is.
pub const RANK_VARIABLE: &str = "AUTOHET_RUN_RANK";

/// How long a process may take to end by itself once it has nothing to do.
const GRACE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);

/// How a rank's process is started: a program that calls [`run_rank`](super::run_rank) with what the environment says.
#[derive(Clone, Debug)]
pub struct RankCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// The running processes, by rank. Dropped, it ends those that still run.
pub(super) struct Processes(Vec<Child>);

impl Processes {
    /// Starts one process for each rank.
    pub(super) fn start(
        command: &RankCommand,
        ranks: usize,
        coordinator: SocketAddr,
        secret: &Secret,
    ) -> Result<Self, DeviceError> {
        let mut started = Self(Vec::with_capacity(ranks));
        for rank in (0..ranks).map(Rank::from) {
            let child = Command::new(&command.program)
                .args(&command.arguments)
                .env(COORDINATOR_VARIABLE, coordinator.to_string())
                .env(SECRET_VARIABLE, secret.to_hex())
                .env(RANK_VARIABLE, rank.0.to_string())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .map_err(|source| DeviceError::Spawn { rank, source })?;
            started.0.push(child);
        }
        Ok(started)
    }

    /// A process that has ended, and how.
    pub(super) fn find_ended(&mut self) -> Option<(Rank, String)> {
        (0..self.0.len()).map(Rank::from).find_map(|rank| Some((rank, self.ended(rank)?)))
    }

    /// How the process of this rank ended; nothing while it runs.
    pub(super) fn ended(&mut self, rank: Rank) -> Option<String> {
        let status = self.0[rank.index()].try_wait().ok().flatten()?;
        Some(format!("ended with {status}"))
    }

    /// Waits for all processes to end, as they do when they are told that there is nothing more to do.
    pub(super) fn wait(mut self) {
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline {
            if (0..self.0.len()).map(Rank::from).all(|rank| self.ended(rank).is_some()) {
                return;
            }
            thread::sleep(PAUSE);
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        // A process that can't be ended has ended already.
        self.0.iter_mut().for_each(|child| drop(child.kill()));
        self.0.iter_mut().for_each(|child| drop(child.wait()));
    }
}
