mod fits;

use super::bounds::{lower_bound_s, memory_bound_s};
use super::setting::Setting;
use super::*;
use crate::cluster::{Cluster, NodeDefaults};
use crate::cost::{CostModel, CostSettings};
use crate::model::{ModelSpec, Precision, Recompute};
use crate::plan::{Plan, PlanLimits, TrainingSettings};
use crate::planner::fixtures::ClosedForm;
use crate::planner::room::Ends;
use proptest::prelude::*;

fn training(global_batch_size: u32) -> TrainingSettings {
    TrainingSettings {
        global_batch_size,
        precision: Precision::Fp16,
        recompute: vec![Recompute::Selective, Recompute::Full],
        micro_batch_sizes: vec![1, 2, 4],
        tensor_parallel_sizes: vec![1, 2, 4, 8],
    }
}

fn cost_of(model: &str) -> CostModel {
    CostModel::new(ModelSpec::preset(model).unwrap(), CostSettings::default(), None)
}

fn cost_of_layers(num_layers: u32) -> CostModel {
    let model = ModelSpec { num_layers, ..ModelSpec::preset("gpt3-2.7b").unwrap() };
    CostModel::new(model, CostSettings::default(), None)
}

fn cluster(mix: &str) -> Cluster {
    Cluster::parse_mix(mix, &NodeDefaults::default()).unwrap()
}

fn plan(mix: &str, cost: &CostModel, training: &TrainingSettings) -> Result<PlannedIteration, PlanError> {
    let cluster = cluster(mix);
    let request = PlanRequest { cluster: &cluster, cost, training, judge: &ClosedForm, limits: PlanLimits::default() };
    let planned = AutoHet { engine: Engine::Search }.plan(&request)?;
    assert_eq!(planned.plan.validate(&cluster, cost), Ok(()));
    Ok(planned)
}

#[test]
fn a_model_too_large_for_either_gpu_is_cut_by_their_rates() {
    // 32 layers of 2.7B need about 43 GB of state: neither GPU holds them, both together do.
    let training = TrainingSettings { tensor_parallel_sizes: vec![1], micro_batch_sizes: vec![1], ..training(64) };
    let cost = cost_of("gpt3-2.7b");
    let planned = plan("1x1xA100-40+1x1xV100-32", &cost, &training).unwrap();
    let [replica] = planned.plan.replicas.as_slice() else { panic!("one replica: {:?}", planned.plan) };
    let layers_of = |gpu| replica.stages.iter().find(|stage| stage.gpu_type == gpu).unwrap().num_layers;
    let (a100, v100) = (layers_of("A100-40"), layers_of("V100-32"));
    assert_eq!(a100 + v100, 32);
    // fp16 peaks are 312 and 125 Tflop/s; memory keeps the A100 below its proportion.
    assert!(a100 > v100, "{a100} layers on the A100, {v100} on the V100");
}

#[test]
fn the_same_request_gives_the_same_plan() {
    let (cost, training) = (cost_of("gpt3-2.7b"), training(128));
    let mix = "2x8xA100-40+3x4xV100-16+1x8xT4";
    assert_eq!(plan(mix, &cost, &training).unwrap(), plan(mix, &cost, &training).unwrap());
}

#[test]
fn a_gpu_that_only_slows_things_down_stays_idle() {
    let (cost, training) = (cost_of("gpt3-1.3b"), training(8));
    let planned = plan("1x8xH100+1x1xT4", &cost, &training).unwrap();
    assert!(planned.plan.stages().all(|(_, stage)| stage.gpu_type == "H100"), "{:?}", planned.plan);
}

#[test]
fn what_does_not_fit_is_said_with_figures_and_a_way_out() {
    let training =
        TrainingSettings { tensor_parallel_sizes: vec![1], recompute: vec![Recompute::Full], ..training(64) };
    let error = plan("1x4xT4", &cost_of("gpt3-6.7b"), &training).unwrap_err().to_string();
    // 6.65e9 + a second copy of the 206e6 of the tied matrix, 16 bytes each; four times 16 GB less the reserve.
    assert!(error.contains("for weights, gradients and optimizer state"), "{error}");
    assert!(error.contains(" usable"), "{error}");
    assert!(error.contains("hint: add 2 more nodes of 4 x `T4`"), "{error}");

    let training = TrainingSettings { recompute: vec![Recompute::Selective], ..training };
    let error = plan("8x1xT4", &cost_of("gpt3-13b"), &training).unwrap_err().to_string();
    assert!(error.contains("no plan fits") && error.contains("hint: "), "{error}");
}

