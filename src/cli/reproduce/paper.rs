//! `autohet-sim reproduce paper`: the comparison of AutoHet (arXiv 2512.20953) on this simulator.

use crate::cli::args::{Format, JobArgs, JudgeName, ProblemArgs, ReproduceArgs, VariationArgs};
use crate::cli::plan::is_verdict;
use crate::cli::problem::Problem;
use crate::cli::{Verdict, job, print};
use crate::explain::shape;
use crate::plan::Planner;
use crate::report::{
    ReproducedCase, ReproducedPlan, Reproduction, ResultsFolder, Screen, reproduction_csv, reproduction_markdown,
    reproduction_svg, reproduction_table,
};
use anyhow::anyhow;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rayon::prelude::*;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the cases are, and how their files are called.
const FOLDER: &str = "scenarios";
const PREFIX: &str = "paper-";

pub(in crate::cli) fn run_paper(args: &ReproduceArgs) -> anyhow::Result<Verdict> {
    let files = if args.scenarios.is_empty() { files_of_the_paper()? } else { args.scenarios.clone() };
    let problems = files.iter().map(|file| problem(file)).collect::<anyhow::Result<Vec<_>>>()?;
    let planners = crate::planner::names().iter().map(|name| job::planner(name)).collect::<anyhow::Result<Vec<_>>>()?;
    ResultsFolder::check(&args.out)?;
    let bar =
        ProgressBar::with_draw_target(Some((problems.len() * planners.len()) as u64), ProgressDrawTarget::hidden());
    bar.set_style(ProgressStyle::with_template("planning {bar:40} {pos}/{len}  {eta} left")?);
    let shown = !args.quiet && std::io::stderr().is_terminal();
    let cases = problems.par_iter().map(|(name, problem)| {
        let plans = planners.par_iter().map(|planner| {
            let planned = plan(problem, planner.as_ref());
            bar.inc(1);
            if shown && bar.is_hidden() && bar.elapsed() > Duration::from_secs(1) {
                bar.set_draw_target(ProgressDrawTarget::stderr());
            }
            planned
        });
        let plans = plans.collect::<anyhow::Result<Vec<ReproducedPlan>>>()?;
        Ok(ReproducedCase::new(name, &problem.request(), plans)?)
    });
    let cases = cases.collect::<anyhow::Result<Vec<ReproducedCase>>>()?;
    bar.finish_and_clear();
    let reproduction = Reproduction { cases };
    let folder = ResultsFolder::create(&args.out)?;
    folder.write("summary.json", serde_json::to_string_pretty(&reproduction)? + "\n")?;
    folder.write("ratios.csv", reproduction_csv(&reproduction))?;
    folder.write("ratios.svg", reproduction_svg(&reproduction))?;
    folder.write("README.md", reproduction_markdown(&reproduction))?;
    let written = folder.commit()?;
    match args.format {
        Format::Json => print(&serde_json::to_string_pretty(&reproduction)?)?,
        Format::Csv => print(&reproduction_csv(&reproduction))?,
        Format::Markdown => print(&reproduction_markdown(&reproduction))?,
        Format::Table => {
            let table = reproduction_table(&reproduction, Screen::of_stdout());
            print(&format!("{table}details: {} (start with README.md)\n", written.display()))?;
        }
    }
    let all_planned = reproduction.cases.iter().all(|case| case.plan_of("autohet").is_some());
    Ok(if all_planned { Verdict::Good } else { Verdict::Bad })
}

/// The scenario files of the paper's cases, by name.
fn files_of_the_paper() -> anyhow::Result<Vec<PathBuf>> {
    let is_case = |path: &PathBuf| {
        let is_ours = path.file_stem().is_some_and(|stem| stem.to_string_lossy().starts_with(PREFIX));
        is_ours && path.extension().is_some_and(|extension| extension == "toml")
    };
    let hint = "run it in a clone of the repository, or name cases with `--scenario`";
    let entries =
        std::fs::read_dir(FOLDER).map_err(|error| anyhow!("cannot read `{FOLDER}`: {error}\nhint: {hint}"))?;
    let mut files: Vec<PathBuf> = entries.filter_map(Result::ok).map(|entry| entry.path()).filter(is_case).collect();
    files.sort();
    if files.is_empty() {
        return Err(anyhow!("`{FOLDER}` has no `{PREFIX}*.toml`\nhint: {hint}"));
    }
    Ok(files)
}

/// A case with its name: that of its file without `paper-`.
fn problem(file: &Path) -> anyhow::Result<(String, Problem)> {
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let name = stem.strip_prefix(PREFIX).unwrap_or(&stem).to_owned();
    let args = ProblemArgs {
        cluster: None,
        scenario: Some(file.to_owned()),
        job: JobArgs::default(),
        variation: VariationArgs::default(),
        judge: JudgeName::Simulator,
        schedule: None,
    };
    Ok((name, Problem::new(&args)?))
}

fn plan(problem: &Problem, planner: &dyn Planner) -> anyhow::Result<ReproducedPlan> {
    let planner_name = planner.name().to_owned();
    match planner.plan(&problem.request()) {
        Ok(planned) => Ok(ReproducedPlan {
            planner: planner_name,
            iteration_s: Some(planned.predicted_iteration_s),
            lower_bound_s: Some(planned.lower_bound_s),
            gpus_in_use: planned.plan.world_size(),
            shape: shape(&planned.plan),
        }),
        Err(error) if is_verdict(&error) => Ok(ReproducedPlan {
            planner: planner_name,
            iteration_s: None,
            lower_bound_s: None,
            gpus_in_use: 0,
            shape: error.to_string().lines().next().unwrap_or_default().to_owned(),
        }),
        Err(error) => Err(error.into()),
    }
}
