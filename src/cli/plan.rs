//! `autohet-sim plan` and `autohet-sim compare`.

use super::args::{CompareArgs, Format, JobArgs, PlanArgs};
use super::{Verdict, files, job, print, print_json};
use crate::cluster::Cluster;
use crate::cost::CostModel;
use crate::input;
use crate::plan::{Plan, PlanError, PlanLimits, PlanRequest, PlannedIteration, Planner};
use crate::planner;
use crate::planner::autohet::AutoHet;
use crate::planner::replan::{Incumbent, Replanned, replan};
use crate::report::{
    ComparedPlanner, PlanReport, Screen, StageFootprint, comparison_json, comparison_table, movement_json,
    movement_text, perfetto_json, plan_json, plan_table,
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
    let planner = job::planner(&args.planner)?;
    let problem = Problem::new(&args.cluster, &args.job)?;
    let start = Instant::now();
    let is_over = || args.deadline.is_some_and(|deadline| start.elapsed() >= deadline);
    let limits = PlanLimits { out_of_time: args.deadline.is_some().then_some(&is_over), ..PlanLimits::default() };
    let replanned = args.incumbent.as_deref().map(|path| problem.replan(path, args.horizon_s, limits)).transpose()?;
    let (planned, planning_s) = match &replanned {
        Some((replanned, planning_s)) => (problem.with_bound(replanned)?, *planning_s),
        None => problem.plan(planner.as_ref(), limits)?,
    };
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
        Format::Table => {
            let moves = replanned.as_ref().map_or_else(String::new, |(replanned, _)| movement_text(replanned));
            print(&(plan_table(&report, Screen::of_stdout()) + &moves))?;
        }
        Format::Json => {
            let mut json = plan_json(&report);
            if let Some((replanned, _)) = &replanned {
                json["movement"] = movement_json(replanned);
            }
            print_json(&json)?;
        }
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
        match problem.plan(planner.as_ref(), PlanLimits::default()) {
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
    fn plan(&self, planner: &dyn Planner, limits: PlanLimits) -> Result<(PlannedIteration, f64), PlanError> {
        let start = Instant::now();
        let planned = planner.plan(&self.request(limits))?;
        Ok((planned, start.elapsed().as_secs_f64()))
    }

    /// A plan from the one in the file, and the wall-clock seconds that it took.
    fn replan(&self, path: &Path, horizon_s: f64, limits: PlanLimits) -> anyhow::Result<(Replanned, f64)> {
        let name = path.display().to_string();
        let text = input::read_text(path)
            .map_err(|error| anyhow!("cannot read `{name}`: {error}\nhint: `autohet-sim plan --out` writes plans"))?;
        let old = Plan::from_json(&text, &name)?;
        if let Err(violations) = old.validate_shape(self.cost.model()) {
            return Err(anyhow!("`{name}` isn't a plan for this job: {}", violations[0]));
        }
        let start = Instant::now();
        let settings = &self.scenario.reconfiguration;
        let incumbent = Incumbent {
            plan: &old,
            horizon_s,
            pause_s: settings.detection_s + settings.planning_s + settings.rendezvous_s + settings.communicators_s,
            store_bytes_per_s: self.scenario.checkpoint.bandwidths().object_store_bytes_per_s,
        };
        let replanned = replan(&self.request(limits), &incumbent)?;
        Ok((replanned, start.elapsed().as_secs_f64()))
    }

    /// The bound is worked out behind the clock: re-planning does without it.
    fn with_bound(&self, replanned: &Replanned) -> Result<PlannedIteration, PlanError> {
        let lower_bound_s = AutoHet::lower_bound_s(&self.request(PlanLimits::default()))?;
        Ok(PlannedIteration {
            plan: replanned.plan.clone(),
            predicted_iteration_s: replanned.iteration_s,
            lower_bound_s,
            gap: (replanned.iteration_s - lower_bound_s) / lower_bound_s,
        })
    }

    fn request<'a>(&'a self, limits: PlanLimits<'a>) -> PlanRequest<'a> {
        let (cluster, cost, training) = (&self.cluster, &self.cost, &self.scenario.training);
        PlanRequest { cluster, cost, training, judge: &Simulator, limits }
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
