//! No plan is faster than the bound that is proven, by the simulator's time.
//!
//! A plan's own bound is never above its own time, so that it couldn't fail here. What is put to the test is the bound with
//! nothing known but twice the time of the best plan.

use autohet::cluster::{Cluster, NodeDefaults};
use autohet::cost::{Collectives, CostModel, CostSettings, Framework, OptimizerState};
use autohet::model::{ModelSpec, Precision, Recompute};
use autohet::plan::{Judge, Plan, PlanLimits, PlanRequest, Planner, Replica, ScheduleKind, Stage, TrainingSettings};
use autohet::planner::autohet::{AutoHet, Engine};
use autohet::runtime::sim::Simulator;
use proptest::prelude::*;

/// A job with micro batches of one sample.
struct Job {
    cluster: Cluster,
    cost: CostModel,
    training: TrainingSettings,
}

impl Job {
    /// With network interfaces of so many Gbit/s.
    fn behind(
        nic_gbit_per_s: f64,
        mix: &[(u32, u32, &str)],
        degrees: &[u32],
        (model, num_layers): (&str, u32),
        batch: u32,
    ) -> Self {
        let present = mix.iter().filter(|(nodes, size, _)| nodes * size > 0);
        let mix: Vec<String> = present.map(|(nodes, size, gpu)| format!("{nodes}x{size}x{gpu}")).collect();
        let defaults = NodeDefaults::default().with_nic_gbit_per_s(nic_gbit_per_s).unwrap();
        let cluster = Cluster::parse_mix(&mix.join("+"), &defaults).unwrap();
        let model = ModelSpec { num_layers, ..ModelSpec::preset(model).unwrap() };
        let training = TrainingSettings {
            global_batch_size: batch,
            precision: Precision::Fp16,
            recompute: vec![Recompute::Selective],
            micro_batch_sizes: vec![1],
            tensor_parallel_sizes: degrees.to_vec(),
        };
        Self { cluster, cost: CostModel::new(model, CostSettings::default(), None), training }
    }

    fn under(self, framework: Framework) -> Self {
        Self { cost: self.cost.with_framework(framework), ..self }
    }

    fn request(&self) -> PlanRequest<'_> {
        let Self { cluster, cost, training } = self;
        PlanRequest { cluster, cost, training, judge: &Simulator, limits: PlanLimits::default() }
    }

    /// The planner's plan with its seconds, where there is a plan.
    fn planned(&self) -> Option<(Plan, f64)> {
        let planned = AutoHet { engine: Engine::Search }.plan(&self.request()).ok()?;
        Some((planned.plan, planned.predicted_iteration_s))
    }

    /// What is proven of plans of one degree and of all plans, where no more is known than that one takes less than twice so
    /// long.
    fn bounds_s(&self, best_s: f64) -> (f64, f64) {
        AutoHet::lower_bounds_s(&self.request(), 2.0 * best_s).unwrap()
    }

    /// All GPUs as stages without layers, two of a node together where `paired` says so and the job allows it.
    fn units(&self, mut paired: impl FnMut() -> bool) -> Vec<Stage> {
        let pairs = self.training.tensor_parallel_sizes.contains(&2);
        let mut units = Vec::new();
        for node in &self.cluster.nodes {
            let mut gpus: Vec<u32> = (0..node.gpu_count).collect();
            while !gpus.is_empty() {
                let degree = if pairs && gpus.len() > 1 && paired() { 2 } else { 1 };
                let (node, gpu_type) = (node.name.clone(), node.gpu.name.clone());
                let gpus = gpus.drain(..degree).collect();
                units.push(Stage { node, gpus, gpu_type, first_layer: 0, num_layers: 0, later_chunks: Vec::new() });
            }
        }
        units
    }

    /// Seconds of a plan, where it is valid.
    fn time_s(&self, like: &Plan, replicas: Vec<Replica>) -> Option<f64> {
        let plan = Plan { replicas, ..like.clone() };
        plan.validate(&self.cluster, &self.cost).ok()?;
        Some(Simulator.iteration_s(&plan, &self.cluster, &self.cost).unwrap())
    }
}

/// So many GPUs of a type in nodes of this size, the last of them smaller where they don't fill it.
fn in_nodes(gpus: u32, size: u32, gpu: &str) -> [(u32, u32, &str); 2] {
    [(gpus / size, size, gpu), (1, gpus % size, gpu)]
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
    extend(job, &job.units(|| false), &mut Vec::new(), visit);
}

/// Cuts a total into parts by random weights, each at least one.
fn cut(total: u32, weights: &[u32]) -> Option<Vec<u32>> {
    let free = total.checked_sub(weights.len() as u32)?;
    let sum: u32 = weights.iter().sum();
    let mut parts: Vec<u32> = weights.iter().map(|weight| 1 + free * weight / sum.max(1)).collect();
    *parts.last_mut()? += total - parts.iter().sum::<u32>();
    Some(parts)
}

