//! The page that a replay leaves behind, `--report`.

use super::args::ReplayArgs;
use super::files;
use super::replay::nodes_at;
use crate::cost::CostModel;
use crate::metrics::memory_over_time;
use crate::replay::Replay;
use crate::report::{IterationReport, ReplayPage, StageFootprint, gantt_svg, replay_html};
use crate::runtime::sim::simulate;
use crate::scenario::Scenario;
use crate::trace::NodeEvent;
use std::path::Path;

/// Refuses a page that couldn't be written, or that would be written into the results.
pub(super) fn check(args: &ReplayArgs, out: &Path) -> anyhow::Result<()> {
    files::check_distinct(&[("--out", Some(out)), ("--report", args.report.as_deref())])?;
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
        model: &scenario.model,
        replay,
        tokens_per_iteration: samples * u64::from(cost.model().seq_length),
        gantt: gantt(replay, cost, events)?,
        scenario: &scenario.to_toml(),
    });
    files::write_files(&[(path.as_path(), page.as_bytes())])
}

/// One iteration of the first plan.
fn gantt(replay: &Replay, cost: &CostModel, events: &[NodeEvent]) -> anyhow::Result<Option<String>> {
    let first = replay.policies.iter().find_map(|outcome| Some((outcome, outcome.plans.first()?)));
    let Some((outcome, planned)) = first else { return Ok(None) };
    let start = outcome.segments.iter().find(|segment| segment.plan == Some(0)).map(|segment| segment.start);
    let cluster = nodes_at(start.unwrap_or_default(), events);
    let iteration = simulate(&planned.plan, &cluster, cost)?;
    let memory = memory_over_time(&planned.plan, &iteration.program, &iteration.timeline, cost);
    Ok(Some(gantt_svg(&IterationReport {
        plan: &planned.plan,
        iteration: &iteration,
        memory: &memory,
        footprints: StageFootprint::of_plan(&planned.plan, &cluster, cost),
        seq_length: cost.model().seq_length,
    })))
}
