//! What frameworks do differently, where it can be worked out by hand.

use super::{BACKWARD, FORWARD, STEP, plan, priced, replicas, run};
use crate::cluster::{Cluster, Link, NodeDefaults, PcieSwitch, Wiring};
use crate::cost::communication::{Collective, GroupShape, Medium};
use crate::cost::{
    Buckets, Collectives, CostModel, CostSettings, Framework, OptimizerState, PointToPoint, ReductionTime,
};
use crate::model::{Block, ModelSpec};
use crate::plan::{Plan, ScheduleKind};
use crate::program::{LowerOptions, Op, Program};
use crate::runtime::Timeline;
use crate::runtime::sim::{SimulatedIteration, simulate};
use crate::units::SimTime;
use proptest::prelude::*;

fn lowered(plan: &Plan, framework: Framework) -> Program {
    let options = LowerOptions { framework, block_parameters: [30, 10, 20], ..LowerOptions::default() };
    let program = Program::lower(plan, options);
    assert_eq!(program.validate(plan), Ok(()));
    program
}

fn with(point_to_point: PointToPoint) -> Framework {
    Framework { point_to_point, ..Framework::default() }
}

#[test]
fn blocking_sends_and_receives_take_their_closed_forms() {
    let wait = SimTime(150);
    let (both, k) = (FORWARD + BACKWARD, 6);
    let plan = plan(&[(2, 6)], ScheduleKind::OneForwardOneBackward, 1);
    let makespan = |kind| {
        let program = lowered(&plan, with(kind));
        run(&program, &priced(&program, f64::INFINITY, wait)).makespan()
    };
    // With two micro batches in flight, every second one goes there and back before the next can: a gradient out, the first
    // stage's backward and forward, an activation in.
    assert_eq!(makespan(PointToPoint::Asynchronous), both * (k + 1) + wait * k + STEP);
    // Between two micro batches, a gradient goes out while an activation comes in.
    assert_eq!(makespan(PointToPoint::Paired), both * (k + 1) + wait * (k + 1) + STEP);
    // First the one, then the other.
    assert_eq!(makespan(PointToPoint::Sequential), both * (k + 1) + wait * (2 * k) + STEP);
}

#[test]
fn gradients_in_one_bucket_are_reduced_once_and_after_the_last_pass() {
    let mut plan = plan(&[(1, 1), (1, 1)], ScheduleKind::OneForwardOneBackward, 1);
    plan.replicas.iter_mut().for_each(|replica| replica.stages[0].num_layers = 2);
    let framework =
        Framework { buckets: Buckets::Whole, reduction: ReductionTime::AfterBackward, ..Framework::default() };
    let program = lowered(&plan, framework);
    assert_eq!(program.groups().len(), 1);
    assert_eq!(program.groups()[0].blocks.len(), 4);
    let found = run(&program, &priced(&program, f64::INFINITY, SimTime(400))).makespan();
    assert_eq!(found, FORWARD + BACKWARD + SimTime(400) + STEP);
    // Head and layer 1 in a bucket, layer 0 and the embedding in another, of which the first is hidden.
    let framework = Framework { buckets: Buckets::Parameters(30), ..Framework::default() };
    let program = lowered(&plan, framework);
    assert_eq!(program.groups().iter().map(|group| group.blocks.len()).collect::<Vec<_>>(), [2, 2]);
    let found = run(&program, &priced(&program, f64::INFINITY, SimTime(400))).makespan();
    assert_eq!(found, FORWARD + BACKWARD + SimTime(400) + STEP);
}

#[test]
fn sharded_optimizers_scatter_before_the_step_and_gather_after_it() {
    let plan = plan(&[(1, 1), (1, 1)], ScheduleKind::OneForwardOneBackward, 1);
    let framework = Framework {
        buckets: Buckets::Whole,
        reduction: ReductionTime::AfterBackward,
        optimizer: OptimizerState::Sharded,
        ..Framework::default()
    };
    let program = lowered(&plan, framework);
    let timeline = run(&program, &priced(&program, f64::INFINITY, SimTime(400)));
    assert_eq!(timeline.makespan(), FORWARD + BACKWARD + SimTime(400) + STEP + SimTime(400));
    let named = |timeline: &Timeline, is: fn(Op) -> bool| {
        timeline.spans.iter().filter(|span| is(program.instruction(span.rank, span.id).op)).count()
    };
    assert_eq!(named(&timeline, |op| matches!(op, Op::ReduceScatter { .. })), 2);
    assert_eq!(named(&timeline, |op| matches!(op, Op::AllGather { .. })), 2);
    assert_eq!(named(&timeline, |op| matches!(op, Op::AllReduce { .. })), 0);
}

