//! Search, SCIP and enumeration against each other.

use super::*;
use crate::cluster::{Cluster, NodeDefaults};
use crate::cost::{CostModel, CostSettings};
use crate::model::{ModelSpec, Precision, Recompute};
use crate::plan::TrainingSettings;
use crate::planner::autohet::setting::executions;
use proptest::prelude::*;

const GPUS: [&str; 3] = ["A100-80", "V100-16", "T4"];

/// The setting `t = b = 1` of so many GPUs of each type, each in a node of its own.
fn setting(counts: &[u32], num_layers: u32, batch: u32) -> Option<Setting> {
    let present = counts.iter().zip(GPUS).filter(|(count, _)| **count > 0);
    let mix: Vec<String> = present.map(|(count, gpu)| format!("{count}x1x{gpu}")).collect();
    let cluster = Cluster::parse_mix(&mix.join("+"), &NodeDefaults::default()).ok()?;
    let model = ModelSpec { num_layers, ..ModelSpec::preset("gpt3-2.7b").unwrap() };
    let cost = CostModel::new(model, CostSettings::default(), None);
    let training = TrainingSettings {
        global_batch_size: batch,
        precision: Precision::Fp16,
        recompute: vec![Recompute::Selective],
        micro_batch_sizes: vec![1],
        tensor_parallel_sizes: vec![1],
    };
    let execution = executions(&cost, &training).unwrap()[0];
    Setting::new(&cluster, &cost, batch, execution).unwrap()
}

/// Every assignment of units, order, layer split and micro-batch split, by nothing but loops.
struct Enumeration<'a> {
    setting: &'a Setting,
    /// Per count of units (by class), the least time of one replica for 1, 2, … micro batches.
    replicas: Vec<(Vec<u32>, Vec<f64>)>,
}

impl<'a> Enumeration<'a> {
    fn new(setting: &'a Setting) -> Self {
        let mut all = Self { setting, replicas: Vec::new() };
        all.extend(&mut Vec::new());
        all
    }

    /// All sequences of classes that begin with `order`.
    fn extend(&mut self, order: &mut Vec<usize>) {
        for class in 0..self.setting.classes.len() {
            let used = order.iter().filter(|&&other| other == class).count();
            if used < self.setting.classes[class].units as usize && order.len() < self.setting.num_layers as usize {
                order.push(class);
                self.try_splits(order, &mut Vec::new());
                self.extend(order);
                order.pop();
            }
        }
    }

    /// All splits that begin with `layers`.
    fn try_splits(&mut self, order: &[usize], layers: &mut Vec<u32>) {
        let held: u32 = layers.iter().sum();
        let after = (order.len() - layers.len()) as u32;
        if after == 1 {
            layers.push(self.setting.num_layers - held);
            self.note(order, layers);
            layers.pop();
            return;
        }
        for own in 1..=(self.setting.num_layers - held).saturating_sub(after - 1) {
            layers.push(own);
            self.try_splits(order, layers);
            layers.pop();
        }
    }

    fn note(&mut self, order: &[usize], layers: &[u32]) {
        let depth = order.len();
        let mut times_s = Vec::with_capacity(depth);
        for (stage, (&class, &held)) in order.iter().zip(layers).enumerate() {
            let costs = &self.setting.classes[class];
            let ends = Ends { embedding: stage == 0, head: stage == depth - 1 };
            let in_flight = self.setting.micro_batches.min((depth - stage) as u32);
            if held > costs.max_layers(ends, in_flight) {
                return;
            }
            times_s.push(f64::from(held) * costs.layer_s + costs.fixed_s(ends));
        }
        let mut counts = vec![0; self.setting.classes.len()];
        for &class in order {
            counts[class] += 1;
        }
        let (sum_s, most_s) = (times_s.iter().sum::<f64>(), times_s.iter().copied().fold(0.0, f64::max));
        let at = self.replicas.iter().position(|(known, _)| *known == counts).unwrap_or_else(|| {
            self.replicas.push((counts, vec![f64::INFINITY; self.setting.micro_batches as usize]));
            self.replicas.len() - 1
        });
        for (further, least_s) in self.replicas[at].1.iter_mut().enumerate() {
            *least_s = least_s.min(sum_s + further as f64 * most_s);
        }
    }

    /// The least time of so many replicas with these units and micro batches.
    fn optimum_s(&self, replicas: u32, left: &[u32], micro_batches: u32) -> f64 {
        if replicas == 0 {
            return if micro_batches == 0 { 0.0 } else { f64::INFINITY };
        }
        let mut least_s = f64::INFINITY;
        for (counts, times_s) in &self.replicas {
            if counts.iter().zip(left).any(|(count, left)| count > left) {
                continue;
            }
            let rest: Vec<u32> = left.iter().zip(counts).map(|(left, count)| left - count).collect();
            let shares = if replicas == 1 { micro_batches..=micro_batches } else { 1..=micro_batches };
            for share in shares.filter(|&share| share > 0) {
                let own_s = times_s[share as usize - 1];
                if own_s < least_s {
                    least_s = least_s.min(own_s.max(self.optimum_s(replicas - 1, &rest, micro_batches - share)));
                }
            }
        }
        least_s
    }
}

fn enumerated_s(setting: &Setting, replicas: u32) -> Option<f64> {
    let units: Vec<u32> = setting.classes.iter().map(|class| class.units).collect();
    let least_s = Enumeration::new(setting).optimum_s(replicas, &units, setting.micro_batches);
    least_s.is_finite().then_some(least_s)
}

