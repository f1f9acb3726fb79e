//! Symmetric 3D parallelism as Megatron-LM runs it (Narayanan et al. 2021).

use super::grid::{Grid, Unit, best_over, fits_smallest};
use crate::plan::{PlanError, PlanRequest, PlannedIteration, Planner};
use crate::planner::autohet::setting::Setting;

/// Symmetric Megatron-LM: the best of its grid of tensor-parallel, pipeline-parallel and data-parallel degrees, micro
/// batch sizes and recompute settings.
///
/// It takes all devices for equal: `L` must be divisible by the stages, every stage gets as many layers, every replica as
/// many micro batches, and every stage must fit the smallest device in use. Devices are taken in the order of the
/// cluster, in either of Megatron's rank orders (`tp-dp-pp`, its default, and `tp-pp-dp`). The world is the largest that
/// the grid can form, devices beyond it stay idle; GPU types may be left out.
///
/// Not modelled: interleaved virtual stages, unequal first and last stages, ZeRO-1 and context parallelism.
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

pub(super) fn grids(setting: &Setting, units: &[Unit]) -> Vec<Grid> {
    let mut found = Vec::new();
    for depth in 1..=setting.num_layers.min(units.len() as u32) {
        if !setting.num_layers.is_multiple_of(depth) {
            continue;
        }
        let widest = units.len() as u32 / depth;
        let divides = |&replicas: &u32| setting.micro_batches.is_multiple_of(replicas);
        let Some(replicas) = (1..=widest).rev().find(divides) else { continue };
        let world = &units[..(depth * replicas) as usize];
        let (depth, replicas) = (depth as usize, replicas as usize);
        let layers = vec![setting.num_layers / depth as u32; depth];
        let micro_batches = vec![setting.micro_batches / replicas as u32; replicas];
        if !fits_smallest(setting, world, &layers, micro_batches[0]) {
            continue;
        }
        let by_stage = |replica: usize, stage: usize| world[stage * replicas + replica];
        let by_replica = |replica: usize, stage: usize| world[replica * depth + stage];
        for order in [&by_stage as &dyn Fn(usize, usize) -> Unit, &by_replica] {
            let units = (0..replicas).map(|r| (0..depth).map(|stage| order(r, stage)).collect()).collect();
            found.push(Grid { units, layers: layers.clone(), micro_batches: micro_batches.clone() });
        }
    }
    found
}
