//! Symmetric degrees with uneven layers after AMP (Li et al. 2022).

use super::grid::{Grid, Space, Unit, best_over};
use super::megatron::{by_replica, by_stage, most_equal_replicas};
use super::point::Point;
use crate::plan::{PlanError, PlanRequest, PlannedIteration, Planner};
use crate::planner::autohet::balance::{SplitGoal, StageLoad, split_layers};
use crate::planner::room::{Ends, Place};

/// AMP: every tensor-parallel, data-parallel and pipeline-parallel degree, devices placed in order, layers assigned by
/// an optimal split.
///
/// Degrees are the same for all devices, and so are the micro batches of all replicas. Devices are placed in the order of
/// the cluster, in both rank orders, as its heuristic does it: tensor parallelism within a node, then data parallelism,
/// then stages, or stages first. Layers minimise `(K - 1) · slowest stage + all stages`, the objective of its dynamic
/// program; a stage is as fast as the slowest device that serves it. The blocks of a transformer are alike, so that the
/// optimum can be had without a table. Types may be left out, devices beyond the grid stay idle.
///
/// A favour: memory bounds the layers of a stage; its own cost model knows none, and its plans may not fit. Not modelled:
/// simulated annealing over placements, which its authors compare with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Amp;

impl Planner for Amp {
    fn name(&self) -> &'static str {
        "amp"
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
        let Some(replicas) = most_equal_replicas(units.len() as u32 / depth, point.micro_batches) else { continue };
        let micro_batches = point.micro_batches / replicas;
        for units in [by_stage, by_replica].map(|order| order(&units, depth as usize, replicas as usize)) {
            if let Some(layers) = split(point, &units, micro_batches) {
                let micro_batches = vec![micro_batches; replicas as usize];
                found.push(Grid { units, layers, micro_batches });
            }
        }
    }
    found
}

/// The layers of each stage, `None` where they don't fit.
fn split(point: &Point, units: &[Vec<Unit>], micro_batches: u32) -> Option<Vec<u32>> {
    let depth = units[0].len();
    let load = |stage: usize| {
        let ends = Ends::at(stage, depth);
        let place = Place { stage, depth, micro_batches, replicas: units.len() as u32 };
        let classes = units.iter().map(|row| &point.classes[row[stage].class]);
        classes.fold(StageLoad { fixed_s: 0.0, layer_s: 0.0, max_layers: u32::MAX }, |load, class| StageLoad {
            fixed_s: load.fixed_s.max(class.fixed_s(ends)),
            layer_s: load.layer_s.max(class.layer_s),
            max_layers: load.max_layers.min(class.max_layers(place)),
        })
    };
    let loads: Vec<StageLoad> = (0..depth).map(load).collect();
    let goal = SplitGoal { num_layers: point.num_layers, micro_batches, period_floor_s: 0.0 };
    split_layers(&loads, goal).map(|split| split.layers)
}
