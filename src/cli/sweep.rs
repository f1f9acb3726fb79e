//! `autohet-sim sweep` and `sweep merge`.

use super::args::{Format, MergeArgs, SweepArgs, SweepCommand, SweepResultsArgs};
use super::progress::Progress;
use super::{Verdict, files, print, voice};
use crate::report::{
    Baseline, GateOutcome, ResultsFolder, Screen, SweepRow, SweepStatus, compare_with_baseline, gate_junit,
    gate_markdown, gate_text, sweep_markdown, sweep_table,
};
use crate::sweep::{Journal, Runs, Shard, Shared, SweepCache, SweepFile, SweepResults, in_parallel, key_text, merge};
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
    let shard = shard_of(args)?;
    let out = args.results.out.clone().unwrap_or_else(|| default_out(&sweep.name, shard));
    files::check_distinct(&[("--out", Some(&out)), ("--cache", args.cache.as_deref())])?;
    if let (Some(shard), Some(_)) = (shard.filter(|shard| !shard.is_whole()), &args.results.baseline) {
        return Err(anyhow!(
            "shard {shard} has a part of the rows only, which a baseline would miss the others of\nhint: give `--baseline` to `autohet-sim sweep merge`"
        ));
    }
    let baseline = check_results(&args.results, &out, &sweep.axes, &[file])?;
    let cache = args.cache.as_deref().map(SweepCache::open).transpose()?;
    let shared = Arc::new(Shared::new(cache));
    sweep.note_inputs(&shared);
    let runs = sweep.runs()?;
    let is_ours = |place: usize| shard.is_none_or(|shard| shard.has(place));
    runs.check(is_ours, &shared)?;
    let journal_path = Journal::path_for(&out);
    let (mut journal, mut rows) = Journal::open(&journal_path, &sweep, runs.len(), shard, args.resume)?;
    let left = left_of(&runs, is_ours, &rows, &journal_path)?;
    voice::tell(|| format!("{} runs, {} of them left to do here", runs.len(), left.len()));
    let progress = Progress::new(left.len(), args.results.quiet)?;
    if !rows.is_empty() {
        progress.say(&format!("{} rows are there already", rows.len()));
    }
    let jobs = args.jobs.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZero::<usize>::MIN);
    in_parallel(
        jobs,
        &left,
        |&place| runs.get(place).map(|run| SweepRow { outcome: run.outcome(&sweep, &shared), key: run.key }),
        |_, row| {
            let row = row?;
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

/// The places of runs that have no row yet. Each row that is there must be that of a run, and there once.
fn left_of(
    runs: &Runs<'_>,
    is_ours: impl Fn(usize) -> bool,
    rows: &[SweepRow],
    journal: &Path,
) -> anyhow::Result<Vec<usize>> {
    let refused = |key: &str| {
        anyhow!(
            "`{}` has a row of no run of this sweep, or one twice: {key}\nhint: leave out `--resume` to begin anew",
            journal.display()
        )
    };
    let mut done = BTreeSet::new();
    if let Some(twice) = rows.iter().map(|row| key_text(&row.key)).find(|key| !done.insert(key.clone())) {
        return Err(refused(&twice));
    }
    let places = (0..runs.len()).filter(|place| is_ours(*place));
    // Nothing is there most of the time, and keys needn't be made.
    if done.is_empty() {
        return Ok(places.collect());
    }
    let left = places.filter(|place| !done.remove(&key_text(&runs.key(*place)))).collect();
    done.first().map_or(Ok(left), |stray| Err(refused(stray)))
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
        let failed = results.table.count(SweepStatus::Error);
        let runs = if failed == 1 { "run" } else { "runs" };
        eprintln!("{failed} {runs} failed: see `status` and `reason` in rows.csv");
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
