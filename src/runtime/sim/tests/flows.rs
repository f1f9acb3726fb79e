//! What single flows reach by the size of their messages, and how they share an interface.

use super::plan;
use crate::cluster::{Cluster, FlowCurve, NodeDefaults};
use crate::cost::{CostModel, CostSettings};
use crate::model::ModelSpec;
use crate::plan::{Plan, ScheduleKind};
use crate::program::Op;
use crate::runtime::sim::{SimulatedIteration, simulate};

/// Less than the 12.5 GB/s of the interface: 1 GB/s at 1 MB and 0.1 GB/s more with each doubling, up to 1 TB.
const FLOW: FlowCurve = FlowCurve { gbyte_per_s: [0.0, 0.1, 1.0], from_bytes: 1e6, to_bytes: 1e12 };

fn cluster(mix: &str, flow: Option<FlowCurve>) -> Cluster {
    let flows = flow.map(|flow| ("A100-80".to_owned(), flow)).into_iter().collect();
    Cluster::parse_mix(mix, &NodeDefaults { flows, ..NodeDefaults::default() }).unwrap()
}

fn cost() -> CostModel {
    CostModel::new(ModelSpec::preset("bert-large").unwrap(), CostSettings::default(), None)
}

/// The stages of all replicas on the cluster's nodes, one after the other.
fn on_nodes(mut plan: Plan, cluster: &Cluster, cost: &CostModel) -> Plan {
    let mut nodes = cluster.nodes.iter();
    for replica in &mut plan.replicas {
        let depth = replica.stages.len() as u32;
        for (index, stage) in replica.stages.iter_mut().enumerate() {
            stage.num_layers = cost.model().num_layers / depth;
            stage.first_layer = index as u32 * stage.num_layers;
            stage.node.clone_from(&nodes.next().unwrap().name);
        }
    }
    plan
}

/// Seconds of the first span of an operation.
fn first_s(iteration: &SimulatedIteration, is_wanted: impl Fn(Op) -> bool) -> f64 {
    let op = |span: &&crate::runtime::Span| is_wanted(iteration.program.instruction(span.rank, span.id).op);
    let span = iteration.timeline.spans.iter().find(op).unwrap();
    (span.end - span.start).as_seconds()
}

#[test]
fn a_ring_is_as_fast_as_flows_of_its_messages() {
    let (cluster, cost) = (cluster("4x1xA100-80", Some(FLOW)), cost());
    let plan = on_nodes(plan(&[(1, 1); 4], ScheduleKind::OneForwardOneBackward, 1), &cluster, &cost);
    let iteration = simulate(&plan, &cluster, &cost).unwrap();
    let layer = crate::model::Block::Layer(crate::ids::LayerId(0));
    let bytes = cost.gradient_bytes(layer, &plan.execution_at(1)) as f64;
    // Six steps of a quarter each, 40 µs of latency before each.
    let message_bytes = bytes / 4.0;
    let by_hand_s = 6.0 * (message_bytes / (1e9 + 1e8 * (message_bytes / 1e6).log2()) + 40e-6);
    let is_layer = |op| matches!(op, Op::AllReduce { block, .. } if block == layer);
    approx::assert_abs_diff_eq!(first_s(&iteration, is_layer), by_hand_s, epsilon = 5e-9);
}

#[test]
fn a_message_between_stages_is_one_flow() {
    let (slow, fast) = (cluster("2x1xA100-80", Some(FLOW)), cluster("2x1xA100-80", None));
    let cost = cost();
    let plan = on_nodes(plan(&[(2, 1)], ScheduleKind::OneForwardOneBackward, 1), &slow, &cost);
    let bytes = cost.boundary_bytes(&plan.execution_at(1)) as f64;
    let is_send = |op| matches!(op, Op::Send { .. });
    let sent_s = |cluster| first_s(&simulate(&plan, cluster, &cost).unwrap(), is_send);
    let flow_s = 40e-6 + bytes / (1e9 + 1e8 * (bytes / 1e6).log2().max(0.0));
    approx::assert_abs_diff_eq!(sent_s(&slow), flow_s, epsilon = 5e-9);
    approx::assert_abs_diff_eq!(sent_s(&fast), 40e-6 + bytes / 12.5e9, epsilon = 5e-9);
}
