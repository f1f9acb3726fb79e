//! A run that plans.

use super::memory::Shared;
use super::run::Point;
use super::{Effort, SweepFile};
use crate::cluster::Cluster;
use crate::cost::CostError;
use crate::plan::{PlanError, PlanLimits, PlanRequest, PlannedIteration, Planner};
use crate::planner;
use crate::planner::autohet::AutoHet;
use crate::report::{SweepOutcome, SweepStatus, rounded};
use crate::scenario::Scenario;
use serde_json::{Map, Value};

/// A mix of nodes with its plan.
#[derive(Clone, Debug)]
pub struct PlannedMix {
    /// The nodes.
    pub cluster: Cluster,
    /// What is planned for them.
    pub planned: PlannedIteration,
}

/// The plan of a scenario's job on a cluster by autohet.
///
/// # Errors
/// What is wrong with the job, or why there is no plan, as text with its hint; the flag says that nothing fits.
pub fn plan_mix(
    scenario: &Scenario,
    cluster: Cluster,
    effort: Effort,
    shared: &Shared,
) -> Result<PlannedMix, (bool, String)> {
    let planned = planned(scenario, &cluster, ("autohet", effort, false), shared)?;
    Ok(PlannedMix { cluster, planned })
}

fn planned(
    scenario: &Scenario,
    cluster: &Cluster,
    (name, effort, bound): (&str, Effort, bool),
    shared: &Shared,
) -> Result<PlannedIteration, (bool, String)> {
    let cost = shared.cost(scenario).map_err(|error| (false, error.to_string()))?;
    let judge = shared.judge(&cost);
    let request = PlanRequest {
        cluster,
        cost: &cost.model,
        training: &scenario.training,
        judge: &judge,
        limits: PlanLimits::default(),
    };
    let request = if bound { request } else { request.without_proof() };
    let planner: Box<dyn Planner> = match planner::by_name(name) {
        Some(planner) if name != "autohet" => planner,
        _ => Box::new(AutoHet { engine: effort.engine() }),
    };
    planner.plan(&request).map_err(|error| {
        // That none of a mix's GPUs computes in the precision is said of the mix, as that its memory is too small.
        let is_verdict = matches!(
            error,
            PlanError::DoesNotFit { .. }
                | PlanError::EmptyCluster
                | PlanError::Unmet { .. }
                | PlanError::Cost(CostError::Precision { .. })
        );
        (is_verdict, error.to_string())
    })
}

pub(super) fn run(point: &Point, planner: &str, sweep: &SweepFile, shared: &Shared) -> SweepOutcome {
    let Point { scenario, cluster, .. } = point;
    let Some(described) = cluster else {
        return SweepOutcome::without_figures(SweepStatus::Infeasible, "the cluster has no GPUs");
    };
    let cluster = match Cluster::from_argument(described, &scenario.network.node_defaults()) {
        Ok(cluster) => cluster,
        Err(error) => return SweepOutcome::without_figures(SweepStatus::Error, error.to_string()),
    };
    match planned(scenario, &cluster, (planner, sweep.effort, sweep.bound), shared) {
        Ok(planned) => {
            let seq_length = shared.cost(scenario).map_or(0, |cost| cost.model.model().seq_length);
            let figures = figures(&planned, &cluster, seq_length, sweep.bound);
            SweepOutcome { status: SweepStatus::Ok, reason: None, figures }
        }
        Err((true, reason)) => SweepOutcome::without_figures(SweepStatus::Infeasible, reason),
        Err((false, reason)) => SweepOutcome::without_figures(SweepStatus::Error, reason),
    }
}

/// What is rented is the mix, so all its nodes are paid, whether or not the plan uses them.
fn figures(planned: &PlannedIteration, cluster: &Cluster, seq_length: u32, bound: bool) -> Map<String, Value> {
    let plan = &planned.plan;
    let tokens = f64::from(plan.global_batch_size) * f64::from(seq_length);
    let tokens_per_s = tokens / planned.predicted_iteration_s;
    let usd_per_hour = cluster.price_usd_per_hour();
    let depth = plan.replicas.iter().map(|replica| replica.stages.len()).max().unwrap_or_default();
    let mut figures = Map::new();
    let mut put = |name: &str, value: Value| drop(figures.insert(name.to_owned(), value));
    put("tokens_per_s", rounded(tokens_per_s));
    put("iteration_s", rounded(planned.predicted_iteration_s));
    put("usd_per_hour", rounded(usd_per_hour));
    put("usd_per_million_tokens", rounded(usd_per_hour / 3600.0 / tokens_per_s * 1e6));
    put("gpus", cluster.gpu_count().into());
    put("gpus_used", plan.world_size().into());
    put("replicas", plan.replicas.len().into());
    put("stages", depth.into());
    put("tensor_parallel", plan.tensor_parallel_text().into());
    put("micro_batch_size", plan.micro_batch_size.into());
    put("recompute", plan.recompute.to_string().into());
    put("schedule", plan.schedule.to_string().into());
    if bound {
        put("lower_bound_s", rounded(planned.lower_bound_s));
        put("gap", rounded(planned.gap));
    }
    figures
}