#[test]
fn empty_clusters_and_indivisible_batches_are_refused() {
    let (cost, training) = (cost_of("gpt3-1.3b"), training(64));
    let nothing = Cluster::default();
    let request = PlanRequest {
        cluster: &nothing,
        cost: &cost,
        training: &training,
        judge: &ClosedForm,
        limits: PlanLimits::default(),
    };
    assert!(matches!(AutoHet::default().plan(&request), Err(PlanError::EmptyCluster)));
    let odd = TrainingSettings { micro_batch_sizes: vec![2, 4], global_batch_size: 63, ..training };
    assert!(matches!(plan("1x8xA100-80", &cost, &odd), Err(PlanError::Indivisible { .. })));
}

/// One way to run a tiny problem: stages by class and layers, for each replica with its micro batches.
struct Tiny<'a> {
    setting: &'a Setting,
}

impl Tiny<'_> {
    /// The least compute-only time of `replicas` replicas over every assignment of units, order, layer split and
    /// micro-batch split.
    fn optimum_s(&self, replicas: usize) -> Option<f64> {
        let mut best: Option<f64> = None;
        let counts: Vec<u32> = self.setting.classes.iter().map(|class| class.units).collect();
        let mut chosen = Vec::new();
        self.choose(replicas, &counts, &mut chosen, &mut best);
        best
    }

    fn choose(&self, left: usize, counts: &[u32], chosen: &mut Vec<Vec<usize>>, best: &mut Option<f64>) {
        if left == 0 {
            let total = self.setting.micro_batches;
            if let Some(time_s) = self.split(chosen, total) {
                *best = Some(best.map_or(time_s, |least_s| least_s.min(time_s)));
            }
            return;
        }
        let mut orders = Vec::new();
        sequences(counts, &mut Vec::new(), &mut orders);
        for order in orders.into_iter().filter(|order| order.len() <= self.setting.num_layers as usize) {
            let mut rest = counts.to_vec();
            for &class in &order {
                rest[class] -= 1;
            }
            chosen.push(order);
            self.choose(left - 1, &rest, chosen, best);
            chosen.pop();
        }
    }

    fn split(&self, replicas: &[Vec<usize>], micro_batches: u32) -> Option<f64> {
        let Some((first, rest)) = replicas.split_first() else {
            return (micro_batches == 0).then_some(0.0);
        };
        let shares = (1..=micro_batches).filter_map(|share| {
            let time_s = self.replica_s(first, share)?;
            Some(time_s.max(self.split(rest, micro_batches - share)?))
        });
        shares.min_by(f64::total_cmp)
    }

    fn replica_s(&self, order: &[usize], micro_batches: u32) -> Option<f64> {
        let mut best: Option<f64> = None;
        let mut splits = Vec::new();
        compositions(self.setting.num_layers, order.len(), &mut Vec::new(), &mut splits);
        for layers in splits {
            let depth = order.len();
            let fits = |stage: usize| {
                let in_flight = micro_batches.min((depth - stage) as u32);
                layers[stage] <= self.setting.classes[order[stage]].max_layers(Ends::at(stage, depth), in_flight)
            };
            if !(0..depth).all(fits) {
                continue;
            }
            let stage_s: Vec<f64> = (0..depth)
                .map(|stage| {
                    let class = &self.setting.classes[order[stage]];
                    class.fixed_s(Ends::at(stage, depth)) + f64::from(layers[stage]) * class.layer_s
                })
                .collect();
            let bottleneck_s = stage_s.iter().copied().fold(0.0, f64::max);
            let time_s = stage_s.iter().sum::<f64>() + f64::from(micro_batches - 1) * bottleneck_s;
            best = Some(best.map_or(time_s, |least_s| least_s.min(time_s)));
        }
        best
    }
}

/// All non-empty sequences of classes within the counts.
fn sequences(counts: &[u32], prefix: &mut Vec<usize>, all: &mut Vec<Vec<usize>>) {
    for class in 0..counts.len() {
        if prefix.iter().filter(|&&used| used == class).count() < counts[class] as usize {
            prefix.push(class);
            all.push(prefix.clone());
            sequences(counts, prefix, all);
            prefix.pop();
        }
    }
}

/// All ways to write `total` as `parts` positive integers.
fn compositions(total: u32, parts: usize, prefix: &mut Vec<u32>, all: &mut Vec<Vec<u32>>) {
    if parts == 1 {
        if total > 0 {
            all.push(prefix.iter().copied().chain([total]).collect());
        }
        return;
    }
    for first in 1..total {
        prefix.push(first);
        compositions(total - first, parts - 1, prefix, all);
        prefix.pop();
    }
}

