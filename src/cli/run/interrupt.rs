//! Signals: a run that is asked to end keeps what it has measured, and leaves nothing behind.

use anyhow::anyhow;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What ends a run: a key, a terminal that is closed, and whoever stops processes.
const ENDING: [i32; 3] = [SIGHUP, SIGINT, SIGTERM];
/// What shells take a process for that a signal has ended.
const SIGNALLED: i32 = 128;

/// A flag that the first signal raises, and which one it was; a second one ends the process at once.
pub(super) struct Stop {
    pub(super) is_raised: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Stop {
    pub(super) fn on_signals() -> anyhow::Result<Self> {
        let (is_raised, signal) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        for number in ENDING {
            flag::register_conditional_shutdown(number, SIGNALLED + number, Arc::clone(&is_raised))
                .map_err(|error| failed(&error))?;
            flag::register_usize(number, Arc::clone(&signal), number as usize).map_err(|error| failed(&error))?;
            flag::register(number, Arc::clone(&is_raised)).map_err(|error| failed(&error))?;
        }
        Ok(Self { is_raised, signal })
    }

    /// What the process ends with if there was a signal.
    pub(super) fn exit_code(&self) -> Option<i32> {
        let signal = ENDING.into_iter().find(|number| *number as usize == self.signal.load(Ordering::SeqCst))?;
        Some(SIGNALLED + signal)
    }
}

fn failed(error: &io::Error) -> anyhow::Error {
    anyhow!("cannot listen to signals: {error}\nhint: this is a fault of the system")
}

/// What the terminal sends to all processes of a run is for the coordinator alone: a worker ends when it does.
pub(super) fn leave_to_coordinator() {
    for signal in [SIGHUP, SIGINT] {
        // Where this fails a worker is lost when the coordinator ends anyway.
        drop(flag::register(signal, Arc::new(AtomicBool::new(false))));
    }
}
