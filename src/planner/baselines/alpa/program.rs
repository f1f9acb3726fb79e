//! The dynamic program over a line of devices.

use super::layers_within;
use crate::planner::baselines::grid::{Space, Unit};
use crate::planner::baselines::point::Point;
use crate::planner::room::{Ends, Place};

/// By how much a limit on the slowest stage is above the one before: the paper's `ε`.
const LIMIT_STEP: f64 = 1.02;
/// Most limits that are tried above the least feasible one.
const MAX_LIMITS: usize = 40;

/// Devices in a line, node after node.
pub(super) struct Line {
    nodes: Vec<LineNode>,
    gpus: u32,
}

#[derive(Clone, Copy)]
struct LineNode {
    node: usize,
    class: usize,
    /// Its first GPU's place in the line.
    start: u32,
    gpus: u32,
}

impl Line {
    pub fn new(space: &Space, order: &[usize]) -> Self {
        let mut start = 0;
        let place = |&node: &usize| {
            let gpus = space.cluster.nodes[node].gpu_count;
            start += gpus;
            LineNode { node, class: space.class_of[node], start: start - gpus, gpus }
        };
        let nodes = order.iter().map(place).collect();
        Self { nodes, gpus: start }
    }

    pub fn gpus(&self) -> u32 {
        self.gpus
    }

    /// The node that a place is in, `None` at the end of the line.
    fn at(&self, place: u32) -> Option<usize> {
        let after = self.nodes.partition_point(|node| node.start <= place);
        (place < self.gpus).then(|| after - 1)
    }

    /// Whether a sub-mesh of `size` GPUs in groups of `degree` may begin at a place: within a node as a power of two or as
    /// all of it, or as whole nodes that are alike.
    fn allows(&self, place: u32, size: u32, degree: u32) -> bool {
        let Some(index) = self.at(place) else { return false };
        let first = self.nodes[index];
        if place + size <= first.start + first.gpus {
            return size.is_power_of_two() || size == first.gpus;
        }
        let count = size.div_ceil(first.gpus);
        place == first.start
            && size.is_multiple_of(first.gpus)
            && first.gpus.is_multiple_of(degree)
            && self.nodes[index..].iter().take(count as usize).filter(|node| alike(node, &first)).count()
                == count as usize
    }

    /// The units of a sub-mesh.
    fn units(&self, place: u32, size: u32, degree: u32) -> Vec<Unit> {
        let unit = |first: u32| {
            let node = self.nodes[self.at(first).expect("a sub-mesh is within the line")];
            Unit { node: node.node, first_gpu: first - node.start, gpus: degree, class: node.class }
        };
        (place..place + size).step_by(degree as usize).map(unit).collect()
    }
}

fn alike(a: &LineNode, b: &LineNode) -> bool {
    (a.class, a.gpus) == (b.class, b.gpus)
}

/// The program for one number of data-parallel ranks.
pub(super) struct Program<'a> {
    space: &'a Space<'a>,
    line: &'a Line,
    width: u32,
    micro_batches: u32,
    deepest: u32,
    /// Where a stage may begin.
    places: Vec<u32>,
}

/// What the program knows for one limit: the most layers that so many stages hold on the devices from a place on.
struct Table {
    /// By stages, from one, and place.
    held: Vec<Vec<Option<u32>>>,
}

/// What follows from a place.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    /// A stage of this degree.
    Stage { degree: u32, held: u32 },
    /// The rest of the node stays idle.
    Skip { to: u32 },
}

impl<'a> Program<'a> {
    pub fn new(space: &'a Space<'a>, line: &'a Line, width: u32, micro_batches: u32) -> Self {
        let smallest = width * space.points[0].degree();
        let deepest = (line.gpus / smallest).min(space.num_layers());
        // A node is filled from its start by sub-meshes that are multiples of the smallest.
        let of_node = |node: &LineNode| (node.start..node.start + node.gpus).step_by(smallest as usize);
        let places = line.nodes.iter().flat_map(of_node).collect();
        Self { space, line, width, micro_batches, deepest, places }
    }

    /// The units of each stage, of the depths that are best for some limit.
    pub fn solutions(&self) -> Vec<Vec<Vec<Unit>>> {
        if self.depths_within(f64::INFINITY).is_empty() {
            return Vec::new();
        }
        let limits = self.limits();
        let least = limits.partition_point(|&limit_s| self.depths_within(limit_s).is_empty());
        let mut found: Vec<Vec<Vec<Unit>>> = Vec::new();
        let mut known = vec![false; self.deepest as usize + 1];
        let mut next_s = 0.0;
        let mut best_s = f64::INFINITY;
        for &limit_s in &limits[least..] {
            if limit_s < next_s {
                continue;
            }
            if found.len() >= MAX_LIMITS || f64::from(self.micro_batches - 1) * limit_s >= best_s {
                break;
            }
            next_s = limit_s * LIMIT_STEP;
            for depth in self.depths_within(limit_s) {
                // No stage is slower than the limit, which bounds what this depth takes.
                best_s = best_s.min(f64::from(self.micro_batches - 1 + depth) * limit_s);
                if !std::mem::replace(&mut known[depth as usize], true) {
                    found.push(self.stages(limit_s, depth));
                }
            }
        }
        found
    }

