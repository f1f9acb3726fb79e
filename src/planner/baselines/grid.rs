//! What the grid planners share: the devices in rows, the price of a grid, the choice among grids.

use crate::cluster::Cluster;
use crate::plan::{Plan, PlanError, PlanRequest, PlannedIteration, Replica, SCHEMA_VERSION, ScheduleKind, Stage};
use crate::planner::autohet::outer::Outer;
use crate::planner::autohet::setting::{Ends, Setting, same_class};
use crate::planner::autohet::shortage;
use crate::planner::estimate;

/// Grids that are priced with gradient synchronisation and real links.
const MAX_ESTIMATED: usize = 24;
/// Grids that are executed.
const MAX_JUDGED: usize = 4;
/// GPU types up to which every subset of them is tried.
const MAX_TYPES_IN_SUBSETS: usize = 4;

/// A tensor-parallel unit: the `index`-th run of `t` GPUs of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    pub node: usize,
    pub index: u32,
    /// Index into [`Setting::classes`].
    pub class: usize,
}

/// A plan in the making: `P` stages by `D` replicas.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    /// Units by replica and stage.
    pub units: Vec<Vec<Unit>>,
    /// Layers by stage, the same in every replica.
    pub layers: Vec<u32>,
    /// Micro batches by replica.
    pub micro_batches: Vec<u32>,
}

impl Grid {
    /// Seconds of the slowest replica, transfers left out.
    pub fn time_s(&self, setting: &Setting) -> f64 {
        let replica = |(units, &micro_batches): (&Vec<Unit>, &u32)| {
            let (fill_s, bottleneck_s) = self.pace(setting, units);
            fill_s + f64::from(micro_batches - 1) * bottleneck_s
        };
        self.units.iter().zip(&self.micro_batches).map(replica).fold(0.0, f64::max)
    }

    /// Seconds of one micro batch through these units, and through the slowest of them.
    pub fn pace(&self, setting: &Setting, units: &[Unit]) -> (f64, f64) {
        let depth = units.len();
        let stage_s = units.iter().zip(&self.layers).enumerate().map(|(stage, (unit, &layers))| {
            let class = &setting.classes[unit.class];
            class.fixed_s(Ends::at(stage, depth)) + f64::from(layers) * class.layer_s
        });
        stage_s.fold((0.0, 0.0), |(sum, most), time_s| (sum + time_s, f64::max(most, time_s)))
    }

    fn plan(&self, request: &PlanRequest, planner: &str, setting: &Setting) -> Plan {
        let execution = &setting.execution;
        Plan {
            schema_version: SCHEMA_VERSION,
            planner: planner.to_owned(),
            model: request.cost.model().name.clone(),
            global_batch_size: request.training.global_batch_size,
            micro_batch_size: execution.micro_batch_size,
            sequence_parallel: execution.sequence_parallel,
            recompute: execution.recompute,
            precision: execution.precision,
            schedule: ScheduleKind::OneForwardOneBackward,
            replicas: self
                .units
                .iter()
                .zip(&self.micro_batches)
                .map(|(units, &micro_batches)| Replica {
                    micro_batches,
                    stages: self.stages(request.cluster, units, execution.tensor_parallel_size),
                })
                .collect(),
        }
    }

    fn stages(&self, cluster: &Cluster, units: &[Unit], t: u32) -> Vec<Stage> {
        let mut first_layer = 0;
        let stage = |(unit, &num_layers): (&Unit, &u32)| {
            let node = &cluster.nodes[unit.node];
            let gpus = (unit.index * t..(unit.index + 1) * t).collect();
            let (name, gpu_type) = (node.name.clone(), node.gpu.name.clone());
            let stage = Stage { node: name, gpus, gpu_type, first_layer, num_layers };
            first_layer += num_layers;
            stage
        };
        units.iter().zip(&self.layers).map(stage).collect()
    }
}

/// Whether every stage would fit, were all devices the smallest.
pub(super) fn fits_smallest(setting: &Setting, world: &[Unit], layers: &[u32], micro_batches: u32) -> bool {
    layers.iter().enumerate().all(|(stage, &held)| {
        let ends = Ends::at(stage, layers.len());
        let in_flight = micro_batches.min((layers.len() - stage) as u32);
        world.iter().all(|unit| setting.classes[unit.class].max_layers(ends, in_flight) >= held)
    })
}

