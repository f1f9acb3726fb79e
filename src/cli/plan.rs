//! `autohet-sim plan` and `autohet-sim compare`.

use super::args::{CompareArgs, Format, ObjectiveName, PlanArgs, ProblemArgs};
use super::page::Executed;
use super::problem::Problem;
use super::{Verdict, files, job, print, print_as, print_json, replan, voice};
use crate::cluster::{Cluster, Node};
use crate::explain::{self, ExplainError, Explanation};
use crate::plan::{Goal, Objective, PlanError, PlanLimits, PlanRequest, PlannedIteration, Planner, PricedPlan};
use crate::planner;
use crate::planner::objective::{self, Rented};
use crate::planner::replan::Replanned;
use crate::planner::sailor::SailorPlan;
use crate::report::{
    ComparedPlanner, PlanPage, PlanReport, Records, Screen, comparison_csv, comparison_json, comparison_markdown,
    comparison_table, explanation_text, fitting_changes_text, movement_json, movement_text, plan_heading, plan_html,
    plan_json, plan_records, plan_table, rented_json, rented_records, rented_table, unlike, variation_json,
    variation_text,
};
use crate::runtime::sim::Repetitions;
use crate::units::format_seconds;
use anyhow::anyhow;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What of a deadline is left when the search for better plans ends, or half of it: what was found is executed and written.
const RESERVED: Duration = Duration::from_millis(60);

pub(super) fn run_plan(args: &PlanArgs) -> anyhow::Result<Verdict> {
    let begin = Instant::now();
    check_places(args)?;
    let planner = match args.engine {
        Some(engine) => job::planner_with_engine(&args.planner, engine)?,
        None => job::planner(&args.planner)?,
    };
    let planner = job::scheduled(planner, &args.problem)?;
    let problem = Problem::new(&args.problem)?;
    let start = Instant::now();
    // Reading the question and writing the answer are within the deadline, too.
    let searched = |deadline: Duration| deadline.saturating_sub(RESERVED).max(deadline / 2);
    let is_over = || args.deadline.is_some_and(|deadline| begin.elapsed() >= searched(deadline));
    let limits = match args.deadline {
        Some(_) if args.planner != "autohet" => return Err(no_deadline(&args.planner)),
        Some(_) => PlanLimits { out_of_time: Some(&is_over), bound_work: 0, ..PlanLimits::default() },
        None => PlanLimits::default(),
    };
    let incumbent = args.incumbent.as_deref();
    let replanned = incumbent.map(|path| replan::replan(&problem, path, args.horizon_s, limits)).transpose()?;
    let rented = match &replanned {
        Some(replanned) => {
            let planned = replan::with_bound(&problem, replanned, args.deadline.is_some())?;
            Ok(Rented { planned, plans: Vec::new() })
        }
        None => rent(args, &problem, planner.as_ref(), limits),
    };
    voice::tell(|| format!("planned in {}", format_seconds(start.elapsed().as_secs_f64())));
    let Rented { planned, plans } = match rented {
        Err(error) if args.explain && is_verdict(&error) => return explain_misfit(&problem, &error, args.format),
        rented => rented?,
    };
    let planning_s = start.elapsed().as_secs_f64();
    let explained = args.explain.then(|| explained(args, &problem, planner.as_ref(), &planned)).transpose()?;
    write_plan(args, &problem, &planned, planning_s)?;
    if args.pareto || args.top_k.is_some() {
        return print_several(args, plans);
    }
    let repetitions = problem.repetitions(&planned.plan)?;
    let report = problem.report(&planned, planning_s);
    if problem.judge().is_closed_form() {
        let judge = problem.judge().name();
        voice::note(&format!(
            "note: iterations are those of the closed form of `{judge}`, the lower bound is that of our own cost model"
        ));
    }
    print_report(args.format, problem.judge().name(), &report, explained, replanned.as_ref(), repetitions.as_ref())?;
    Ok(Verdict::Good)
}

