//! `autohet-sim iteration`.

use super::args::{IterationArgs, JobArgs};
use super::page::Executed;
use super::{Verdict, files, job, print_as, voice};
use crate::cluster::Cluster;
use crate::cost::CostModel;
use crate::input;
use crate::plan::{Plan, PlanViolation, cluster_of_plan};
use crate::report::{Records, Screen, gantt_svg, iteration_json, iteration_table, variation_json, variation_text};
use crate::runtime::sim::repeat;
use crate::scenario::{Scenario, ScenarioFile};
use anyhow::anyhow;
use std::path::Path;

pub(super) fn run(args: &IterationArgs) -> anyhow::Result<Verdict> {
    files::check_distinct(&[("--gantt", args.gantt.as_deref()), ("--perfetto", args.perfetto.as_deref())])?;
    let plan = read_plan(&args.plan)?;
    let (cluster, cost) = world(args, &plan)?;
    let verdict = check(&plan, &cluster, &cost, &args.plan)?;
    let executed = voice::timed(|_| "executed an iteration".into(), || Executed::new(&plan, &cluster, &cost))?;
    let report = executed.report(&plan);
    let mut written = Vec::new();
    if let Some(path) = &args.gantt {
        written.push((path.as_path(), gantt_svg(&report)));
    }
    if let Some(path) = &args.perfetto {
        written.push((path.as_path(), executed.perfetto(&plan)));
    }
    let written: Vec<(&Path, &[u8])> = written.iter().map(|(path, text)| (*path, text.as_bytes())).collect();
    files::write_files(&written)?;
    let mut json = iteration_json(&report);
    let varied = args.variation.jitter();
    let varied = varied.map(|(jitter, times)| repeat(&plan, &cluster, &cost, &jitter, times)).transpose()?;
    if let Some(repetitions) = &varied {
        json["variation"] = variation_json(repetitions);
    }
    let variation = varied.as_ref().map(|of_plan| variation_text(&[("", of_plan)])).unwrap_or_default();
    let stages = Records::of_json(json["stages"].as_array().into_iter().flatten());
    print_as(args.format, || iteration_table(&report, Screen::of_stdout()) + &variation, &json, &stages)?;
    Ok(verdict)
}

/// The plan in a file.
pub(super) fn read_plan(path: &Path) -> anyhow::Result<Plan> {
    let name = path.display().to_string();
    let text = input::read_text(path)
        .map_err(|error| anyhow!("cannot read `{name}`: {error}\nhint: `autohet-sim plan --out` writes plans"))?;
    Ok(Plan::from_json(&text, &name)?)
}

/// The scenario file first, then the arguments; the model is the plan's.
fn world(args: &IterationArgs, plan: &Plan) -> anyhow::Result<(Cluster, CostModel)> {
    let file = args.scenario.as_deref().map(ScenarioFile::read).transpose()?;
    let mut scenario: Scenario = file.as_ref().map(|file| file.scenario.clone()).unwrap_or_default();
    let model = plan.model.spec()?;
    if let Some(place) = file.as_ref().and_then(|file| file.place_of("model"))
        && scenario.model_spec()? != model
    {
        let (found, expected) = (&scenario.model, &plan.model);
        return Err(anyhow!(
            "{place}: the model is `{found}`, the plan is for `{expected}`\nhint: name the plan's model"
        ));
    }
    let given = JobArgs {
        profile: args.profile.clone(),
        nic_gbit_per_s: args.nic_gbit_per_s,
        nic_latency_us: args.nic_latency_us,
        ..JobArgs::default()
    };
    job::apply(&given, &mut scenario);
    scenario.cluster = args.cluster.clone().or(scenario.cluster);
    scenario.check()?;
    let cost = scenario.cost_model_of(model)?;
    let defaults = job::node_defaults(&scenario.network);
    let cluster = match &scenario.cluster {
        Some(described) => Cluster::from_argument(described, &defaults)?,
        None => cluster_of_plan(plan, &defaults)?,
    };
    Ok((cluster, cost))
}

/// A plan that needs more memory than there is can be looked at all the same; what else is wrong with it can't be simulated.
fn check(plan: &Plan, cluster: &Cluster, cost: &CostModel, path: &Path) -> anyhow::Result<Verdict> {
    let Err(violations) = plan.validate(cluster, cost) else { return Ok(Verdict::Good) };
    if let Some(other) = violations.iter().find(|found| !matches!(found, PlanViolation::Memory { .. })) {
        let name = path.display();
        return Err(anyhow!(
            "`{name}` can't run here: {other}\nhint: plan again with `autohet-sim plan` for this cluster"
        ));
    }
    for violation in violations {
        voice::note(&format!("warning: {violation}"));
    }
    Ok(Verdict::Bad)
}
