//! `autohet-sim trace`.

use super::args::{ClockArgs, ConvertArgs, Format, GenerateArgs, MarketArgs, ReadingArgs, StatsArgs, TraceCommand};
use super::{Verdict, files, job, print, print_json};
use crate::cluster::GpuSpec;
use crate::input;
use crate::report::{Screen, TraceLaws, statistics_records, statistics_table, trace_svg};
use crate::scenario::Scenario;
use crate::trace::generator::recorded::fit;
use crate::trace::generator::{GeneratorSettings, PoolSettings, generate, price_history};
use crate::trace::{ReadOptions, Trace, TraceSource, TraceStatistics, read_all, write_canonical};
use anyhow::anyhow;
use std::path::{Path, PathBuf};

/// The day on which generated prices begin.
const PRICES_DATE: &str = "2026-01-01";

pub(super) fn run(command: &TraceCommand) -> anyhow::Result<Verdict> {
    match command {
        TraceCommand::Generate(args) => run_generate(args),
        TraceCommand::Stats(args) => run_stats(args),
        TraceCommand::Convert(args) => run_convert(args),
    }
}

fn run_generate(args: &GenerateArgs) -> anyhow::Result<Verdict> {
    let outputs = [
        ("--out", args.out.as_deref()),
        ("--settings-out", args.settings_out.as_deref()),
        ("--prices-out", args.prices_out.as_deref()),
    ];
    files::check_distinct(&outputs)?;
    let mut settings = market(&args.market)?;
    let sources = sources(&args.fit)?;
    for output in outputs {
        check_outputs(&sources, output)?;
    }
    if sources.is_empty() {
        refuse_reading(&args.reading)?;
    } else {
        settings = fitted(&sources, args, settings)?;
    }
    let trace = generate(&settings)?;
    if let Some(path) = &args.settings_out {
        let text = toml::to_string(&settings)?;
        files::write_files(&[(path.as_path(), text.as_bytes())])?;
    }
    if let Some(path) = &args.prices_out {
        write_prices(&settings, path)?;
    }
    write(&trace, args.out.as_deref())
}

/// The settings with the market of traces.
fn fitted(
    sources: &[TraceSource],
    args: &GenerateArgs,
    settings: GeneratorSettings,
) -> anyhow::Result<GeneratorSettings> {
    if settings.recorded.is_some() {
        return Err(anyhow!(
            "the settings hold a recorded market, and `--fit` takes another\nhint: leave one of them out"
        ));
    }
    let trace = read_all(sources, &read_options(&args.reading, &ClockArgs { align: None })?)?;
    super::replay::say_notes(sources, &trace.notes);
    let recorded = fit(&trace).ok_or_else(|| {
        anyhow!("no node is lost in the trace, so nothing tells how they are\nhint: describe a market with `--pool`")
    })?;
    let hours = args.market.hours.unwrap_or(recorded.observed_s / 3600.0);
    eprintln!(
        "taken from it: {} loss events of {} nodes in {} pools over {:.1} h; hours of the day aren't",
        recorded.loss_events(),
        recorded.nodes_lost(),
        recorded.pools.len(),
        recorded.observed_s / 3600.0,
    );
    Ok(GeneratorSettings { hours, recorded: Some(recorded), ..settings })
}

/// Refuses options of traces that are read where none is.
fn refuse_reading(args: &ReadingArgs) -> anyhow::Result<()> {
    let ReadingArgs { trace_format, time_unit, polarity, which_node, gpu_type, gpus_per_node, horizon } = args;
    let is_read = trace_format.is_some() || time_unit.is_some() || polarity.is_some() || which_node.is_some();
    if is_read || gpu_type.is_some() || gpus_per_node.is_some() || horizon.is_some() {
        return Err(anyhow!("options of a trace that is read, and none is\nhint: name one with `--fit`"));
    }
    Ok(())
}

