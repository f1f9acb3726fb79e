//! How much is said on stderr beside errors: what `--quiet` and `--verbose` of any command set, once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

static IS_QUIET: AtomicBool = AtomicBool::new(false);
static IS_VERBOSE: AtomicBool = AtomicBool::new(false);

pub(super) fn set(is_quiet: bool, is_verbose: bool) {
    IS_QUIET.store(is_quiet, Ordering::Relaxed);
    IS_VERBOSE.store(is_verbose, Ordering::Relaxed);
}

/// Says something on stderr, whatever names it has in it.
pub(super) fn say(text: &str) {
    eprintln!("{}", crate::units::printable(text));
}

/// What everybody should know who didn't ask for silence.
pub(super) fn note(text: &str) {
    if !IS_QUIET.load(Ordering::Relaxed) {
        say(text);
    }
}

/// What is of use to who asked what goes on; `text` is made for them only.
pub(super) fn tell(text: impl FnOnce() -> String) {
    if IS_VERBOSE.load(Ordering::Relaxed) {
        say(&text());
    }
}

/// Does something and tells what, and how long it took.
pub(super) fn timed<R>(what: impl FnOnce(&R) -> String, work: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let done = work();
    let seconds = start.elapsed().as_secs_f64();
    tell(|| format!("{} in {}", what(&done), crate::units::format_seconds(seconds)));
    done
}
