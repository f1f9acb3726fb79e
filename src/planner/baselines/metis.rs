//! Device groups in order, loads by capacity, after Metis (Um et al., USENIX ATC 2024).

use super::capacity::in_proportion;
use super::grid::{Grid, Space, Unit, best_over};
use super::point::Point;
use crate::plan::{PlanError, PlanRequest, PlannedIteration, Planner};

/// GPUs up to which every number of replicas is tried; beyond, powers of two.
const MAX_GPUS_OF_EVERY_WIDTH: u32 = 128;

/// Metis: devices in a line, type by type, cut into groups; each group serves a stage with its own tensor-parallel
/// degree, and loads follow capacity.
///
/// Types are lined up in every order. A stage is `D` units in a row, one a replica: a group of `D · t` devices, where `t`
/// depends on the group's GPU type. A group may span two types of one degree, so that replicas are unlike in a stage.
/// Layers of a stage are in proportion to the group's capacity, moved to stages with room where memory binds; micro
/// batches of a replica are in proportion to its speed, as its data balancer shares a batch within a stage. Devices that
/// fill no group stay idle, and GPU types may be left out.
///
/// Not modelled: groups of unlike degrees within one GPU type, which it permutes up to a variance set by its user, and
/// stages with unlike numbers of data-parallel ranks, between which it would have to send micro batches in parts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metis;

impl Planner for Metis {
    fn name(&self) -> &'static str {
        "metis"
    }

    fn plan(&self, request: &PlanRequest) -> Result<PlannedIteration, PlanError> {
        best_over(request, self.name(), grids)
    }
}

pub(super) fn grids(space: &Space) -> Vec<Grid> {
    let types: Vec<usize> = (0..space.uses.len()).filter(|&class| space.uses[class]).collect();
    let total: u32 = space.cluster.gpu_count();
    let mut found: Vec<Grid> = Vec::new();
    for order in space.node_orders() {
        for degrees in degrees_by_type(space, &types) {
            let line: Vec<Unit> =
                order.iter().flat_map(|&node| space.units_of(node, degrees[space.class_of[node]])).collect();
            let widest = (line.len() as u32).min(space.micro_batches());
            let is_tried = |width: &u32| total <= MAX_GPUS_OF_EVERY_WIDTH || width.is_power_of_two();
            for replicas in (1..=widest).filter(is_tried) {
                let rows = rows(&line, replicas as usize, space.num_layers() as usize);
                found.extend(rows.and_then(|rows| in_proportion(space, rows)));
            }
        }
    }
    found
}

/// A degree for each type: all combinations of those that some node of the type can form. Types that aren't used have
/// the first degree.
fn degrees_by_type(space: &Space, types: &[usize]) -> Vec<Vec<u32>> {
    let first = space.points[0].degree();
    let mut all = vec![vec![first; space.uses.len()]];
    for &class in types {
        let nodes = space.cluster.nodes.iter().zip(space.class_of).filter(|(_, of)| **of == class);
        let widest = nodes.map(|(node, _)| node.gpu_count).max().unwrap_or(0);
        let degrees: Vec<u32> = space.points.iter().map(Point::degree).filter(|&t| t <= widest).collect();
        let with = |known: &Vec<u32>, degree: u32| {
            let mut degrees = known.clone();
            degrees[class] = degree;
            degrees
        };
        all = all.iter().flat_map(|known| degrees.iter().map(move |&degree| with(known, degree))).collect();
    }
    all
}

/// The groups as rows of replicas: each run of units of one degree is cut into groups of `replicas`, what is left of it
/// stays idle. `None` where there is no group, or more groups than layers.
fn rows(line: &[Unit], replicas: usize, num_layers: usize) -> Option<Vec<Vec<Unit>>> {
    let runs = line.chunk_by(|a, b| a.gpus == b.gpus);
    let groups: Vec<&[Unit]> = runs.flat_map(|run| run.chunks_exact(replicas)).collect();
    if groups.is_empty() || groups.len() > num_layers {
        return None;
    }
    Some((0..replicas).map(|replica| groups.iter().map(|group| group[replica]).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(class: usize, gpus: u32) -> Unit {
        Unit { node: class, first_gpu: 0, gpus, class }
    }

    #[test]
    fn groups_span_types_of_one_degree_only() {
        let line = [unit(0, 1), unit(0, 1), unit(0, 1), unit(1, 1), unit(1, 2), unit(1, 2), unit(1, 2)];
        let rows = rows(&line, 2, 8).unwrap();
        let classes: Vec<Vec<usize>> = rows.iter().map(|row| row.iter().map(|unit| unit.class).collect()).collect();
        assert_eq!(classes, [[0, 0, 1], [0, 1, 1]]);
        assert_eq!(rows[1].iter().map(|unit| unit.gpus).collect::<Vec<_>>(), [1, 1, 2]);
    }

    #[test]
    fn more_groups_than_layers_are_no_plan() {
        let line = [unit(0, 1); 4];
        assert_eq!(rows(&line, 1, 3), None);
        assert_eq!(rows(&line, 5, 3), None);
        assert_eq!(rows(&line, 2, 3).map(|rows| rows.len()), Some(2));
    }
}