/// All units in the order of the nodes.
fn listed_units(cluster: &Cluster, setting: &Setting) -> Vec<Unit> {
    let t = setting.execution.tensor_parallel_size;
    let mut units = Vec::new();
    for (node, described) in cluster.nodes.iter().enumerate() {
        let class = setting.classes.iter().position(|class| same_class(&class.gpu, class.nic, described));
        if let Some(class) = class {
            units.extend((0..described.gpu_count / t).map(|index| Unit { node, index, class }));
        }
    }
    units
}

/// The classes that a user may choose to use: every subset, or, of many classes, all and each alone.
fn class_subsets(classes: usize) -> Vec<Vec<bool>> {
    if classes <= MAX_TYPES_IN_SUBSETS {
        return (1..1_usize << classes)
            .map(|bits| (0..classes).map(|class| bits >> class & 1 == 1).collect())
            .collect();
    }
    let alone = (0..classes).map(|only| (0..classes).map(|class| class == only).collect());
    std::iter::once(vec![true; classes]).chain(alone).collect()
}

/// The best grid that `grids` makes of any setting and subset of units.
pub(super) fn best_over(
    request: &PlanRequest,
    planner: &'static str,
    grids: impl Fn(&Setting, &[Unit]) -> Vec<Grid>,
) -> Result<PlannedIteration, PlanError> {
    let PlanRequest { cluster, cost, judge, .. } = *request;
    if cluster.nodes.iter().all(|node| node.gpu_count == 0) {
        return Err(PlanError::EmptyCluster);
    }
    let outer = Outer::new(request, planner)?;
    let mut best: Option<(f64, Plan)> = None;
    for (_, plan) in most_promising(request, planner, &outer, grids)? {
        let time_s = judge.iteration_s(&plan, cluster, cost)?;
        if best.as_ref().is_none_or(|(least_s, _)| time_s < *least_s) {
            best = Some((time_s, plan));
        }
    }
    let (predicted_iteration_s, plan) = best.ok_or_else(|| shortage::explain(request))?;
    let lower_bound_s = outer.lower_bound_s();
    let gap = (predicted_iteration_s - lower_bound_s) / lower_bound_s;
    Ok(PlannedIteration { plan, predicted_iteration_s, lower_bound_s, gap })
}

/// The grids that are worth executing with their seconds by the closed form, the best first.
pub(super) fn most_promising(
    request: &PlanRequest,
    planner: &'static str,
    outer: &Outer,
    grids: impl Fn(&Setting, &[Unit]) -> Vec<Grid>,
) -> Result<Vec<(f64, Plan)>, PlanError> {
    let PlanRequest { cluster, cost, .. } = *request;
    let mut ranked: Vec<(f64, usize, Grid)> = Vec::new();
    for (index, setting) in outer.settings().iter().enumerate() {
        let all = listed_units(cluster, setting);
        for subset in class_subsets(setting.classes.len()) {
            let units: Vec<Unit> = all.iter().copied().filter(|unit| subset[unit.class]).collect();
            ranked.extend(grids(setting, &units).into_iter().map(|grid| (grid.time_s(setting), index, grid)));
        }
        // Only the front matters; keeping all would take memory on large clusters.
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        ranked.truncate(MAX_ESTIMATED);
    }
    let mut plans: Vec<(f64, Plan)> = Vec::new();
    for (_, index, grid) in &ranked {
        let plan = grid.plan(request, planner, &outer.settings()[*index]);
        if plan.validate(cluster, cost).is_ok() {
            plans.push((estimate::iteration_s(&plan, cluster, cost)?, plan));
        }
    }
    plans.sort_by(|a, b| a.0.total_cmp(&b.0));
    plans.truncate(MAX_JUDGED);
    Ok(plans)
}

/// Shares of `total` in proportion to `weights`, each at least one, by largest remainder. Needs `total` to be at least the
/// number of weights.
pub(super) fn proportional(weights: &[f64], total: u32) -> Vec<u32> {
    let sum: f64 = weights.iter().sum();
    let free = f64::from(total - weights.len() as u32);
    // One each, and the rest so that the shares come as near to the proportion as that allows.
    let exact: Vec<f64> = weights.iter().map(|weight| (weight / sum * f64::from(total) - 1.0).max(0.0)).collect();
    let scale = match exact.iter().sum::<f64>() {
        wanted if wanted > 0.0 => free / wanted,
        _ => 0.0,
    };
    let mut shares: Vec<u32> = exact.iter().map(|share| 1 + (share * scale) as u32).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    let remainder = |index: usize| (exact[index] * scale).fract();
    order.sort_by(|&a, &b| remainder(b).total_cmp(&remainder(a)));
    let left = total - shares.iter().sum::<u32>().min(total);
    for &index in order.iter().cycle().take(left as usize) {
        shares[index] += 1;
    }
    shares
}
