//! `autohet-sim across`: policies over many traces, or over many markets made from one description.

use super::args::{AcrossArgs, Format, MarketArgs, ReadingArgs};
use super::progress::Progress;
use super::{Verdict, files, job, print, trace};
use crate::cluster::GpuSpec;
use crate::cost::CostModel;
use crate::elastic::{PlanMemory, Policy};
use crate::replay::{IterationMemory, Replay, ReplaySettings, replay_with};
use crate::report::{AcrossRow, Screen, across_json, across_records, across_table, interval_table};
use crate::scenario::Scenario;
use crate::trace::generator::{GeneratorSettings, generate};
use crate::trace::{self as traces, OfferDefaults, Trace, TraceSource};
use anyhow::anyhow;
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub(super) fn run(args: &AcrossArgs) -> anyhow::Result<Verdict> {
    check_options(args)?;
    let mut scenario = super::replay::resolve_job(args.policies.as_deref(), &args.job, &args.reading)?;
    args.prices.apply(&mut scenario);
    scenario.check()?;
    let runner = Runner::new(&scenario)?;
    let files = sources_in(&args.traces)?;
    if let Some(out) = args.out.as_deref() {
        let inputs: Vec<&Path> = files.iter().map(|source| source.path.as_path()).collect();
        files::check_kept(&inputs, &[("--out", Some(out))])?;
        files::check_writable(out)?;
    }
    let rows = match (&args.traces[..], args.seeds) {
        ([], None) => {
            return Err(anyhow!(
                "neither traces nor markets\nhint: name files or folders of traces, or describe a market with `--pool` or `--settings` \
                 and say how many with `--seeds`"
            ));
        }
        ([], Some(seeds)) => runner.markets(&trace::market(&args.market)?, seeds, args.quiet)?,
        (_, Some(_)) => {
            return Err(anyhow!("`--seeds` makes markets, and traces are given too\nhint: leave out one of them"));
        }
        (_, None) => runner.files(&files, args.quiet)?,
    };
    if let Some(path) = &args.out {
        files::write_files(&[(path.as_path(), across_records(&rows).csv().as_bytes())])?;
    }
    match args.format {
        Format::Json => print(&across_json(&rows))?,
        Format::Table if args.seeds.is_some() => print(&interval_table(&rows, Screen::of_stdout()))?,
        Format::Table => print(&across_table(&rows, Screen::of_stdout()))?,
        Format::Csv => print(&across_records(&rows).csv())?,
        Format::Markdown => print(&across_records(&rows).markdown())?,
    }
    let has_trained = rows.iter().any(|row| row.policies.iter().any(|(_, summary)| summary.iterations > 0));
    Ok(if has_trained { Verdict::Good } else { Verdict::Bad })
}

/// Refuses options that would change nothing.
fn check_options(args: &AcrossArgs) -> anyhow::Result<()> {
    let MarketArgs { seed, hours, pools, settings } = &args.market;
    if args.seeds.is_none() && (seed.is_some() || hours.is_some() || !pools.is_empty() || settings.is_some()) {
        return Err(anyhow!(
            "a market without `--seeds`\nhint: say how many markets to make, for example `--seeds 100`"
        ));
    }
    let ReadingArgs { trace_format, time_unit, polarity, which_node, gpu_type, gpus_per_node, horizon } = &args.reading;
    let is_read = trace_format.is_some() || time_unit.is_some() || polarity.is_some() || which_node.is_some();
    if args.seeds.is_some() && (is_read || gpu_type.is_some() || gpus_per_node.is_some() || horizon.is_some()) {
        return Err(anyhow!(
            "options of traces that are read, and markets that are made\nhint: say of each `--pool` what its nodes are"
        ));
    }
    Ok(())
}

/// The files, and those in folders, by name.
fn sources_in(given: &[PathBuf]) -> anyhow::Result<Vec<TraceSource>> {
    let mut files = Vec::new();
    for path in given {
        if !path.is_dir() {
            files.push(TraceSource::parse(path)?);
            continue;
        }
        let cannot = |error| anyhow!("cannot read the folder `{}`: {error}\nhint: check the path", path.display());
        let entries = std::fs::read_dir(path).map_err(cannot)?;
        let mut inside: Vec<PathBuf> =
            entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_file()).collect();
        inside.sort();
        if inside.is_empty() {
            return Err(anyhow!("the folder `{}` has no files\nhint: name a folder of traces", path.display()));
        }
        files.extend(inside.into_iter().map(|path| TraceSource { path, ..TraceSource::default() }));
    }
    Ok(files)
}