#[test]
fn two_unlike_units_share_the_micro_batches_by_their_rates() {
    // Four layers fit either; alone the A100 does one micro batch in `a` seconds and the T4 in several times that.
    let setting = setting(&[1, 0, 1], 4, 12).unwrap();
    let best = search(&setting, 2).unwrap();
    let [fast, slow] = [0, 1].map(|class| {
        let costs = &setting.classes[class];
        4.0 * costs.layer_s + costs.fixed_s(Ends { embedding: true, head: true })
    });
    let by_hand =
        (1..12).map(|own| (f64::from(own) * fast).max(f64::from(12 - own) * slow)).fold(f64::INFINITY, f64::min);
    assert!((best.time_s - by_hand).abs() < 1e-9 * by_hand, "{best:?}, by hand {by_hand}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn search_finds_what_enumeration_finds(
        a in 0_u32..=4, b in 0_u32..=4, c in 0_u32..=2, num_layers in 1_u32..=12, batch in 1_u32..=10, replicas in 1_u32..=4,
    ) {
        prop_assume!(a + b + c > 0 && a + b + c <= 8);
        let setting = setting(&[a, b, c], num_layers, batch).unwrap();
        let found = search(&setting, replicas).map(|plan| plan.time_s);
        match (found, enumerated_s(&setting, replicas)) {
            (Some(found_s), Some(least_s)) => prop_assert!((found_s - least_s).abs() <= 1e-9 * least_s, "{found_s}, not {least_s}"),
            (found, enumerated) => prop_assert_eq!(found.is_some(), enumerated.is_some()),
        }
    }

    #[test]
    fn the_bound_of_a_setting_is_below_its_optimum(
        a in 0_u32..=4, b in 0_u32..=4, c in 0_u32..=2, num_layers in 1_u32..=12, batch in 1_u32..=24, replicas in 1_u32..=4,
    ) {
        prop_assume!(a + b + c > 0 && a + b + c <= 8);
        let setting = setting(&[a, b, c], num_layers, batch).unwrap();
        prop_assume!(replicas <= batch);
        if let Some(optimum_s) = search(&setting, replicas).map(|plan| plan.time_s) {
            // Free links and reductions: what these add is on top of both.
            let setting = setting.with_free_links();
            let known_s = crate::planner::autohet::bounds::lower_bound_s(&setting, replicas);
            let enough_s = 2.0 * optimum_s + setting.optimizer_s;
            let mut work = u64::MAX;
            let bound_s = crate::planner::autohet::bounds::column_bound_s(&setting, replicas, (known_s, enough_s), &mut work);
            prop_assert!(bound_s <= optimum_s + setting.optimizer_s, "{bound_s} > {optimum_s}");
        }
    }
}

#[cfg(feature = "scip")]
mod scip {
    use super::*;
    use crate::planner::scip::{ScipLimits, ScipStatus, solve_joint};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]

        #[test]
        fn scip_finds_what_the_search_finds(
            a in 0_u32..=3, b in 0_u32..=3, c in 0_u32..=2, num_layers in 1_u32..=12, batch in 1_u32..=8, replicas in 1_u32..=3,
            warm in any::<bool>(),
        ) {
            prop_assume!(a + b + c > 0);
            let setting = setting(&[a, b, c], num_layers, batch).unwrap();
            let searched = search(&setting, replicas);
            let limits = ScipLimits { nodes: 20_000, time_s: 20.0 };
            let solved = solve_joint(&setting, replicas, &limits, searched.as_ref().filter(|_| warm)).unwrap();
            match (solved.status, searched) {
                (ScipStatus::Optimal, Some(searched)) => {
                    let solved_s = solved.plan.unwrap().time_s;
                    prop_assert!((solved_s - searched.time_s).abs() <= 1e-4 * searched.time_s, "{solved_s}, not {searched:?}");
                    prop_assert!(solved.bound_s <= searched.time_s * (1.0 + 1e-6));
                }
                (ScipStatus::Infeasible, searched) => prop_assert_eq!(searched, None),
                (status, Some(searched)) => {
                    prop_assert!(matches!(status, ScipStatus::NodeLimit | ScipStatus::TimeLimit | ScipStatus::Unknown));
                    prop_assert!(solved.plan.is_none_or(|plan| plan.time_s >= searched.time_s * (1.0 - 1e-9)));
                    prop_assert!(solved.bound_s <= searched.time_s * (1.0 + 1e-6));
                }
                (status, None) => prop_assert!(status != ScipStatus::Optimal, "{status:?} where nothing fits"),
            }
        }
    }

    #[test]
    fn an_incumbent_at_a_limit_is_not_called_optimal() {
        let setting = setting(&[3, 3, 2], 12, 8).unwrap();
        let limits = ScipLimits { nodes: 1, time_s: 20.0 };
        let searched = search(&setting, 3).unwrap();
        let solved = solve_joint(&setting, 3, &limits, Some(&searched)).unwrap();
        assert_eq!(solved.status, ScipStatus::NodeLimit);
        assert_eq!(solved.plan.map(|plan| plan.time_s), Some(searched.time_s));
        let no_time = ScipLimits { time_s: 0.0, ..limits };
        let solved = solve_joint(&setting, 3, &no_time, None).unwrap();
        assert_eq!((solved.status, solved.plan), (ScipStatus::TimeLimit, None));
    }
}
