//! Hardware-aware grids after Whale (Jia et al., USENIX ATC 2022).

use super::capacity::in_proportion;
use super::grid::{Grid, Space, Unit, best_over};
use super::megatron::{by_replica, by_stage};
use super::point::Point;
use crate::plan::{PlanError, PlanRequest, PlannedIteration, Planner};

/// Whale: replicas of one shape, loads in proportion to the power of the devices.
///
/// Every replica has the same number of stages and the same layers in each. Devices with more memory serve earlier
/// stages. A stage's layers are in proportion to the power of the devices that serve it, over all replicas; what doesn't
/// fit a stage's memory goes to the stages with room. A replica's micro batches are in proportion to its speed. Grids are
/// laid out stage by stage (like devices serve like stages) and replica by replica; the devices that no grid of this
/// depth uses stay idle, and GPU types may be left out.
///
/// Not modelled: unlike tensor-parallel shares within a group, and batch shares finer than a micro batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Whale;

impl Planner for Whale {
    fn name(&self) -> &'static str {
        "whale"
    }

    fn plan(&self, request: &PlanRequest) -> Result<PlannedIteration, PlanError> {
        best_over(request, self.name(), grids)
    }
}

pub(super) fn grids(space: &Space) -> Vec<Grid> {
    space.points.iter().flat_map(|point| of_degree(space, point)).collect()
}

fn of_degree(space: &Space, point: &Point) -> Vec<Grid> {
    let memory = |unit: &Unit| std::cmp::Reverse(point.classes[unit.class].memory_bytes);
    let units = space.units(point.degree());
    let mut by_memory = units.clone();
    by_memory.sort_by_key(memory);
    let mut found = Vec::new();
    for depth in 1..=(point.num_layers as usize).min(units.len()) {
        let replicas = (units.len() / depth).min(point.micro_batches as usize);
        for mut rows in [by_stage(&by_memory, depth, replicas), by_replica(&units, depth, replicas)] {
            for row in &mut rows {
                row.sort_by_key(memory);
            }
            found.extend(in_proportion(space, rows));
        }
    }
    found
}
