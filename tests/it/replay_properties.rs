//! What a replay does on traces made by hand, and what holds on any trace.

use crate::stories::rows;
use autohet::cost::{CostModel, CostSettings};
use autohet::elastic::checkpoint::{CheckpointInterval, CheckpointSettings};
use autohet::elastic::{Cause, ReconfigurationSettings, policies};
use autohet::metrics::{Activity, GpuTime};
use autohet::model::ModelSpec;
use autohet::plan::TrainingSettings;
use autohet::replay::{Phase, PolicyOutcome, ReplaySettings, replay};
use autohet::trace::{OfferDefaults, parse};
use autohet::units::SimTime;
use proptest::prelude::*;
use rstest::rstest;

const HEADER: &str = "time_s,event,node,gpu_type,gpu_count\n";
const POLICIES: [&str; 3] = ["autohet", "varuna", "restart"];

/// A job over which traces are replayed.
struct Job {
    model: &'static str,
    checkpoint_s: f64,
    peer_copies: u32,
}

/// Small enough for one GPU to hold all of it.
const BERT: Job = Job { model: "bert-large", checkpoint_s: 60.0, peer_copies: 0 };
/// Too large for one T4, small enough for two.
const GPT: Job = Job { model: "gpt3-1.3b", checkpoint_s: 60.0, peer_copies: 0 };

impl Job {
    /// Replays the rows, and checks what holds for every replay.
    fn replay(&self, policy: &str, rows: &str) -> PolicyOutcome {
        self.replay_with(policy, rows, &ReconfigurationSettings::default())
    }

    fn replay_with(&self, policy: &str, rows: &str, reconfiguration: &ReconfigurationSettings) -> PolicyOutcome {
        let trace = parse(&format!("{HEADER}{rows}"), "test").unwrap();
        let events = trace.cluster_events(&OfferDefaults::default()).unwrap();
        let cost = CostModel::new(ModelSpec::preset(self.model).unwrap(), CostSettings::default(), None);
        let training = TrainingSettings { global_batch_size: 64, ..TrainingSettings::default() };
        let interval = CheckpointInterval::Fixed { seconds: self.checkpoint_s };
        let peer_copies = self.peer_copies;
        let checkpoint = CheckpointSettings { interval, peer_copies, ..CheckpointSettings::default() };
        let settings = ReplaySettings { cost: &cost, training: &training, checkpoint: &checkpoint, reconfiguration };
        let policies = [policies::by_name(policy).unwrap()];
        let replayed = replay(&events, trace.span, &policies, settings, &|_| {}).unwrap();
        let outcome = replayed.policies.into_iter().next().unwrap();
        check(&outcome, trace.span);
        outcome
    }
}

/// Rows of the ledger add up to what was paid, segments follow each other, iterations are counted once.
fn check(outcome: &PolicyOutcome, span: SimTime) {
    assert_eq!(outcome.ledger.total(), outcome.paid);
    let mut at = SimTime::ZERO;
    for segment in &outcome.segments {
        assert_eq!(segment.start, at);
        at = segment.end;
    }
    assert_eq!(at, span);
    let done: u64 = outcome.segments.iter().map(|segment| segment.iterations).sum();
    assert_eq!(done, outcome.iterations + outcome.iterations_rolled_back);
    let lost: u64 = outcome.recoveries.iter().map(|recovery| recovery.lost_iterations).sum();
    assert!(lost <= outcome.iterations_rolled_back);
    assert_eq!(outcome.samples, 64 * outcome.iterations);
}

fn seconds(time: u64) -> SimTime {
    SimTime::SECOND * time
}

/// GPU time of the longest iteration of any plan used: what one cut-off may cost at most.
fn one_iteration(outcome: &PolicyOutcome) -> GpuTime {
    let of = |planned: &autohet::plan::PlannedIteration| {
        GpuTime::of(planned.plan.world_size() as u32, SimTime::from_seconds(planned.predicted_iteration_s))
    };
    outcome.plans.iter().map(|planned| of(planned)).max().unwrap()
}

fn phases(outcome: &PolicyOutcome) -> Vec<(Phase, SimTime)> {
    let mut found: Vec<(Phase, SimTime)> = Vec::new();
    for segment in outcome.segments.iter().filter(|segment| segment.phase != Phase::Checkpointing) {
        if found.last().is_none_or(|(phase, _)| *phase != segment.phase) {
            found.push((segment.phase, segment.start));
        }
    }
    found
}

