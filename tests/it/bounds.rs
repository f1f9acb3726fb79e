//! No plan is faster than the bound that the planner proves, by the simulator's time.

use autohet::cluster::{Cluster, NodeDefaults};
use autohet::cost::{CostModel, CostSettings};
use autohet::model::{ModelSpec, Precision, Recompute};
use autohet::plan::{Judge, Plan, PlanRequest, Planner, Replica, Stage, TrainingSettings};
use autohet::planner::autohet::{AutoHet, Engine};
use autohet::runtime::sim::Simulator;
use proptest::prelude::*;

/// A job of one setting, `t = b = 1`.
struct Job {
    cluster: Cluster,
    cost: CostModel,
    training: TrainingSettings,
}

impl Job {
    fn new(mix: &[(u32, u32, &str)], model: &str, num_layers: u32, batch: u32) -> Self {
        let present = mix.iter().filter(|(nodes, size, _)| nodes * size > 0);
        let mix: Vec<String> = present.map(|(nodes, size, gpu)| format!("{nodes}x{size}x{gpu}")).collect();
        let cluster = Cluster::parse_mix(&mix.join("+"), &NodeDefaults::default()).unwrap();
        let model = ModelSpec { num_layers, ..ModelSpec::preset(model).unwrap() };
        let training = TrainingSettings {
            global_batch_size: batch,
            precision: Precision::Fp16,
            recompute: vec![Recompute::Selective],
            micro_batch_sizes: vec![1],
            tensor_parallel_sizes: vec![1],
        };
        Self { cluster, cost: CostModel::new(model, CostSettings::default(), None), training }
    }

    /// The planner's plan and bound, where there is a plan.
    fn planned(&self, engine: Engine) -> Option<(Plan, f64)> {
        let Self { cluster, cost, training } = self;
        let request =
            PlanRequest { cluster, cost, training, judge: &Simulator, limits: autohet::plan::PlanLimits::default() };
        let planned = AutoHet { engine }.plan(&request).ok()?;
        assert!(planned.lower_bound_s <= planned.predicted_iteration_s);
        Some((planned.plan, planned.lower_bound_s))
    }

    /// All GPUs, as stages without layers.
    fn gpus(&self) -> Vec<Stage> {
        let of_node = |node: &autohet::cluster::Node| {
            let stage = |gpu| Stage {
                node: node.name.clone(),
                gpus: vec![gpu],
                gpu_type: node.gpu.name.clone(),
                first_layer: 0,
                num_layers: 0,
                later_chunks: Vec::new(),
            };
            (0..node.gpu_count).map(stage).collect::<Vec<_>>()
        };
        self.cluster.nodes.iter().flat_map(of_node).collect()
    }

    /// Seconds of a plan, where it is valid.
    fn time_s(&self, like: &Plan, replicas: Vec<Replica>) -> Option<f64> {
        let plan = Plan { replicas, ..like.clone() };
        plan.validate(&self.cluster, &self.cost).ok()?;
        Some(Simulator.iteration_s(&plan, &self.cluster, &self.cost).unwrap())
    }
}

/// Layers dealt to stages in order.
fn with_layers(mut stages: Vec<Stage>, layers: &[u32]) -> Vec<Stage> {
    let mut first_layer = 0;
    for (stage, &num_layers) in stages.iter_mut().zip(layers) {
        (stage.first_layer, stage.num_layers) = (first_layer, num_layers);
        first_layer += num_layers;
    }
    stages
}

/// All ways to write `total` as `parts` positive numbers.
fn splits(total: u32, parts: usize) -> Vec<Vec<u32>> {
    if parts == 1 {
        return if total > 0 { vec![vec![total]] } else { Vec::new() };
    }
    let with_first = |first: u32| {
        splits(total - first, parts - 1).into_iter().map(move |mut rest| {
            rest.insert(0, first);
            rest
        })
    };
    (1..total).flat_map(with_first).collect()
}

