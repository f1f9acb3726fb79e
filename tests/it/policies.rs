//! Each policy on traces worked by hand, and what holds between policies on any trace.

use crate::stories::rows;
use crate::support::Sandbox;
use autohet::cost::{CostModel, CostSettings};
use autohet::elastic::checkpoint::{CheckpointInterval, CheckpointSettings};
use autohet::elastic::{Cause, ReconfigurationSettings, policies};
use autohet::metrics::{Activity, GpuTime};
use autohet::model::ModelSpec;
use autohet::plan::{Plan, ScheduleKind, TrainingSettings};
use autohet::replay::{PolicyOutcome, ReplaySettings, replay};
use autohet::trace::{OfferDefaults, parse};
use autohet::units::SimTime;
use proptest::prelude::*;
use rstest::rstest;

/// Rows of a trace replayed under some policies, side by side, for a global batch of 64 samples and a checkpoint a minute.
fn replayed(names: &[&str], model: &str, rows: &str) -> Vec<PolicyOutcome> {
    replayed_with(names, model, rows, &ReconfigurationSettings::default())
}

fn replayed_with(
    names: &[&str],
    model: &str,
    rows: &str,
    reconfiguration: &ReconfigurationSettings,
) -> Vec<PolicyOutcome> {
    replayed_every(60.0, names, model, rows, reconfiguration)
}

/// With so many seconds between checkpoints.
fn replayed_every(
    seconds: f64,
    names: &[&str],
    model: &str,
    rows: &str,
    reconfiguration: &ReconfigurationSettings,
) -> Vec<PolicyOutcome> {
    let trace = parse(&format!("time_s,event,node,gpu_type,gpu_count\n{rows}"), "test").unwrap();
    let events = trace.cluster_events(&OfferDefaults::default()).unwrap();
    let cost = CostModel::new(ModelSpec::preset(model).unwrap(), CostSettings::default(), None);
    let training = TrainingSettings { global_batch_size: 64, ..TrainingSettings::default() };
    let interval = CheckpointInterval::Fixed { seconds };
    let checkpoint = CheckpointSettings { interval, ..CheckpointSettings::default() };
    let settings = ReplaySettings { cost: &cost, training: &training, checkpoint: &checkpoint, reconfiguration };
    let policies: Vec<_> = names.iter().map(|name| policies::by_name(name).unwrap()).collect();
    let replay = replay(&events, trace.span, &policies, settings, &|_| {}).unwrap();
    replay.policies.iter().for_each(check);
    replay.policies
}

fn one(policy: &str, model: &str, rows: &str) -> PolicyOutcome {
    replayed(&[policy], model, rows).remove(0)
}

/// What holds for everybody: the rows add up to the nanosecond, iterations are counted once, every plan has the whole batch.
fn check(outcome: &PolicyOutcome) {
    assert_eq!(outcome.ledger.total(), outcome.paid, "{}", outcome.policy);
    let done: u64 = outcome.segments.iter().map(|segment| segment.iterations).sum();
    assert_eq!(done, outcome.iterations + outcome.iterations_rolled_back, "{}", outcome.policy);
    assert_eq!(outcome.samples, 64 * outcome.iterations);
    for planned in &outcome.plans {
        let micro_batches: u32 = planned.plan.replicas.iter().map(|replica| replica.micro_batches).sum();
        assert_eq!(micro_batches * planned.plan.micro_batch_size, 64, "{}", outcome.policy);
    }
}

/// Nodes of one V100 each, up from the begin on.
fn v100s(names: &str) -> String {
    names.chars().fold(String::new(), |rows, name| rows + &format!("0,up,{name},V100-16,1\n"))
}

fn seconds(time: u64) -> SimTime {
    SimTime::SECOND * time
}

/// A stage that has a predecessor which has one, of a pipeline of four stages or more.
fn third_stage(plan: &Plan) -> Option<[String; 2]> {
    let replica = plan.replicas.iter().find(|replica| replica.stages.len() >= 4)?;
    Some([replica.stages[1].node.clone(), replica.stages[2].node.clone()])
}