fn cost(framework: Framework) -> CostModel {
    let model = ModelSpec::preset("bert-large").unwrap();
    CostModel::new(model, CostSettings::default(), None).with_framework(framework)
}

/// Replicas of one stage of `degree` GPUs, `per_node` of them in each node of the cluster.
fn on_nodes(cluster: &Cluster, replicas: usize, degree: u32, per_node: u32) -> Plan {
    let mut plan = plan(&vec![(1, 1); replicas], ScheduleKind::OneForwardOneBackward, degree);
    for (index, replica) in plan.replicas.iter_mut().enumerate() {
        let (node, place) = (index / per_node as usize, index as u32 % per_node);
        let stage = &mut replica.stages[0];
        stage.num_layers = 24;
        stage.node.clone_from(&cluster.nodes[node].name);
        stage.gpus = (place * degree..(place + 1) * degree).collect();
    }
    plan
}

/// Seconds of the reduction of a layer.
fn reduced_s(iteration: &SimulatedIteration) -> f64 {
    let is_layer = |op| matches!(op, Op::AllReduce { block: Block::Layer(_), .. });
    let of = |span: &&crate::runtime::Span| is_layer(iteration.program.instruction(span.rank, span.id).op);
    let span = iteration.timeline.spans.iter().find(of).unwrap();
    (span.end - span.start).as_seconds()
}

fn cluster(mix: &str, wiring: Wiring) -> Cluster {
    let mut defaults = NodeDefaults { wiring, ..NodeDefaults::default() };
    defaults.nic.latency_s = 0.0;
    Cluster::parse_mix(mix, &defaults).unwrap()
}

#[test]
fn rings_of_tensor_parallel_ranks_share_the_interfaces_that_there_are() {
    let seconds = |nics| {
        let cluster = cluster("2x4xA100-80", Wiring { nics, switch: None });
        let plan = on_nodes(&cluster, 2, 4, 1);
        reduced_s(&simulate(&plan, &cluster, &cost(Framework::default())).unwrap())
    };
    let bytes = cost(Framework::default()).gradient_bytes(
        Block::Layer(crate::ids::LayerId(0)),
        &on_nodes(&cluster("2x4xA100-80", Wiring::default()), 2, 4, 1).execution_at(4),
    ) as f64;
    // Two members: each link carries the bytes once. Four rings over one interface, over two, or each over its own.
    for (nics, sharing) in [(1, 4.0), (2, 2.0), (4, 1.0)] {
        approx::assert_abs_diff_eq!(seconds(nics), sharing * bytes / 12.5e9, epsilon = 3e-9);
    }
}

#[test]
fn a_ring_leaves_a_node_by_all_interfaces_of_its_members() {
    let seconds = |nics| {
        let cluster = cluster("2x4xA100-80", Wiring { nics, switch: None });
        reduced_s(&simulate(&on_nodes(&cluster, 8, 1, 4), &cluster, &cost(Framework::default())).unwrap())
    };
    assert!((seconds(1) / seconds(4) - 4.0).abs() < 0.01, "{} {}", seconds(1), seconds(4));
}

#[test]
fn gpus_behind_one_switch_share_its_link() {
    let seconds = |gbyte_per_s| {
        let switch = Some(PcieSwitch { gpus: 2, gbyte_per_s });
        let cluster = cluster("2x4xA100-80", Wiring { nics: 4, switch });
        reduced_s(&simulate(&on_nodes(&cluster, 2, 4, 1), &cluster, &cost(Framework::default())).unwrap())
    };
    // Two interfaces of 12.5 GB/s behind a link of 10 GB/s, and behind one of 100.
    assert!((seconds(10.0) / seconds(100.0) - 2.5).abs() < 0.01, "{} {}", seconds(10.0), seconds(100.0));
}

#[test]
fn hierarchical_reductions_take_their_closed_form() {
    let cluster = cluster("4x4xA100-80", Wiring { nics: 4, switch: None });
    let framework = Framework { collectives: Collectives::Hierarchical, ..Framework::default() };
    let cost = cost(framework);
    let plan = on_nodes(&cluster, 16, 1, 4);
    let found = reduced_s(&simulate(&plan, &cluster, &cost).unwrap());
    let bytes = cost.gradient_bytes(Block::Layer(crate::ids::LayerId(0)), &plan.execution_at(1)) as f64;
    let inside = cluster.nodes[0].gpu.intra_node;
    // Three steps within and three steps back; six of a quarter's quarter between, each rank over its own interface.
    let by_hand_s = 2.0 * (3.0 * inside.latency_s + 0.75 * bytes / inside.bytes_per_s) + 1.5 * bytes / 4.0 / 12.5e9;
    approx::assert_abs_diff_eq!(found, by_hand_s, epsilon = 5e-9);
}

