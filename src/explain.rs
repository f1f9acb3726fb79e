//! Why a plan is what it is: where an iteration's time goes, which stage is the bottleneck and what keeps it from being
//! relieved, what each other choice would have cost, and what would help.
//!
//! Nothing is remembered from the search. Every alternative is planned anew with one choice fixed, every remedy with one limit
//! lifted, by the same planner and the same judge, so that the figures can be compared.

mod alternatives;
mod remedies;
mod stages;
#[cfg(test)]
mod tests;

pub use alternatives::shape;
pub use alternatives::{Alternative, Choice, NextBest};
pub use remedies::{Limit, Remedy, fitting_changes};
pub use stages::{Binding, Bottleneck, Links, SlowestLink, StageFacts, TimeShares};

use crate::plan::{PlanError, PlanRequest, PlannedIteration, Planner};
use crate::runtime::sim::{SimError, simulate};
use serde::Serialize;

/// What there is to say about a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// What the time of the GPUs in use goes into.
    pub time: TimeShares,
    /// By replica and stage.
    pub stages: Vec<Vec<StageFacts>>,
    /// The stage that sets the pace.
    pub bottleneck: Bottleneck,
    /// What transfers and gradient synchronisation take.
    pub links: Links,
    /// GPUs by type, used and not.
    pub devices: Vec<Devices>,
    /// The best plans with one choice made otherwise.
    pub alternatives: Vec<Alternative>,
    /// The next best plans that were executed before this one was chosen.
    pub next_best: Vec<NextBest>,
    /// The best plans with one limit lifted.
    pub remedies: Vec<Remedy>,
}

/// GPUs of a type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Devices {
    /// The type.
    pub gpu_type: String,
    /// In the cluster.
    pub available: u32,
    /// In the plan.
    pub used: u32,
}

/// Why there is no explanation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExplainError {
    /// A question that the explanation asks the planner can't be answered.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The plan can't be executed.
    #[error(transparent)]
    Simulation(#[from] SimError),
}

/// Explains a plan that `planner` made for `request`.
pub fn explain(
    request: &PlanRequest,
    planner: &dyn Planner,
    planned: &PlannedIteration,
) -> Result<Explanation, ExplainError> {
    let PlanRequest { cluster, cost, .. } = *request;
    let iteration = simulate(&planned.plan, cluster, cost)?;
    let stages = stages::facts(&planned.plan, request, &iteration);
    let alternatives = alternatives::planned_otherwise(request, planner, planned)?;
    Ok(Explanation {
        time: stages::time_shares(&iteration),
        bottleneck: stages::bottleneck(&planned.plan, &stages),
        links: stages::links(&planned.plan, request, &iteration),
        stages,
        devices: devices(request, planned),
        next_best: alternatives::next_best(planned, &alternatives),
        alternatives,
        remedies: remedies::planned_without_limits(request, planner, planned)?,
    })
}

fn devices(request: &PlanRequest, planned: &PlannedIteration) -> Vec<Devices> {
    let mut all: Vec<Devices> = Vec::new();
    for node in &request.cluster.nodes {
        match all.iter_mut().find(|devices| devices.gpu_type == node.gpu.name) {
            Some(devices) => devices.available += node.gpu_count,
            None => all.push(Devices { gpu_type: node.gpu.name.clone(), available: node.gpu_count, used: 0 }),
        }
    }
    for stage in planned.plan.replicas.iter().flat_map(|replica| &replica.stages) {
        if let Some(devices) = all.iter_mut().find(|devices| devices.gpu_type == stage.gpu_type) {
            devices.used += stage.gpus.len() as u32;
        }
    }
    all
}