#[test]
fn a_node_that_is_not_used_takes_nothing_along() {
    // The policy `restart` keeps to the nodes of its start.
    let used = "0,up,a,T4,4\n0,up,b,T4,4\n";
    let without = BERT.replay("restart", &format!("{used}900,up,z,T4,1\n"));
    let with = BERT.replay("restart", &format!("{used}100,up,c,T4,4\n500,down,c,,\n900,up,z,T4,1\n"));
    assert_eq!((with.iterations, with.iterations_rolled_back), (without.iterations, 0));
    assert!(with.recoveries.is_empty());
    let idle = |outcome: &PolicyOutcome| outcome.ledger.get(Activity::IdleByPlan);
    assert_eq!(idle(&with), idle(&without) + GpuTime::of(4, seconds(400)));
}

#[test]
fn a_loss_with_all_state_elsewhere_takes_the_iteration_under_way_only() {
    let outcome = BERT.replay("autohet", "0,up,a,T4,4\n0,up,b,T4,4\n600,down,b,,\n1200,up,z,T4,1\n");
    let [recovery] = &outcome.recoveries[..] else { panic!("{:?}", outcome.recoveries) };
    assert_eq!((recovery.cause, recovery.start, recovery.lost_iterations), (Cause::Loss, seconds(600), 0));
    assert_eq!(recovery.fetched.object_store, 0);
    assert!(recovery.fetched.own_memory > 0);
    assert_eq!(outcome.iterations_rolled_back, 0);
    let lost = outcome.ledger.get(Activity::LostWork);
    assert!(lost > GpuTime::default() && lost.0 <= 2 * one_iteration(&outcome).0, "two were cut off: {lost:?}");
}

/// One of two nodes that hold half of the state each is lost, and another comes: it reads the half from the copy that the
/// first one keeps, at the speed of the network.
#[test]
fn with_copies_in_peers_memory_the_loss_of_the_only_holder_reads_nothing_from_the_object_store() {
    let rows = "0,up,a,T4,1\n0,up,b,T4,1\n1000,down,b,,\n1050,up,c,T4,1\n2000,up,z,V100-16,1\n";
    let [without, with] = [0, 1].map(|peer_copies| Job { peer_copies, ..GPT }.replay("autohet", rows));
    let [from_store, from_peer] = [&without, &with].map(|outcome| outcome.recoveries[0].clone());
    assert_eq!((from_store.cause, from_peer.cause), (Cause::Resume, Cause::Resume));
    assert!(from_store.fetched.object_store > 0, "{from_store:?}");
    assert_eq!(from_peer.fetched.object_store, 0, "{from_peer:?}");
    assert_eq!(from_peer.fetched.peers, from_store.fetched.object_store, "the half that was lost");
    // 100 Gbit/s against 9.7; the host links of the receiver are wider than both.
    assert!(from_peer.time.fetch.0 * 5 < from_store.time.fetch.0, "{from_peer:?} {from_store:?}");
    assert!(with.iterations >= without.iterations && with.iterations_rolled_back <= without.iterations_rolled_back);
}

/// Who reads from the object store only has no use for copies.
#[test]
fn policies_that_read_from_the_object_store_are_sent_no_copies() {
    let rows = "0,up,a,T4,1\n0,up,b,T4,1\n1000,down,b,,\n1050,up,c,T4,1\n2000,up,z,V100-16,1\n";
    let [without, with] = [0, 1].map(|peer_copies| Job { peer_copies, ..GPT }.replay("varuna", rows));
    assert_eq!((without.iterations, without.recoveries), (with.iterations, with.recoveries));
}

#[rstest]
#[case::autohet("autohet")]
#[case::varuna("varuna")]
#[case::restart("restart")]
fn a_loss_of_the_only_copy_goes_back_to_the_last_checkpoint(#[case] policy: &str) {
    let rows = "0,up,a,T4,4\n900,down,a,,\n1000,up,b,T4,4\n1500,down,b,,\n";
    let outcome = BERT.replay(policy, rows);
    let recovery = &outcome.recoveries[0];
    assert_eq!((recovery.cause, recovery.start), (Cause::Resume, seconds(1000)));
    assert!(recovery.fetched.object_store > 0 && recovery.fetched.own_memory + recovery.fetched.peers == 0);
    // No more than an interval and the way of a checkpoint to the object store: 4.7 GB at 9.7 Gbit/s.
    let lost_s = recovery.lost_iterations as f64 * outcome.plans[0].predicted_iteration_s;
    assert!(recovery.lost_iterations > 0 && lost_s < 60.0 + 20.0, "{lost_s} s");
    let never = Job { checkpoint_s: 1e6, ..BERT }.replay(policy, rows);
    let before: u64 = never.segments.iter().filter(|s| s.end <= seconds(1000)).map(|s| s.iterations).sum();
    assert_eq!(never.recoveries[0].lost_iterations, before, "without a checkpoint everything is lost");
}

