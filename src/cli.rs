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
mod collectives;
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
mod voice;

pub use args::SimArgs;
#[cfg(feature = "burn-cpu")]
pub use run::{RunArgs, run_training};

use crate::report::Records;
use anyhow::anyhow;
use args::{Format, ReproduceCommand, SimCommand};
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
    voice::set(args.replay.quiet, args.replay.verbose);
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
        let text = error.render().to_string();
        // Help instead of a command that is missing stays as it is.
        let is_help = error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
        eprint_text(&if is_help { text } else { on_one_line(&text) });
        ExitCode::from(EXIT_INPUT)
    })
}

fn eprint_text(text: &str) {
    use std::io::Write;
    drop(std::io::stderr().write_all(text.as_bytes()));
}

/// An error of clap's as all others are: one line, and one with a hint. The hint is that of a parser of ours, clap's own tip,
/// what would have been possible, or where to look.
fn on_one_line(text: &str) -> String {
    let (said, ours) = text.split_once("\nhint: ").map_or((text, None), |(said, rest)| (said, rest.lines().next()));
    let known = said.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let known = || known.clone().filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    let tip = known().find_map(|line| line.strip_prefix("tip: "));
    let possible = known().find_map(|line| line.strip_prefix('[')?.strip_suffix(']'));
    let hint = ours.or(tip).or(possible).unwrap_or("`--help` shows what there is, with examples");
    let error =
        known().filter(|line| !line.starts_with("tip: ") && !line.starts_with('[')).collect::<Vec<_>>().join(" ");
    format!("{error}\nhint: {hint}\n")
}

/// What a command ends with. Errors are the input's, but for plans that don't fit and what `is_failure` says.
fn exit_code(done: anyhow::Result<Verdict>, is_failure: impl Fn(&anyhow::Error) -> bool) -> ExitCode {
    match done {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Bad) => ExitCode::from(EXIT_VERDICT),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", crate::units::printable(&error.to_string()));
            let is_verdict = error.downcast_ref::<crate::plan::PlanError>().is_some_and(plan::is_verdict);
            ExitCode::from(if is_verdict || is_failure(&error) { EXIT_VERDICT } else { EXIT_INPUT })
        }
    }
}

