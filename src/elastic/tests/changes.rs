//! Changes that are known beforehand, and zones that nodes come back to, worked by hand.
//!
//! The model is on each node as a whole: one node takes 12 seconds for an iteration, two take 6, three take 4. Communicators of
//! one node take 35.6 s, rendezvous included, those of two 14/15 s more; planning takes 2 s, noticing a loss 10 s.

use crate::cluster::Node;
use crate::cost::{CostModel, CostSettings};
use crate::elastic::checkpoint::{CheckpointInterval, CheckpointSettings};
use crate::elastic::fixtures::{cluster, plan};
use crate::elastic::*;
use crate::model::ModelSpec;
use crate::plan::{PlanError, PlanLimits, PlanRequest, PlannedIteration, Planner, TrainingSettings};
use crate::runtime::sim::Simulator;
use crate::units::SimTime;
use std::collections::BTreeSet;
use std::sync::Arc;

struct Replicas;

impl Planner for Replicas {
    fn name(&self) -> &'static str {
        "replicas"
    }

    fn plan(&self, request: &PlanRequest) -> Result<PlannedIteration, PlanError> {
        let stages: Vec<[(&str, u32, u32); 1]> =
            request.cluster.nodes.iter().map(|node| [(node.name.as_str(), 0, 4)]).collect();
        let replicas: Vec<&[(&str, u32, u32)]> = stages.iter().map(|stage| &stage[..]).collect();
        let predicted_iteration_s = 12.0 / replicas.len() as f64;
        Ok(PlannedIteration {
            plan: plan(1, &replicas),
            predicted_iteration_s,
            lower_bound_s: predicted_iteration_s,
            any_degrees_bound_s: None,
            gap: 0.0,
            alternatives: Vec::new(),
        })
    }
}

/// What a change of plan comes to: its cause, the nodes of the plan, and the times until the plan is there, state has moved and
/// ranks are connected.
#[derive(Debug, PartialEq)]
struct Change {
    cause: Cause,
    nodes: Vec<String>,
    plan: SimTime,
    connect: SimTime,
}

fn change(cause: Cause, nodes: &[&str], plan_s: f64, connect_s: f64) -> Change {
    let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
    Change { cause, nodes, plan: SimTime::from_seconds(plan_s), connect: SimTime::from_seconds(connect_s) }
}

/// Tells `story` a controller that trains on `a` and `b` from 100 s on.
fn told(story: impl FnOnce(&mut dyn FnMut(f64, Event) -> Option<Action>)) {
    let mut model = ModelSpec::preset("gpt3-6.7b").unwrap();
    model.num_layers = 4;
    let cost = CostModel::new(model, CostSettings::default(), None);
    let policy = Policy { planner: Box::new(Replicas), ..policies::by_name("autohet").unwrap() };
    let checkpoint = CheckpointSettings { interval: CheckpointInterval::Never, ..CheckpointSettings::default() };
    let reconfiguration = ReconfigurationSettings::default();
    let request = PlanRequest {
        cluster: &cluster(&[]),
        cost: &cost,
        training: &TrainingSettings::default(),
        judge: &Simulator,
        limits: PlanLimits::default(),
    };
    let settings = ControllerSettings { checkpoint: &checkpoint, reconfiguration: &reconfiguration };
    let mut controller = Controller::new(&policy, request, settings);
    let mut tell = |at_s: f64, event: Event| controller.handle(SimTime::from_seconds(at_s), event).unwrap();
    let begun = tell(0.0, joined(&["a", "b"]));
    assert_eq!(begun.map(seen), Some(change(Cause::Resume, &["a", "b"], 2.0, 35.6 + 14.0 / 15.0)));
    assert!(matches!(tell(100.0, Event::Reconfigured), Some(Action::StartIteration)));
    story(&mut tell);
}

fn seen(action: Action) -> Change {
    let Action::Reconfigure(to) = action else { panic!("{action:?}") };
    let nodes: BTreeSet<String> = to.placed.nodes().map(str::to_owned).collect();
    let (plan, connect) = (to.time.plan, to.time.connect);
    Change { cause: to.cause, nodes: nodes.into_iter().collect(), plan, connect }
}