    /// Every time that a stage can take, the shortest first.
    fn limits(&self) -> Vec<f64> {
        let mut limits = Vec::new();
        for point in self.space.points {
            for (class, costs) in point.classes.iter().enumerate().filter(|(class, _)| self.space.uses[*class]) {
                for (stage, depth) in [(1, 3), (0, 2), (1, 2), (0, 1)] {
                    let place = Place { stage, depth, micro_batches: 1, replicas: self.width };
                    let ends = Ends::at(stage, depth);
                    let most = layers_within(point, class, place, f64::INFINITY);
                    let time_s = |layers| costs.fixed_s(ends) + f64::from(layers) * costs.layer_s;
                    limits.extend((1..=most).map(time_s));
                }
            }
        }
        limits.sort_unstable_by(f64::total_cmp);
        limits.dedup();
        limits
    }

    /// The numbers of stages that hold the model within a limit.
    fn depths_within(&self, limit_s: f64) -> Vec<u32> {
        let table = self.table(limit_s);
        let holds = |depth: &u32| {
            self.best(&table, limit_s, 0, *depth, true).is_some_and(|(_, held)| held >= self.space.num_layers())
        };
        (1..=self.deepest).filter(holds).collect()
    }

    fn table(&self, limit_s: f64) -> Table {
        let places = self.line.gpus as usize;
        let mut table = Table { held: Vec::new() };
        for stages in 1..self.deepest {
            table.held.push(vec![None; places + 1]);
            for &place in self.places.iter().rev() {
                let best = self.best(&table, limit_s, place, stages, false).map(|(_, held)| held);
                table.held[stages as usize - 1][place as usize] = best;
            }
        }
        table
    }

    /// The step from a place that leads to most layers in so many stages, and how many. The model's first stage holds the
    /// embedding, its last one the head.
    fn best(&self, table: &Table, limit_s: f64, place: u32, stages: u32, is_first: bool) -> Option<(Step, u32)> {
        let index = self.line.at(place)?;
        let node = self.line.nodes[index];
        // How many are ahead isn't known here, nor does it matter to 1F1B's memory.
        let (stage, depth) = if is_first { (0, stages as usize) } else { (1, stages as usize + 1) };
        let at = Place { stage, depth, micro_batches: self.micro_batches, replicas: self.width };
        let rest = |to: u32| match stages {
            1 => Some(0),
            _ => table.held.get(stages as usize - 2)?.get(to as usize).copied().flatten(),
        };
        let stage = |point: &Point| {
            let degree = point.degree();
            let size = self.width * degree;
            if !self.line.allows(place, size, degree) {
                return None;
            }
            let held = layers_within(point, node.class, at, limit_s);
            (held > 0).then_some((Step::Stage { degree, held }, held + rest(place + size)?))
        };
        let to = node.start + node.gpus;
        let skipped = if is_first {
            self.best(table, limit_s, to, stages, true).map(|(_, held)| held)
        } else {
            table.held.get(stages as usize - 1).and_then(|row| row.get(to as usize).copied().flatten())
        };
        let skip = skipped.map(|held| (Step::Skip { to }, held));
        // Of equals the smaller degree: it comes first.
        let mut best: Option<(Step, u32)> = None;
        for option in self.space.points.iter().filter_map(stage).chain(skip) {
            if best.is_none_or(|(_, most)| option.1 > most) {
                best = Some(option);
            }
        }
        best
    }

    /// The units of each stage for a limit and a depth that holds the model.
    fn stages(&self, limit_s: f64, depth: u32) -> Vec<Vec<Unit>> {
        let table = self.table(limit_s);
        let (mut place, mut left) = (0, depth);
        let mut stages = Vec::new();
        while left > 0 {
            let best = self.best(&table, limit_s, place, left, left == depth);
            match best.expect("the depth holds the model").0 {
                Step::Skip { to } => place = to,
                Step::Stage { degree, .. } => {
                    let size = self.width * degree;
                    stages.push(self.line.units(place, size, degree));
                    place += size;
                    left -= 1;
                }
            }
        }
        stages
    }
}