/// A layer of 24 MB goes round a ring of two nodes' GPUs or up a tree, whatever takes less; either way the network gives
/// what the closed form says.
#[test]
fn what_nccl_chooses_takes_its_closed_form() {
    let framework = Framework { collectives: Collectives::Nccl, ..Framework::default() };
    let cost = cost(framework);
    for (nodes, per_node, latency_s) in [(2_u32, 4_u32, 0.0), (8, 1, 0.0), (8, 1, 1e-2), (4, 4, 1e-3), (1, 8, 0.0)] {
        let mut defaults = NodeDefaults::default();
        defaults.nic.latency_s = latency_s;
        defaults.wiring.nics = per_node;
        let cluster = Cluster::parse_mix(&format!("{nodes}x{per_node}xA100-80"), &defaults).unwrap();
        let plan = on_nodes(&cluster, (nodes * per_node) as usize, 1, per_node);
        let found = reduced_s(&simulate(&plan, &cluster, &cost).unwrap());
        let shape = GroupShape {
            ranks: nodes * per_node,
            nodes,
            inside: cluster.nodes[0].gpu.intra_node,
            medium: Medium::NvLink,
            between: Link { bytes_per_s: 12.5e9 * f64::from(per_node), latency_s: 2.0 * latency_s },
        };
        let bytes = cost.gradient_bytes(Block::Layer(crate::ids::LayerId(0)), &plan.execution_at(1)) as f64;
        let by_hand_s = shape.seconds(&shape.nccl(Collective::AllReduce, bytes));
        approx::assert_abs_diff_eq!(found, by_hand_s, epsilon = 3e-9);
    }
}

#[test]
fn presets_run_and_differ() {
    let cluster = cluster("4x4xA100-80", Wiring::default());
    let mut plan = on_nodes(&cluster, 4, 4, 1);
    plan.replicas.truncate(2);
    for (replica, nodes) in plan.replicas.iter_mut().zip(cluster.nodes.chunks(2)) {
        let mut second = replica.stages[0].clone();
        replica.stages[0].node.clone_from(&nodes[0].name);
        second.node.clone_from(&nodes[1].name);
        (replica.stages[0].num_layers, second.first_layer, second.num_layers) = (12, 12, 12);
        replica.stages.push(second);
        replica.micro_batches = 8;
    }
    plan.global_batch_size = 16;
    let seconds = |name| {
        let iteration = simulate(&plan, &cluster, &cost(Framework::preset(name).unwrap())).unwrap();
        iteration.timeline.makespan()
    };
    let [plain, megatron, deepspeed] = Framework::NAMES.map(seconds);
    assert!(plain < megatron && megatron < deepspeed, "{plain:?} {megatron:?} {deepspeed:?}");
}

fn frameworks() -> impl Strategy<Value = Framework> {
    let point_to_point =
        prop::sample::select(vec![PointToPoint::Asynchronous, PointToPoint::Paired, PointToPoint::Sequential]);
    let buckets = prop::sample::select(vec![Buckets::Layer, Buckets::Whole, Buckets::Parameters(15)]);
    (point_to_point, buckets, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(point_to_point, buckets, partitioned_boundaries, is_after, is_sharded)| Framework {
            point_to_point,
            partitioned_boundaries,
            buckets,
            reduction: if is_after { ReductionTime::AfterBackward } else { ReductionTime::Overlapped },
            optimizer: if is_sharded { OptimizerState::Sharded } else { OptimizerState::Replicated },
            collectives: Collectives::Ring,
        },
    )
}

proptest! {
    #[test]
    fn any_plan_under_any_framework_lowers_to_a_valid_program_that_ends(
        replicas in replicas(),
        degrees in prop::collection::vec(prop::sample::select(vec![1_u32, 2, 4]), 5),
        framework in frameworks(),
        gpipe in any::<bool>(),
        tied in any::<bool>(),
    ) {
        let schedule = if gpipe { ScheduleKind::GPipe } else { ScheduleKind::OneForwardOneBackward };
        let mut plan = plan(&replicas, schedule, 1);
        for stage in plan.replicas.iter_mut().flat_map(|replica| replica.stages.iter_mut().zip(&degrees)) {
            stage.0.gpus = (0..*stage.1).collect();
        }
        let options =
            LowerOptions { framework, tie_word_embeddings: tied, block_parameters: [30, 10, 20] };
        let program = Program::lower(&plan, options);
        prop_assert_eq!(program.validate(&plan), Ok(()));
        let priced = priced(&program, 1e9, SimTime(30));
        let timeline = run(&program, &priced);
        prop_assert_eq!(timeline.spans.len(), program.len());
        prop_assert_eq!(run(&program, &priced), timeline);
    }
}
