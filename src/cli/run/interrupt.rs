//! Signals: a run that is asked to end keeps what it has measured.

use super::session::Session;
use anyhow::anyhow;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// What shells take a process for that a signal has ended.
const SIGNALLED: i32 = 128;

/// From here on the first signal ends the run once its results are written, and a second one at once. The workers end as
/// their coordinator does.
pub(super) fn end_on_signals(session: &Arc<Mutex<Session>>) -> anyhow::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        let is_second = Arc::new(AtomicBool::new(false));
        flag::register_conditional_shutdown(signal, SIGNALLED + signal, Arc::clone(&is_second))
            .map_err(|error| failed(&error))?;
        flag::register(signal, is_second).map_err(|error| failed(&error))?;
    }
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|error| failed(&error))?;
    let session = Arc::clone(session);
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let session = session.lock().unwrap_or_else(PoisonError::into_inner);
            session.note("interrupted");
            if let Err(error) = session.write("interrupted") {
                eprintln!("error: {error}");
            }
            std::process::exit(SIGNALLED + signal);
        }
    });
    Ok(())
}

/// A flag that the first signal raises, and which one it was; a second one ends the process at once.
pub(super) struct Stop {
    pub(super) is_raised: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Stop {
    pub(super) fn on_signals() -> anyhow::Result<Self> {
        let (is_raised, signal) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        for number in [SIGINT, SIGTERM] {
            flag::register_conditional_shutdown(number, SIGNALLED + number, Arc::clone(&is_raised))
                .map_err(|error| failed(&error))?;
            flag::register_usize(number, Arc::clone(&signal), number as usize).map_err(|error| failed(&error))?;
            flag::register(number, Arc::clone(&is_raised)).map_err(|error| failed(&error))?;
        }
        Ok(Self { is_raised, signal })
    }

    /// What the process ends with if there was a signal.
    pub(super) fn exit_code(&self) -> Option<i32> {
        let signal =
            [SIGINT, SIGTERM].into_iter().find(|number| *number as usize == self.signal.load(Ordering::SeqCst))?;
        Some(SIGNALLED + signal)
    }
}

fn failed(error: &io::Error) -> anyhow::Error {
    anyhow!("cannot listen to signals: {error}\nhint: this is a fault of the system")
}

/// What the terminal sends to all processes of a run is for the coordinator alone: a worker ends when it does.
pub(super) fn leave_to_coordinator() {
    // Where this fails a worker is lost when the coordinator ends anyway.
    drop(flag::register(SIGINT, Arc::new(AtomicBool::new(false))));
}
