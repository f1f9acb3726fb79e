//! Published planners to compare with, each at its best over its own grid of plans.
//!
//! All lay out grids of equal replicas, `P` stages by `D` replicas. Every point of the grid that fits is priced for the
//! real devices, the best few are executed, and the best of those is returned. So that none loses by a GPU that is of
//! no use to it, each may also leave out whole GPU types, as its user would.

mod grid;
mod megatron;
mod varuna;
mod whale;

pub use megatron::Megatron;
pub use varuna::Varuna;
pub use whale::Whale;

use super::autohet::outer::Outer;
use crate::model::Recompute;
use crate::plan::{Plan, PlanError, PlanRequest};

/// The plans that these planners would execute, of the space that the request allows, in the name of `planner`; the best
/// by the closed form first. A planner that executes them all is never slower than these are.
pub(super) fn most_promising(
    request: &PlanRequest,
    planner: &'static str,
    outer: &Outer,
) -> Result<Vec<Plan>, PlanError> {
    let mut plans = grid::most_promising(request, planner, outer, whale::grids)?;
    plans.extend(grid::most_promising(request, planner, outer, megatron::grids)?);
    let training = request.training;
    if training.tensor_parallel_sizes.contains(&1) && training.recompute.contains(&Recompute::Full) {
        let training = varuna::settings(training);
        let request = PlanRequest { training: &training, ..*request };
        if let Ok(outer) = Outer::new(&request, planner) {
            plans.extend(grid::most_promising(&request, planner, &outer, varuna::grids)?);
        }
    }
    plans.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(plans.into_iter().map(|(_, plan)| plan).collect())
}

#[cfg(test)]
mod tests;
