//! Loads in proportion to what devices can compute, within what they can hold.

use super::grid::{Grid, Space, Unit, pace, proportional};
use crate::planner::room::Place;

/// Layers and micro batches for units by replica and stage; `None` where the layers don't fit.
///
/// A stage's layers are in proportion to the power of the devices that serve it, over all replicas; a replica's micro
/// batches are in proportion to its speed.
pub(super) fn in_proportion(space: &Space, units: Vec<Vec<Unit>>) -> Option<Grid> {
    let depth = units[0].len();
    if (space.num_layers() as usize) < depth || (space.micro_batches() as usize) < units.len() {
        return None;
    }
    let power = |stage: usize| units.iter().map(|row| space.costs(&row[stage]).layer_rate_per_s()).sum();
    let powers: Vec<f64> = (0..depth).map(power).collect();
    let micro_batches = space.most_micro_batches(units.len() as u32);
    let room: Vec<u32> = (0..depth)
        .map(|stage| {
            let place = Place { stage, depth, micro_batches, replicas: units.len() as u32 };
            let of = |row: &Vec<Unit>| space.costs(&row[stage]).max_layers(place);
            units.iter().map(of).min().unwrap_or(0)
        })
        .collect();
    if room.contains(&0) {
        return None;
    }
    let layers = within_memory(proportional(&powers, space.num_layers()), &room, &powers)?;
    let speeds: Vec<f64> = units.iter().map(|row| 1.0 / pace(space, row, &layers).1).collect();
    let micro_batches = proportional(&speeds, space.micro_batches());
    Some(Grid { units, layers, micro_batches })
}

/// Moves layers from stages without room to those with room, the least loaded for its power first.
fn within_memory(mut layers: Vec<u32>, room: &[u32], powers: &[f64]) -> Option<Vec<u32>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_goes_where_it_is_done_first() {
        assert_eq!(within_memory(vec![6, 2], &[4, 8], &[3.0, 1.0]), Some(vec![4, 4]));
        assert_eq!(within_memory(vec![6, 1, 1], &[4, 8, 8], &[3.0, 2.0, 1.0]), Some(vec![4, 3, 1]));
        assert_eq!(within_memory(vec![6, 2], &[4, 3], &[3.0, 1.0]), None);
    }
}
