//! The command line: arguments resolved once into settings, commands that call the library, exit codes.

/// Writes a line to stderr. Unlike the standard library's it doesn't panic where whoever read has gone, as in a pipe to
/// `head`: nobody is left to be told, and the work goes on. It has that one's name so that all below have it.
macro_rules! eprintln {
    ($($argument:tt)*) => {{
        use std::io::Write as _;
        drop(writeln!(std::io::stderr(), $($argument)*));
    }};
}

mod across;
mod args;
mod doctor;
mod files;
mod iteration;
mod job;
mod list;
mod manual;
mod page;
mod plan;
mod problem;
mod progress;
mod recommend;
mod replan;
mod replay;
mod reproduce;
#[cfg(feature = "burn-cpu")]
mod run;
mod show;
mod sweep;
mod trace;
mod validate;

pub use args::SimArgs;
#[cfg(feature = "burn-cpu")]
pub use run::{RunArgs, run_training};

use crate::report::Records;
use anyhow::anyhow;
use args::{Format, ReproduceCommand, SimCommand};
use std::io::IsTerminal;
use std::process::ExitCode;

/// The run's own verdict is bad: nothing fits, or training failed.
const EXIT_VERDICT: u8 = 1;
/// The input can't be used.
const EXIT_INPUT: u8 = 2;

/// What a command ends with where nothing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Good,
    Bad,
}

/// Runs `autohet-sim`: data on stdout, everything else on stderr.
pub fn run_sim(args: SimArgs) -> ExitCode {
    let done = match args.command {
        None => replay::run(&args.replay),
        Some(SimCommand::Plan(args)) => plan::run_plan(&args),
        Some(SimCommand::Iteration(args)) => iteration::run(&args),
        Some(SimCommand::Compare(args)) => plan::run_compare(&args),
        Some(SimCommand::Reproduce(ReproduceCommand::Sailor(args))) => reproduce::run_sailor(&args),
        Some(SimCommand::Reproduce(ReproduceCommand::Recovery(args))) => reproduce::run_recovery(&args),
        Some(SimCommand::Across(args)) => across::run(&args),
        Some(SimCommand::Trace(command)) => trace::run(&command),
        Some(SimCommand::Validate(args)) => validate::run(&args),
        Some(SimCommand::Sweep(args)) => sweep::run(&args),
        Some(SimCommand::Recommend(args)) => recommend::run(&args),
        Some(SimCommand::Doctor(args)) => doctor::run(&args),
        Some(SimCommand::List(args)) => list::run(&args),
        Some(SimCommand::Show(command)) => show::run(&command),
        Some(SimCommand::Completions(args)) => manual::run_completions(&args),
        Some(SimCommand::Man(args)) => manual::run_man(&args),
        Some(SimCommand::Reproduce(ReproduceCommand::Paper(args))) => reproduce::run_paper(&args),
    };
    exit_code(done, |_| false)
}

/// The arguments of the command line. What clap refuses ends the program here, with exit code 2 and a hint as all errors
/// have; `--help` and `--version` are printed and end it with 0.
pub fn parse_arguments<A: clap::Parser>() -> Result<A, ExitCode> {
    A::try_parse().map_err(|error| {
        if !error.use_stderr() {
            drop(error.print());
            return ExitCode::SUCCESS;
        }
        let colored = error.render();
        let is_styled =
            std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
        let text = if is_styled { colored.ansi().to_string() } else { colored.to_string() };
        eprint_text(&with_hint(&text, &colored.to_string()));
        ExitCode::from(EXIT_INPUT)
    })
}

fn eprint_text(text: &str) {
    use std::io::Write;
    drop(std::io::stderr().write_all(text.as_bytes()));
}

/// The error with a line `hint: …`: clap's own tip, or where to look. Parsers of ours have given theirs already.
fn with_hint(text: &str, plain: &str) -> String {
    if plain.contains("\nhint: ") {
        return text.to_owned();
    }
    // A tip of clap's becomes the hint.
    let tip = plain.lines().find_map(|line| line.trim_start().strip_prefix("tip: "));
    let hint = tip.unwrap_or("`--help` shows what there is, with examples");
    let is_tip = |line: &&str| tip.is_some_and(|tip| line.contains(tip) || line.trim_start().starts_with("tip:"));
    let lines: Vec<&str> = text.trim_end().lines().filter(|line| !is_tip(line)).collect();
    let rest = lines.join("\n").replace("\n\n\n", "\n\n");
    let last = "For more information, try";
    let rest = rest.rfind(last).map_or(rest.as_str(), |start| rest[..start].trim_end());
    format!("{rest}\n\nhint: {hint}\n")
}

/// What a command ends with. Errors are the input's, but for plans that don't fit and what `is_failure` says.
fn exit_code(done: anyhow::Result<Verdict>, is_failure: impl Fn(&anyhow::Error) -> bool) -> ExitCode {
    match done {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Bad) => ExitCode::from(EXIT_VERDICT),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            let is_verdict = error.downcast_ref::<crate::plan::PlanError>().is_some_and(plan::is_verdict);
            ExitCode::from(if is_verdict || is_failure(&error) { EXIT_VERDICT } else { EXIT_INPUT })
        }
    }
}

/// Writes to stdout; unlike `println!` it gives back the error when the reader has gone.
fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    let mut stdout = std::io::stdout().lock();
    let end: &[u8] = if text.ends_with('\n') { b"" } else { b"\n" };
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.write_all(end)).and_then(|()| stdout.flush());
    written.map_err(|error| match error.kind() {
        // Stays what it is, to be recognised as no error at all.
        std::io::ErrorKind::BrokenPipe => error.into(),
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            anyhow!("cannot write to stdout: {error}\nhint: free some disk space, or send the output elsewhere")
        }
        _ => anyhow!("cannot write to stdout: {error}\nhint: check where the output is sent"),
    })
}

fn print_json(value: &serde_json::Value) -> anyhow::Result<()> {
    print(&serde_json::to_string_pretty(value)?)
}

/// Prints the same in the form that was asked for.
fn print_as(
    format: Format,
    table: impl FnOnce() -> String,
    json: &serde_json::Value,
    records: &Records,
) -> anyhow::Result<()> {
    match format {
        Format::Table => print(&table()),
        Format::Json => print_json(json),
        Format::Csv => print(&records.csv()),
        Format::Markdown => print(&records.markdown()),
    }
}

/// The reader of stdout has gone, as in `autohet-sim … | head`: not an error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