#[test]
fn a_join_that_does_not_pay_yet_is_weighed_again() {
    // Connecting takes so long that a second node is worth it only once changes are seen to be rare.
    let slow = ReconfigurationSettings { communicators_s: 1500.0, ..ReconfigurationSettings::default() };
    let outcome = GPT.replay_with("oobleck", "0,up,a,T4,4\n1700,up,b,T4,4\n20000,up,z,T4,1\n", &slow);
    let [recovery] = &outcome.recoveries[..] else { panic!("{:?}", outcome.recoveries) };
    assert_eq!(recovery.cause, Cause::Join);
    // One change and an hour assumed before the trace: the mean time between changes at `t` is `h = (3600 + t) / 2`. In
    // what the pause leaves of it, the new plan has to do more iterations than the old one in all: `h > p / (1 - n / o)`.
    let [old_s, new_s] = [0, 1].map(|plan| outcome.plans[plan].predicted_iteration_s);
    let horizon_s = recovery.time.total().as_seconds() / (1.0 - new_s / old_s);
    let pays_s = 2.0 * horizon_s - 3600.0;
    assert!(pays_s > 1700.0, "it has to be put off at first: {pays_s} s");
    let start_s = recovery.start.as_seconds();
    let late_s = 60.0 + 5.0 * old_s;
    assert!((pays_s..pays_s + late_s).contains(&start_s), "{start_s} s, pays from {pays_s} s");
}

#[test]
fn after_a_rollback_survivors_read_their_own_disks() {
    // The model needs both nodes, and a disk takes longer than the way to the object store: 1 GB/s against 9.7 Gbit/s.
    let outcome = GPT.replay("autohet", "0,up,a,T4,1\n0,up,b,T4,1\n2000,down,b,,\n2100,up,c,T4,1\n4000,up,z,T4,1\n");
    let recovery = &outcome.recoveries[0];
    assert_eq!((recovery.cause, recovery.start), (Cause::Resume, seconds(2100)));
    assert!(recovery.lost_iterations > 0, "the memory of `a` has half of it");
    let fetched = recovery.fetched;
    assert!(fetched.own_disk > 0 && fetched.object_store > 0, "`a` has its half, `c` nothing: {fetched:?}");
}

#[test]
fn a_second_loss_during_recovery_overtakes_the_first() {
    // Replicas of one node each: T4s, slow among themselves, would have stages on several.
    let up = "0,up,a,L4,4\n0,up,b,L4,4\n0,up,c,L4,4\n";
    let outcome = BERT.replay("autohet", &format!("{up}600,down,b,,\n610,down,c,,\n1200,up,z,T4,1\n"));
    let recovery = &outcome.recoveries[0];
    assert_eq!((recovery.start, recovery.cause, recovery.attempts_overtaken), (seconds(600), Cause::Loss, 1));
    assert_eq!(recovery.lost_iterations, 0, "`a` has everything");
    assert!(recovery.end > seconds(650));
    let spent = outcome.ledger.get(Activity::Recovery);
    assert!(spent >= GpuTime::of(4, recovery.end - seconds(600)), "{spent:?}");
}

#[rstest]
#[case::autohet("autohet")]
#[case::varuna("varuna")]
#[case::restart("restart")]
fn it_waits_when_nothing_fits_and_goes_on_when_something_does(#[case] policy: &str) {
    let rows = "0,up,a,T4,1\n300,up,b,T4,4\n900,down,b,,\n1200,up,c,T4,4\n1800,down,c,,\n2000,down,a,,\n";
    let outcome = GPT.replay(policy, rows);
    let [waits, starts, trains, waits_again, resumes, trains_again, waits_at_last] = &phases(&outcome)[..] else {
        panic!("{:?}", phases(&outcome))
    };
    assert_eq!((waits, starts), (&(Phase::Waiting, SimTime::ZERO), &(Phase::Recovering, seconds(300))));
    assert_eq!((trains.0, trains_again.0), (Phase::Training, Phase::Training));
    assert_eq!((waits_again, resumes), (&(Phase::Waiting, seconds(900)), &(Phase::Recovering, seconds(1200))));
    assert_eq!(*waits_at_last, (Phase::Waiting, seconds(1800)));
    assert_eq!(outcome.recoveries[0].cause, Cause::Resume);
    assert_eq!(outcome.ledger.get(Activity::Waiting), GpuTime::of(1, seconds(300 + 300 + 200)));
    assert!(outcome.refusal.as_deref().unwrap().contains("no plan fits"), "{:?}", outcome.refusal);
}

#[rstest]
#[case::autohet("autohet")]
#[case::varuna("varuna")]
#[case::restart("restart")]
fn what_goes_with_the_last_copies_is_lost_even_if_nothing_comes_after(#[case] policy: &str) {
    let outcome = BERT.replay(policy, "0,up,a,T4,4\n1000,down,a,,\n1200,up,z,T4,1\n1201,down,z,,\n");
    let lost = outcome.iterations_rolled_back;
    assert!(outcome.iterations > 0 && lost > 0, "{} kept, {lost} lost", outcome.iterations);
    // Checkpoints are a minute apart and take less than one to become durable.
    assert!(lost <= 1 + (120.0 / outcome.plans[0].predicted_iteration_s) as u64, "{lost} lost");
}