/// What a file is called: its name without folder and ending, or where others are called so, too, its path.
fn name_of(file: &Path, files: &[TraceSource]) -> String {
    let stem =
        |file: &Path| file.file_stem().map_or_else(|| "trace".into(), |stem| stem.to_string_lossy().into_owned());
    let alike = files.iter().filter(|other| stem(&other.path) == stem(file)).count();
    if alike > 1 { file.display().to_string() } else { stem(file) }
}

/// One job under the same policies again and again; plans and simulated iterations are made once.
struct Runner<'a> {
    scenario: &'a Scenario,
    cost: CostModel,
    policies: Vec<Policy>,
    iterations: IterationMemory,
}

impl<'a> Runner<'a> {
    fn new(scenario: &'a Scenario) -> anyhow::Result<Self> {
        let memory = Arc::new(PlanMemory::default());
        let policy = |name: &String| Ok(super::replay::policy(name)?.remembering(&memory));
        let policies = scenario.policies.iter().map(policy).collect::<anyhow::Result<_>>()?;
        let (cost, iterations) = (job::cost_model(scenario)?, IterationMemory::default());
        Ok(Self { scenario, cost, policies, iterations })
    }

    /// A trace after the other; those that can't be read are told of and left out.
    fn files(&self, files: &[TraceSource], quiet: bool) -> anyhow::Result<Vec<AcrossRow>> {
        let progress = Progress::new(files.len(), quiet)?;
        let mut rows = Vec::new();
        let mut refused = None;
        for file in files {
            match self.file(&name_of(&file.path, files), file) {
                Ok(row) => rows.push(row),
                Err(error) => {
                    // An error, whoever wants to hear nothing else.
                    progress.always(&format!("left out: {error}"));
                    refused = Some(error);
                }
            }
            progress.step();
        }
        progress.end("");
        match refused {
            Some(error) if rows.is_empty() => Err(error),
            _ => Ok(rows),
        }
    }

    fn file(&self, name: &str, source: &TraceSource) -> anyhow::Result<AcrossRow> {
        let trace = traces::read_all(std::slice::from_ref(source), &self.scenario.trace.read_options())?;
        let place = |error: anyhow::Error| anyhow!("`{}`: {error}", source.path.display());
        Ok(AcrossRow::new(name, &self.replay(&trace).map_err(place)?))
    }

    /// Markets of the seeds from that of the settings on, side by side; in the order of the seeds.
    fn markets(&self, settings: &GeneratorSettings, count: u32, quiet: bool) -> anyhow::Result<Vec<AcrossRow>> {
        let progress = Mutex::new(Progress::new(count as usize, quiet)?);
        let row = |index: u32| {
            let settings = GeneratorSettings { seed: settings.seed.wrapping_add(u64::from(index)), ..settings.clone() };
            let trace = generate(&settings)?;
            let row = AcrossRow::new(&format!("seed {}", settings.seed), &self.replay(&trace)?);
            progress.lock().unwrap_or_else(PoisonError::into_inner).step();
            Ok(row)
        };
        let rows = (0..count).into_par_iter().map(row).collect::<anyhow::Result<_>>()?;
        progress.into_inner().unwrap_or_else(PoisonError::into_inner).end("");
        Ok(rows)
    }

    fn replay(&self, trace: &Trace) -> anyhow::Result<Replay> {
        let gpu = self.scenario.trace.gpu_type.as_deref().map(GpuSpec::lookup).transpose()?;
        let gpus_per_node = self.scenario.trace.gpus_per_node;
        let defaults = OfferDefaults { gpu, gpus_per_node, node: job::node_defaults(&self.scenario.network) };
        let events = trace.cluster_events(&defaults)?;
        let settings = ReplaySettings {
            cost: &self.cost,
            training: &self.scenario.training,
            checkpoint: &self.scenario.checkpoint,
            reconfiguration: &self.scenario.reconfiguration,
        };
        let mut replay = replay_with(&events, trace.span, &self.policies, settings, &self.iterations, &|_| {})?;
        let quotes = self.scenario.prices.quotes(trace)?;
        let job = (&self.cost, self.scenario.training.precision);
        replay.settle(&events, quotes.as_ref(), &self.scenario.prices.tariff(), job)?;
        Ok(replay)
    }
}
