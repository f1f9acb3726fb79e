//! Symmetric 3D parallelism as Megatron-LM runs it (Narayanan et al. 2021).

use super::grid::{Grid, Space, Unit, best_over};
use super::point::Point;
use crate::plan::{PlanError, PlanRequest, PlannedIteration, Planner};

/// Symmetric Megatron-LM: the best of its grid of tensor-parallel, pipeline-parallel and data-parallel degrees, micro
/// batch sizes and recompute settings.
///
/// It takes all devices for equal: `L` must be divisible by the stages, every stage gets as many layers, every replica as
/// many micro batches. What is tried is what its user would keep: every stage fits the device that it is on. Devices are
/// taken in the order of the cluster, in either of Megatron's rank orders (`tp-dp-pp`, its default, and `tp-pp-dp`). The
/// world is the largest that the grid can form, devices beyond it stay idle; GPU types may be left out.
///
/// Interleaved virtual stages have to be asked for ([`Scheduled`](crate::planner::Scheduled)). Not modelled: unequal first and last stages, ZeRO-1 and context parallelism.
#[derive(Clone, Copy, Debug, Default)]
pub struct Megatron;

impl Planner for Megatron {
    fn name(&self) -> &'static str {
        "megatron"
    }

    fn plan(&self, request: &PlanRequest) -> Result<PlannedIteration, PlanError> {
        best_over(request, self.name(), grids)
    }
}

pub(super) fn grids(space: &Space) -> Vec<Grid> {
    space.points.iter().flat_map(|point| of_degree(space, point)).collect()
}

fn of_degree(space: &Space, point: &Point) -> Vec<Grid> {
    let units = space.units(point.degree());
    let mut found = Vec::new();
    for depth in 1..=point.num_layers.min(units.len() as u32) {
        if !point.num_layers.is_multiple_of(depth) {
            continue;
        }
        let Some(replicas) = most_equal_replicas(units.len() as u32 / depth, point.micro_batches) else { continue };
        let layers = vec![point.num_layers / depth; depth as usize];
        let micro_batches = vec![point.micro_batches / replicas; replicas as usize];
        for units in [by_stage, by_replica].map(|order| order(&units, depth as usize, replicas as usize)) {
            let grid = Grid { units, layers: layers.clone(), micro_batches: micro_batches.clone() };
            if grid.fits(space) {
                found.push(grid);
            }
        }
    }
    found
}

/// The most replicas, of at most `widest`, among which the micro batches can be divided evenly.
pub(super) fn most_equal_replicas(widest: u32, micro_batches: u32) -> Option<u32> {
    (1..=widest).rev().find(|&replicas| micro_batches.is_multiple_of(replicas))
}

/// The first devices by replica and stage, neighbours serving the same stage: one of Megatron's orders.
pub(super) fn by_stage(units: &[Unit], depth: usize, replicas: usize) -> Vec<Vec<Unit>> {
    (0..replicas).map(|replica| (0..depth).map(|stage| units[stage * replicas + replica]).collect()).collect()
}

/// The other one: neighbours serve the same replica.
pub(super) fn by_replica(units: &[Unit], depth: usize, replicas: usize) -> Vec<Vec<Unit>> {
    units.chunks_exact(depth).take(replicas).map(<[_]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn micro_batches_divide_evenly() {
        assert_eq!(most_equal_replicas(7, 96), Some(6));
        assert_eq!(most_equal_replicas(8, 512), Some(8));
        assert_eq!(most_equal_replicas(3, 1), Some(1));
        assert_eq!(most_equal_replicas(0, 8), None);
    }

    #[test]
    fn neighbours_serve_a_stage_or_a_replica() {
        let unit = |first_gpu| Unit { node: 0, first_gpu, gpus: 1, class: 0 };
        let units: Vec<Unit> = (0..5).map(unit).collect();
        let gpus = |rows: &Vec<Vec<Unit>>| -> Vec<Vec<u32>> {
            rows.iter().map(|row| row.iter().map(|unit| unit.first_gpu).collect()).collect()
        };
        assert_eq!(gpus(&by_stage(&units, 2, 2)), [[0, 2], [1, 3]]);
        assert_eq!(gpus(&by_replica(&units, 2, 2)), [[0, 1], [2, 3]]);
    }
}
