//! What would help: the best plans with one limit lifted, and, where nothing fits, what would make it fit.

use crate::cluster::{Cluster, GpuSpec};
use crate::plan::{PlanError, PlanRequest, PlannedIteration, Planner};
use crate::planner;
use rayon::prelude::*;
use serde::Serialize;
use std::sync::Arc;

/// By how much a limit is lifted.
const FACTOR: f64 = 2.0;

/// A limit that is lifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Memory of all GPUs.
    Memory,
    /// Bandwidth between nodes.
    Network,
    /// Bandwidth within nodes.
    IntraNode,
    /// Samples of an iteration: less bubble and fewer synchronisations for each of them.
    GlobalBatchSize,
}

/// The best plan with one limit lifted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Remedy {
    /// The limit.
    pub limit: Limit,
    /// How many times as much there would be of it.
    pub factor: f64,
    /// How many times as many samples a second would be trained.
    pub speedup: f64,
}

/// Plans anew with each limit lifted.
pub(super) fn planned_without_limits(
    request: &PlanRequest,
    planner: &dyn Planner,
    planned: &PlannedIteration,
) -> Result<Vec<Remedy>, PlanError> {
    let request = &request.without_proof();
    let limits = [Limit::Memory, Limit::Network, Limit::IntraNode, Limit::GlobalBatchSize];
    let remedies = limits.into_par_iter().map(|limit| {
        let (mut cluster, mut training) = (request.cluster.clone(), request.training.clone());
        match limit {
            Limit::Memory => change_gpus(&mut cluster, |gpu| {
                gpu.memory_bytes = (gpu.memory_bytes as f64 * FACTOR) as u64;
            }),
            Limit::IntraNode => change_gpus(&mut cluster, |gpu| gpu.intra_node.bytes_per_s *= FACTOR),
            Limit::Network => cluster.nodes.iter_mut().for_each(|node| node.nic.bytes_per_s *= FACTOR),
            Limit::GlobalBatchSize => {
                training.global_batch_size = training.global_batch_size.saturating_mul(FACTOR as u32);
            }
        }
        let samples = f64::from(training.global_batch_size) / f64::from(request.training.global_batch_size);
        let lifted = planner.plan(&PlanRequest { cluster: &cluster, training: &training, ..*request })?;
        let speedup = planned.predicted_iteration_s / lifted.predicted_iteration_s * samples;
        Ok(Remedy { limit, factor: FACTOR, speedup })
    });
    remedies.collect()
}

/// Changes each GPU type once, so that equal types stay the same.
fn change_gpus(cluster: &mut Cluster, change: impl Fn(&mut GpuSpec)) {
    let mut changed: Vec<(Arc<GpuSpec>, Arc<GpuSpec>)> = Vec::new();
    for node in &mut cluster.nodes {
        let known = changed.iter().find(|(before, _)| *before == node.gpu).map(|(_, after)| after.clone());
        node.gpu = known.unwrap_or_else(|| {
            let mut after = GpuSpec::clone(&node.gpu);
            change(&mut after);
            let after = Arc::new(after);
            changed.push((node.gpu.clone(), after.clone()));
            after
        });
    }
}

/// Every change by which a plan would fit that doesn't, the smallest first; empty where none is known.
pub fn fitting_changes(request: &PlanRequest) -> Vec<String> {
    planner::autohet::fitting_changes(request)
}