/// One plan, and what was asked of it besides.
fn print_report(
    format: Format,
    judge: &str,
    report: &PlanReport<'_>,
    explained: Option<Explanation>,
    replanned: Option<&Replanned>,
    repetitions: Option<&Repetitions>,
) -> anyhow::Result<()> {
    match format {
        Format::Table => {
            let screen = Screen::of_stdout();
            let explanation = explained.map(|explained| explanation_text(&explained, screen)).unwrap_or_default();
            let moves = replanned.map(movement_text).unwrap_or_default();
            let variation = repetitions.map(|of_plan| variation_text(&[("", of_plan)])).unwrap_or_default();
            print(&(plan_table(report, screen) + &variation + &moves + &explanation))?;
        }
        Format::Json => {
            let mut json = plan_json(report);
            json["judge"] = judge.into();
            if let Some(repetitions) = repetitions {
                json["variation"] = variation_json(repetitions);
            }
            if let Some(replanned) = replanned {
                json["movement"] = movement_json(replanned);
            }
            if let Some(explained) = explained {
                json["explanation"] = serde_json::to_value(explained)?;
            }
            print_json(&json)?;
        }
        Format::Csv => print(&plan_records(report).csv())?,
        Format::Markdown => {
            print(&format!("{}\n\n{}", plan_heading(report, Screen::PLAIN), plan_records(report).markdown()))?;
        }
    }
    Ok(())
}

/// Refuses files that couldn't be written, and two under one name.
fn check_places(args: &PlanArgs) -> anyhow::Result<()> {
    let places = [
        ("--out", args.out.as_deref()),
        ("--perfetto", args.perfetto.as_deref()),
        ("--export", args.export.as_deref()),
        ("--report", args.report.as_deref()),
    ];
    files::check_distinct(&places)?;
    let ProblemArgs { cluster, scenario, job, .. } = &args.problem;
    let names = [cluster, &job.model].into_iter().flatten().map(Path::new);
    let inputs: Vec<&Path> = scenario.iter().chain(&job.profile).map(PathBuf::as_path).chain(names).collect();
    files::check_kept(&inputs, &places)?;
    places.into_iter().filter_map(|(_, path)| path).try_for_each(files::check_writable)
}

fn no_deadline(planner: &str) -> anyhow::Error {
    anyhow!(
        "planner `{planner}` has no deadline: it is done when its space is\nhint: leave out `--deadline`, or use `autohet`"
    )
}

/// Why the plan is what it is. Where nodes were given back, on those that were kept: with the others it would be another
/// question.
fn explained(
    args: &PlanArgs,
    problem: &Problem,
    planner: &dyn Planner,
    planned: &PlannedIteration,
) -> Result<Explanation, ExplainError> {
    let request = problem.request();
    if problem.judge().is_closed_form() {
        voice::note(&format!(
            "note: what stages, links and the bubble take is told by the simulator, not by `{}`",
            problem.judge().name()
        ));
    }
    if !objective_of(args).needs_prices() {
        return explain::explain(&request, planner, planned);
    }
    let is_kept = |node: &&Node| planned.plan.stages().any(|(_, stage)| stage.node == node.name);
    let kept = Cluster { nodes: request.cluster.nodes.iter().filter(is_kept).cloned().collect() };
    voice::note(&format!(
        "note: explained is the plan on the {} nodes that it keeps of {}",
        kept.nodes.len(),
        request.cluster.nodes.len()
    ));
    explain::explain(&PlanRequest { cluster: &kept, ..request }, planner, planned)
}

/// The files that were asked for.
fn write_plan(args: &PlanArgs, problem: &Problem, planned: &PlannedIteration, planning_s: f64) -> anyhow::Result<()> {
    let plan = &planned.plan;
    let is_executed = args.perfetto.is_some() || args.report.is_some();
    let executed = is_executed.then(|| Executed::new(plan, &problem.cluster, &problem.cost)).transpose()?;
    let mut files = Vec::new();
    if let Some(path) = &args.out {
        files.push((path, plan.to_json()));
    }
    if let Some((path, executed)) = args.perfetto.as_ref().zip(executed.as_ref()) {
        files.push((path, executed.perfetto(plan)));
    }
    if let Some((path, executed)) = args.report.as_ref().zip(executed.as_ref()) {
        let page = PlanPage {
            cluster: problem.scenario.cluster.as_deref().unwrap_or_default(),
            report: &problem.report(planned, planning_s),
            iteration: &executed.report(plan),
            scenario: &problem.scenario.to_toml(),
        };
        files.push((path, plan_html(&page)));
    }
    if let Some(path) = &args.export {
        files.push((path, SailorPlan::of(plan).to_json()));
    }
    let files: Vec<(&Path, &[u8])> = files.iter().map(|(path, text)| (path.as_path(), text.as_bytes())).collect();
    files::write_files(&files)
}

