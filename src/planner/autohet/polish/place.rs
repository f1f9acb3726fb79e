//! Putting a shape on nodes.

use super::shape::{Shape, World};
use crate::plan::{Plan, Replica, SCHEMA_VERSION, ScheduleKind, Stage};

/// Which stages are put side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Neighbours {
    /// Those of one replica: activations stay within nodes.
    Stages,
    /// The same stage of so many equal replicas: gradients stay within nodes.
    Replicas(usize),
}

/// A stage to be placed: its replica, its place there, its kind and its GPUs.
#[derive(Clone, Copy)]
struct Wanted {
    replica: usize,
    stage: usize,
    kind: usize,
    degree: u32,
}

impl World<'_> {
    /// The shape as a plan; `None` where the cluster has no room for it.
    pub(super) fn plan_of(&self, shape: &Shape, planner: &str, neighbours: Neighbours) -> Option<Plan> {
        let micro_batches = self.deal_micro_batches(shape)?;
        let mut wanted = wanted_of(shape, neighbours);
        let places = self.place(&wanted).or_else(|| {
            // The large ones first: where sizes divide each other, this fits whenever anything does.
            wanted.sort_by_key(|stage| std::cmp::Reverse(stage.degree));
            self.place(&wanted)
        })?;
        let mut replicas: Vec<Replica> = shape
            .groups
            .iter()
            .flat_map(|group| std::iter::repeat_n(group.stages.len(), group.replicas as usize))
            .zip(micro_batches)
            .map(|(depth, micro_batches)| Replica { micro_batches, stages: Vec::with_capacity(depth) })
            .collect();
        let mut placed: Vec<(Wanted, (usize, u32))> = wanted.into_iter().zip(places).collect();
        placed.sort_by_key(|(stage, _)| (stage.replica, stage.stage));
        let cluster = self.request.cluster;
        let layers = shape.groups.iter().flat_map(|group| {
            let stages = move |_| group.stages.iter().map(|stage| stage.layers);
            (0..group.replicas).flat_map(stages)
        });
        let mut first_layer = 0;
        for ((stage, (node, first_gpu)), num_layers) in placed.into_iter().zip(layers) {
            if stage.stage == 0 {
                first_layer = 0;
            }
            let node = &cluster.nodes[node];
            replicas[stage.replica].stages.push(Stage {
                node: node.name.clone(),
                gpus: (first_gpu..first_gpu + stage.degree).collect(),
                gpu_type: node.gpu.name.clone(),
                first_layer,
                num_layers,
                later_chunks: Vec::new(),
            });
            first_layer += num_layers;
        }
        let training = self.request.training;
        Some(Plan {
            schema_version: SCHEMA_VERSION,
            planner: planner.to_owned(),
            model: self.request.cost.planned_model().clone(),
            global_batch_size: training.global_batch_size,
            micro_batch_size: shape.micro_batch_size,
            sequence_parallel: shape.groups.iter().flat_map(|group| &group.stages).any(|stage| stage.degree > 1),
            recompute: shape.recompute,
            precision: training.precision,
            schedule: ScheduleKind::OneForwardOneBackward,
            replicas,
        })
    }

    /// Node and first GPU of each stage, each on the first node of its kind with room for it.
    fn place(&self, wanted: &[Wanted]) -> Option<Vec<(usize, u32)>> {
        let cluster = self.request.cluster;
        let mut used = vec![0_u32; cluster.nodes.len()];
        // Nodes before it are full.
        let mut first_open = vec![0_usize; self.kinds.len()];
        let mut places = Vec::with_capacity(wanted.len());
        for stage in wanted {
            let nodes = &self.kinds[stage.kind].nodes;
            let first = &mut first_open[stage.kind];
            while *first < nodes.len() && used[nodes[*first]] == cluster.nodes[nodes[*first]].gpu_count {
                *first += 1;
            }
            let has_room = |&&node: &&usize| used[node] + stage.degree <= cluster.nodes[node].gpu_count;
            let node = *nodes[*first..].iter().find(has_room)?;
            places.push((node, used[node]));
            used[node] += stage.degree;
        }
        Some(places)
    }
}

fn wanted_of(shape: &Shape, neighbours: Neighbours) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    let mut first = 0;
    for group in &shape.groups {
        for replica in 0..group.replicas as usize {
            for (stage, kind) in group.stages.iter().enumerate() {
                let replica = first + replica;
                wanted.push(Wanted { replica, stage, kind: kind.kind, degree: kind.degree });
            }
        }
        let of_group = wanted.len() - group.replicas as usize * group.stages.len();
        if let Neighbours::Replicas(together) = neighbours {
            wanted[of_group..].sort_by_key(|stage| ((stage.replica - first) / together, stage.stage, stage.replica));
        }
        first += group.replicas as usize;
    }
    wanted
}
