//! Job morphing's grids after Varuna (Athlur et al. 2022).

use super::grid::{Grid, Space, best_over};
use crate::model::Recompute;
use crate::plan::{PlanError, PlanRequest, PlannedIteration, Planner, TrainingSettings};
use crate::planner::room::Place;

/// Varuna: the best pipeline depth and number of replicas for the devices at hand, `P × D`, without tensor parallelism.
///
/// It takes devices for equal: layers and micro batches are dealt out evenly (to within one), every stage must fit the
/// smallest device in use, activations are recomputed in full. Every depth is tried, with the most replicas that the
/// devices give; devices beyond the grid stay idle, and GPU types may be left out.
///
/// Not modelled: its opportunistic schedule, which re-orders passes when a network is slow for a while.
#[derive(Clone, Copy, Debug, Default)]
pub struct Varuna;

impl Planner for Varuna {
    fn name(&self) -> &'static str {
        "varuna"
    }

    fn plan(&self, request: &PlanRequest) -> Result<PlannedIteration, PlanError> {
        let training = settings(request.training);
        best_over(&PlanRequest { training: &training, ..*request }, self.name(), grids)
    }
}

/// The part of the space that Varuna knows.
pub(super) fn settings(training: &TrainingSettings) -> TrainingSettings {
    TrainingSettings { tensor_parallel_sizes: vec![1], recompute: vec![Recompute::Full], ..training.clone() }
}

pub(super) fn grids(space: &Space) -> Vec<Grid> {
    let units = space.units(1);
    let mut found = Vec::new();
    for depth in 1..=(space.num_layers() as usize).min(units.len()) {
        let replicas = (units.len() / depth).min(space.micro_batches() as usize);
        let layers = evenly(space.num_layers(), depth);
        let micro_batches = evenly(space.micro_batches(), replicas);
        if fits_smallest(space, &layers, &micro_batches) {
            let rows = units[..depth * replicas].chunks(depth).map(<[_]>::to_vec).collect();
            found.push(Grid { units: rows, layers, micro_batches });
        }
    }
    found
}

/// Whether every stage would fit, were all devices the smallest in use.
fn fits_smallest(space: &Space, layers: &[u32], micro_batches: &[u32]) -> bool {
    let Some(point) = space.points.first() else { return false };
    layers.iter().enumerate().all(|(stage, &held)| {
        // The first replica has most of them.
        let (depth, replicas) = (layers.len(), micro_batches.len() as u32);
        let place = Place { stage, depth, micro_batches: micro_batches[0], replicas };
        let used = point.classes.iter().zip(&space.uses).filter(|(_, used)| **used);
        used.map(|(class, _)| class).all(|class| class.max_layers(place) >= held)
    })
}

/// `total` in `parts` that differ by one at most, the larger first.
fn evenly(total: u32, parts: usize) -> Vec<u32> {
    let (share, more) = (total / parts as u32, total as usize % parts);
    (0..parts).map(|part| share + u32::from(part < more)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_differ_by_one_at_most() {
        assert_eq!(evenly(7, 3), [3, 2, 2]);
        assert_eq!(evenly(6, 3), [2, 2, 2]);
    }
}
