//! How far a long command is, on stderr: a bar where somebody looks, a line now and then where a log is kept.

use super::voice;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::Cell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Time between lines of a log.
const BETWEEN_LINES: Duration = Duration::from_secs(15);

pub(super) struct Progress {
    bar: ProgressBar,
    start: Instant,
    last_line: Cell<Instant>,
    is_quiet: bool,
    is_terminal: bool,
}

impl Progress {
    /// Nothing done of so many runs.
    pub(super) fn new(runs: usize, is_quiet: bool) -> anyhow::Result<Self> {
        let is_terminal = std::io::stderr().is_terminal();
        let target = if is_terminal && !is_quiet { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(runs as u64), target);
        bar.set_style(ProgressStyle::with_template("{pos} of {len} runs {bar:40} {percent}%  {eta} left")?);
        let now = Instant::now();
        Ok(Self { bar, start: now, last_line: Cell::new(now), is_quiet, is_terminal })
    }

    pub(super) fn say(&self, text: &str) {
        if !self.is_quiet {
            self.bar.suspend(|| voice::say(text));
        }
    }

    /// Says something that is an error, also to who wants to hear nothing else.
    pub(super) fn always(&self, text: &str) {
        self.bar.suspend(|| voice::say(text));
    }

    /// One run more.
    pub(super) fn step(&self) {
        self.bar.inc(1);
        if self.is_terminal || self.is_quiet || self.last_line.get().elapsed() < BETWEEN_LINES {
            return;
        }
        self.last_line.set(Instant::now());
        let (done, all) = (self.bar.position(), self.bar.length().unwrap_or_default());
        let left_s = self.start.elapsed().as_secs_f64() / done as f64 * all.saturating_sub(done) as f64;
        eprintln!("{done} of {all} runs, about {left_s:.0} s left");
    }

    /// All is done; `more` is added to what is said of it.
    pub(super) fn end(&self, more: &str) {
        self.bar.finish_and_clear();
        let (done, seconds) = (self.bar.position(), self.start.elapsed().as_secs_f64());
        self.say(&format!("{done} runs in {seconds:.1} s{more}"));
    }
}
