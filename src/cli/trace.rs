//! `autohet-sim trace`.

use super::args::{ConvertArgs, Format, GenerateArgs, MarketArgs, ReadingArgs, StatsArgs, TraceCommand};
use super::{Verdict, files, job, print, print_json};
use crate::cluster::GpuSpec;
use crate::input;
use crate::report::{Screen, statistics_records, statistics_table};
use crate::scenario::Scenario;
use crate::trace::generator::{GeneratorSettings, PoolSettings, generate};
use crate::trace::{ReadOptions, Trace, TraceStatistics, read_with, write_canonical};
use anyhow::anyhow;
use std::path::Path;

pub(super) fn run(command: &TraceCommand) -> anyhow::Result<Verdict> {
    match command {
        TraceCommand::Generate(args) => run_generate(args),
        TraceCommand::Stats(args) => run_stats(args),
        TraceCommand::Convert(args) => run_convert(args),
    }
}

fn run_generate(args: &GenerateArgs) -> anyhow::Result<Verdict> {
    let trace = generate(&market(&args.market)?)?;
    write(&trace, args.out.as_deref())
}

/// The market that is described: a file first, then the options.
pub(super) fn market(args: &MarketArgs) -> anyhow::Result<GeneratorSettings> {
    let mut settings = args.settings.as_deref().map(read_settings).transpose()?.unwrap_or_default();
    settings.seed = args.seed.unwrap_or(settings.seed);
    settings.hours = args.hours.unwrap_or(settings.hours);
    for pool in &args.pools {
        settings.pools.push(PoolSettings::parse(pool)?);
    }
    for pool in &settings.pools {
        GpuSpec::lookup(&pool.gpu_type)?;
    }
    Ok(settings)
}

/// Writes canonical CSV to a file or to stdout.
fn write(trace: &Trace, out: Option<&Path>) -> anyhow::Result<Verdict> {
    let mut text = Vec::new();
    write_canonical(trace, &mut text)?;
    match out {
        Some(path) => files::write_files(&[(path, &text)])?,
        None => print(&String::from_utf8(text)?)?,
    }
    Ok(Verdict::Good)
}

fn run_convert(args: &ConvertArgs) -> anyhow::Result<Verdict> {
    let trace = read_with(&args.trace, &read_options(&args.reading)?)?;
    if !args.quiet {
        for note in &trace.notes {
            eprintln!("{}: {note}", args.trace.display());
        }
    }
    write(&trace, args.out.as_deref())
}

/// The options, with the checks that a replay makes.
fn read_options(args: &ReadingArgs) -> anyhow::Result<ReadOptions> {
    let mut scenario = Scenario::default();
    job::apply_reading(args, &mut scenario.trace);
    scenario.check()?;
    scenario.trace.gpu_type.as_deref().map(GpuSpec::lookup).transpose()?;
    Ok(scenario.trace.read_options())
}

fn read_settings(path: &Path) -> anyhow::Result<GeneratorSettings> {
    let text = input::read_text(path)
        .map_err(|error| anyhow!("cannot read the settings `{}`: {error}\nhint: check the path", path.display()))?;
    toml::from_str(&text).map_err(|error| {
        let before = &text[..error.span().map_or(0, |span| span.start)];
        let line = 1 + before.bytes().filter(|byte| *byte == b'\n').count();
        let hint = "`autohet-sim trace generate --help` shows an example of such a file, `docs/formats.md` every key";
        anyhow!("`{}` line {line}: {}\nhint: {hint}", path.display(), error.message())
    })
}

fn run_stats(args: &StatsArgs) -> anyhow::Result<Verdict> {
    let options = read_options(&args.reading)?;
    let mut all = Vec::new();
    let mut notes = Vec::new();
    for path in &args.traces {
        let trace = read_with(path, &options)?;
        notes.push(trace.notes.clone());
        all.push((path.display().to_string(), trace.format, TraceStatistics::of(&trace)));
    }
    match args.format {
        Format::Table => {
            // The table says what the first note of each says.
            for ((file, ..), notes) in all.iter().zip(&notes) {
                notes.iter().skip(1).for_each(|note| eprintln!("{file}: {note}"));
            }
            print(&statistics_table(&all, Screen::of_stdout()))?;
        }
        Format::Json => {
            let entry = |((file, format, statistics), notes): (&(String, _, TraceStatistics), &Vec<String>)| serde_json::json!({ "file": file, "format": format, "notes": notes, "statistics": statistics });
            print_json(&all.iter().zip(&notes).map(entry).collect())?;
        }
        Format::Csv => print(&statistics_records(&all).csv())?,
        Format::Markdown => print(&statistics_records(&all).markdown())?,
    }
    Ok(Verdict::Good)
}