#[test]
fn bamboo_goes_on_in_the_place_of_one_lost_node_and_goes_back_for_two_neighbours() {
    // Ten bytes a parameter are more than four V100s have room for with a second copy: 2.7 billion of them make one
    // pipeline.
    let up = v100s("abcdefgh");
    let quiet = one("bamboo", "gpt3-2.7b", &format!("{up}900,up,z,T4,1\n"));
    let plan = &quiet.plans[0].plan;
    assert_eq!((plan.schedule, plan.replicas.len()), (ScheduleKind::Redundant, 1));
    let [second, third] = third_stage(plan).expect("a deep pipeline");

    let single = one("bamboo", "gpt3-2.7b", &format!("{up}600,down,{third},,\n900,up,z,T4,1\n"));
    let recovery = &single.recoveries[0];
    assert_eq!((recovery.cause, recovery.start, recovery.lost_iterations), (Cause::Loss, seconds(600), 0));
    // Nobody plans, and nobody makes communicators anew: 10 s to notice, 6.6 s for the rendezvous.
    let time = recovery.time;
    assert_eq!((time.detect, time.plan, time.connect), (seconds(10), SimTime::ZERO, SimTime::from_seconds(6.6)));
    assert_eq!((recovery.fetched.object_store, recovery.fetched.own_disk), (0, 0));
    let after = &recovery.plan.replicas[0].stages;
    assert_eq!(after.len(), plan.replicas[0].stages.len() - 1);
    let taken_over = plan.replicas[0].stages[1].num_layers + plan.replicas[0].stages[2].num_layers;
    assert_eq!((after[1].node.as_str(), after[1].num_layers), (second.as_str(), taken_over));

    // The third stage's only copy went with the second stage: nobody stands in, and all that was done since the checkpoint of
    // ten minutes is lost. A single loss takes nothing, however long ago that was. Six nodes hold no pipeline: two more come.
    let more = "1105,up,i,V100-16,1\n1105,up,j,V100-16,1\n";
    let two = format!("{up}1100,down,{second},,\n1100,down,{third},,\n{more}1800,up,z,T4,1\n");
    let one = format!("{up}1100,down,{third},,\n1800,up,z,T4,1\n");
    let seldom = |rows: &str| {
        replayed_every(600.0, &["bamboo"], "gpt3-2.7b", rows, &ReconfigurationSettings::default()).remove(0)
    };
    let (both, single) = (seldom(&two), seldom(&one));
    let recovery = &both.recoveries[0];
    assert!(recovery.lost_iterations > 1, "{recovery:?}");
    assert!(recovery.fetched.object_store + recovery.fetched.own_disk + recovery.fetched.peers > 0, "{recovery:?}");
    assert_eq!(both.iterations_rolled_back, recovery.lost_iterations);
    assert_eq!(single.iterations_rolled_back, 0);
    assert!(both.iterations < single.iterations);
}

#[test]
fn redundancy_costs_bamboo_time_while_nothing_happens() {
    let rows = format!("{}1800,up,z,T4,1\n", v100s("abcdefgh"));
    let outcomes = replayed(&["bamboo", "parcae"], "gpt3-2.7b", &rows);
    assert!(outcomes[0].iterations < outcomes[1].iterations, "the same planner, with and without");
    let again = |outcome: &PolicyOutcome| outcome.ledger.get(Activity::Recomputation);
    assert!(again(&outcomes[0]) > GpuTime::default());
}

