use super::*;
use crate::cluster::GpuSpec;
use crate::plan::Goal;
use crate::trace::parse;

fn offer(gpu: &str, usd: f64, most_nodes: u32) -> Offer {
    Offer { gpu: GpuSpec::lookup(gpu).unwrap(), gpus_per_node: 4, most_nodes, usd_per_gpu_hour: usd }
}

fn question(risks: Option<Vec<Risk>>, goal: Goal) -> Question {
    let objective = Objective { goal, max_usd_per_hour: Some(16.0), ..Objective::default() };
    let mut scenario = Scenario { model: "gpt3-1.3b".into(), ..Scenario::default() };
    scenario.training.global_batch_size = 32;
    let offers = vec![offer("A100-40", 1.0, 4), offer("T4", 0.25, 2)];
    Question { scenario, offers, risks, objective, effort: Effort::Fast }
}

fn answer(question: &Question) -> Recommendation {
    let shared = Shared::default();
    let mixes = affordable(&question.offers, 16.0).unwrap();
    let rated = mixes.iter().filter_map(|mix| rate(question, mix, &shared).unwrap()).collect();
    Recommendation::new(question, rated)
}

#[test]
fn what_can_be_paid_is_every_mix_within_the_budget() {
    let offers = [offer("A100-40", 1.0, 9), offer("T4", 0.25, 2)];
    // 4 USD a node, and 1.
    let mixes = affordable(&offers, 5.0).unwrap();
    assert_eq!(mixes, [[0, 1], [0, 2], [1, 0], [1, 1]]);
    assert_eq!(affordable(&offers, 0.5).unwrap(), Vec::<Vec<u32>>::new());
    assert!(affordable(&[offer("T4", 1e-6, 9000), offer("L4", 1e-6, 9000)], 1e3).is_err());
}

#[test]
fn the_fastest_costs_the_budget_and_the_cheapest_token_less() {
    let fast = answer(&question(None, Goal::Throughput));
    let cheap = answer(&question(None, Goal::UsdPerToken));
    let (fast, cheap) = (&fast.mixes[fast.chosen.unwrap()], &cheap.mixes[cheap.chosen.unwrap()]);
    assert_eq!(fast.mix, "4x4xA100-40");
    assert!(cheap.expected.usd_per_million_tokens() <= fast.expected.usd_per_million_tokens());
    assert!((fast.whole.usd_per_hour - 16.0).abs() < 1e-9);
}

#[test]
fn nodes_that_are_never_lost_are_expected_whole() {
    let safe = Risk { losses_per_node_hour: 0.0, away_hours: 3.0 };
    let answer = answer(&question(Some(vec![safe; 2]), Goal::Throughput));
    for mix in &answer.mixes {
        assert!((mix.expected.tokens_per_s / mix.whole.tokens_per_s - 1.0).abs() < 1e-9, "{}", mix.mix);
        assert!((mix.expected.usd_per_hour / mix.whole.usd_per_hour - 1.0).abs() < 1e-9, "{}", mix.mix);
    }
}

#[test]
fn one_node_that_is_up_half_the_time_trains_half_as_much() {
    let counts = [1, 0];
    let offers = [offer("A100-40", 1.0, 4), offer("T4", 0.25, 2)];
    // Up for an hour, away for an hour.
    let risk = Risk { losses_per_node_hour: 1.0, away_hours: 1.0 };
    let changes = ReconfigurationSettings {
        detection_s: 10.0,
        planning_s: 2.0,
        rendezvous_s: 3.0,
        communicators_s: 5.0,
        communicators_per_node_s: 7.0,
        ..ReconfigurationSettings::default()
    };
    let expected = Expected::of(&counts, &offers, &[risk; 2], &changes, 20.0, |up| 1000.0 * f64::from(up[0]));
    // Half a loss an hour; each stops training for 10 + (2 + 3 + 5) twice + half an iteration = 40 s.
    let share = 1.0 / (1.0 + 0.5 * 40.0 / 3600.0);
    assert!((expected.tokens_per_s - 500.0 * share).abs() < 1e-9, "{expected:?}");
    assert!((expected.usd_per_hour - 2.0).abs() < 1e-9);
}

#[test]
fn risks_are_those_of_the_type() {
    let trace = "time_s,event,node,gpu_type,gpu_count\n0,up,a,T4,4\n0,up,b,V100-16,4\n0,up,c,V100-16,4\n\
                 1800,down,a,,\n3600,up,a,T4,4\n7200,down,b,,\n";
    let trace = parse(trace, "t").unwrap();
    let offers = [offer("T4", 1.0, 1), offer("V100", 1.0, 1), offer("A100-40", 1.0, 1)];
    let (risks, unknown) = risks_of_trace(&trace, &offers).unwrap();
    // One T4 for two hours, up for an hour and a half and lost once.
    assert!((risks[0].losses_per_node_hour - 1.0 / 1.5).abs() < 1e-9);
    assert!((risks[0].away_hours - 0.5).abs() < 1e-9 && (risks[0].availability() - 0.75).abs() < 1e-9);
    assert!((risks[1].losses_per_node_hour - 0.25).abs() < 1e-9 && (risks[1].availability() - 1.0).abs() < 1e-9);
    assert_eq!(unknown, ["A100-40"]);
    assert!((risks[2].losses_per_node_hour - 2.0 / 5.5).abs() < 1e-9);
}
