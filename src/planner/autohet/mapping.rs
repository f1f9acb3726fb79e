//! Stage 2, the concrete half of mapping: from pipelines of classes to nodes and GPUs, and to a [`Plan`].

use super::balance::{Pace, split_micro_batches};
use super::candidates::GroupingSearch;
use super::pipeline::{Layout, Pipeline};
use super::setting::{Composition, Setting, same_class};
use crate::cluster::Cluster;
use crate::plan::{Plan, Replica, SCHEMA_VERSION, ScheduleKind, Stage};

/// A unit of a node: the `index`-th run of `t` GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UnitPlace {
    node: usize,
    index: u32,
}

/// Which stages share nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbours {
    /// Stages of one replica: activations stay within nodes.
    Stages,
    /// Equal stages of many replicas: their gradients are reduced within nodes.
    Replicas,
}

/// What a plan is made of beside the setting.
pub struct Job<'a> {
    /// The nodes.
    pub cluster: &'a Cluster,
    /// Name of the planner.
    pub planner: &'static str,
    /// Name of the model.
    pub model: &'a str,
    /// Samples per iteration.
    pub global_batch_size: u32,
}

/// The plan of a grouping: pipelines are put on nodes, then layers and micro batches are balanced again for the links
/// that really lie between the stages. `None` where it doesn't fit after all.
pub fn realise(
    job: &Job,
    search: &mut GroupingSearch,
    replicas: &[Composition],
    neighbours: Neighbours,
) -> Option<Plan> {
    let setting = search.pipelines().setting();
    let mut micro_batches = search.micro_batches(replicas)?;
    let pipelines: Vec<Pipeline> =
        replicas.iter().map(|units| search.pipelines().get(units).cloned()).collect::<Option<_>>()?;
    let places = place_units(job.cluster, setting, &pipelines, neighbours);
    let layouts: Vec<Layout> =
        pipelines.iter().zip(&places).map(|(pipeline, places)| layout(setting, pipeline, places)).collect();
    let balance = |micro_batches: &[u32]| -> Option<Vec<Pipeline>> {
        layouts.iter().zip(micro_batches).map(|(layout, &count)| layout.pipeline(setting, count, count)).collect()
    };
    let paces: Vec<Pace> = balance(&micro_batches)?.iter().map(|pipeline| pipeline.pace).collect();
    micro_batches = split_micro_batches(&paces, setting.micro_batches)?;
    let pipelines = balance(&micro_batches)?;
    let replica = |((pipeline, places), micro_batches): ((&Pipeline, &Vec<UnitPlace>), u32)| Replica {
        micro_batches,
        stages: stages(job.cluster, setting, pipeline, places),
    };
    Some(Plan {
        schema_version: SCHEMA_VERSION,
        planner: job.planner.to_owned(),
        model: job.model.to_owned(),
        global_batch_size: job.global_batch_size,
        micro_batch_size: setting.execution.micro_batch_size,
        sequence_parallel: setting.execution.sequence_parallel,
        recompute: setting.execution.recompute,
        precision: setting.execution.precision,
        schedule: ScheduleKind::OneForwardOneBackward,
        replicas: pipelines.iter().zip(&places).zip(micro_batches).map(replica).collect(),
    })
}

fn layout(setting: &Setting, pipeline: &Pipeline, places: &[UnitPlace]) -> Layout {
    let boundaries = pipeline.classes.windows(2).zip(places.windows(2));
    let transfer_s = boundaries.map(|(c, at)| setting.transfer_s(c[0], c[1], at[0].node == at[1].node)).collect();
    Layout { classes: pipeline.classes.clone(), transfer_s }
}

