use super::relabel::relabelled;
use super::*;
use crate::cluster::{Cluster, NodeDefaults};
use crate::cost::{CostModel, CostSettings};
use crate::model::{Block, ModelSpec, Precision, Recompute};
use crate::plan::{PlanLimits, Replica, SCHEMA_VERSION, ScheduleKind, Stage, TrainingSettings};
use crate::planner::fixtures::ClosedForm;

fn cost() -> CostModel {
    CostModel::new(ModelSpec::preset("gpt3-1.3b").unwrap(), CostSettings::default(), None)
}

fn cluster(mix: &str) -> Cluster {
    Cluster::parse_mix(mix, &NodeDefaults::default()).unwrap()
}

/// Replicas of two stages of 12 layers each, on the nodes of these numbers, one GPU each.
fn plan(nodes: &[[u32; 2]]) -> Plan {
    let stage = |node: u32, first_layer| Stage {
        node: format!("a100-80-{node}"),
        gpus: vec![0],
        gpu_type: "A100-80".to_owned(),
        first_layer,
        num_layers: 12,
        later_chunks: Vec::new(),
    };
    let replica = |of: &[u32; 2]| Replica { micro_batches: 32, stages: vec![stage(of[0], 0), stage(of[1], 12)] };
    Plan {
        schema_version: SCHEMA_VERSION,
        planner: "autohet".to_owned(),
        model: "gpt3-1.3b".into(),
        global_batch_size: 32 * nodes.len() as u32,
        micro_batch_size: 1,
        sequence_parallel: false,
        recompute: Recompute::Selective,
        precision: Precision::Fp16,
        schedule: ScheduleKind::default(),
        replicas: nodes.iter().map(replica).collect(),
    }
}

fn again(cluster: &Cluster, old: &Plan, horizon_s: f64) -> Result<Replanned, PlanError> {
    let training = TrainingSettings { global_batch_size: old.global_batch_size, ..TrainingSettings::default() };
    let cost = cost();
    let request =
        PlanRequest { cluster, cost: &cost, training: &training, judge: &ClosedForm, limits: PlanLimits::default() };
    let found = replan(&request, &Incumbent { plan: old, horizon_s, pause_s: 30.0, store_bytes_per_s: 1e9 })?;
    assert_eq!(found.plan.validate(cluster, &cost), Ok(()));
    Ok(found)
}

#[test]
fn what_a_spare_node_takes_over_moves_and_nothing_else() {
    let (cost, nodes) = (cost(), cluster("5x1xA100-80"));
    let (from, to) = (plan(&[[0, 1], [2, 3]]), plan(&[[0, 1], [2, 4]]));
    let without = Cluster { nodes: nodes.nodes.iter().filter(|node| node.name != "a100-80-3").cloned().collect() };
    let moved = movement(&from, &to, &without, &cost, 1e9);
    // Layers 12 to 23 and the head, from node 1 over 100 Gbit/s.
    let bytes = 12 * cost.state_bytes(Block::Layer(crate::ids::LayerId(0)), Precision::Fp16)
        + cost.state_bytes(Block::Head, Precision::Fp16);
    assert_eq!((moved.moved_bytes, moved.restored_bytes), (bytes, 0));
    assert!((moved.seconds - bytes as f64 / 12.5e9).abs() < 1e-9, "{}", moved.seconds);
    let [node] = moved.nodes.as_slice() else { panic!("one node: {moved:?}") };
    assert_eq!((node.node.as_str(), node.blocks.len()), ("a100-80-4", 13));
    assert_eq!(movement(&from, &from, &nodes, &cost, 1e9).moved_bytes, 0);
}

#[test]
fn what_no_node_has_any_more_comes_from_storage() {
    let (cost, nodes) = (cost(), cluster("3x1xA100-80"));
    let without = Cluster { nodes: nodes.nodes[1..].to_vec() };
    let moved = movement(&plan(&[[0, 1]]), &plan(&[[2, 1]]), &without, &cost, 1e9);
    assert_eq!(moved.moved_bytes, 0);
    assert!((moved.seconds - moved.restored_bytes as f64 / 1e9).abs() < 1e-9);
}

#[test]
fn a_lost_node_is_replaced_by_an_idle_one() {
    let nodes = cluster("5x1xA100-80");
    let without = Cluster { nodes: nodes.nodes.iter().filter(|node| node.name != "a100-80-3").cloned().collect() };
    let found = again(&without, &plan(&[[0, 1], [2, 3]]), 120.0).unwrap();
    assert!(found.movement.moved_bytes > 0 && found.movement.restored_bytes == 0);
    assert_eq!(found.plan.world_size(), 4);
}

#[test]
fn a_plan_that_lost_nothing_goes_on_where_time_is_short() {
    let old = plan(&[[0, 1], [2, 3]]);
    let found = again(&cluster("4x1xA100-80"), &old, 30.1).unwrap();
    assert_eq!(found.movement.moved_bytes, 0);
}

#[test]
fn with_nothing_left_of_the_plan_it_is_planned_afresh() {
    let found = again(&cluster("1x8xH100"), &plan(&[[0, 1]]), 3600.0).unwrap();
    assert!(found.plan.stages().all(|(_, stage)| stage.gpu_type == "H100"));
    assert!(matches!(again(&Cluster::default(), &plan(&[[0, 1]]), 3600.0), Err(PlanError::EmptyCluster)));
}

#[test]
fn nodes_that_are_alike_are_exchanged_so_that_state_stays() {
    let (cost, nodes) = (cost(), cluster("4x1xA100-80"));
    let old = plan(&[[0, 1], [2, 3]]);
    let kept = relabelled(&plan(&[[1, 0], [3, 2]]), &old, &nodes, &cost);
    assert_eq!(movement(&old, &kept, &nodes, &cost, 1e9).moved_bytes, 0);
}

#[test]
fn a_repair_is_there_when_time_is_over() {
    let (cost, nodes, old) = (cost(), cluster("3x1xA100-80"), plan(&[[0, 1], [2, 3]]));
    let training = TrainingSettings { global_batch_size: old.global_batch_size, ..TrainingSettings::default() };
    let limits = PlanLimits { out_of_time: Some(&|| true), ..PlanLimits::default() };
    let request = PlanRequest { cluster: &nodes, cost: &cost, training: &training, judge: &ClosedForm, limits };
    let incumbent = Incumbent { plan: &old, horizon_s: 3600.0, pause_s: 30.0, store_bytes_per_s: 1e9 };
    let found = replan(&request, &incumbent).unwrap();
    assert_eq!(found.plan.validate(&nodes, &cost), Ok(()));
    assert!(found.movement.kept_bytes > 0);
}