/// Makespan of 1F1B on free links, by executing it.
fn one_f_one_b_s(forward_s: &[f64], backward_s: &[f64], micro_batches: usize) -> f64 {
    let depth = forward_s.len();
    let order = |stage: usize| -> Vec<(bool, usize)> {
        let warm_up = micro_batches.min(depth - stage);
        let mut ops: Vec<(bool, usize)> = (0..warm_up).map(|m| (true, m)).collect();
        for m in 0..micro_batches {
            ops.push((false, m));
            if warm_up + m < micro_batches {
                ops.push((true, warm_up + m));
            }
        }
        ops
    };
    let orders: Vec<_> = (0..depth).map(order).collect();
    let mut done = vec![vec![[None::<f64>; 2]; micro_batches]; depth];
    let (mut next, mut free_s) = (vec![0; depth], vec![0.0_f64; depth]);
    while next.iter().zip(&orders).any(|(&next, order)| next < order.len()) {
        for stage in 0..depth {
            while let Some(&(forward, m)) = orders[stage].get(next[stage]) {
                let ready = match forward {
                    true if stage == 0 => Some(0.0),
                    true => done[stage - 1][m][0],
                    false if stage + 1 == depth => done[stage][m][0],
                    false => done[stage + 1][m][1],
                };
                let Some(ready_s) = ready else { break };
                let took_s = if forward { forward_s[stage] } else { backward_s[stage] };
                free_s[stage] = free_s[stage].max(ready_s) + took_s;
                done[stage][m][usize::from(!forward)] = Some(free_s[stage]);
                next[stage] += 1;
            }
        }
    }
    free_s.into_iter().fold(0.0, f64::max)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_bound_holds_for_tiny_clusters(
        a in 0_u32..3, b in 0_u32..3, c in 0_u32..2, num_layers in 1_u32..6, batch in 1_u32..6, replicas in 1_u32..4,
    ) {
        prop_assume!(a + b + c > 0);
        let mix = [(a, "A100-80"), (b, "V100-16"), (c, "T4")];
        let mix: Vec<String> = mix.iter().filter(|m| m.0 > 0).map(|(n, gpu)| format!("{n}x1x{gpu}")).collect();
        let (cluster, cost) = (cluster(&mix.join("+")), cost_of_layers(num_layers));
        let training = TrainingSettings { tensor_parallel_sizes: vec![1], micro_batch_sizes: vec![1], ..training(batch) };
        let execution = super::setting::executions(&cost, &training).unwrap()[0];
        // The optimum is that of passes alone.
        let setting = Setting::new(&cluster, &cost, batch, execution).unwrap().unwrap().with_free_links();
        if let Some(optimum_s) = (Tiny { setting: &setting }).optimum_s(replicas as usize) {
            let bound_s = memory_bound_s(&setting, replicas);
            prop_assert!(bound_s >= lower_bound_s(&setting, replicas));
            prop_assert!(bound_s <= optimum_s + setting.optimizer_s, "{bound_s} > {optimum_s}");
        }
    }

    #[test]
    fn plans_are_valid_and_no_faster_than_their_bound(
        a in 0_u32..3, b in 0_u32..4, c in 0_u32..3, size in prop::sample::select(vec![1_u32, 2, 3, 4, 8]),
        batch in prop::sample::select(vec![4_u32, 30, 64]),
    ) {
        prop_assume!(a + b + c > 0);
        let mix = [(a, "A100-40"), (b, "V100-16"), (c, "T4")];
        let mix: Vec<String> = mix.iter().filter(|m| m.0 > 0).map(|(n, gpu)| format!("{n}x{size}x{gpu}")).collect();
        match plan(&mix.join("+"), &cost_of("gpt3-2.7b"), &training(batch)) {
            Ok(planned) => {
                prop_assert!(planned.lower_bound_s <= planned.predicted_iteration_s);
                prop_assert!(planned.gap >= 0.0);
            }
            Err(error) => prop_assert!(matches!(error, PlanError::DoesNotFit { .. }), "{error}"),
        }
    }
}

proptest! {
    #[test]
    fn no_1f1b_run_beats_the_stage_bound(
        stages in prop::collection::vec((1_u32..50, 1_u32..50), 1..6), micro_batches in 1_usize..9,
    ) {
        let forward_s: Vec<f64> = stages.iter().map(|s| f64::from(s.0)).collect();
        let backward_s: Vec<f64> = stages.iter().map(|s| f64::from(s.1)).collect();
        let made_s = one_f_one_b_s(&forward_s, &backward_s, micro_batches);
        let fill_s: f64 = forward_s.iter().chain(&backward_s).sum();
        let depth = stages.len();
        for stage in 0..depth {
            let in_flight = micro_batches.min(depth - stage) as f64;
            let time_s = forward_s[stage] + backward_s[stage];
            let bound_s = fill_s + (micro_batches as f64 - 1.0) * time_s - (in_flight - 1.0) * forward_s[stage];
            prop_assert!(bound_s <= made_s + 1e-9, "stage {stage}: {bound_s} > {made_s}");
        }
    }
}
