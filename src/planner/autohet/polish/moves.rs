//! What a shape can be changed into by one step.

use super::shape::{Group, Shape, StageKind, World};

impl World<'_> {
    /// Shapes of another structure, whose layers are to be dealt: another degree or kind for a stage, a stage split, two
    /// merged or swapped, replicas more or fewer, another micro-batch size or recomputation, a group of replicas given up.
    pub(super) fn structures(&self, shape: &Shape) -> Vec<Shape> {
        let mut found = Vec::new();
        let place = self.micro_batch_sizes.iter().position(|size| *size == shape.micro_batch_size);
        let near = place.into_iter().flat_map(|place| [place, place.wrapping_sub(1), place + 1]);
        let sizes: Vec<u32> = near.filter_map(|place| self.micro_batch_sizes.get(place).copied()).collect();
        for index in 0..shape.groups.len() {
            // What needs more memory, or less, may need another size with it.
            for stages in self.changed_stages(&shape.groups[index].stages) {
                for &micro_batch_size in &sizes {
                    let mut changed = Shape { micro_batch_size, ..shape.clone() };
                    changed.groups[index].stages.clone_from(&stages);
                    self.push_numbers(&changed, index, &mut found);
                }
            }
            self.push_numbers(shape, index, &mut found);
            if shape.groups.len() > 1 {
                let mut fewer = shape.clone();
                fewer.groups.remove(index);
                for grown in 0..fewer.groups.len() {
                    self.push_numbers(&fewer, grown, &mut found);
                }
            }
        }
        for &micro_batch_size in sizes.iter().filter(|size| **size != shape.micro_batch_size) {
            let changed = Shape { micro_batch_size, ..shape.clone() };
            for index in 0..changed.groups.len() {
                self.push_numbers(&changed, index, &mut found);
            }
        }
        for &recompute in self.request.training.recompute.iter().filter(|choice| **choice != shape.recompute) {
            found.push(Shape { recompute, ..shape.clone() });
        }
        distinct_but_for_layers(found)
    }

    /// Shapes in which one layer has moved from one stage of a group to another.
    pub(super) fn layer_moves(shape: &Shape) -> Vec<Shape> {
        let mut found = Vec::new();
        for (index, group) in shape.groups.iter().enumerate() {
            let depth = group.stages.len();
            for from in (0..depth).filter(|&from| group.stages[from].layers > 1) {
                for to in (0..depth).filter(|&to| to != from) {
                    let mut moved = shape.clone();
                    let stages = &mut moved.groups[index].stages;
                    stages[from].layers -= 1;
                    stages[to].layers += 1;
                    found.push(moved);
                }
            }
        }
        found
    }

    fn changed_stages(&self, stages: &[StageKind]) -> Vec<Vec<StageKind>> {
        let mut found = Vec::new();
        for (index, stage) in stages.iter().enumerate() {
            let mut put = |changed: StageKind| {
                let mut all = stages.to_vec();
                all[index] = changed;
                found.push(all);
            };
            for &degree in self.degrees.iter().filter(|degree| **degree != stage.degree) {
                put(StageKind { degree, ..*stage });
            }
            for kind in (0..self.kinds.len()).filter(|kind| *kind != stage.kind) {
                for &degree in &self.degrees {
                    put(StageKind { kind, degree, ..*stage });
                }
            }
            // Split into two of its own kind, or with one of another.
            for kind in 0..self.kinds.len() {
                for &degree in &self.degrees {
                    for place in [index, index + 1] {
                        let mut all = stages.to_vec();
                        all.insert(place, StageKind { kind, degree, layers: 1 });
                        found.push(all);
                    }
                }
            }
            // As many GPUs in two stages of half the degree, or the two as one.
            if stage.degree.is_multiple_of(2) && self.degrees.contains(&(stage.degree / 2)) {
                let half = StageKind { degree: stage.degree / 2, ..*stage };
                let mut halved = stages.to_vec();
                halved.splice(index..=index, [half, half]);
                found.push(halved);
            }
            let double = StageKind { degree: 2 * stage.degree, ..*stage };
            let is_pair = |next: &StageKind| next.kind == stage.kind && next.degree == stage.degree;
            if stages.get(index + 1).is_some_and(is_pair) && self.degrees.contains(&double.degree) {
                let mut joined = stages.to_vec();
                joined.splice(index..=index + 1, [double]);
                found.push(joined);
            }
            if stages.len() > 1 {
                let mut fewer = stages.to_vec();
                fewer.remove(index);
                found.push(fewer);
            }
            for other in index + 1..stages.len() {
                if (stages[other].kind, stages[other].degree) != (stage.kind, stage.degree) {
                    let mut swapped = stages.to_vec();
                    swapped.swap(index, other);
                    found.push(swapped);
                }
            }
        }
        found
    }

    /// The shape with so many replicas in the group as it has, one more or fewer, as many as there is room for, and the
    /// fewest of which none has more micro batches than with these.
    fn push_numbers(&self, shape: &Shape, index: usize, found: &mut Vec<Shape>) {
        let now = shape.groups[index].replicas;
        let most = self.most_replicas(shape, index);
        let others: u32 = shape.groups.iter().map(|group| group.replicas).sum::<u32>() - now;
        let micro_batches = self.micro_batches(shape);
        let evened = |replicas: u32| {
            let all = others + replicas;
            micro_batches.div_ceil(micro_batches.div_ceil(all.max(1)).max(1)).saturating_sub(others)
        };
        let mut numbers =
            vec![now.min(most), now + 1, now.saturating_sub(1), most, evened(most), evened(now.min(most))];
        numbers.push(evened(most).saturating_sub(1));
        numbers.push(evened(evened(most).saturating_sub(1).max(1)));
        numbers.sort_unstable();
        numbers.dedup();
        for replicas in numbers.into_iter().filter(|number| (1..=most).contains(number)) {
            let mut changed = shape.clone();
            changed.groups[index].replicas = replicas;
            found.push(changed);
        }
    }

    /// Most replicas of a group that the GPUs beside the other groups' are enough for.
    fn most_replicas(&self, shape: &Shape, index: usize) -> u32 {
        let taken = |kind: usize, group: &Group| group.replicas * group.gpus_of(kind);
        let others = |kind| {
            let other = shape.groups.iter().enumerate().filter(|(other, _)| *other != index);
            other.map(|(_, group)| taken(kind, group)).sum::<u32>()
        };
        let used = (0..self.kinds.len()).filter_map(|kind| {
            let each = shape.groups[index].gpus_of(kind);
            (each > 0).then(|| self.kinds[kind].gpus.saturating_sub(others(kind)) / each)
        });
        used.min().unwrap_or(0).min(self.micro_batches(shape))
    }

    /// The shape with the layers of all groups dealt anew.
    pub(super) fn dealt(&self, mut shape: Shape) -> Option<Shape> {
        let whole = shape.clone();
        for group in &mut shape.groups {
            self.deal_layers(&whole, group)?;
        }
        Some(shape)
    }

    /// Simple shapes to begin with: replicas of one stage, and of two stages of unlike kinds, at every degree and
    /// micro-batch size, as many as there is room for.
    pub(super) fn simple(&self) -> Vec<Shape> {
        let mut starts = Vec::new();
        let units: Vec<StageKind> = (0..self.kinds.len())
            .flat_map(|kind| self.degrees.iter().map(move |&degree| StageKind { kind, degree, layers: 1 }))
            .collect();
        let alone = units.iter().map(|unit| vec![*unit]);
        let pairs = units.iter().flat_map(|a| units.iter().filter(|b| b.kind != a.kind).map(|b| vec![*a, *b]));
        let all: Vec<Vec<StageKind>> = alone.chain(pairs).collect();
        for &micro_batch_size in &self.micro_batch_sizes {
            for &recompute in &self.request.training.recompute {
                for stages in &all {
                    let groups = vec![Group { replicas: 1, stages: stages.clone() }];
                    self.push_numbers(&Shape { micro_batch_size, recompute, groups }, 0, &mut starts);
                }
            }
        }
        distinct_but_for_layers(starts)
    }
}

/// The shapes in order, once each. Layers don't count: they are dealt out afterwards.
fn distinct_but_for_layers(mut shapes: Vec<Shape>) -> Vec<Shape> {
    for stage in shapes.iter_mut().flat_map(|shape| &mut shape.groups).flat_map(|group| &mut group.stages) {
        stage.layers = 1;
    }
    shapes.sort();
    shapes.dedup();
    shapes
}
