//! Pipeline templates after Oobleck (Jang et al. 2023).

use super::point::{Class, Point, gpu_types, points};
use crate::cluster::Cluster;
use crate::plan::{
    Plan, PlanError, PlanRequest, PlannedIteration, Planner, Replica, SCHEMA_VERSION, ScheduleKind, Stage,
};
use crate::planner::autohet::balance::{SplitGoal, StageLoad, split_layers};
use crate::planner::autohet::outer::Outer;
use crate::planner::autohet::shortage;
use crate::planner::ranking;
use crate::planner::room::{Ends, Place};

/// Ways of covering the nodes of one kind that are combined with those of other kinds.
const MAX_COVERS: usize = 6;
/// Plans that are ranked with real links, and those that are executed.
const MAX_RANKED: usize = 24;
const MAX_JUDGED: usize = 4;

/// Oobleck: a template is the best pipeline over so many equal nodes, and any nodes are covered by pipelines of templates,
/// each with micro batches in proportion to its speed.
///
/// A template has a stage for each tensor-parallel unit of its nodes and layers by an optimal split. Nodes of one kind make
/// pipelines of sizes that differ by one at most, which are the fastest mixes of equal nodes; kinds don't share
/// pipelines, since templates are of equal nodes; every number of pipelines is tried, and kinds may be left out. At least two
/// pipelines are kept where two fit, so that each layer has a copy (the paper's `f + 1` for `f = 1`).
///
/// A favour: tensor-parallel degree, micro-batch size and recomputation are chosen with every cover, where the paper
/// fixes them once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Oobleck;

impl Planner for Oobleck {
    fn name(&self) -> &'static str {
        "oobleck"
    }

    fn plan(&self, request: &PlanRequest) -> Result<PlannedIteration, PlanError> {
        if request.cluster.gpu_count() == 0 {
            return Err(PlanError::EmptyCluster);
        }
        let outer = Outer::new(request, self.name())?;
        let kinds = Kind::all(request.cluster);
        let mut covers: Vec<Covered> = Vec::new();
        let points = points(request);
        for point in points.iter().flatten() {
            covers.extend(covered(point, &kinds));
        }
        if covers.iter().any(|cover| cover.pipelines.len() > 1) {
            covers.retain(|cover| cover.pipelines.len() > 1);
        }
        covers.sort_by(|a, b| a.time_s.total_cmp(&b.time_s));
        let mut ranked: Vec<(f64, Plan)> = Vec::new();
        for cover in covers.iter().take(MAX_RANKED) {
            let plan = cover.plan(request, self.name(), &kinds);
            if plan.validate(request.cluster, request.cost).is_ok() {
                ranked.push((ranking::rank_s(&plan, request)?, plan));
            }
        }
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        let plans = ranked.into_iter().take(MAX_JUDGED).map(|(_, plan)| plan).collect();
        let judged = ranking::judge_all(request, plans)?;
        PlannedIteration::best_of(judged, |judged| outer.lower_bound(judged)).ok_or_else(|| shortage::explain(request))
    }
}

/// Equal nodes.
struct Kind {
    /// Index of the GPU type, as in [`gpu_types`].
    class: usize,
    gpu_count: u32,
    /// Indices into the cluster.
    nodes: Vec<usize>,
}

impl Kind {
    fn all(cluster: &Cluster) -> Vec<Self> {
        let types = gpu_types(cluster);
        let mut kinds: Vec<Self> = Vec::new();
        for (index, node) in cluster.nodes.iter().enumerate() {
            let Some(class) = types.iter().position(|gpu| *gpu == node.gpu) else { continue };
            match kinds.iter_mut().find(|kind| kind.class == class && kind.gpu_count == node.gpu_count) {
                Some(kind) => kind.nodes.push(index),
                None => kinds.push(Self { class, gpu_count: node.gpu_count, nodes: vec![index] }),
            }
        }
        kinds
    }
}

/// The best pipeline over so many nodes of a kind.
#[derive(Clone, Debug)]
struct Template {
    kind: usize,
    nodes: usize,
    layers: Vec<u32>,
    /// One micro batch through all stages, and through the slowest.
    fill_s: f64,
    period_s: f64,
}