#[test]
fn oobleck_waits_for_no_plan_and_takes_layers_from_the_other_pipeline() {
    let rows = format!("{}600,down,c,,\n1200,up,z,T4,1\n", v100s("abcde"));
    let outcome = one("oobleck", "gpt3-1.3b", &rows);
    // 1.3 billion parameters need two V100s: pipelines of two and three nodes, of two and two after the loss.
    let depths = |plan: &Plan| {
        let mut depths: Vec<usize> = plan.replicas.iter().map(|replica| replica.stages.len()).collect();
        depths.sort_unstable();
        depths
    };
    assert_eq!(depths(&outcome.plans[0].plan), [2, 3]);
    let recovery = &outcome.recoveries[0];
    assert_eq!(depths(&recovery.plan), [2, 2]);
    assert_eq!((recovery.time.plan, recovery.lost_iterations), (SimTime::ZERO, 0));
    assert_eq!(recovery.fetched.object_store, 0);
    assert!(recovery.fetched.peers > 0);
}

#[test]
fn parcae_leaves_a_node_under_notice_and_moves_its_state() {
    let rows = format!("{}600,notice,c,,\n720,down,c,,\n1200,up,z,T4,1\n", v100s("abcd"));
    let outcome = one("parcae", "gpt3-1.3b", &rows);
    let moved = outcome.recoveries.iter().find(|recovery| recovery.cause == Cause::Notice);
    let moved = moved.expect("it has left before the loss");
    assert!(moved.end < seconds(720) && moved.lost_iterations == 0);
    assert_eq!(moved.fetched.object_store, 0);
}

#[test]
fn on_demand_is_never_interrupted_and_pays_for_that() {
    let rows = format!("{}600,down,c,,\n600,down,b,,\n3600,up,z,V100-16,1\n", v100s("abcd"));
    let outcome = one("on-demand", "gpt3-1.3b", &rows);
    assert!(outcome.recoveries.is_empty() && outcome.iterations_rolled_back == 0);
    assert_eq!(outcome.paid, GpuTime::of(4, seconds(3600)));
    // An hour of four p3.2xlarge at 3.06.
    approx::assert_relative_eq!(outcome.usd, 4.0 * 3.06, max_relative = 1e-9);
}

#[test]
fn the_oracle_has_the_best_plan_of_each_stretch_for_all_of_it() {
    let rows = format!("{}600,down,c,,\n600,down,d,,\n1800,down,a,,\n2400,down,b,,\n", v100s("abcd"));
    let oracle = one("oracle", "gpt3-1.3b", &rows);
    // 600 s with four nodes, 1200 with two; one has no room for the model.
    let [four_s, two_s] = [0, 1].map(|plan| oracle.plans[plan].predicted_iteration_s);
    let expected = 600.0 / four_s + 1200.0 / two_s;
    assert!((oracle.iterations as f64 - expected).abs() <= 1.0, "{} of {expected}", oracle.iterations);
    assert_eq!(oracle.ledger.get(Activity::Waiting), GpuTime::of(1, seconds(600)));
    assert_eq!(oracle.ledger.get(Activity::Recovery), GpuTime::default());
}

#[rstest]
fn capacity_that_vanishes_half_way_is_half_the_work(
    #[values("autohet", "varuna", "restart", "bamboo", "oobleck", "parcae", "oracle")] policy: &str,
) {
    let up = v100s("abcd");
    let gone = "abcd".chars().fold(String::new(), |rows, name| rows + &format!("7200,down,{name},,\n"));
    let whole = one(policy, "gpt3-1.3b", &format!("{up}14400,up,z,T4,1\n"));
    let half = one(policy, "gpt3-1.3b", &format!("{up}{gone}14400,up,z,T4,1\n"));
    let share = half.iterations as f64 / whole.iterations as f64;
    // What was done since the last checkpoint is lost, and both have started once.
    assert!((0.47..=0.5).contains(&share), "{share}");
    assert_eq!(half.paid, GpuTime::of(4, seconds(7200)));
}

