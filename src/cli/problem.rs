//! A cluster and a job to plan, from arguments and a scenario file.

use super::args::{JudgeName, ProblemArgs, VariationArgs};
use super::{job, voice};
use crate::cluster::Cluster;
use crate::cost::CostModel;
use crate::plan::{Judge, Plan, PlanError, PlanLimits, PlanRequest, PlannedIteration, Planner};
use crate::planner::sailor::SailorJudge;
use crate::report::{PlanReport, StageFootprint};
use crate::runtime::sim::{Repetitions, Simulator, repeat};
use crate::scenario::{Scenario, ScenarioFile};
use anyhow::anyhow;
use std::time::Instant;

/// What is planned.
pub(super) struct Problem {
    pub(super) cluster: Cluster,
    pub(super) cost: CostModel,
    pub(super) scenario: Scenario,
    judge: JudgeName,
    variation: VariationArgs,
}

impl Problem {
    /// The scenario file first, then the arguments. What is wrong with the file is told with its place.
    pub(super) fn new(args: &ProblemArgs) -> anyhow::Result<Self> {
        let file = args.scenario.as_deref().map(ScenarioFile::read).transpose()?;
        let mut scenario = file.as_ref().map(|file| file.scenario.clone()).unwrap_or_default();
        job::apply(&args.job, &mut scenario);
        scenario.cluster = args.cluster.clone().or(scenario.cluster);
        scenario.check()?;
        // An argument goes before the file, so it's the argument's fault.
        let in_file = |key: &str, is_argument: bool| match &file {
            Some(file) if !is_argument => file.place_of(key).map(|place| (place, key.to_owned())),
            _ => None,
        };
        let is_argument = args.job.model.is_some() || args.job.seq_length.is_some();
        let place = in_file("model", is_argument);
        scenario.model_spec().map_err(|error| placed(place, error.into()))?;
        let place = in_file("profile", !args.job.profile.is_empty());
        let cost = job::cost_model(&scenario).map_err(|error| placed(place, error))?;
        let described = scenario.cluster.as_deref().ok_or_else(|| no_cluster(args))?;
        let cluster = Cluster::from_argument(described, &job::node_defaults(&scenario.network));
        let place = in_file("cluster", args.cluster.is_some());
        let cluster = cluster.map_err(|error| placed(place, error.into()))?;
        voice::tell(|| {
            let (nodes, gpus, samples) =
                (cluster.nodes.len(), cluster.gpu_count(), scenario.training.global_batch_size);
            format!("{}, {samples} samples an iteration, on {nodes} nodes of {gpus} GPUs", scenario.model)
        });
        Ok(Self { cluster, cost, scenario, judge: args.judge, variation: args.variation })
    }

    pub(super) fn request(&self) -> PlanRequest<'_> {
        let (cost, training, judge) = (&self.cost, &self.scenario.training, self.judge());
        PlanRequest { cluster: &self.cluster, cost, training, judge, limits: PlanLimits::default() }
    }

    /// Who says how long an iteration takes.
    pub(super) fn judge(&self) -> &'static dyn Judge {
        match self.judge {
            JudgeName::Simulator => &Simulator,
            JudgeName::Sailor => &SailorJudge,
        }
    }

    /// Iterations of a plan that vary, where that was asked for.
    pub(super) fn repetitions(&self, plan: &Plan) -> anyhow::Result<Option<Repetitions>> {
        let Some((jitter, repetitions)) = self.variation.jitter() else { return Ok(None) };
        Ok(Some(repeat(plan, &self.cluster, &self.cost, &jitter, repetitions)?))
    }

    /// A plan and the wall-clock seconds that it took.
    pub(super) fn plan(&self, planner: &dyn Planner) -> Result<(PlannedIteration, f64), PlanError> {
        let start = Instant::now();
        let planned = planner.plan(&self.request())?;
        Ok((planned, start.elapsed().as_secs_f64()))
    }

    pub(super) fn report<'a>(&self, planned: &'a PlannedIteration, planning_s: f64) -> PlanReport<'a> {
        PlanReport {
            planned,
            footprints: StageFootprint::of_plan(&planned.plan, &self.cluster, &self.cost),
            seq_length: self.cost.model().seq_length,
            planning_s,
            usd_per_hour: planned.plan.usd_per_hour(&self.cluster),
        }
    }
}

fn placed(place: Option<(String, String)>, error: anyhow::Error) -> anyhow::Error {
    match place {
        Some((place, key)) => anyhow!("{place}: `{key}`: {error}"),
        None => error,
    }
}

fn no_cluster(args: &ProblemArgs) -> anyhow::Error {
    let file = args.scenario.as_deref().map_or_else(String::new, |file| format!("`{}`: ", file.display()));
    anyhow!(
        "{file}no cluster was given\nhint: add `cluster = \"2x8xA100-80\"` to the file, or name one with `--cluster`"
    )
}
