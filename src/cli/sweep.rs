//! `autohet-sim sweep` and `sweep merge`.

use super::args::{Format, MergeArgs, SweepArgs, SweepCommand, SweepResultsArgs};
use super::progress::Progress;
use super::{Verdict, files, print};
use crate::report::{
    Baseline, GateOutcome, ResultsFolder, Screen, SweepRow, SweepStatus, compare_with_baseline, gate_junit,
    gate_markdown, gate_text, sweep_markdown, sweep_table,
};
use crate::sweep::{Journal, Run, Shard, Shared, SweepCache, SweepFile, SweepResults, in_parallel, key_text, merge};
use anyhow::anyhow;
use std::collections::BTreeSet;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

pub(super) fn run(args: &SweepArgs) -> anyhow::Result<Verdict> {
    match (&args.command, &args.file) {
        (Some(SweepCommand::Merge(args)), _) => run_merge(args),
        (None, Some(file)) => run_sweep(file, args),
        (None, None) => Err(anyhow!("no sweep was given\nhint: name one, for example `scenarios/mix-sweep.toml`")),
    }
}

fn run_sweep(file: &Path, args: &SweepArgs) -> anyhow::Result<Verdict> {
    let mut sweep = SweepFile::read(file)?;
    let runs = sweep.runs()?;
    let shard = shard_of(args)?;
    let out = args.results.out.clone().unwrap_or_else(|| default_out(&sweep.name, shard));
    let baseline = check_results(&args.results, &out, &sweep.axes, &[file])?;
    let cache = args.cache.as_deref().map(SweepCache::open).transpose()?;
    let shared = Arc::new(Shared::new(cache));
    sweep.note_inputs(&runs, &shared);
    let journal_path = Journal::path_for(&out);
    let (mut journal, mut rows) = Journal::open(&journal_path, &sweep, runs.len(), shard, args.resume)?;
    let done = keys_of(&rows, &runs, &journal_path)?;
    let is_left = |(place, key): (usize, &[serde_json::Value])| {
        shard.is_none_or(|shard| shard.has(place)) && !done.contains(&key_text(key))
    };
    let left: Vec<_> = runs.iter().enumerate().filter(|(place, run)| is_left((*place, &run.key))).collect();
    let progress = Progress::new(left.len(), args.results.quiet)?;
    if !rows.is_empty() {
        progress.say(&format!("{} rows are there already", rows.len()));
    }
    let jobs = args.jobs.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZero::<usize>::MIN);
    in_parallel(
        jobs,
        &left,
        |(_, run)| run.outcome(&sweep, &shared),
        |index, outcome| {
            let row = SweepRow { key: left[index].1.key.clone(), outcome };
            journal.add(&row)?;
            rows.push(row);
            progress.step();
            Ok::<(), crate::sweep::SweepError>(())
        },
    )?;
    progress.end(&match shared.found_on_disk() {
        0 => String::new(),
        found => format!(", {found} of them from the cache"),
    });
    let results = SweepResults::new(&sweep, runs.len(), shard, rows);
    let verdict = finish(&results, &args.results, &out, baseline)?;
    journal.remove();
    Ok(verdict)
}

fn run_merge(args: &MergeArgs) -> anyhow::Result<Verdict> {
    let results = merge(&args.shards)?;
    let out = args.results.out.clone().unwrap_or_else(|| default_out(results.name(), None));
    let shards: Vec<&Path> = args.shards.iter().map(PathBuf::as_path).collect();
    let baseline = check_results(&args.results, &out, &results.table.axes, &shards)?;
    finish(&results, &args.results, &out, baseline)
}

/// The shard that was asked for, or that a scheduler gave us.
fn shard_of(args: &SweepArgs) -> anyhow::Result<Option<Shard>> {
    if args.shard.is_some() {
        return Ok(args.shard);
    }
    let Some((shard, variable)) = Shard::of_environment(|name| std::env::var(name).ok())? else { return Ok(None) };
    if !args.results.quiet {
        eprintln!("shard {shard}, because `{variable}` is set; `--shard 1/1` does all of it");
    }
    Ok(Some(shard))
}

fn default_out(name: &str, shard: Option<Shard>) -> PathBuf {
    let suffix =
        shard.filter(|shard| !shard.is_whole()).map_or_else(String::new, |shard| format!("-{}", shard.suffix()));
    Path::new("results").join(format!("{name}{suffix}"))
}