const NODES: [(&str, u32); 5] = [("T4", 4), ("V100-16", 2), ("T4", 1), ("A100-40", 2), ("V100-16", 2)];

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn nobody_counts_more_iterations_than_the_oracle(
        steps in prop::collection::vec((0..5_usize, prop_oneof![Just(0), 1..90_u64, 100..900_u64], 0..3_u8), 1..24),
        large in any::<bool>(),
    ) {
        let model = if large { "gpt3-1.3b" } else { "bert-large" };
        let outcomes = replayed(&policies::NAMES, model, &rows(&steps, &NODES));
        let bound = outcomes.iter().find(|outcome| outcome.policy == "oracle").unwrap();
        for outcome in outcomes.iter().filter(|outcome| outcome.policy != "on-demand") {
            prop_assert!(
                outcome.iterations <= bound.iterations,
                "{}: {} of {}", outcome.policy, outcome.iterations, bound.iterations
            );
            prop_assert_eq!(outcome.paid, bound.paid);
        }
    }
}

/// Three V100s make one pipeline, and a node under notice has the only copy of its layers.
#[rstest]
// Long enough to move its state, though not to make communicators anew too.
#[case::moved(30, true)]
// Too short for the iteration under way, which is left.
#[case::left_at_once(4, true)]
// Too short for planning.
#[case::lost(1, false)]
fn a_notice_saves_what_can_be_saved_in_the_time_there_is(#[case] notice_s: u64, #[case] is_saved: bool) {
    let rows = format!("{}600,notice,c,,\n{},down,c,,\n1200,up,z,T4,1\n", v100s("abc"), 600 + notice_s);
    let outcome = one("autohet", "gpt3-1.3b", &rows);
    assert_eq!(outcome.plans[0].plan.replicas.len(), 1);
    let recovery = &outcome.recoveries[0];
    assert_eq!(recovery.lost_iterations == 0, is_saved, "{recovery:?}");
    assert!(!is_saved || recovery.attempts_overtaken == 0, "{recovery:?}");
    assert_eq!(outcome.iterations_rolled_back == 0, is_saved);
    assert!(recovery.end < seconds(720));
}

#[test]
fn a_node_is_taken_in_once_it_has_been_up_for_long_enough() {
    let rows = format!("{}600,up,c,V100-16,1\n600,up,d,V100-16,1\n9000,up,z,T4,1\n", v100s("ab"));
    let joined = |min_up_s| {
        let patient = ReconfigurationSettings { min_up_s, ..ReconfigurationSettings::default() };
        let outcome = replayed_with(&["autohet"], "gpt3-1.3b", &rows, &patient).remove(0);
        outcome.recoveries.iter().find(|recovery| recovery.cause == Cause::Join).map(|recovery| recovery.start)
    };
    let at_once = joined(0.0).expect("it pays");
    assert!(at_once < seconds(700), "{at_once}");
    let later = joined(1800.0).expect("it still pays");
    assert!((seconds(2400)..seconds(2500)).contains(&later), "{later}");
}

/// Nodes that come every ten minutes change the plan more often than checkpoints are due, and put none off.
#[test]
fn changes_of_plan_put_no_checkpoint_off() {
    let joins: String = ["c", "d", "e", "f", "g", "h"]
        .iter()
        .zip(1..)
        .fold(String::new(), |rows, (name, number)| rows + &format!("{},up,{name},V100-16,1\n", 600 * number));
    let trace = format!("time_s,event,node,gpu_type,gpu_count\n{}{joins}4000,up,z,T4,1\n", v100s("ab"));
    let sandbox = Sandbox::new().file("joins.csv", trace);
    let args = ["--trace", "joins.csv", "--model", "gpt3-1.3b", "--global-batch-size", "64", "--policies", "autohet"];
    let ran = sandbox.run(&[&args[..], &["--checkpoint-interval-s", "900", "--out", "out", "-q"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let timeline = sandbox.read("out/timeline.csv");
    let begun = |phase: &str| timeline.lines().filter(|line| line.split(',').nth(3) == Some(phase)).count();
    assert!(begun("recovering") >= 4, "{timeline}");
    assert!(begun("checkpointing") >= 3, "{timeline}");
}
