//! `autohet-sim doctor`: what of this machine works.

use super::Verdict;
use super::args::{DoctorArgs, Format};
use super::list::print_records;
use crate::report::{Records, ResultsFolder};
use std::fs;
use std::io::IsTerminal;
use std::path::Path;
use std::thread;

/// What was found of one thing.
struct Found {
    what: &'static str,
    grade: Grade,
    /// In words.
    state: String,
    /// What would not work, and what to do.
    advice: String,
}

/// How good that is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grade {
    Good,
    /// Something works less well, or not at all that not everybody needs.
    Note,
    /// What everybody needs doesn't work.
    Bad,
}

impl Found {
    fn good(what: &'static str, found: impl Into<String>) -> Self {
        Self { what, grade: Grade::Good, state: found.into(), advice: String::new() }
    }

    fn note(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { what, grade: Grade::Note, state: found.into(), advice: advice.into() }
    }

    fn bad(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { what, grade: Grade::Bad, state: found.into(), advice: advice.into() }
    }
}

pub(super) fn run(args: &DoctorArgs) -> anyhow::Result<Verdict> {
    let all = [version(), scip(), training(), cores(), memory(), gpu(), results(&args.out), temporary(), terminal()];
    let columns = [("what", "what"), ("grade", "grade"), ("found", "found"), ("advice", "what to do")];
    let mut records = Records::new(&columns);
    for Found { what, grade, state, advice } in &all {
        let grade = match grade {
            Grade::Good => "good",
            Grade::Note => "note",
            Grade::Bad => "bad",
        };
        records.push(vec![(*what).into(), grade.into(), state.as_str().into(), advice.as_str().into()]);
    }
    print_records(&records, args.format)?;
    let is_bad = all.iter().any(|found| found.grade == Grade::Bad);
    if is_bad && args.format == Format::Table {
        eprintln!("something that everybody needs doesn't work: see `bad` above");
    }
    Ok(if is_bad { Verdict::Bad } else { Verdict::Good })
}

fn version() -> Found {
    let text = format!(
        "{} of commit {}, {} {}",
        env!("CARGO_PKG_VERSION"),
        env!("AUTOHET_COMMIT"),
        std::env::consts::OS,
        std::env::consts::ARCH
    );
    Found::good("autohet", text)
}

#[cfg(feature = "scip")]
fn scip() -> Found {
    let asked = crate::planner::scip::self_test();
    match asked {
        Ok(version) => Found::good("SCIP", format!("{version}, linked, and it solves")),
        Err(problem) => Found::bad(
            "SCIP",
            problem,
            "plans are worse or fail: set `SCIPOPTDIR` to an installed SCIP 10 and build again, or use `--engine search`",
        ),
    }
}

#[cfg(not(feature = "scip"))]
fn scip() -> Found {
    let advice = "plans come from autohet's own search; build with `--features scip` for those that SCIP finds";
    Found::note("SCIP", "not in this build", advice)
}

fn training() -> Found {
    if cfg!(feature = "burn-cpu") {
        return Found::good("autohet-run", "in this build");
    }
    let advice = "to train for real: `cargo build --release --features burn-cpu`";
    Found::note("autohet-run", "not in this build", advice)
}

fn cores() -> Found {
    match thread::available_parallelism().map_or(0, usize::from) {
        0 => Found::note("CPU cores", "unknown", "name `--jobs` for sweeps"),
        1 => Found::note("CPU cores", "1", "sweeps and plans take about twice as long as with 2"),
        count => Found::good("CPU cores", count.to_string()),
    }
}

/// Memory that is free, within what a container may have.
fn memory() -> Found {
    const ENOUGH_GB: f64 = 1.0;
    let Some(free_gb) = free_bytes().map(|bytes| bytes * 1e-9) else {
        return Found::note("free memory", "unknown", "a sweep or a long replay takes up to 0.5 GB");
    };
    let found = format!("{free_gb:.1} GB");
    if free_gb >= ENOUGH_GB {
        return Found::good("free memory", found);
    }
    Found::note("free memory", found, "long replays and clusters of thousands of GPUs may not fit")
}

fn free_bytes() -> Option<f64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let machine = line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? * 1024.0;
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<f64>().ok();
    let group = number("/sys/fs/cgroup/memory.max").zip(number("/sys/fs/cgroup/memory.current"));
    Some(group.map_or(machine, |(most, used)| machine.min(most - used)))
}

/// The driver, as the system shows it. Nothing but training on GPUs needs one.
fn gpu() -> Found {
    let driver = fs::read_to_string("/proc/driver/nvidia/version").ok();
    let version = driver.as_deref().and_then(|text| {
        let mut words = text.lines().next()?.split_whitespace();
        words.find(|word| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit()))
    });
    match version {
        Some(version) => Found::good("NVIDIA driver", version),
        None => {
            Found::note("NVIDIA driver", "none", "planning and simulating need none; `autohet-run --backend cuda` does")
        }
    }
}

fn results(out: &Path) -> Found {
    // Not the folder itself, which may hold anything, but one in it.
    match ResultsFolder::check(&out.join("doctor")) {
        Ok(()) => Found::good("results", format!("`{}` can be written", out.display())),
        Err(error) => {
            let problem = error.to_string();
            let problem = problem.lines().next().unwrap_or_default();
            Found::bad("results", problem, "name a folder that is yours with `--out`")
        }
    }
}

fn temporary() -> Found {
    let folder = std::env::temp_dir();
    match tempfile::tempfile() {
        Ok(_) => Found::good("temporary files", format!("`{}` can be written", folder.display())),
        Err(error) => Found::note(
            "temporary files",
            format!("`{}`: {}", folder.display(), error.kind()),
            "`autohet-run` needs them: set `TMPDIR` to a folder that is yours",
        ),
    }
}

fn terminal() -> Found {
    let is_terminal = std::io::stdout().is_terminal();
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let style = if no_color { "without style, as `NO_COLOR` asks" } else { "with style" };
    if is_terminal {
        let width = crate::report::Screen::of_stdout().width;
        return Found::good("terminal", format!("{width} columns, {style}"));
    }
    Found::good("terminal", "none: tables are 80 columns wide and plain")
}
