//! `autohet-sim trace`.

use super::args::{Format, GenerateArgs, StatsArgs, TraceCommand};
use super::{Verdict, job, print, print_json};
use crate::cluster::GpuSpec;
use crate::report::{Screen, statistics_table};
use crate::trace::generator::{GeneratorSettings, PoolSettings, generate};
use crate::trace::{TraceStatistics, read, write_canonical};
use anyhow::anyhow;
use std::path::Path;

pub(super) fn run(command: &TraceCommand) -> anyhow::Result<Verdict> {
    match command {
        TraceCommand::Generate(args) => run_generate(args),
        TraceCommand::Stats(args) => run_stats(args),
    }
}

fn run_generate(args: &GenerateArgs) -> anyhow::Result<Verdict> {
    let mut settings = args.settings.as_deref().map(read_settings).transpose()?.unwrap_or_default();
    settings.seed = args.seed.unwrap_or(settings.seed);
    settings.hours = args.hours.unwrap_or(settings.hours);
    for pool in &args.pools {
        settings.pools.push(PoolSettings::parse(pool)?);
    }
    for pool in &settings.pools {
        GpuSpec::lookup(&pool.gpu_type)?;
    }
    let trace = generate(&settings)?;
    let mut text = Vec::new();
    write_canonical(&trace, &mut text)?;
    match &args.out {
        Some(path) => job::write_files(&[(path, &text)])?,
        None => print(&String::from_utf8(text)?)?,
    }
    Ok(Verdict::Good)
}

fn read_settings(path: &Path) -> anyhow::Result<GeneratorSettings> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| anyhow!("cannot read the settings `{}`: {error}\nhint: check the path", path.display()))?;
    toml::from_str(&text).map_err(|error| {
        let before = &text[..error.span().map_or(0, |span| span.start)];
        let line = 1 + before.bytes().filter(|byte| *byte == b'\n').count();
        let hint = "`autohet-sim trace generate --help` shows an example of what can be set";
        anyhow!("`{}` line {line}: {}\nhint: {hint}", path.display(), error.message())
    })
}

fn run_stats(args: &StatsArgs) -> anyhow::Result<Verdict> {
    let mut all = Vec::new();
    for path in &args.traces {
        let trace = read(path)?;
        all.push((path.display().to_string(), trace.format, TraceStatistics::of(&trace)));
    }
    match args.format {
        Format::Table => print(&statistics_table(&all, Screen::of_stdout()))?,
        Format::Json => {
            let entry = |(file, format, statistics): &(String, _, TraceStatistics)| serde_json::json!({ "file": file, "format": format, "statistics": statistics });
            print_json(&all.iter().map(entry).collect())?;
        }
    }
    Ok(Verdict::Good)
}
