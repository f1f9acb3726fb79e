//! Hardware-aware grids after Whale (Jia et al., USENIX ATC 2022).

use super::grid::{Grid, Unit, best_over, proportional};
use crate::plan::{PlanError, PlanRequest, PlannedIteration, Planner};
use crate::planner::autohet::setting::{Ends, Setting};

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

pub(super) fn grids(setting: &Setting, units: &[Unit]) -> Vec<Grid> {
    let memory = |unit: &Unit| setting.classes[unit.class].gpu.memory_bytes;
    let mut by_memory = units.to_vec();
    by_memory.sort_by_key(|unit| std::cmp::Reverse(memory(unit)));
    let mut found = Vec::new();
    for depth in 1..=(setting.num_layers as usize).min(units.len()) {
        let replicas = (units.len() / depth).min(setting.micro_batches as usize);
        let by_stage = |replica: usize, stage: usize| by_memory[stage * replicas + replica];
        let by_replica = |replica: usize, stage: usize| units[replica * depth + stage];
        for order in [&by_stage as &dyn Fn(usize, usize) -> Unit, &by_replica] {
            let mut rows: Vec<Vec<Unit>> =
                (0..replicas).map(|r| (0..depth).map(|stage| order(r, stage)).collect()).collect();
            for row in &mut rows {
                row.sort_by_key(|unit| std::cmp::Reverse(memory(unit)));
            }
            found.extend(balanced(setting, rows));
        }
    }
    found
}

/// Layers and micro batches for units by replica and stage; `None` where the layers don't fit.
fn balanced(setting: &Setting, units: Vec<Vec<Unit>>) -> Option<Grid> {
    let depth = units[0].len();
    let power = |stage: usize| units.iter().map(|row| setting.classes[row[stage].class].layer_rate_per_s()).sum();
    let powers: Vec<f64> = (0..depth).map(power).collect();
    let room: Vec<u32> = (0..depth)
        .map(|stage| {
            let in_flight = setting.micro_batches.min((depth - stage) as u32);
            let of = |row: &Vec<Unit>| setting.classes[row[stage].class].max_layers(Ends::at(stage, depth), in_flight);
            units.iter().map(of).min().unwrap_or(0)
        })
        .collect();
    let layers = within_memory(proportional(&powers, setting.num_layers), &room, &powers)?;
    let mut grid = Grid { units, layers, micro_batches: Vec::new() };
    let speeds: Vec<f64> = grid.units.iter().map(|row| 1.0 / grid.pace(setting, row).1).collect();
    grid.micro_batches = proportional(&speeds, setting.micro_batches);
    Some(grid)
}

/// Moves layers from stages without room to those with room, the least loaded for its power first.
fn within_memory(mut layers: Vec<u32>, room: &[u32], powers: &[f64]) -> Option<Vec<u32>> {
    if room.contains(&0) {
        return None;
    }
    let mut over = 0;
    for (held, &most) in layers.iter_mut().zip(room) {
        over += held.saturating_sub(most);
        *held = (*held).min(most);
    }
    for _ in 0..over {
        let load = |stage: usize| f64::from(layers[stage] + 1) / powers[stage];
        let open = (0..layers.len()).filter(|&stage| layers[stage] < room[stage]);
        let least = open.min_by(|&a, &b| load(a).total_cmp(&load(b)))?;
        layers[least] += 1;
    }
    Some(layers)
}