fn nodes(names: &[&str], zone: &str) -> Vec<Node> {
    let nodes = cluster(names).nodes.into_iter();
    // A network over which state moves in no time to speak of.
    let nic = crate::cluster::Link { bytes_per_s: 1e15, latency_s: 0.0 };
    let gpu = Arc::new(crate::cluster::GpuSpec { host_bytes_per_s: 1e15, ..(*cluster(&["a"]).nodes[0].gpu).clone() });
    nodes.map(|node| Node { zone: zone.to_owned(), nic, gpu: Arc::clone(&gpu), ..node }).collect()
}

fn joined(names: &[&str]) -> Event {
    Event::Membership(MembershipChange { joined: nodes(names, "zone"), ..MembershipChange::default() })
}

fn noticed(node: &str, losses_at_s: f64) -> Event {
    let losses_at = Some(SimTime::from_seconds(losses_at_s));
    Event::Membership(MembershipChange { noticed: vec![node.to_owned()], losses_at, ..MembershipChange::default() })
}

fn spared(node: &str) -> Event {
    Event::Membership(MembershipChange { spared: vec![node.to_owned()], ..MembershipChange::default() })
}

fn lost(node: &str) -> Event {
    Event::Membership(MembershipChange { lost: vec![node.to_owned()], ..MembershipChange::default() })
}

/// The iterations that end from `from_s` on, every `each_s`, until something else than the next one is asked for; when, and what.
fn trains_until(
    tell: &mut dyn FnMut(f64, Event) -> Option<Action>,
    (mut from_s, each_s, until_s): (f64, f64, f64),
) -> Option<(f64, Change)> {
    while from_s <= until_s {
        match tell(from_s, Event::IterationDone) {
            Some(Action::StartIteration) => {}
            other => return Some((from_s, seen(other?))),
        }
        from_s += each_s;
    }
    None
}

#[test]
fn a_notice_is_prepared_for_while_training_goes_on() {
    told(|tell| {
        assert!(tell(101.0, noticed("b", 221.0)).is_none());
        // Planned by 103, connected by 138.6: the next iteration ends at 142.
        let found = trains_until(tell, (106.0, 6.0, 300.0));
        assert_eq!(found, Some((142.0, change(Cause::Notice, &["a"], 0.0, 0.0))));
    });
}

#[test]
fn a_node_whose_notice_is_void_is_not_left() {
    told(|tell| {
        assert!(tell(101.0, noticed("b", 221.0)).is_none());
        assert!(tell(110.0, spared("b")).is_none());
        assert_eq!(trains_until(tell, (112.0, 6.0, 400.0)), None);
    });
}

#[test]
fn a_node_that_was_left_is_returned_to_when_its_notice_is_void() {
    told(|tell| {
        tell(101.0, noticed("b", 221.0));
        assert_eq!(trains_until(tell, (106.0, 6.0, 300.0)).map(|(at_s, _)| at_s), Some(142.0));
        assert!(matches!(tell(149.0, Event::Reconfigured), Some(Action::StartIteration)));
        assert!(tell(150.0, spared("b")).is_none());
        // Weighed at 161, connected 36.53 s later: iterations of 12 s end at 197 and 209.
        let found = trains_until(tell, (161.0, 12.0, 400.0));
        assert_eq!(found, Some((209.0, change(Cause::Join, &["a", "b"], 0.0, 0.0))));
    });
}

#[test]
fn a_short_notice_is_used_as_far_as_it_goes() {
    told(|tell| {
        tell(101.0, noticed("b", 121.0));
        // Iterations end at 106, 112, 118; another one would end too late. 15 of 35.6 s of connecting are done.
        let found = trains_until(tell, (106.0, 6.0, 300.0));
        assert_eq!(found, Some((118.0, change(Cause::Notice, &["a"], 0.0, 20.6))));
    });
}

#[test]
fn what_was_prepared_serves_if_the_loss_comes_early() {
    told(|tell| {
        tell(101.0, noticed("b", 221.0));
        let change_for_loss = tell(113.0, lost("b")).map(seen);
        assert_eq!(change_for_loss, Some(change(Cause::Loss, &["a"], 0.0, 25.6)));
    });
}

