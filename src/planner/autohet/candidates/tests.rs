use super::constructions::dealt;
use super::reduction::{HeldLayers, most_crossing};
use super::*;
use proptest::prelude::*;

fn composition(units: &[u16]) -> Composition {
    let mut all = Composition::default();
    all.0[..units.len()].copy_from_slice(units);
    all
}

#[test]
fn units_are_dealt_in_turn() {
    // Five of one class over three replicas: 2, 2, 1; then two of the next, to the third and the first.
    let kinds = dealt(&[5, 2], 3);
    let of = |units: &[u16], replicas| Kind { units: composition(units), replicas };
    assert_eq!(kinds, [of(&[2, 1], 1), of(&[2, 0], 1), of(&[1, 1], 1)]);
}

#[test]
fn equal_layers_of_all_replicas_stay_in_their_node() {
    let stage = |first_layer, end_layer, replicas| HeldLayers { class: 0, first_layer, end_layer, replicas };
    // Two replicas of two stages in nodes of two units: each node has one stage of both.
    assert_eq!(most_crossing(&[stage(0, 3, 2), stage(3, 8, 2)], 2, 2), 0);
    // In nodes of one, each interface carries its layers.
    assert_eq!(most_crossing(&[stage(0, 3, 2), stage(3, 8, 2)], 2, 1), 5);
    // In a node of four with all of them, nothing leaves either.
    assert_eq!(most_crossing(&[stage(0, 3, 2), stage(3, 8, 2)], 2, 4), 0);
}

/// The same, node by node.
fn most_crossing_by_unit(stages: &[HeldLayers], replicas: u32, units_per_node: u32) -> u32 {
    let each = |stage: &HeldLayers| std::iter::repeat_n((stage.first_layer, stage.end_layer), stage.replicas as usize);
    let units: Vec<(u32, u32)> = stages.iter().flat_map(each).collect();
    let of_node = |node: &[(u32, u32)]| {
        let (mut crossing, mut reached) = (0, 0);
        for alike in node.chunk_by(|a, b| a == b).filter(|alike| (alike.len() as u32) < replicas) {
            crossing += alike[0].1.saturating_sub(alike[0].0.max(reached));
            reached = reached.max(alike[0].1);
        }
        crossing
    };
    units.chunks(units_per_node as usize).map(of_node).max().unwrap_or(0)
}

/// The same, unit by unit.
fn dealt_by_unit(units: &[u32], replicas: u32) -> Vec<Kind> {
    let mut groups = vec![Composition::default(); replicas as usize];
    let classes = units.iter().enumerate().flat_map(|(class, &count)| std::iter::repeat_n(class, count as usize));
    for (turn, class) in classes.enumerate() {
        groups[turn % replicas as usize].0[class] += 1;
    }
    kinds_of(&groups)
}

proptest! {
    #[test]
    fn dealing_by_kind_is_dealing_by_unit(units in prop::collection::vec(0_u32..40, 1..5), replicas in 1_u32..12) {
        prop_assert_eq!(dealt(&units, replicas), dealt_by_unit(&units, replicas));
    }

    #[test]
    fn crossing_by_kind_is_crossing_by_node(
        stages in prop::collection::vec((0_u32..9, 1_u32..5, 1_u32..12), 1..6), replicas in 2_u32..12, size in 1_u32..9,
    ) {
        let held = |&(first_layer, layers, replicas)| {
            HeldLayers { class: 0, first_layer, end_layer: first_layer + layers, replicas }
        };
        let mut stages: Vec<HeldLayers> = stages.iter().map(held).collect();
        stages.sort_unstable();
        prop_assert_eq!(most_crossing(&stages, replicas, size), most_crossing_by_unit(&stages, replicas, size));
    }
}
