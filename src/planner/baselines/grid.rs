//! What the baselines share: devices in rows, the price of a grid, the choice among grids.

use super::point::{Class, Point, gpu_types, points};
use crate::cluster::Cluster;
use crate::plan::{Plan, PlanError, PlanRequest, PlannedIteration, Replica, SCHEMA_VERSION, ScheduleKind, Stage};
use crate::planner::autohet::outer::Outer;
use crate::planner::autohet::shortage;
use crate::planner::ranking;
use crate::planner::room::{Ends, Place};
use rayon::prelude::*;

/// Grids that are priced with gradient synchronisation and real links: as many as come to so many GPUs, and in any case
/// a few. Pricing takes time in proportion to the GPUs.
const PRICED_GPUS: usize = 12_288;
const MOST_PRICED: usize = 96;
const LEAST_PRICED: usize = 24;
/// Of these, with the same depth, micro-batch size and recompute setting: what transfers cost differs between kinds.
const MAX_PRICED_OF_KIND: usize = 3;
/// Grids that are executed.
const MAX_JUDGED: usize = 4;
/// GPU types up to which every subset of them, and every order, is tried.
const MAX_TYPES_IN_SUBSETS: usize = 4;

/// A tensor-parallel unit: GPUs of a node that share each layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    pub node: usize,
    pub first_gpu: u32,
    /// The degree.
    pub gpus: u32,
    /// Index into [`Point::classes`].
    pub class: usize,
}

/// What one planner may choose from: a micro-batch size, a recompute setting, every degree, some of the GPU types.
pub(super) struct Space<'a> {
    pub cluster: &'a Cluster,
    /// By degree, the smallest first.
    pub points: &'a [Point],
    /// Whether the planner uses the GPU type.
    pub uses: Vec<bool>,
    /// GPU type of each node.
    pub class_of: &'a [usize],
    /// Whether stages hold all micro batches of their replica at once, as under `GPipe`.
    pub holds_all: bool,
}

impl Space<'_> {
    /// Costs of a unit.
    pub fn costs(&self, unit: &Unit) -> &Class {
        let point = self.points.iter().find(|point| point.degree() == unit.gpus);
        &point.expect("units are made of the degrees of the space").classes[unit.class]
    }

    /// Transformer layers, `L`.
    pub fn num_layers(&self) -> u32 {
        self.points.first().map_or(0, |point| point.num_layers)
    }

    /// Micro batches of an iteration over all replicas, `B / b`.
    pub fn micro_batches(&self) -> u32 {
        self.points.first().map_or(0, |point| point.micro_batches)
    }

    /// Micro batches that one of so many replicas may have in flight: all, or as many as it has about where the schedule holds
    /// all that it has.
    pub fn most_micro_batches(&self, replicas: u32) -> u32 {
        if self.holds_all { self.micro_batches().div_ceil(replicas.max(1)) } else { self.micro_batches() }
    }

    /// All units of a degree, in the order of the nodes.
    pub fn units(&self, degree: u32) -> Vec<Unit> {
        let nodes = (0..self.cluster.nodes.len()).filter(|&node| self.uses[self.class_of[node]]);
        nodes.flat_map(|node| self.units_of(node, degree)).collect()
    }

    /// The units of a node.
    pub fn units_of(&self, node: usize, degree: u32) -> impl Iterator<Item = Unit> + use<> {
        let class = self.class_of[node];
        let count = self.cluster.nodes[node].gpu_count / degree;
        (0..count).map(move |index| Unit { node, first_gpu: index * degree, gpus: degree, class })
    }

    /// The nodes by GPU type, in every order of the types: that in which a user writes them down is a choice. Of many
    /// types only the cluster's order.
    pub fn node_orders(&self) -> Vec<Vec<usize>> {
        let types: Vec<usize> = (0..self.uses.len()).filter(|&class| self.uses[class]).collect();
        let orders = if types.len() <= MAX_TYPES_IN_SUBSETS { permutations(&types) } else { vec![types] };
        let nodes_of = |class: usize| (0..self.class_of.len()).filter(move |&node| self.class_of[node] == class);
        orders.into_iter().map(|order| order.into_iter().flat_map(nodes_of).collect()).collect()
    }
}