/// Writes prices over time, and says what they are of.
fn write_prices(settings: &GeneratorSettings, path: &Path) -> anyhow::Result<()> {
    let minutes = (settings.start_hour_utc * 60.0) as u64;
    let zero = format!("{PRICES_DATE}T{:02}:{:02}:00Z", minutes / 60, minutes % 60);
    let (history, left_out) = price_history(settings, zero.parse()?);
    if history["SpotPriceHistory"].as_array().is_none_or(Vec::is_empty) {
        return Err(anyhow!(
            "no pool has prices over time\nhint: they need a zone, a price, and a size that AWS rents, like `5x8xA100-40@us-east-1a:8.0`"
        ));
    }
    for pool in left_out {
        eprintln!("no prices over time of {pool}: it has no zone, no price, or a size that AWS doesn't rent");
    }
    eprintln!("{}: for a replay with `--prices {} --trace-start {zero}`", path.display(), path.display());
    files::write_files(&[(path, serde_json::to_string_pretty(&history)?.as_bytes())])
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
    super::replay::check_align(args.clock.align, args.traces.len())?;
    let sources = sources(&args.traces)?;
    check_outputs(&sources, ("--out", args.out.as_deref()))?;
    let trace = read_all(&sources, &read_options(&args.reading, &args.clock)?)?;
    if !args.quiet {
        super::replay::say_notes(&sources, &trace.notes);
    }
    write(&trace, args.out.as_deref())
}

/// The traces, with what is known of their nodes.
fn sources(traces: &[PathBuf]) -> anyhow::Result<Vec<TraceSource>> {
    Ok(traces.iter().map(|trace| TraceSource::parse(trace)).collect::<Result<_, _>>()?)
}

/// Refuses to write in the place of a trace, or where nothing can be written.
fn check_outputs(sources: &[TraceSource], output: (&str, Option<&Path>)) -> anyhow::Result<()> {
    let inputs: Vec<&Path> = sources.iter().map(|source| source.path.as_path()).collect();
    files::check_kept(&inputs, &[output])?;
    output.1.map_or(Ok(()), files::check_writable)
}

/// The options, with the checks that a replay makes.
fn read_options(args: &ReadingArgs, clock: &ClockArgs) -> anyhow::Result<ReadOptions> {
    let mut scenario = Scenario::default();
    job::apply_reading(args, &mut scenario.trace);
    scenario.trace.align = clock.align;
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
    super::replay::check_align(args.clock.align, if args.merge { args.traces.len() } else { 1 })?;
    let options = read_options(&args.reading, &args.clock)?;
    let sources = sources(&args.traces)?;
    if args.plot.is_some() && !args.merge && sources.len() > 1 {
        return Err(anyhow!(
            "`--plot` draws one trace, and there are {}\nhint: name one of them, or take all for one with `--merge`",
            sources.len()
        ));
    }
    check_outputs(&sources, ("--plot", args.plot.as_deref()))?;
    let mut all = Vec::new();
    let mut notes = Vec::new();
    let mut laws = Vec::new();
    let columns = if args.merge { vec![&sources[..]] } else { sources.chunks(1).collect() };
    for column in columns {
        let trace = read_all(column, &options)?;
        notes.push(trace.notes.clone());
        let files: Vec<String> = column.iter().map(|source| source.path.display().to_string()).collect();
        all.push((files.join(" + "), trace.format, TraceStatistics::of(&trace)));
        laws.push(TraceLaws::of(&trace));
        if let Some(path) = &args.plot {
            files::write_files(&[(path.as_path(), trace_svg(&files.join(" + "), &trace).as_bytes())])?;
        }
    }
    match args.format {
        Format::Table => {
            // The table says what the first note of each says.
            for ((file, ..), notes) in all.iter().zip(&notes) {
                notes.iter().skip(1).for_each(|note| super::voice::say(&format!("{file}: {note}")));
            }
            print(&statistics_table(&all, &laws, Screen::of_stdout()))?;
        }
        Format::Json => {
            let entry = |((file, format, statistics), (notes, laws)): (
                &(String, _, TraceStatistics),
                (&Vec<String>, &TraceLaws),
            )| {
                serde_json::json!({ "file": file, "format": format, "notes": notes, "statistics": statistics, "laws": laws })
            };
            print_json(&all.iter().zip(notes.iter().zip(&laws)).map(entry).collect())?;
        }
        Format::Csv => print(&statistics_records(&all, &laws).csv())?,
        Format::Markdown => print(&statistics_records(&all, &laws).markdown())?,
    }
    Ok(Verdict::Good)
}