#[test]
fn a_new_node_that_goes_before_it_was_taken_in_stops_nobody() {
    told(|tell| {
        assert!(tell(101.0, joined(&["c"])).is_none());
        assert_eq!(trains_until(tell, (106.0, 6.0, 125.0)), None);
        assert!(tell(126.0, lost("c")).is_none());
        assert_eq!(trains_until(tell, (130.0, 6.0, 400.0)), None);
        // The next one is weighed at 410, and there at 447.47.
        assert!(tell(405.0, joined(&["d"])).is_none());
        let found = trains_until(tell, (410.0, 6.0, 600.0));
        assert_eq!(found, Some((452.0, change(Cause::Join, &["a", "b", "d"], 0.0, 0.0))));
    });
}

#[test]
fn a_loss_while_another_node_is_being_taken_in_is_planned_for_anew() {
    told(|tell| {
        tell(101.0, joined(&["c"]));
        assert_eq!(trains_until(tell, (106.0, 6.0, 120.0)), None);
        let found = tell(121.0, lost("b")).map(seen);
        // Two nodes were planned for before, and connecting for three is in vain.
        assert_eq!(found, Some(change(Cause::Loss, &["a", "c"], 0.0, 35.6 + 14.0 / 15.0)));
    });
}

/// A node of the bad zone would make a third of what trains, and a loss stops everybody for 10 + 2 + 36.53 s. Where it is lost
/// every ten seconds, fifty times, the zone loses (1 + 50) / (3600 + 500) nodes a second, which is 0.60 stops; the other one
/// 1 / (3600 + 600): three nodes train as much as 3 / (1 + 0.60 + 0.01) do, two as 2 / 1.01.
#[test]
fn a_zone_whose_nodes_are_lost_all_the_time_is_kept_away_from() {
    let bad = |name: &str| {
        Event::Membership(MembershipChange { joined: nodes(&[name], "bad"), ..MembershipChange::default() })
    };
    for (times, is_taken_in) in [(5, true), (50, false)] {
        told(|tell| {
            for time in 0..times {
                assert!(tell(101.0 + 11.0 * f64::from(time), bad("c")).is_none());
                assert!(tell(111.0 + 11.0 * f64::from(time), lost("c")).is_none());
            }
            assert!(tell(660.0, bad("c")).is_none());
            let found = trains_until(tell, (661.0, 6.0, 1200.0));
            assert_eq!(found.map(|(_, change)| change.nodes.len()), is_taken_in.then_some(3));
        });
    }
}

#[test]
fn a_loss_while_the_plan_for_the_one_before_is_made_is_planned_for_anew() {
    told(|tell| {
        assert!(tell(101.0, joined(&["c"])).is_none());
        let first = tell(102.0, lost("b")).map(seen);
        let connect_s = 35.6 + 14.0 / 15.0;
        assert_eq!(first, Some(change(Cause::Loss, &["a", "c"], 0.0, connect_s)));
        // Noticed by 112, and the plan for `a` and `c` is there by 114. At 113 `a` goes too: what only it has is lost, nothing is
        // waited for, and the plan for one node is made from 123 to 125.
        let second = tell(113.0, lost("a")).map(seen);
        assert_eq!(second, Some(change(Cause::Loss, &["c"], 2.0, 35.6)));
        // Who isn't in the new plan stops nobody.
        assert!(tell(114.0, joined(&["d"])).is_none());
        assert!(tell(115.0, lost("d")).is_none());
    });
}

#[test]
fn the_loss_of_the_coordinators_node_is_acted_on_once_there_is_another() {
    let detected = |node: &str| {
        let mut found = None;
        told(|tell| {
            let Some(Action::Reconfigure(to)) = tell(101.0, lost(node)) else { panic!("a node in use") };
            found = Some(to.time.detect);
        });
        found
    };
    // `a` came first.
    assert_eq!(detected("a"), Some(SimTime::from_seconds(15.0)));
    assert_eq!(detected("b"), Some(SimTime::from_seconds(10.0)));
}
