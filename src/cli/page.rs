//! The page that a replay leaves behind, `--report`.

use super::args::ReplayArgs;
use super::files;
use super::replay::first_plan;
use crate::cost::CostModel;
use crate::metrics::memory_over_time;
use crate::replay::Replay;
use crate::report::{IterationReport, ReplayPage, StageFootprint, gantt_svg, replay_html};
use crate::runtime::sim::simulate;
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
    let page = replay_html(&ReplayPage {
        trace,
        model: &cost.model().name,
        replay,
        tokens_per_iteration: samples * u64::from(cost.model().seq_length),
        gantt: gantt(replay, cost, events)?,
        scenario: &scenario.to_toml(),
    });
    files::write_files(&[(path.as_path(), page.as_bytes())])
}

/// One iteration of the first plan.
fn gantt(replay: &Replay, cost: &CostModel, events: &[NodeEvent]) -> anyhow::Result<Option<String>> {
    let Some((plan, cluster)) = first_plan(replay, events) else { return Ok(None) };
    let iteration = simulate(plan, &cluster, cost)?;
    let memory = memory_over_time(plan, &iteration.program, &iteration.timeline, cost);
    Ok(Some(gantt_svg(&IterationReport {
        plan,
        iteration: &iteration,
        memory: &memory,
        footprints: StageFootprint::of_plan(plan, &cluster, cost),
        seq_length: cost.model().seq_length,
    })))
}