/// The best plan for the objective, and everything else that was judged.
fn rent(
    args: &PlanArgs,
    problem: &Problem,
    planner: &dyn Planner,
    limits: PlanLimits<'_>,
) -> Result<Rented, PlanError> {
    let objective = objective_of(args);
    let request = PlanRequest { limits, ..problem.request() };
    let mut rented = objective::plan(&request, planner, &objective)?;
    if args.pareto && !objective.needs_prices() {
        rented.plans = objective::survey(&request, planner)?;
    }
    rented.plans.retain(|plan| objective.allows(plan));
    Ok(rented)
}

fn objective_of(args: &PlanArgs) -> Objective {
    let goal = match args.objective {
        ObjectiveName::Throughput => Goal::Throughput,
        ObjectiveName::UsdPerToken => Goal::UsdPerToken,
    };
    Objective { goal, min_tokens_per_s: args.min_tokens_per_s, max_usd_per_hour: args.max_usd_per_hour }
}

/// The best plans of unlike kinds, or the front of throughput and cost.
fn print_several(args: &PlanArgs, mut plans: Vec<PricedPlan>) -> anyhow::Result<Verdict> {
    let objective = objective_of(args);
    plans.sort_by(|a, b| objective.score(a).total_cmp(&objective.score(b)));
    let shown = match args.top_k {
        Some(most) => unlike(&plans, most as usize),
        None => PricedPlan::front(&plans),
    };
    let table = || rented_table(&shown, Screen::of_stdout());
    print_as(args.format, table, &rented_json(&shown), &rented_records(&shown))?;
    Ok(Verdict::Good)
}

/// Nothing fits, which is an answer too: with every change that would make it fit.
fn explain_misfit(problem: &Problem, error: &PlanError, format: Format) -> anyhow::Result<Verdict> {
    let changes = explain::fitting_changes(&problem.request());
    let mut records = Records::new(&[("fits_with", "fits with")]);
    for change in &changes {
        records.push(vec![change.as_str().into()]);
    }
    let table = || fitting_changes_text(&error.to_string(), &changes, Screen::of_stdout());
    print_as(format, table, &json!({ "error": error.to_string(), "fits_with": changes }), &records)?;
    Ok(Verdict::Bad)
}

pub(super) fn run_compare(args: &CompareArgs) -> anyhow::Result<Verdict> {
    let all = || planner::names().iter().map(|name| (*name).to_owned()).collect();
    let names: Vec<String> = args.planners.clone().unwrap_or_else(all);
    if let Some((_, twice)) = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
        return Err(anyhow!("planner `{twice}` is named twice\nhint: name each planner once"));
    }
    let planners = names.iter().map(|name| job::scheduled(job::planner(name)?, &args.problem));
    let planners = planners.collect::<anyhow::Result<Vec<_>>>()?;
    let problem = Problem::new(&args.problem)?;
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
    let mut varied = Vec::new();
    for (planner, planned) in &plans {
        if let Ok((planned, _)) = planned
            && let Some(repetitions) = problem.repetitions(&planned.plan)?
        {
            varied.push((*planner, repetitions));
        }
    }
    match args.format {
        Format::Table => {
            let varied: Vec<_> = varied.iter().map(|(planner, repetitions)| (*planner, repetitions)).collect();
            print(&(comparison_table(&compared, Screen::of_stdout()) + &variation_text(&varied)))?;
        }
        Format::Json => {
            let mut json = comparison_json(&compared);
            for (planner, repetitions) in &varied {
                json["planners"][planner]["variation"] = variation_json(repetitions);
            }
            print_json(&json)?;
        }
        Format::Markdown => print(&comparison_markdown(&compared))?,
        Format::Csv => print(&comparison_csv(&compared))?,
    }
    Ok(if plans.iter().any(|(_, planned)| planned.is_ok()) { Verdict::Good } else { Verdict::Bad })
}

/// Whether the error says that nothing fits, rather than that the question makes no sense.
pub(super) fn is_verdict(error: &PlanError) -> bool {
    matches!(error, PlanError::DoesNotFit { .. } | PlanError::Unmet { .. })
}
