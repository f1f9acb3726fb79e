//! What has arrived when a change of plan is cut off, worked by hand.

use crate::cluster::{Link, Node};
use crate::cost::{CostModel, CostSettings};
use crate::elastic::checkpoint::{CheckpointInterval, CheckpointSettings};
use crate::elastic::fixtures::{cluster, plan};
use crate::elastic::*;
use crate::model::ModelSpec;
use crate::plan::{PlanError, PlanLimits, PlanRequest, PlannedIteration, Planner, TrainingSettings};
use crate::runtime::sim::Simulator;
use crate::units::SimTime;

/// With a node of the zone `new`, the whole model on it, and on another one that isn't slow if there is one; else the whole
/// model on one node, and on the slow one and a third one half of it each.
struct Scripted;

const SLOW: Link = Link { bytes_per_s: 1.0, latency_s: 0.0 };

impl Planner for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn plan(&self, request: &PlanRequest) -> Result<PlannedIteration, PlanError> {
        let nodes = &request.cluster.nodes;
        let of = |is_meant: &dyn Fn(&&Node) -> bool| -> Vec<&str> {
            nodes.iter().filter(is_meant).map(|node| node.name.as_str()).collect()
        };
        let (new, slow) = (of(&|node| node.zone == "new"), of(&|node| node.nic == SLOW));
        let others = of(&|node| node.zone != "new" && node.nic != SLOW);
        let plan = match (&new[..], &slow[..], &others[..]) {
            ([new], _, [other, ..]) => plan(1, &[&[(*other, 0, 4)], &[(*new, 0, 4)]]),
            ([new], _, []) => plan(1, &[&[(*new, 0, 4)]]),
            ([], [slow], [one, two]) => plan(1, &[&[(*one, 0, 4)], &[(*slow, 0, 2), (*two, 2, 2)]]),
            _ => panic!("{nodes:?}"),
        };
        let predicted_iteration_s = 10.0;
        Ok(PlannedIteration { plan, predicted_iteration_s, lower_bound_s: 1.0, gap: 9.0, alternatives: Vec::new() })
    }
}

/// `a` has everything, `b` the first half and `c` the second. `c` goes, and `d`, which comes, gets everything: since `b` is slow, `a`
/// sends it all, first the second half, which only `a` has. After that share of it `a` goes too: where does training go on?
fn resumed_at(share: f64) -> u64 {
    let mut model = ModelSpec::preset("gpt3-6.7b").unwrap();
    model.num_layers = 4;
    let cost = CostModel::new(model, CostSettings::default(), None);
    let policy = Policy { planner: Box::new(Scripted), avoids_zones: false, ..policies::by_name("autohet").unwrap() };
    let checkpoint = CheckpointSettings { interval: CheckpointInterval::Never, ..CheckpointSettings::default() };
    let reconfiguration = ReconfigurationSettings::default();
    let training = TrainingSettings::default();
    let limits = PlanLimits::default();
    let request = PlanRequest { cluster: &cluster(&[]), cost: &cost, training: &training, judge: &Simulator, limits };
    let settings = ControllerSettings { checkpoint: &checkpoint, reconfiguration: &reconfiguration };
    let mut controller = Controller::new(&policy, request, settings);
    let mut tell = |at: SimTime, event: Event| controller.handle(at, event).unwrap();
    let mut nodes = cluster(&["a", "b", "c", "d"]).nodes;
    nodes[1].nic = SLOW;
    nodes[3].zone = "new".to_owned();
    let new = nodes.pop().unwrap();
    tell(SimTime::ZERO, Event::Membership(MembershipChange { joined: nodes, ..MembershipChange::default() }));
    tell(SimTime::SECOND * 100, Event::Reconfigured);
    for step in 0..5 {
        tell(SimTime::SECOND * (110 + 10 * step), Event::IterationDone);
    }
    let lost = |name: &str| vec![name.to_owned()];
    let change = MembershipChange { lost: lost("c"), joined: vec![new], ..MembershipChange::default() };
    let at = SimTime::SECOND * 155;
    let Some(Action::Reconfigure(to)) = tell(at, Event::Membership(change)) else { panic!("a node in use was lost") };
    assert_eq!(to.recovery.senders().len(), 1, "{:?}", to.recovery.transfers);
    let passed = SimTime::from_seconds(to.time.fetch.as_seconds() * share);
    let change = MembershipChange { lost: lost("a"), ..MembershipChange::default() };
    let next = tell(at + to.time.detect + to.time.plan + passed, Event::Membership(change));
    let Some(Action::Reconfigure(to)) = next else { panic!("its sender was lost") };
    to.recovery.resume_step
}

#[test]
fn what_only_one_node_has_is_sent_first() {
    // Either half is about half of the bytes.
    assert_eq!(resumed_at(0.25), 0);
    assert_eq!(resumed_at(0.75), 5);
}
