//! That no plan takes more memory than there is, nor anything else that makes it invalid; by default over few clusters, over
//! as many as `AUTOHET_FIT_CASES` says.

use super::*;
use crate::plan::ScheduleKind;

/// Set to `10000` for the whole of it.
const CASES: &str = "AUTOHET_FIT_CASES";

fn cases() -> u32 {
    std::env::var(CASES).ok().and_then(|count| count.parse().ok()).unwrap_or(32)
}

fn groups() -> impl Strategy<Value = String> {
    let gpus = prop::sample::select(vec!["A100-80", "A100-40", "V100-32", "V100-16", "A10G", "T4", "H20", "L4"]);
    let group = (1_u32..5, prop::sample::select(vec![1_u32, 2, 3, 4, 5, 7, 8]), gpus);
    let text = |(nodes, gpus, gpu): (u32, u32, &str)| format!("{nodes}x{gpus}x{gpu}");
    prop::collection::vec(group.prop_map(text), 1..5).prop_map(|groups| groups.join("+"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn every_plan_fits(
        mix in groups(),
        model in prop::sample::select(vec!["gpt3-1.3b", "gpt3-2.7b", "gpt3-6.7b", "llama-7b", "llama-13b", "bert-large"]),
        batch in prop::sample::select(vec![8_u32, 24, 64, 128]),
    ) {
        let (cluster, cost) = (cluster(&mix), cost_of(model));
        let training = TrainingSettings { global_batch_size: batch, ..TrainingSettings::default() };
        let request = PlanRequest {
            cluster: &cluster, cost: &cost, training: &training, judge: &ClosedForm, limits: PlanLimits::default(),
        };
        match (AutoHet { engine: Engine::Search }).plan(&request) {
            Ok(planned) => {
                prop_assert_eq!(planned.plan.validate(&cluster, &cost), Ok(()), "{}", mix);
                let bound_s = planned.any_degrees_bound_s.unwrap_or(planned.lower_bound_s);
                prop_assert!(planned.predicted_iteration_s >= bound_s, "{mix}: {} below {bound_s}", planned.predicted_iteration_s);
                prop_assert!(bound_s <= planned.lower_bound_s);
            }
            Err(error) => prop_assert!(matches!(error, PlanError::DoesNotFit { .. }), "{}: {}", mix, error),
        }
    }
}

fn judged(mix: &str, model: &str, training: &TrainingSettings, limits: PlanLimits) -> PlannedIteration {
    let (cluster, cost) = (cluster(mix), cost_of(model));
    let request = PlanRequest { cluster: &cluster, cost: &cost, training, judge: &ClosedForm, limits };
    let planned = AutoHet { engine: Engine::Fast }.plan(&request).unwrap();
    assert_eq!(planned.plan.validate(&cluster, &cost), Ok(()));
    planned
}

#[test]
fn stages_may_differ_in_degree_and_are_no_worse_for_it() {
    // Heads of 16: V100s of 16 GB hold an embedding and its activations at a larger degree only.
    let (mix, model) = ("2x4xA100-40+6x4xV100-16", "gpt3-1.3b");
    let of = |tensor_parallel_sizes: &[u32]| {
        let sizes = tensor_parallel_sizes.to_vec();
        let training =
            TrainingSettings { tensor_parallel_sizes: sizes, global_batch_size: 128, ..TrainingSettings::default() };
        judged(mix, model, &training, PlanLimits::default()).predicted_iteration_s
    };
    let all_s = of(&[1, 2, 4]);
    for one in [1, 2, 4] {
        assert!(all_s <= of(&[one]) * 1.001, "{all_s} is slower than {} at degree {one}", of(&[one]));
    }
}

#[test]
fn a_plan_is_there_however_little_work_is_allowed() {
    let training = TrainingSettings { global_batch_size: 128, ..TrainingSettings::default() };
    let (mix, model) = ("2x4xA100-40+3x8xV100-16", "gpt3-1.3b");
    let least = judged(mix, model, &training, PlanLimits { work: 0, ..PlanLimits::default() });
    let late = judged(mix, model, &training, PlanLimits { out_of_time: Some(&|| true), ..PlanLimits::default() });
    let most = judged(mix, model, &training, PlanLimits::default());
    assert!(most.predicted_iteration_s <= least.predicted_iteration_s.min(late.predicted_iteration_s));
}

#[test]
fn gpipe_is_chosen_where_transfers_are_slow_and_memory_is_plenty() {
    // Four stages over 1 Gbit/s: under 1F1B each micro batch waits for the way there and back.
    let cluster =
        Cluster::parse_mix("4x1xA100-80", &NodeDefaults::default().with_nic_gbit_per_s(1.0).unwrap()).unwrap();
    let cost = cost_of("gpt3-6.7b");
    let training = TrainingSettings { global_batch_size: 16, ..TrainingSettings::default() };
    let request = PlanRequest {
        cluster: &cluster,
        cost: &cost,
        training: &training,
        judge: &ClosedForm,
        limits: PlanLimits::default(),
    };
    let planned = AutoHet { engine: Engine::Search }.plan(&request).unwrap();
    assert_eq!(planned.plan.validate(&cluster, &cost), Ok(()));
    let other = Plan { schedule: ScheduleKind::OneForwardOneBackward, ..planned.plan.clone() };
    let other_s = ClosedForm.iteration_s(&other, &cluster, &cost).unwrap();
    assert!(planned.predicted_iteration_s <= other_s, "{} against {other_s}", planned.predicted_iteration_s);
}

#[test]
fn the_same_plan_comes_out_for_any_number_of_threads() {
    let training = TrainingSettings { global_batch_size: 64, ..TrainingSettings::default() };
    let plan = || judged("2x4xA100-40+3x8xV100-16", "gpt3-1.3b", &training, PlanLimits::default());
    let with = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(plan);
    assert_eq!(with(1), with(4));
}