/// The presets, and one that shares the optimizer out over rings in step.
fn frameworks() -> impl Strategy<Value = Framework> {
    let presets = Framework::NAMES.map(|name| Framework::preset(name).unwrap());
    let sharded = Framework { optimizer: OptimizerState::Sharded, collectives: Collectives::Ring, ..presets[2] };
    prop::sample::select(vec![presets[0], presets[1], presets[2], sharded])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_plan_of_a_tiny_cluster_beats_the_bound(
        a in 0_u32..=2, b in 0_u32..=2, spread in any::<bool>(), num_layers in 1_u32..=3, batch in 1_u32..=4,
        model in prop::sample::select(vec!["gpt3-2.7b", "llama-7b", "bert-large"]), framework in frameworks(),
        nic in prop::sample::select(vec![100.0, 10.0, 1.0]),
    ) {
        prop_assume!(a + b > 0 && a + b <= 3);
        let nodes = |count: u32| if spread { (count, 1) } else { (1, count) };
        let (a, b) = (nodes(a), nodes(b));
        let mix = [(a.0, a.1, "A100-80"), (b.0, b.1, "V100-32")];
        let job = Job::behind(nic, &mix, &[1], (model, num_layers), batch).under(framework);
        let Some((like, planned_s)) = job.planned() else { return Ok(()) };
        let mut least_s = planned_s;
        for schedule in [ScheduleKind::OneForwardOneBackward, ScheduleKind::GPipe] {
            let like = Plan { schedule, ..like.clone() };
            for_each_plan(&job, &mut |replicas| {
                least_s = least_s.min(job.time_s(&like, replicas).unwrap_or(f64::INFINITY));
            });
        }
        let (bound_s, _) = job.bounds_s(least_s);
        prop_assert!(bound_s <= least_s, "bound {bound_s} s, a plan takes {least_s} s");
    }

    #[test]
    fn no_random_plan_beats_the_bound(
        a in 0_u32..=4, b in 0_u32..=4, size in 1_u32..=4, pairs in any::<bool>(), gpipe in any::<bool>(),
        num_layers in 4_u32..=12, batch in 4_u32..=32,
        model in prop::sample::select(vec!["gpt3-1.3b", "llama-7b", "bert-large"]),
        framework in frameworks(), nic in prop::sample::select(vec![100.0, 10.0, 1.0]),
        samples in prop::collection::vec(
            (prop::collection::vec(0_usize..8, 8), prop::collection::vec(1_u32..20, 20), 1_usize..=4), 20,
        ),
    ) {
        prop_assume!(a + b > 1);
        let degrees: &[u32] = if pairs { &[1, 2] } else { &[1] };
        let mix = [in_nodes(a, size, "A100-80"), in_nodes(b, size, "V100-32")].concat();
        let job = Job::behind(nic, &mix, degrees, (model, num_layers), batch).under(framework);
        let Some((mut like, planned_s)) = job.planned() else { return Ok(()) };
        let one_degree_s = if like.tensor_parallel_sizes().len() == 1 { planned_s } else { f64::INFINITY };
        // Of plans of one degree, and of all.
        let (mut of_one_s, mut least_s) = (one_degree_s, planned_s);
        like.sequence_parallel = pairs;
        if gpipe {
            like.schedule = ScheduleKind::GPipe;
        }
        for (order, weights, groups) in samples {
            let mut coins = weights.iter().map(|weight| weight % 2 == 0).cycle();
            let is_even = weights[0].is_multiple_of(3);
            let mut units = job.units(|| is_even || coins.next().unwrap());
            for (at, other) in order.into_iter().enumerate().take(units.len()) {
                let other = other % units.len();
                units.swap(at, other);
            }
            let groups = groups.min(units.len()).min(batch as usize);
            let (Some(depths), Some(shares)) = (cut(units.len() as u32, &weights[..groups]), cut(batch, &weights[4..4 + groups]))
            else { continue };
            let mut rest = units.into_iter();
            let replica = |(depth, micro_batches): (u32, u32)| {
                let stages: Vec<Stage> = rest.by_ref().take(depth as usize).collect();
                let layers = cut(num_layers, &weights[8..8 + depth as usize])?;
                Some(Replica { micro_batches, stages: with_layers(stages, &layers) })
            };
            let Some(replicas) = depths.into_iter().zip(shares).map(replica).collect::<Option<Vec<_>>>() else { continue };
            let mut degrees = replicas.iter().flat_map(|replica| &replica.stages).map(Stage::tensor_parallel_size);
            let first = degrees.next();
            let is_of_one = degrees.all(|degree| Some(degree) == first);
            let time_s = job.time_s(&like, replicas).unwrap_or(f64::INFINITY);
            least_s = least_s.min(time_s);
            of_one_s = of_one_s.min(if is_of_one { time_s } else { f64::INFINITY });
        }
        let (bound_s, any_degrees_s) = job.bounds_s(least_s);
        prop_assert!(bound_s <= of_one_s, "bound {bound_s} s, a plan of one degree takes {of_one_s} s");
        prop_assert!(any_degrees_s <= least_s, "bound {any_degrees_s} s, a plan takes {least_s} s");
    }
}
