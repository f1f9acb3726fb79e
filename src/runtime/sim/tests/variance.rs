//! Jitter and stragglers.

use super::plan;
use crate::cluster::{Cluster, NodeDefaults};
use crate::cost::{CostModel, CostSettings};
use crate::model::ModelSpec;
use crate::plan::{Plan, ScheduleKind};
use crate::runtime::sim::{Jitter, Repetitions, Stragglers, repeat, simulate};

fn job() -> (Plan, Cluster, CostModel) {
    let cluster = Cluster::parse_mix("4x2xA100-80", &NodeDefaults::default()).unwrap();
    let cost = CostModel::new(ModelSpec::preset("bert-large").unwrap(), CostSettings::default(), None);
    let mut plan = plan(&[(2, 8), (2, 8)], ScheduleKind::OneForwardOneBackward, 2);
    let mut nodes = cluster.nodes.iter();
    for stage in plan.replicas.iter_mut().flat_map(|replica| &mut replica.stages) {
        (stage.first_layer, stage.num_layers) = (stage.first_layer * 12, 12);
        stage.node.clone_from(&nodes.next().unwrap().name);
    }
    (plan, cluster, cost)
}

fn repeated(jitter: Jitter) -> Repetitions {
    let (plan, cluster, cost) = job();
    repeat(&plan, &cluster, &cost, &jitter, 16).unwrap()
}

#[test]
fn without_jitter_every_iteration_is_the_simulated_one() {
    let (plan, cluster, cost) = job();
    let simulated_s = simulate(&plan, &cluster, &cost).unwrap().timeline.makespan().as_seconds();
    for seconds in repeated(Jitter::default()).seconds {
        approx::assert_relative_eq!(seconds, simulated_s, max_relative = 1e-6);
    }
}

#[test]
fn seeds_repeat_and_differ() {
    let jitter = Jitter { sigma: 0.1, seed: 7, ..Jitter::default() };
    let first = repeated(jitter);
    assert_eq!(repeated(jitter), first);
    assert_ne!(repeated(Jitter { seed: 8, ..jitter }), first);
    assert!(first.seconds.first() < first.seconds.last());
}

#[test]
fn who_waits_for_the_slowest_takes_longer_on_average() {
    let plain_s = repeated(Jitter::default()).mean().unwrap();
    let little_s = repeated(Jitter { sigma: 0.05, ..Jitter::default() }).mean().unwrap();
    let much_s = repeated(Jitter { sigma: 0.2, ..Jitter::default() }).mean().unwrap();
    assert!(plain_s < little_s && little_s < much_s, "{plain_s} {little_s} {much_s}");
}

#[test]
fn if_all_are_stragglers_all_passes_take_longer() {
    let (plan, mut cluster, cost) = job();
    for node in &mut cluster.nodes {
        node.nic.bytes_per_s = 1e15;
        node.nic.latency_s = 0.0;
    }
    let all = Jitter { stragglers: Stragglers { share: 1.0, slowdown: 0.5 }, ..Jitter::default() };
    let seconds = |jitter| repeat(&plan, &cluster, &cost, &jitter, 1).unwrap().seconds[0];
    approx::assert_relative_eq!(seconds(all), 1.5 * seconds(Jitter::default()), max_relative = 1e-3);
}