#[rstest]
#[case::autohet("autohet")]
#[case::varuna("varuna")]
fn a_notice_leads_to_no_lost_work(#[case] policy: &str) {
    let rows = "0,up,a,T4,4\n0,up,b,T4,4\n600,notice,b,,\n900,down,b,,\n1500,up,z,T4,1\n";
    let heeding = BERT.replay(policy, rows);
    assert_eq!(heeding.recoveries[0].cause, Cause::Notice);
    assert_eq!((heeding.iterations_rolled_back, heeding.recoveries[0].lost_iterations), (0, 0));
    // Only the iteration at the end of the trace is cut off.
    assert!(heeding.ledger.get(Activity::LostWork) <= one_iteration(&heeding));
    assert!(heeding.recoveries[0].end < seconds(900), "it has left before the node goes");
    let blind = BERT.replay("restart", rows);
    assert!(blind.iterations_rolled_back > 0 && blind.recoveries.is_empty(), "it waits for `b` to the end");
}

#[test]
fn a_save_that_the_loss_cuts_off_is_no_checkpoint() {
    // Saving takes 1.5 s at least: 4.7 GB over two nodes at 9.7 Gbit/s each, after what is left of an iteration.
    let after = |notice: &str| {
        BERT.replay("varuna", &format!("0,up,a,T4,4\n0,up,b,T4,4\n{notice}601,down,b,,\n1500,up,z,T4,1\n"))
    };
    let (warned, unwarned) = (after("600,notice,b,,\n"), after(""));
    let recovery = &warned.recoveries[0];
    assert_eq!((recovery.cause, recovery.start), (Cause::Loss, seconds(601)));
    assert!(recovery.lost_iterations > 0);
    assert_eq!(recovery.lost_iterations, unwarned.recoveries[0].lost_iterations);
}

#[test]
fn a_trace_may_end_during_recovery() {
    let outcome = BERT.replay("autohet", "0,up,a,T4,4\n0,up,b,T4,4\n600,down,b,,\n605,up,z,T4,1\n");
    assert!(outcome.recoveries.is_empty(), "it never ended");
    let last = outcome.segments.last().unwrap();
    assert_eq!((last.phase, last.start, last.end), (Phase::Recovering, seconds(600), seconds(605)));
}

#[rstest]
#[case::autohet("autohet")]
#[case::varuna("varuna")]
#[case::restart("restart")]
fn all_nodes_may_go_at_once(#[case] policy: &str) {
    let outcome = BERT.replay(policy, "0,up,a,T4,4\n0,up,b,T4,4\n600,down,a,,\n600,down,b,,\n");
    assert!(outcome.iterations > 0);
    assert_eq!(outcome.paid, GpuTime::of(8, seconds(600)));
    let back = BERT.replay(policy, "0,up,a,T4,4\n600,down,a,,\n600,up,a,T4,4\n1200,down,a,,\n");
    assert_eq!(back.recoveries.len(), 1, "the same name at the same time is a new, empty node");
    assert_eq!(back.recoveries[0].fetched.own_memory + back.recoveries[0].fetched.own_disk, 0);
    assert_eq!(back.paid, GpuTime::of(4, seconds(1200)));
}

#[rstest]
#[case::autohet("autohet")]
#[case::varuna("varuna")]
#[case::restart("restart")]
fn short_and_quiet_traces(#[case] policy: &str) {
    let nothing = BERT.replay(policy, "0,up,a,T4,4\n");
    assert_eq!((nothing.iterations, nothing.paid), (0, GpuTime::default()));
    let only_up = BERT.replay(policy, "0,up,a,T4,4\n900,up,b,T4,4\n");
    assert!(only_up.iterations > 0 && only_up.recoveries.is_empty());
    assert_eq!(only_up.paid, GpuTime::of(4, seconds(900)));
    let late = BERT.replay(policy, "1000000,up,a,T4,4\n1000600,down,a,,\n");
    assert_eq!(late.paid, GpuTime::of(4, seconds(600)));
    assert!(late.iterations > 0);
}

const NODES: [(&str, u32); 4] = [("T4", 4), ("V100-16", 2), ("T4", 1), ("A100-40", 2)];

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_story_is_replayed_to_its_end(
        steps in prop::collection::vec((0..4_usize, prop_oneof![Just(0), 1..90_u64, 100..900_u64], 0..3_u8), 1..24),
        policy in prop::sample::select(&POLICIES[..]),
        large in any::<bool>(),
    ) {
        let job = if large { GPT } else { BERT };
        job.replay(policy, &rows(&steps, &NODES));
    }
}