impl Template {
    fn new(point: &Point, class: &Class, kind: usize, nodes: usize, depth: usize) -> Option<Self> {
        if depth == 0 || depth > (point.num_layers.min(point.micro_batches)) as usize {
            return None;
        }
        let load = |stage: usize| {
            let ends = Ends::at(stage, depth);
            // A template goes into plans of any number of replicas.
            let place = Place { stage, depth, micro_batches: point.micro_batches, replicas: 1 };
            let max_layers = class.max_layers(place);
            StageLoad { fixed_s: class.fixed_s(ends), layer_s: class.layer_s, max_layers }
        };
        let loads: Vec<StageLoad> = (0..depth).map(load).collect();
        let goal = SplitGoal { num_layers: point.num_layers, micro_batches: point.micro_batches, period_floor_s: 0.0 };
        let layers = split_layers(&loads, goal)?.layers;
        let stage_s = loads.iter().zip(&layers).map(|(load, &layers)| load.fixed_s + f64::from(layers) * load.layer_s);
        let (fill_s, period_s) = stage_s.fold((0.0, 0.0), |(sum, most), s| (sum + s, f64::max(most, s)));
        Some(Self { kind, nodes, layers, fill_s, period_s })
    }

    /// Micro batches that are done by `time_s`.
    fn done_by(&self, time_s: f64) -> u32 {
        if time_s < self.fill_s { 0 } else { ((time_s - self.fill_s) / self.period_s) as u32 + 1 }
    }
}

/// Pipelines over all nodes that are used.
struct Covered<'a> {
    point: &'a Point,
    pipelines: Vec<Template>,
    micro_batches: Vec<u32>,
    time_s: f64,
}

