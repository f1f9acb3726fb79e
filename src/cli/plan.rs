//! `autohet-sim plan` and `autohet-sim compare`.

use super::args::{CompareArgs, Format, JobArgs, PlanArgs};
use super::{Verdict, files, job, print, print_json};
use crate::cluster::Cluster;
use crate::cost::CostModel;
use crate::plan::{PlanError, PlanRequest, PlannedIteration, Planner};
use crate::planner;
use crate::report::{
    ComparedPlanner, PlanReport, Screen, StageFootprint, comparison_json, comparison_table, perfetto_json, plan_json,
    plan_table,
};
use crate::runtime::sim::{Simulator, simulate};
use crate::scenario::Scenario;
use anyhow::anyhow;
use std::path::Path;
use std::time::Instant;

/// A cluster and a job to plan.
struct Problem {
    cluster: Cluster,
    cost: CostModel,
    scenario: Scenario,
}

pub(super) fn run_plan(args: &PlanArgs) -> anyhow::Result<Verdict> {
    files::check_distinct(&[("--out", args.out.as_deref()), ("--perfetto", args.perfetto.as_deref())])?;
    let planner = match args.engine {
        Some(engine) => job::planner_with_engine(&args.planner, engine)?,
        None => job::planner(&args.planner)?,
    };
    let problem = Problem::new(&args.cluster, &args.job)?;
    let (planned, planning_s) = problem.plan(planner.as_ref())?;
    let mut files = Vec::new();
    if let Some(path) = &args.out {
        files.push((path, planned.plan.to_json()));
    }
    if let Some(path) = &args.perfetto {
        let iteration = simulate(&planned.plan, &problem.cluster, &problem.cost)?;
        files.push((path, perfetto_json(&planned.plan, &iteration.program, &iteration.timeline)));
    }
    let files: Vec<(&Path, &[u8])> = files.iter().map(|(path, text)| (path.as_path(), text.as_bytes())).collect();
    files::write_files(&files)?;
    let report = problem.report(&planned, planning_s);
    match args.format {
        Format::Table => print(&plan_table(&report, Screen::of_stdout()))?,
        Format::Json => print_json(&plan_json(&report))?,
    }
    Ok(Verdict::Good)
}

pub(super) fn run_compare(args: &CompareArgs) -> anyhow::Result<Verdict> {
    let all = || planner::names().iter().map(|name| (*name).to_owned()).collect();
    let names: Vec<String> = args.planners.clone().unwrap_or_else(all);
    if let Some((_, twice)) = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
        return Err(anyhow!("planner `{twice}` is named twice\nhint: name each planner once"));
    }
    let planners = names.iter().map(|name| job::planner(name)).collect::<anyhow::Result<Vec<_>>>()?;
    let problem = Problem::new(&args.cluster, &args.job)?;
    let mut plans = Vec::new();
    for planner in &planners {
        match problem.plan(planner.as_ref()) {
            Err(error) if !is_verdict(&error) => return Err(error.into()),
            planned => plans.push((planner.name(), planned)),
        }
    }
    let compared: Vec<ComparedPlanner<'_>> = plans
        .iter()
        .map(|(planner, planned)| ComparedPlanner {
            planner,
            result: match planned {
                Ok((planned, planning_s)) => Ok(problem.report(planned, *planning_s)),
                Err(error) => Err(error.to_string()),
            },
        })
        .collect();
    match args.format {
        Format::Table => print(&comparison_table(&compared, Screen::of_stdout()))?,
        Format::Json => print_json(&comparison_json(&compared))?,
    }
    Ok(if plans.iter().any(|(_, planned)| planned.is_ok()) { Verdict::Good } else { Verdict::Bad })
}

/// Whether the error says that nothing fits, rather than that the question makes no sense.
pub(super) fn is_verdict(error: &PlanError) -> bool {
    matches!(error, PlanError::DoesNotFit { .. })
}

impl Problem {
    fn new(cluster: &str, args: &JobArgs) -> anyhow::Result<Self> {
        let mut scenario = Scenario::default();
        job::apply(args, &mut scenario);
        scenario.check()?;
        let cost = job::cost_model(&scenario)?;
        let cluster = Cluster::from_argument(cluster, &job::node_defaults(&scenario.network))?;
        Ok(Self { cluster, cost, scenario })
    }

    /// A plan and the wall-clock seconds that it took.
    fn plan(&self, planner: &dyn Planner) -> Result<(PlannedIteration, f64), PlanError> {
        let start = Instant::now();
        let planned = planner.plan(&PlanRequest {
            cluster: &self.cluster,
            cost: &self.cost,
            training: &self.scenario.training,
            judge: &Simulator,
        })?;
        Ok((planned, start.elapsed().as_secs_f64()))
    }

    fn report<'a>(&self, planned: &'a PlannedIteration, planning_s: f64) -> PlanReport<'a> {
        PlanReport {
            planned,
            footprints: StageFootprint::of_plan(&planned.plan, &self.cluster, &self.cost),
            seq_length: self.cost.model().seq_length,
            planning_s,
        }
    }
}