/// The keys of the rows that are there already, each that of a run and there once.
fn keys_of(rows: &[SweepRow], runs: &[Run], journal: &Path) -> anyhow::Result<BTreeSet<String>> {
    let known: BTreeSet<String> = runs.iter().map(|run| key_text(&run.key)).collect();
    let mut keys = BTreeSet::new();
    for key in rows.iter().map(|row| key_text(&row.key)) {
        if !known.contains(&key) || !keys.insert(key.clone()) {
            return Err(anyhow!(
                "`{}` has a row of no run of this sweep, or one twice: {key}\nhint: leave out `--resume` to begin anew",
                journal.display()
            ));
        }
    }
    Ok(keys)
}

/// Refuses, before the work, places that couldn't be written and baselines that couldn't be compared with.
fn check_results(
    args: &SweepResultsArgs,
    out: &Path,
    axes: &[String],
    inputs: &[&Path],
) -> anyhow::Result<Option<Baseline>> {
    ResultsFolder::check(out)?;
    let named = [
        ("--out", Some(out)),
        ("--summary-markdown", args.summary_markdown.as_deref()),
        ("--junit", args.junit.as_deref()),
        ("--report", args.report.as_deref()),
    ];
    files::check_distinct(&named)?;
    files::check_kept(&inputs.iter().copied().chain(args.baseline.as_deref()).collect::<Vec<_>>(), &named)?;
    named[1..].iter().filter_map(|(_, path)| *path).try_for_each(files::check_writable)?;
    let Some(path) = &args.baseline else { return Ok(None) };
    let text = crate::input::read_text(path)
        .map_err(|error| anyhow!("cannot read the baseline `{}`: {error}\nhint: check the path", path.display()))?;
    Ok(Some(Baseline::parse(&text, &path.display().to_string(), axes)?))
}

/// Writes the folder, compares, and prints.
fn finish(
    results: &SweepResults,
    args: &SweepResultsArgs,
    out: &Path,
    baseline: Option<Baseline>,
) -> anyhow::Result<Verdict> {
    let gate = baseline.map(|baseline| compare_with_baseline(&results.table, &baseline, args.tolerance));
    let written = results.write(out)?;
    write_gate(results, args, gate.as_ref())?;
    match args.format {
        Format::Table => {
            let gate = gate.as_ref().map(|gate| format!("\n{}", gate_text(gate))).unwrap_or_default();
            let table = sweep_table(&results.table, Screen::of_stdout());
            print(&format!("{table}{gate}details: {}\n", written.display()))?;
        }
        Format::Json => print(&results.table.json_lines())?,
        Format::Markdown => print(&markdown(results, gate.as_ref()))?,
        Format::Csv => print(&results.table.csv())?,
    }
    let has_failed = results.table.count(SweepStatus::Error) > 0;
    if let (false, Some(gate)) = (args.quiet || args.format == Format::Table, &gate) {
        eprintln!("{}", gate_text(gate).trim_end());
    }
    if has_failed {
        eprintln!("{} runs failed: see `status` and `reason` in rows.csv", results.table.count(SweepStatus::Error));
    }
    let is_good = !has_failed && gate.is_none_or(|gate| gate.is_good());
    Ok(if is_good { Verdict::Good } else { Verdict::Bad })
}

fn markdown(results: &SweepResults, gate: Option<&GateOutcome>) -> String {
    let gate = gate.map(|gate| gate_markdown(results.name(), gate) + "\n").unwrap_or_default();
    gate + &sweep_markdown(&results.table)
}

fn write_gate(results: &SweepResults, args: &SweepResultsArgs, gate: Option<&GateOutcome>) -> anyhow::Result<()> {
    let page = args.summary_markdown.as_ref().map(|path| (path, markdown(results, gate)));
    let junit = args.junit.as_ref().zip(gate).map(|(path, gate)| (path, gate_junit(results.name(), gate)));
    let report = args.report.as_ref().map(|path| (path, results.html(gate)));
    let files: Vec<(&Path, &[u8])> =
        page.iter().chain(&junit).chain(&report).map(|(path, text)| (path.as_path(), text.as_bytes())).collect();
    files::write_files(&files)
}