/// The best covers at one degree, micro-batch size and recompute setting: of each kind all nodes in some number of pipelines,
/// or none.
fn covered<'a>(point: &'a Point, kinds: &[Kind]) -> Vec<Covered<'a>> {
    let mut all: Vec<Vec<Template>> = vec![Vec::new()];
    for (index, kind) in kinds.iter().enumerate() {
        let covers = covers_of(point, index, kind);
        let with = |before: &Vec<Template>| {
            let more = covers.iter().map(|cover| before.iter().chain(cover).cloned().collect());
            std::iter::once(before.clone()).chain(more).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    let dealt = all.into_iter().filter_map(|pipelines| Covered::new(point, pipelines));
    let mut dealt: Vec<Covered> = dealt.collect();
    dealt.sort_by(|a, b| a.time_s.total_cmp(&b.time_s));
    // A single pipeline counts only where nobody has two.
    let alone = dealt.iter().position(|cover| cover.pipelines.len() == 1);
    let alone = alone.map(|index| dealt.remove(index));
    dealt.retain(|cover| cover.pipelines.len() > 1);
    dealt.truncate(MAX_JUDGED);
    dealt.extend(alone);
    dealt
}

fn covers_of(point: &Point, index: usize, kind: &Kind) -> Vec<Vec<Template>> {
    let units = kind.gpu_count / point.degree();
    let class = &point.classes[kind.class];
    if units == 0 || !class.layer_s.is_finite() {
        return Vec::new();
    }
    let count = kind.nodes.len();
    let template = |nodes: usize| Template::new(point, class, index, nodes, nodes * units as usize);
    let templates: Vec<Option<Template>> = (0..=count).map(template).collect();
    let mut covers: Vec<Vec<Template>> = Vec::new();
    for pipelines in 1..=count {
        let (size, larger) = (count / pipelines, count % pipelines);
        let Some(usual) = &templates[size] else { continue };
        let grown = templates.get(size + 1).and_then(Option::as_ref).unwrap_or(usual);
        let chosen = (0..pipelines).map(|pipeline| if pipeline < larger { grown } else { usual });
        covers.push(chosen.cloned().collect());
    }
    let rate = |cover: &[Template]| cover.iter().map(|template| 1.0 / template.period_s).sum::<f64>();
    covers.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    covers.truncate(MAX_COVERS);
    covers
}

impl<'a> Covered<'a> {
    /// Deals out the micro batches so that the last pipeline is done soonest; `None` where there are fewer than pipelines.
    fn new(point: &'a Point, pipelines: Vec<Template>) -> Option<Self> {
        let total = point.micro_batches;
        if pipelines.is_empty() || pipelines.len() > total as usize {
            return None;
        }
        let done_by = |time_s| pipelines.iter().map(|template| u64::from(template.done_by(time_s).max(1))).sum::<u64>();
        let mut low_s = 0.0;
        let alone = |template: &Template| template.fill_s + f64::from(total) * template.period_s;
        let mut high_s = pipelines.iter().map(alone).fold(0.0, f64::max);
        for _ in 0..48 {
            let middle_s = f64::midpoint(low_s, high_s);
            if done_by(middle_s) >= u64::from(total) { high_s = middle_s } else { low_s = middle_s }
        }
        let mut micro_batches: Vec<u32> = pipelines.iter().map(|template| template.done_by(high_s).max(1)).collect();
        let end_s = |(template, count): (&Template, u32)| template.fill_s + f64::from(count - 1) * template.period_s;
        let mut surplus = micro_batches.iter().sum::<u32>() - total;
        while surplus > 0 {
            let several = (0..pipelines.len()).filter(|&index| micro_batches[index] > 1);
            let last = |index: &usize| end_s((&pipelines[*index], micro_batches[*index]));
            let latest = several.max_by(|a, b| last(a).total_cmp(&last(b)))?;
            micro_batches[latest] -= 1;
            surplus -= 1;
        }
        let time_s = pipelines.iter().zip(micro_batches.iter().copied()).map(end_s).fold(0.0, f64::max);
        Some(Self { point, pipelines, micro_batches, time_s })
    }

    fn plan(&self, request: &PlanRequest, planner: &str, kinds: &[Kind]) -> Plan {
        let execution = &self.point.execution;
        let degree = self.point.degree();
        let mut next: Vec<usize> = vec![0; kinds.len()];
        let replica = |(template, &micro_batches): (&Template, &u32)| {
            let kind = &kinds[template.kind];
            let nodes = &kind.nodes[next[template.kind]..next[template.kind] + template.nodes];
            next[template.kind] += template.nodes;
            let units =
                nodes.iter().flat_map(|&node| (0..kind.gpu_count / degree).map(move |unit| (node, unit * degree)));
            let mut first_layer = 0;
            let stage = |((node, first_gpu), &num_layers): ((usize, u32), &u32)| {
                let node = &request.cluster.nodes[node];
                let (name, gpu_type) = (node.name.clone(), node.gpu.name.clone());
                let gpus = (first_gpu..first_gpu + degree).collect();
                let stage = Stage { node: name, gpus, gpu_type, first_layer, num_layers, later_chunks: Vec::new() };
                first_layer += num_layers;
                stage
            };
            Replica { micro_batches, stages: units.zip(&template.layers).map(stage).collect() }
        };
        Plan {
            schema_version: SCHEMA_VERSION,
            planner: planner.to_owned(),
            model: request.cost.planned_model().clone(),
            global_batch_size: request.training.global_batch_size,
            micro_batch_size: execution.micro_batch_size,
            sequence_parallel: degree > 1,
            recompute: execution.recompute,
            precision: execution.precision,
            schedule: ScheduleKind::OneForwardOneBackward,
            replicas: self.pipelines.iter().zip(&self.micro_batches).map(replica).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::NodeDefaults;
    use crate::cost::{CostModel, CostSettings};
    use crate::model::ModelSpec;
    use crate::plan::{PlanLimits, TrainingSettings};
    use crate::runtime::sim::Simulator;

    fn planned(mix: &str, model: &str) -> Result<PlannedIteration, PlanError> {
        let cost = CostModel::new(ModelSpec::preset(model).unwrap(), CostSettings::default(), None);
        let cluster = Cluster::parse_mix(mix, &NodeDefaults::default()).unwrap();
        let training = TrainingSettings { global_batch_size: 64, ..TrainingSettings::default() };
        let (cluster, cost, limits) = (&cluster, &cost, PlanLimits::default());
        Oobleck.plan(&PlanRequest { cluster, cost, training: &training, judge: &Simulator, limits })
    }

    fn depths(planned: &PlannedIteration) -> Vec<usize> {
        let mut depths: Vec<usize> = planned.plan.replicas.iter().map(|replica| replica.stages.len()).collect();
        depths.sort_unstable();
        depths
    }

    /// 1.3 billion parameters of 16 bytes need two V100s of 16 GB at least.
    #[test]
    fn five_nodes_are_a_pipeline_of_two_and_one_of_three() {
        let planned = planned("5x1xV100-16", "gpt3-1.3b").unwrap();
        assert_eq!(depths(&planned), [2, 3]);
        // The longer pipeline is the faster one and gets more of the batch.
        let of_depth = |depth| planned.plan.replicas.iter().find(|r| r.stages.len() == depth).unwrap().micro_batches;
        assert!(of_depth(3) > of_depth(2));
        assert_eq!(
            planned.plan.replicas.iter().map(|r| r.micro_batches).sum::<u32>() * planned.plan.micro_batch_size,
            64
        );
    }

    #[test]
    fn two_pipelines_where_two_fit_and_one_where_not() {
        assert_eq!(depths(&planned("3x1xV100-16", "gpt3-1.3b").unwrap()), [3]);
        assert!(depths(&planned("4x1xV100-16", "gpt3-1.3b").unwrap()).len() >= 2);
        assert!(matches!(planned("1x1xV100-16", "gpt3-1.3b"), Err(PlanError::DoesNotFit { .. })));
    }

    #[test]
    fn kinds_make_pipelines_of_their_own() {
        let planned = planned("2x1xA100-40+4x1xV100-16", "gpt3-1.3b").unwrap();
        for replica in &planned.plan.replicas {
            assert!(replica.stages.iter().all(|stage| stage.gpu_type == replica.stages[0].gpu_type));
        }
        assert!(planned.plan.replicas.len() >= 2);
    }
}
