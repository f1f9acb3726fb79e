//! About how long gradients take to be reduced, before stages have nodes.

use crate::planner::autohet::setting::Setting;

/// A stage of so many replicas, as far as its gradients care.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldLayers {
    pub class: usize,
    pub first_layer: u32,
    pub end_layer: u32,
    pub replicas: u32,
}

impl HeldLayers {
    /// The order of all fields, as one number: stages are sorted for every grouping that is looked at.
    fn place(&self) -> u128 {
        let high = (self.class as u128) << 96 | u128::from(self.first_layer) << 64;
        high | u128::from(self.end_layer) << 32 | u128::from(self.replicas)
    }
}

/// What a node's interface carries: layers, and the layer up to which they were counted.
#[derive(Clone, Copy, Debug, Default)]
struct Crossing {
    layers: u32,
    reached: u32,
}

impl Crossing {
    fn add(&mut self, stage: &HeldLayers) {
        self.layers += stage.end_layer.saturating_sub(stage.first_layer.max(self.reached));
        self.reached = self.reached.max(stage.end_layer);
    }
}

/// About how long gradients take to be reduced when stages of like layers share nodes. A node's interface then carries each
/// layer held there once, `2 (D - 1)/D` times its bytes, but for those that all replicas hold in this node. So replicas of
/// one shape reduce faster than a medley.
pub fn reduce_gradients_s(setting: &Setting, replicas: u32, stages: &mut [HeldLayers]) -> f64 {
    if replicas < 2 {
        return 0.0;
    }
    stages.sort_unstable_by_key(HeldLayers::place);
    let mut slowest_s = 0.0_f64;
    for of_class in stages.chunk_by(|a, b| a.class == b.class) {
        let class = &setting.classes[of_class[0].class];
        let most = of_class.iter().map(|stage| stage.end_layer - stage.first_layer).max().unwrap_or(0);
        let crossing = most_crossing(of_class, replicas, class.units_per_node);
        slowest_s = slowest_s.max(setting.reduce_gradients_s(class, replicas as usize, crossing, most));
    }
    slowest_s
}

/// Layers that cross the busiest interface when the stages, in their order, fill nodes of so many units.
pub fn most_crossing(stages: &[HeldLayers], replicas: u32, units_per_node: u32) -> u32 {
    let is_alike = |a: &HeldLayers, b: &HeldLayers| (a.first_layer, a.end_layer) == (b.first_layer, b.end_layer);
    let (mut most, mut here, mut room) = (0, Crossing::default(), units_per_node);
    for alike in stages.chunk_by(is_alike) {
        let mut left: u32 = alike.iter().map(|stage| stage.replicas).sum();
        while left > 0 {
            // Further nodes that are full of the same are like the first.
            let takes = left.min(room);
            let full = if room == units_per_node { left / units_per_node } else { 0 };
            if takes < replicas {
                here.add(&alike[0]);
            }
            most = most.max(here.layers);
            left -= takes.max(full * units_per_node);
            room -= takes;
            if room == 0 {
                (here, room) = (Crossing::default(), units_per_node);
            }
        }
    }
    most
}
