//! Published planners to compare with, each at its best over its own space of plans.
//!
//! All lay out grids of replicas with the same layers in each stage, `P` stages by `D` replicas; they differ in how they
//! place devices, how they share layers and micro batches, and whether stages may have unlike tensor-parallel degrees.
//! Every grid that fits is priced for the real devices, the best few are executed, and the best of those is returned. So
//! that none loses by a GPU that is of no use to it, each may also leave out whole GPU types, as its user would.

mod alpa;
mod amp;
mod capacity;
mod grid;
mod megatron;
mod metis;
mod oobleck;
mod point;
mod varuna;
mod whale;

pub use alpa::Alpa;
pub use amp::Amp;
pub use megatron::Megatron;
pub use metis::Metis;
pub use oobleck::Oobleck;
pub use varuna::Varuna;
pub use whale::Whale;

use crate::model::Recompute;
use crate::plan::{Plan, PlanError, PlanRequest};

/// GPUs up to which all of them are asked; beyond, only those that are done in milliseconds.
const MAX_GPUS_FOR_ALL: u32 = 48;

/// The plans that these planners would execute, of the space that the request allows, in the name of `planner`; the best
/// by the closed form first. A planner that executes them all is never slower than these are. On large clusters they are those
/// of Megatron-LM, Whale and Varuna.
pub(super) fn most_promising(request: &PlanRequest, planner: &'static str) -> Result<Vec<Plan>, PlanError> {
    let mut plans = grid::most_promising(request, planner, whale::grids)?;
    plans.extend(grid::most_promising(request, planner, megatron::grids)?);
    if request.cluster.gpu_count() <= MAX_GPUS_FOR_ALL {
        plans.extend(grid::most_promising(request, planner, amp::grids)?);
        plans.extend(grid::most_promising(request, planner, metis::grids)?);
        plans.extend(grid::most_promising(request, planner, alpa::grids)?);
    }
    let training = request.training;
    if training.tensor_parallel_sizes.contains(&1) && training.recompute.contains(&Recompute::Full) {
        let training = varuna::settings(training);
        plans.extend(grid::most_promising(&PlanRequest { training: &training, ..*request }, planner, varuna::grids)?);
    }
    plans.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(plans.into_iter().map(|(_, plan)| plan).collect())
}

#[cfg(test)]
mod tests;
