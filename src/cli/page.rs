//! The page that a replay leaves behind, `--report`, and the iteration in it.

use super::args::ReplayArgs;
use super::files;
use super::replay::first_plan;
use crate::cluster::Cluster;
use crate::cost::CostModel;
use crate::metrics::{RankMemory, memory_over_time};
use crate::plan::Plan;
use crate::replay::Replay;
use crate::report::{IterationReport, ReplayPage, StageFootprint, perfetto_json, replay_html};
use crate::runtime::sim::{SimulatedIteration, simulate};
use crate::scenario::Scenario;
use crate::trace::{NodeEvent, TraceSource};
use std::path::{Path, PathBuf};

/// Refuses a page that couldn't be written, or that would be written into the results.
pub(super) fn check(args: &ReplayArgs, traces: &[TraceSource], out: &Path) -> anyhow::Result<()> {
    let outputs = [("--out", Some(out)), ("--report", args.report.as_deref())];
    files::check_distinct(&outputs)?;
    let read = args.job.profile.iter().chain(&args.scenario);
    let inputs: Vec<&Path> =
        read.map(PathBuf::as_path).chain(traces.iter().map(|source| source.path.as_path())).collect();
    files::check_kept(&inputs, &outputs)?;
    args.report.as_deref().map_or(Ok(()), files::check_writable)
}

pub(super) fn write(
    args: &ReplayArgs,
    trace: &str,
    replay: &Replay,
    scenario: &Scenario,
    cost: &CostModel,
    events: &[NodeEvent],
) -> anyhow::Result<()> {
    let Some(path) = &args.report else { return Ok(()) };
    let samples = u64::from(scenario.training.global_batch_size);
    let first = first_plan(replay, events);
    let executed = first.as_ref().map(|(plan, cluster)| Executed::new(plan, cluster, cost)).transpose()?;
    let iteration = first.as_ref().zip(executed.as_ref()).map(|((plan, _), executed)| executed.report(plan));
    let page = replay_html(&ReplayPage {
        trace,
        model: &cost.model().name,
        replay,
        tokens_per_iteration: samples * u64::from(cost.model().seq_length),
        iteration: iteration.as_ref(),
        scenario: &scenario.to_toml(),
    });
    files::write_files(&[(path.as_path(), page.as_bytes())])
}

/// One iteration of a plan, executed in simulated time.
pub(super) struct Executed {
    iteration: SimulatedIteration,
    pub(super) memory: Vec<RankMemory>,
    footprints: Vec<Vec<StageFootprint>>,
    seq_length: u32,
}

impl Executed {
    pub(super) fn new(plan: &Plan, cluster: &Cluster, cost: &CostModel) -> anyhow::Result<Self> {
        let iteration = simulate(plan, cluster, cost)?;
        let memory = memory_over_time(plan, &iteration.program, &iteration.timeline, cost);
        let footprints = StageFootprint::of_plan(plan, cluster, cost);
        Ok(Self { iteration, memory, footprints, seq_length: cost.model().seq_length })
    }

    /// What is said about it; `plan` is the plan that was executed.
    pub(super) fn report<'a>(&'a self, plan: &'a Plan) -> IterationReport<'a> {
        let Self { iteration, memory, footprints, seq_length } = self;
        IterationReport { plan, iteration, memory, footprints: footprints.clone(), seq_length: *seq_length }
    }

    /// Its timeline for ui.perfetto.dev.
    pub(super) fn perfetto(&self, plan: &Plan) -> String {
        perfetto_json(plan, &self.iteration.program, &self.iteration.timeline, Some(&self.memory))
    }
}