/// All orders of these, in the order of their positions.
fn permutations(items: &[usize]) -> Vec<Vec<usize>> {
    if items.len() <= 1 {
        return vec![items.to_vec()];
    }
    let mut all = Vec::new();
    for (index, &first) in items.iter().enumerate() {
        let rest: Vec<usize> = items[..index].iter().chain(&items[index + 1..]).copied().collect();
        all.extend(permutations(&rest).into_iter().map(|mut order| {
            order.insert(0, first);
            order
        }));
    }
    all
}

/// A plan in the making: `P` stages by `D` replicas.
#[derive(Clone, Debug, PartialEq)]
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
    pub fn time_s(&self, space: &Space) -> f64 {
        let replica = |(units, &micro_batches): (&Vec<Unit>, &u32)| {
            let (fill_s, bottleneck_s) = pace(space, units, &self.layers);
            fill_s + f64::from(micro_batches - 1) * bottleneck_s
        };
        self.units.iter().zip(&self.micro_batches).map(replica).fold(0.0, f64::max)
    }

    /// Whether every stage fits the memory of every device that serves it.
    pub fn fits(&self, space: &Space) -> bool {
        let (depth, replicas) = (self.layers.len(), self.units.len() as u32);
        self.units.iter().zip(&self.micro_batches).all(|(row, &micro_batches)| {
            row.iter().zip(&self.layers).enumerate().all(|(stage, (unit, &held))| {
                space.costs(unit).max_layers(Place { stage, depth, micro_batches, replicas }) >= held
            })
        })
    }

    fn plan(&self, request: &PlanRequest, planner: &str, space: &Space) -> Plan {
        let execution = &space.points[0].execution;
        Plan {
            schema_version: SCHEMA_VERSION,
            planner: planner.to_owned(),
            model: request.cost.planned_model().clone(),
            global_batch_size: request.training.global_batch_size,
            micro_batch_size: execution.micro_batch_size,
            sequence_parallel: self.units.iter().flatten().any(|unit| unit.gpus > 1),
            recompute: execution.recompute,
            precision: execution.precision,
            schedule: ScheduleKind::OneForwardOneBackward,
            replicas: self
                .units
                .iter()
                .zip(&self.micro_batches)
                .map(|(units, &micro_batches)| Replica { micro_batches, stages: self.stages(request.cluster, units) })
                .collect(),
        }
    }

    fn stages(&self, cluster: &Cluster, units: &[Unit]) -> Vec<Stage> {
        let mut first_layer = 0;
        let stage = |(unit, &num_layers): (&Unit, &u32)| {
            let node = &cluster.nodes[unit.node];
            let gpus = (unit.first_gpu..unit.first_gpu + unit.gpus).collect();
            let (name, gpu_type) = (node.name.clone(), node.gpu.name.clone());
            let stage = Stage { node: name, gpus, gpu_type, first_layer, num_layers, later_chunks: Vec::new() };
            first_layer += num_layers;
            stage
        };
        units.iter().zip(&self.layers).map(stage).collect()
    }
}