/// Every plan of the job, one after the other: GPUs go to a new replica, to the end of the last one, or nowhere.
fn for_each_plan(job: &Job, visit: &mut impl FnMut(Vec<Replica>)) {
    fn extend(job: &Job, left: &[Stage], groups: &mut Vec<Vec<Stage>>, visit: &mut impl FnMut(Vec<Replica>)) {
        for shares in splits(job.training.global_batch_size, groups.len().max(1)) {
            if !groups.is_empty() {
                layer(job, groups, &shares, &mut Vec::new(), visit);
            }
        }
        for (at, gpu) in left.iter().enumerate() {
            let rest: Vec<Stage> = [&left[..at], &left[at + 1..]].concat();
            groups.push(vec![gpu.clone()]);
            extend(job, &rest, groups, visit);
            groups.pop();
            if let Some(last) = groups.last_mut() {
                last.push(gpu.clone());
                extend(job, &rest, groups, visit);
                groups.last_mut().unwrap().pop();
            }
        }
    }
    fn layer(
        job: &Job,
        groups: &[Vec<Stage>],
        shares: &[u32],
        done: &mut Vec<Replica>,
        visit: &mut impl FnMut(Vec<Replica>),
    ) {
        let Some(stages) = groups.get(done.len()) else { return visit(done.clone()) };
        for layers in splits(job.cost.model().num_layers, stages.len()) {
            done.push(Replica { micro_batches: shares[done.len()], stages: with_layers(stages.clone(), &layers) });
            layer(job, groups, shares, done, visit);
            done.pop();
        }
    }
    extend(job, &job.gpus(), &mut Vec::new(), visit);
}

/// Cuts a total into parts by random weights, each at least one.
fn cut(total: u32, weights: &[u32]) -> Option<Vec<u32>> {
    let free = total.checked_sub(weights.len() as u32)?;
    let sum: u32 = weights.iter().sum();
    let mut parts: Vec<u32> = weights.iter().map(|weight| 1 + free * weight / sum.max(1)).collect();
    *parts.last_mut()? += total - parts.iter().sum::<u32>();
    Some(parts)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_plan_of_a_tiny_cluster_beats_the_bound(
        a in 0_u32..=2, b in 0_u32..=2, spread in any::<bool>(), num_layers in 1_u32..=3, batch in 1_u32..=4,
        model in prop::sample::select(vec!["gpt3-2.7b", "llama-7b", "bert-large"]),
    ) {
        prop_assume!(a + b > 0 && a + b <= 3);
        let nodes = |count: u32| if spread { (count, 1) } else { (1, count) };
        let (a, b) = (nodes(a), nodes(b));
        let job = Job::new(&[(a.0, a.1, "A100-80"), (b.0, b.1, "V100-32")], model, num_layers, batch);
        let Some((like, bound_s)) = job.planned(Engine::Search) else { return Ok(()) };
        let mut least_s = f64::INFINITY;
        for_each_plan(&job, &mut |replicas| {
            least_s = least_s.min(job.time_s(&like, replicas).unwrap_or(f64::INFINITY));
        });
        prop_assert!(bound_s <= least_s, "bound {bound_s} s, a plan takes {least_s} s");
    }

    #[test]
    fn no_random_plan_beats_the_bound(
        a in 0_u32..=4, b in 0_u32..=4, spread in any::<bool>(), num_layers in 4_u32..=12, batch in 4_u32..=32,
        model in prop::sample::select(vec!["gpt3-1.3b", "llama-7b", "bert-large"]),
        samples in prop::collection::vec(
            (prop::collection::vec(0_usize..8, 8), prop::collection::vec(1_u32..20, 20), 1_usize..=4), 20,
        ),
    ) {
        prop_assume!(a + b > 1);
        let nodes = |count: u32| if spread { (count, 1) } else { (1, count) };
        let (a, b) = (nodes(a), nodes(b));
        let job = Job::new(&[(a.0, a.1, "A100-80"), (b.0, b.1, "V100-32")], model, num_layers, batch);
        let Some((like, bound_s)) = job.planned(Engine::Search) else { return Ok(()) };
        for (order, weights, groups) in samples {
            let mut gpus = job.gpus();
            for (at, other) in order.into_iter().enumerate().take(gpus.len()) {
                let other = other % gpus.len();
                gpus.swap(at, other);
            }
            let groups = groups.min(gpus.len()).min(batch as usize);
            let (Some(depths), Some(shares)) = (cut(gpus.len() as u32, &weights[..groups]), cut(batch, &weights[4..4 + groups]))
            else { continue };
            let mut rest = gpus.into_iter();
            let replica = |(depth, micro_batches): (u32, u32)| {
                let stages: Vec<Stage> = rest.by_ref().take(depth as usize).collect();
                let layers = cut(num_layers, &weights[8..8 + depth as usize])?;
                Some(Replica { micro_batches, stages: with_layers(stages, &layers) })
            };
            let Some(replicas) = depths.into_iter().zip(shares).map(replica).collect::<Option<Vec<_>>>() else { continue };
            if let Some(time_s) = job.time_s(&like, replicas.clone()) {
                prop_assert!(bound_s <= time_s, "bound {bound_s} s, {replicas:?} takes {time_s} s");
            }
        }
    }
}