/// Gives every stage a unit of its class. Runs of stages are placed longest first, each into the node with the least room
/// that holds the whole run, or else filling up the node with the most room, so that the members of a run share nodes.
fn place_units(
    cluster: &Cluster,
    setting: &Setting,
    pipelines: &[Pipeline],
    neighbours: Neighbours,
) -> Vec<Vec<UnitPlace>> {
    let t = setting.execution.tensor_parallel_size;
    let mut free: Vec<u32> = cluster.nodes.iter().map(|node| node.gpu_count / t).collect();
    let class_of =
        |node: &crate::cluster::Node| setting.classes.iter().position(|class| same_class(&class.gpu, class.nic, node));
    let class_of_node: Vec<Option<usize>> = cluster.nodes.iter().map(class_of).collect();
    let mut places: Vec<Vec<UnitPlace>> =
        pipelines.iter().map(|p| vec![UnitPlace { node: usize::MAX, index: 0 }; p.classes.len()]).collect();
    let runs = match neighbours {
        Neighbours::Stages => runs_of_stages(pipelines),
        Neighbours::Replicas => runs_of_replicas(setting, pipelines),
    };
    for run in runs {
        let mut members = run.members.as_slice();
        while !members.is_empty() {
            let open = || (0..free.len()).filter(|&node| class_of_node[node] == Some(run.class) && free[node] > 0);
            let snug =
                open().filter(|&node| free[node] as usize >= members.len()).min_by_key(|&node| (free[node], node));
            let roomiest = || open().min_by_key(|&node| (std::cmp::Reverse(free[node]), node));
            let node = snug.or_else(roomiest).expect("groupings use no more units than there are");
            let (here, later) = members.split_at(members.len().min(free[node] as usize));
            for &(replica, stage) in here {
                let index = cluster.nodes[node].gpu_count / t - free[node];
                places[replica][stage] = UnitPlace { node, index };
                free[node] -= 1;
            }
            members = later;
        }
    }
    places
}

/// Stages of one class that are to share nodes, as replica and stage.
struct Run {
    class: usize,
    members: Vec<(usize, usize)>,
}

/// Neighbouring stages of one class within a replica, longest run first.
fn runs_of_stages(pipelines: &[Pipeline]) -> Vec<Run> {
    let mut runs = Vec::new();
    for (replica, pipeline) in pipelines.iter().enumerate() {
        let mut first = 0;
        for run in pipeline.classes.chunk_by(|a, b| a == b) {
            let members = (first..first + run.len()).map(|stage| (replica, stage)).collect();
            runs.push(Run { class: run[0], members });
            first += run.len();
        }
    }
    runs.sort_by_key(|run| std::cmp::Reverse(run.members.len()));
    runs
}

/// All stages of one class over all replicas, in the order of their first layers: one run per class.
fn runs_of_replicas(setting: &Setting, pipelines: &[Pipeline]) -> Vec<Run> {
    let mut by_layer: Vec<Vec<(u32, usize, usize)>> = vec![Vec::new(); setting.classes.len()];
    for (replica, pipeline) in pipelines.iter().enumerate() {
        let mut first_layer = 0;
        for (stage, (&class, &layers)) in pipeline.classes.iter().zip(&pipeline.layers).enumerate() {
            by_layer[class].push((first_layer, replica, stage));
            first_layer += layers;
        }
    }
    let run = |(class, mut stages): (usize, Vec<(u32, usize, usize)>)| {
        stages.sort_unstable();
        Run { class, members: stages.into_iter().map(|(_, replica, stage)| (replica, stage)).collect() }
    };
    by_layer.into_iter().enumerate().map(run).collect()
}

fn stages(cluster: &Cluster, setting: &Setting, pipeline: &Pipeline, places: &[UnitPlace]) -> Vec<Stage> {
    let t = setting.execution.tensor_parallel_size;
    let mut first_layer = 0;
    let mut stage = |(place, &num_layers): (&UnitPlace, &u32)| {
        let node = &cluster.nodes[place.node];
        let gpus = (place.index * t..(place.index + 1) * t).collect();
        let stage = Stage { node: node.name.clone(), gpus, gpu_type: node.gpu.name.clone(), first_layer, num_layers };
        first_layer += num_layers;
        stage
    };
    places.iter().zip(&pipeline.layers).map(&mut stage).collect()
}