/// Seconds of one micro batch through these units, and through the slowest of them.
pub(super) fn pace(space: &Space, units: &[Unit], layers: &[u32]) -> (f64, f64) {
    let depth = units.len();
    let stage_s = units.iter().zip(layers).enumerate().map(|(stage, (unit, &layers))| {
        let class = space.costs(unit);
        class.fixed_s(Ends::at(stage, depth)) + f64::from(layers) * class.layer_s
    });
    stage_s.fold((0.0, 0.0), |(sum, most), time_s| (sum + time_s, f64::max(most, time_s)))
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

/// The best grid that `grids` makes of any space.
pub(super) fn best_over(
    request: &PlanRequest,
    planner: &'static str,
    grids: impl Fn(&Space) -> Vec<Grid> + Sync,
) -> Result<PlannedIteration, PlanError> {
    if request.cluster.nodes.iter().all(|node| node.gpu_count == 0) {
        return Err(PlanError::EmptyCluster);
    }
    let outer = Outer::new(request, planner)?;
    let plans = most_promising(request, planner, grids)?.into_iter().map(|(_, plan)| plan).collect();
    let judged = ranking::judge_all(request, plans)?;
    PlannedIteration::best_of(judged, |judged| outer.lower_bound(judged)).ok_or_else(|| shortage::explain(request))
}

/// The grids that are worth executing with their seconds by the closed form, the best first.
pub(super) fn most_promising(
    request: &PlanRequest,
    planner: &'static str,
    grids: impl Fn(&Space) -> Vec<Grid> + Sync,
) -> Result<Vec<(f64, Plan)>, PlanError> {
    let PlanRequest { cluster, cost, judge, .. } = *request;
    let holds_all = judge.schedule().is_some_and(|choice| choice.kind() == ScheduleKind::GPipe);
    let types = gpu_types(cluster);
    let place = |node: &crate::cluster::Node| types.iter().position(|gpu| *gpu == node.gpu);
    let class_of: Vec<usize> = cluster.nodes.iter().filter_map(place).collect();
    let points = points(request);
    let chosen = points.iter().filter(|points| !points.is_empty());
    let spaces: Vec<Space> = chosen
        .flat_map(|points| class_subsets(types.len()).into_iter().map(move |uses| (points, uses)))
        .map(|(points, uses)| Space { cluster, points, uses, class_of: &class_of, holds_all })
        .collect();
    let ranked = spaces.par_iter().enumerate().map(|(index, space)| {
        let timed = |grid: Grid| (grid.time_s(space), index, grid);
        let mut ranked: Vec<(f64, usize, Grid)> = grids(space).into_iter().map(timed).collect();
        // Only the front matters; keeping all would take memory on large clusters.
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        few_of_each_depth(ranked)
    });
    let mut ranked: Vec<(f64, usize, Grid)> = ranked.collect::<Vec<_>>().into_iter().flatten().collect();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    // A grid that leaves a type idle is found with and without the type.
    ranked.dedup_by(|a, b| std::ptr::eq(spaces[a.1].points, spaces[b.1].points) && a.2 == b.2);
    ranked.truncate((PRICED_GPUS / (cluster.gpu_count() as usize).max(1)).clamp(LEAST_PRICED, MOST_PRICED));
    let mut plans: Vec<(f64, Plan)> = Vec::new();
    for (_, index, grid) in &ranked {
        let plan = grid.plan(request, planner, &spaces[*index]);
        if plan.validate(cluster, cost).is_ok() && !plans.iter().any(|(_, known)| *known == plan) {
            plans.push((ranking::rank_s(&plan, request)?, plan));
        }
    }
    plans.sort_by(|a, b| a.0.total_cmp(&b.0));
    plans.truncate(MAX_JUDGED);
    Ok(plans)
}

/// The best few of each depth, in the same order.
fn few_of_each_depth(ranked: Vec<(f64, usize, Grid)>) -> Vec<(f64, usize, Grid)> {
    let mut seen: Vec<(usize, usize)> = Vec::new();
    let mut kept = Vec::new();
    for entry in ranked {
        let depth = entry.2.layers.len();
        let place = seen.iter().position(|(known, _)| *known == depth).unwrap_or_else(|| {
            seen.push((depth, 0));
            seen.len() - 1
        });
        seen[place].1 += 1;
        if seen[place].1 <= MAX_PRICED_OF_KIND {
            kept.push(entry);
        }
    }
    kept
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