/// Writes to stdout; unlike `println!` it gives back the error when the reader has gone.
fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    let text = crate::units::printable(text);
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, CommandFactory, Parser};

    /// Columns and lines of a screen.
    const SCREEN: (usize, usize) = (80, 50);
    /// Commands whose output is a file of its own form, or none.
    const OF_ONE_FORM: [&str; 7] = ["generate", "convert", "schema", "completions", "man", "profile", "worker"];

    /// Every command that does something, with the words that call it.
    fn commands() -> Vec<(String, Command)> {
        fn add(command: &Command, name: &str, found: &mut Vec<(String, Command)>) {
            found.push((name.to_owned(), command.clone()));
            for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
                add(below, &format!("{name} {}", below.get_name()), found);
            }
        }
        let mut found = Vec::new();
        for mut program in programs() {
            program.build();
            let name = program.get_name().to_owned();
            add(&program, &name, &mut found);
        }
        found
    }

    fn programs() -> Vec<Command> {
        vec![
            SimArgs::command(),
            #[cfg(feature = "burn-cpu")]
            RunArgs::command(),
        ]
    }

    #[test]
    fn help_fits_a_screen_and_has_an_example() {
        let commands = commands();
        assert!(commands.len() > 20, "{}", commands.len());
        let (width, height) = SCREEN;
        let mut too_large = Vec::new();
        for (name, command) in commands {
            let mut command = command.term_width(width);
            let short = command.render_help().to_string();
            let widest = short.lines().map(|line| line.chars().count()).max().unwrap_or_default();
            if short.lines().count() > height || widest > width {
                too_large
                    .push(format!("`{name} --help`: {} lines of at most {widest}\n{short}", short.lines().count()));
            }
            for help in [short, command.render_long_help().to_string()] {
                let (_, example) =
                    help.rsplit_once("Example").unwrap_or_else(|| panic!("`{name}` has no example\n{help}"));
                assert!(example.contains("\n  autohet-"), "`{name}`\n{help}");
            }
        }
        assert!(too_large.is_empty(), "{}", too_large.join("\n"));
    }

    /// `--help` is the short one in every command.
    #[test]
    fn both_lengths_of_help_can_be_asked_for() {
        for (name, command) in commands() {
            let words = |option: &'static str| name.split(' ').skip(1).chain([option]).collect::<Vec<_>>();
            let help = |option| {
                let whole = std::iter::once("autohet-sim").chain(words(option));
                let program = programs().into_iter().find(|program| name.starts_with(program.get_name())).unwrap();
                let shown = program.try_get_matches_from(whole).unwrap_err();
                assert_eq!(shown.kind(), clap::error::ErrorKind::DisplayHelp, "{name} {option}: {shown}");
                shown.render().to_string()
            };
            assert_eq!(help("-h"), help("--help"), "{name}");
            let hides = command.get_arguments().any(clap::Arg::is_hide_short_help_set);
            assert!(!hides || help("--help-all").len() > help("--help").len(), "{name}");
        }
    }

    #[test]
    fn examples_are_commands() {
        for (name, command) in commands() {
            let help = command.clone().term_width(0).render_long_help().to_string().replace("\\\n", " ");
            for line in help.lines().filter_map(|line| line.strip_prefix("  autohet-")) {
                let line = line.split(['|', '>']).next().unwrap_or_default();
                let words: Vec<&str> = line.split_whitespace().collect();
                let of = |program: &Command| program.get_name().ends_with(words[0]);
                // The other program's, where this build has only one.
                let Some(program) = programs().into_iter().find(of) else { continue };
                let parsed = program.try_get_matches_from(&words);
                assert!(parsed.is_ok(), "`{name}`: {line}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn everything_is_printed_in_four_forms() {
        for (name, command) in commands() {
            let is_own = |arg: &&clap::Arg| !arg.is_global_set() && arg.get_id() != "help";
            let does_nothing = command.has_subcommands() && command.get_arguments().find(is_own).is_none();
            if does_nothing || OF_ONE_FORM.contains(&command.get_name()) {
                continue;
            }
            let format = command.get_arguments().find(|arg| arg.get_id() == "format");
            let values = format.unwrap_or_else(|| panic!("`{name}` has no --format")).get_possible_values();
            let values: Vec<&str> = values.iter().map(clap::builder::PossibleValue::get_name).collect();
            assert_eq!(values, ["table", "json", "csv", "markdown"], "{name}");
        }
    }

    #[test]
    fn errors_of_clap_are_one_line_and_a_hint() {
        for (words, error, hint) in [
            ("sweep s.toml --basline x", "error: unexpected argument '--basline' found", "'--baseline'"),
            (
                "plan --model llama-7b",
                "the following required arguments were not provided: --cluster <MIX|FILE>",
                "--help",
            ),
            ("list gpu", "error: invalid value 'gpu' for '<WHAT>'", "gpus"),
            ("doctor --format xml", "'--format <FORMAT>'", "possible values: table, json, csv, markdown"),
            ("plan --cluster 8xT4 --deadline soon", "'--deadline <TIME>': not a time", "write `100ms` or `2s`"),
            ("plan --cluster 8xT4 -q -v", "'--quiet' cannot be used with '--verbose'", "--help"),
        ] {
            let refused = SimArgs::try_parse_from(std::iter::once("autohet-sim").chain(words.split(' '))).unwrap_err();
            let text = on_one_line(&refused.render().to_string());
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(lines.len(), 2, "{words}: {text}");
            assert!(lines[0].starts_with("error: ") && lines[0].contains(error), "{words}: {text}");
            assert!(lines[1].starts_with("hint: ") && lines[1].contains(hint), "{words}: {text}");
        }
    }
}
