//! Stage 2, the concrete half of mapping: from pipelines of classes to nodes and GPUs, and to a [`Plan`].

mod places;

use super::balance::split_micro_batches;
use super::candidates::{GroupingSearch, Kind};
use super::pipeline::{Held, Layout, Pipeline};
use super::setting::Setting;
use crate::cluster::Cluster;
use crate::model::PlannedModel;
use crate::plan::{Plan, Replica, SCHEMA_VERSION, ScheduleKind, Stage};
pub use places::Neighbours;
use places::{UnitPlace, place_units};
use std::collections::HashMap;

/// What a plan is made of beside the setting.
pub struct Job<'a> {
    /// The nodes.
    pub cluster: &'a Cluster,
    /// Name of the planner.
    pub planner: &'static str,
    /// The model, as plans name it.
    pub model: &'a PlannedModel,
    /// Samples per iteration.
    pub global_batch_size: u32,
}

/// The plan of a grouping: pipelines are put on nodes, then layers and micro batches are balanced again for the links
/// that really lie between the stages. `None` where it doesn't fit after all.
pub fn realise(job: &Job, search: &mut GroupingSearch, kinds: &[Kind], neighbours: Neighbours) -> Option<Plan> {
    let setting = search.setting();
    let replicas = kinds.iter().flat_map(|kind| std::iter::repeat_n(&kind.units, kind.replicas as usize));
    let pipelines: Vec<Pipeline> =
        replicas.map(|units| search.pipelines().get(units).cloned()).collect::<Option<_>>()?;
    let paces: Vec<_> = pipelines.iter().map(|pipeline| pipeline.pace).collect();
    let micro_batches = split_micro_batches(&paces, setting.micro_batches)?;
    let places = place_units(job.cluster, setting, &pipelines, neighbours);
    let mut balanced = Balanced::new(setting, &pipelines, &places);
    let paces: Vec<_> = balanced.pipelines(&micro_batches)?.iter().map(|pipeline| pipeline.pace).collect();
    let mut micro_batches = split_micro_batches(&paces, setting.micro_batches)?;
    if setting.schedule.is_some_and(|choice| choice.chunks() > 1) {
        micro_batches = in_whole_rounds(&micro_batches, &pipelines).unwrap_or(micro_batches);
    }
    let pipelines = balanced.pipelines(&micro_batches)?;
    let replica = |((pipeline, places), micro_batches): ((&Pipeline, &Vec<UnitPlace>), u32)| Replica {
        micro_batches,
        stages: stages(job.cluster, setting, pipeline, places),
    };
    Some(Plan {
        schema_version: SCHEMA_VERSION,
        planner: job.planner.to_owned(),
        model: job.model.clone(),
        global_batch_size: job.global_batch_size,
        micro_batch_size: setting.execution.micro_batch_size,
        sequence_parallel: setting.execution.sequence_parallel && uses_degrees_above_one(setting, kinds),
        recompute: setting.execution.recompute,
        precision: setting.execution.precision,
        schedule: ScheduleKind::OneForwardOneBackward,
        replicas: pipelines.iter().zip(&places).zip(micro_batches).map(replica).collect(),
    })
}

/// Shares near to these that are multiples of their replica's stages, as the interleaved schedule needs them; `None` where
/// what is left over fits no replica.
fn in_whole_rounds(shares: &[u32], pipelines: &[Pipeline]) -> Option<Vec<u32>> {
    let round =
        |replica: usize| if pipelines[replica].classes.len() > 1 { pipelines[replica].classes.len() as u32 } else { 1 };
    let mut dealt: Vec<u32> = (0..shares.len()).map(|j| (shares[j] / round(j)).max(1) * round(j)).collect();
    let mut left = shares.iter().sum::<u32>().checked_sub(dealt.iter().sum())?;
    while left > 0 {
        let done_s = |j: usize| pipelines[j].pace.time_s(dealt[j] + round(j));
        let open = (0..dealt.len()).filter(|&j| round(j) <= left);
        let next = open.min_by(|&a, &b| done_s(a).total_cmp(&done_s(b)))?;
        dealt[next] += round(next);
        left -= round(next);
    }
    Some(dealt)
}

fn uses_degrees_above_one(setting: &Setting, kinds: &[Kind]) -> bool {
    let is_used = |class: usize| kinds.iter().any(|kind| kind.units.0[class] > 0);
    setting.classes.iter().enumerate().any(|(class, costs)| costs.tensor_parallel_size > 1 && is_used(class))
}

/// Balances the pipelines of a plan, those that are alike once.
struct Balanced<'a> {
    setting: &'a Setting,
    layouts: Vec<Layout>,
    /// Per replica, its layout.
    layout_of: Vec<usize>,
    known: HashMap<(usize, u32), Option<Pipeline>>,
}

impl<'a> Balanced<'a> {
    fn new(setting: &'a Setting, pipelines: &[Pipeline], places: &[Vec<UnitPlace>]) -> Self {
        let mut numbers: HashMap<(&[usize], Vec<bool>), usize> = HashMap::new();
        let mut layouts = Vec::new();
        let mut layout_of = Vec::with_capacity(pipelines.len());
        for (pipeline, places) in pipelines.iter().zip(places) {
            let shared: Vec<bool> = places.windows(2).map(|at| at[0].node == at[1].node).collect();
            let number = *numbers.entry((&pipeline.classes, shared)).or_insert_with_key(|(classes, shared)| {
                let boundaries = classes.windows(2).zip(shared);
                let transfer_s = boundaries.map(|(c, &shared)| setting.transfer_s(c[0], c[1], shared)).collect();
                layouts.push(Layout { classes: classes.to_vec(), transfer_s });
                layouts.len() - 1
            });
            layout_of.push(number);
        }
        Self { setting, layouts, layout_of, known: HashMap::new() }
    }

    /// The pipelines for so many micro batches each, `None` where one doesn't fit.
    fn pipelines(&mut self, micro_batches: &[u32]) -> Option<Vec<Pipeline>> {
        let Self { setting, layouts, layout_of, known } = self;
        let mut pipeline = |(&layout, &count): (&usize, &u32)| {
            let held = Held { micro_batches: count, replicas: layout_of.len() as u32 };
            let made = || layouts[layout].pipeline(setting, count, held);
            known.entry((layout, count)).or_insert_with(made).clone()
        };
        layout_of.iter().zip(micro_batches).map(&mut pipeline).collect()
    }
}

fn stages(cluster: &Cluster, setting: &Setting, pipeline: &Pipeline, places: &[UnitPlace]) -> Vec<Stage> {
    let mut first_layer = 0;
    let mut stage = |((place, &class), &num_layers): ((&UnitPlace, &usize), &u32)| {
        let node = &cluster.nodes[place.node];
        let degree = setting.classes[class].tensor_parallel_size;
        let gpus = (place.first_gpu..place.first_gpu + degree).collect();
        let (node, gpu_type, later_chunks) = (node.name.clone(), node.gpu.name.clone(), Vec::new());
        let stage = Stage { node, gpus, gpu_type, first_layer, num_layers, later_chunks };
        first_layer += num_layers;
        stage
    };
    places.iter().zip(&pipeline.classes).zip(&pipeline.layers).map(&mut stage).collect()
}
