//! Stages on sub-meshes by a dynamic program after Alpa (Zheng et al., OSDI 2022).

mod program;

use super::grid::{Grid, Space, Unit, best_over};
use super::point::Point;
use crate::plan::{PlanError, PlanRequest, PlannedIteration, Planner};
use crate::planner::autohet::balance::{SplitGoal, StageLoad, split_layers};
use crate::planner::room::{Ends, Place};
use program::{Line, Program};

/// GPUs up to which the line of devices is tried in every order of the types; beyond, in that of the cluster.
const MAX_GPUS_IN_EVERY_ORDER: u32 = 256;
/// Plans that are kept of each line and width: the best depths.
const MAX_DEPTHS: usize = 4;

/// Alpa: an inter-operator dynamic program that cuts the model into stages and the devices into sub-meshes, and an
/// intra-operator shape for each sub-mesh.
///
/// Sub-meshes have the published shapes: `1, 2, 4, …` GPUs of a node, or whole nodes; each is of one GPU type. Within a
/// sub-mesh of `D · t` GPUs, `D` data-parallel ranks share `t`-way tensor parallelism; `D` is the same in every stage,
/// `t` is chosen by the program. For a limit on the slowest stage the program finds which sub-meshes hold the model;
/// limits are tried from the least feasible one on, in steps, for as long as `(B - 1) · slowest + all stages` can still
/// improve. The blocks of a transformer are alike, so that instead of every cut of the model it carries how many layers fit
/// the limit; for the sub-meshes that it chooses layers are then split optimally. In-flight activations count from the
/// last stage on, as in the paper. Every micro batch is shared by all ranks, so that replicas have equally many.
///
/// Favours: the published program takes all devices for equal, here each GPU type is priced by itself; types are lined up in
/// every order, and may be left out. GPUs of a node that no sub-mesh fits stay idle. Not modelled: sharding other than
/// Megatron's tensor parallelism and plain data parallelism, and micro batches that are sent between stages of unlike `D`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alpa;

impl Planner for Alpa {
    fn name(&self) -> &'static str {
        "alpa"
    }

    fn plan(&self, request: &PlanRequest) -> Result<PlannedIteration, PlanError> {
        best_over(request, self.name(), grids)
    }
}

pub(super) fn grids(space: &Space) -> Vec<Grid> {
    let used = |node: &usize| space.uses[space.class_of[*node]];
    let orders = if space.cluster.gpu_count() <= MAX_GPUS_IN_EVERY_ORDER {
        space.node_orders()
    } else {
        vec![(0..space.cluster.nodes.len()).filter(used).collect()]
    };
    let mut found: Vec<Grid> = Vec::new();
    for order in &orders {
        let line = Line::new(space, order);
        let divides = |width: &u32| space.micro_batches().is_multiple_of(*width);
        for width in (1..=line.gpus()).filter(divides) {
            found.extend(of_width(space, &line, width));
        }
    }
    found
}

/// The best plans of `width` data-parallel ranks, of different depths.
fn of_width(space: &Space, line: &Line, width: u32) -> Vec<Grid> {
    let micro_batches = space.micro_batches() / width;
    let program = Program::new(space, line, width, micro_batches);
    let mut found: Vec<(f64, Grid)> = Vec::new();
    for stages in program.solutions() {
        let loads: Vec<StageLoad> = stages
            .iter()
            .enumerate()
            .map(|(stage, units)| {
                load(space, &units[0], Place { stage, depth: stages.len(), micro_batches, replicas: width })
            })
            .collect();
        let goal = SplitGoal { num_layers: space.num_layers(), micro_batches, period_floor_s: 0.0 };
        let Some(split) = split_layers(&loads, goal) else { continue };
        let rows: Vec<Vec<Unit>> =
            (0..width as usize).map(|rank| stages.iter().map(|units| units[rank]).collect()).collect();
        let time_s = split.fill_s + f64::from(micro_batches - 1) * split.bottleneck_s;
        let grid = Grid { units: rows, layers: split.layers, micro_batches: vec![micro_batches; width as usize] };
        found.push((time_s, grid));
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found.truncate(MAX_DEPTHS);
    found.into_iter().map(|(_, grid)| grid).collect()
}

fn load(space: &Space, unit: &Unit, place: Place) -> StageLoad {
    let (class, ends) = (space.costs(unit), Ends::at(place.stage, place.depth));
    let max_layers = class.max_layers(place);
    StageLoad { fixed_s: class.fixed_s(ends), layer_s: class.layer_s, max_layers }
}

/// Layers that a stage of this class holds within a limit on its time, and within its memory; 0 where not one.
fn layers_within(point: &Point, class: usize, place: Place, limit_s: f64) -> u32 {
    let (class, ends) = (&point.classes[class], Ends::at(place.stage, place.depth));
    let within = ((limit_s * (1.0 + 1e-12) - class.fixed_s(ends)) / class.layer_s).max(0.0) as u32;
    within.min(class.max_layers(place))
}
