//! Closed forms: what a pipeline and a ring take is known without a simulator.

mod degrees;
mod flows;
mod frameworks;
mod schedules;
mod variance;

use super::network::{Network, Route};
use super::{BackwardTime, ChunkPrice, GroupPrice, PassTime, PricedProgram, RankPrice, SimBackend, simulate};
use crate::ids::Rank;
use crate::model::{Precision, Recompute};
use crate::plan::{Plan, Replica, SCHEMA_VERSION, ScheduleKind, Stage};
use crate::program::{LowerOptions, Op, Part, Program};
use crate::runtime::{Timeline, drive};
use crate::units::SimTime;
use proptest::prelude::*;
use std::sync::Arc;

/// A plan of one layer per stage: replicas given by depth and micro batches, every stage on a node of its own.
fn plan(replicas: &[(usize, u32)], schedule: ScheduleKind, tensor_parallel_size: u32) -> Plan {
    let num_layers = replicas.iter().map(|(depth, _)| *depth as u32).max().unwrap_or(0);
    let stages = |j: usize, depth: usize| {
        let cut = |p: usize| (p * num_layers as usize / depth) as u32;
        let stage = |p: usize| Stage {
            node: format!("node{j}-{p}"),
            gpus: (0..tensor_parallel_size).collect(),
            gpu_type: "A100-80".into(),
            first_layer: cut(p),
            num_layers: cut(p + 1) - cut(p),
            later_chunks: Vec::new(),
        };
        (0..depth).map(stage).collect()
    };
    let replica =
        |(j, &(depth, micro_batches)): (usize, &(usize, u32))| Replica { micro_batches, stages: stages(j, depth) };
    Plan {
        schema_version: SCHEMA_VERSION,
        planner: "test".into(),
        model: "test".into(),
        global_batch_size: replicas.iter().map(|(_, micro_batches)| micro_batches).sum(),
        micro_batch_size: 1,
        sequence_parallel: false,
        recompute: Recompute::None,
        precision: Precision::Fp16,
        schedule,
        replicas: replicas.iter().enumerate().map(replica).collect(),
    }
}

const FORWARD: SimTime = SimTime(1_000);
const BACKWARD: SimTime = SimTime(2_000);
/// Of the backward pass.
const WEIGHTS: SimTime = SimTime(900);
const STEP: SimTime = SimTime(500);

/// Every stage takes the same time, whatever it holds; links are as fast and as late as told.
fn priced(program: &Program, bytes_per_s: f64, latency: SimTime) -> PricedProgram {
    let pass = |total| PassTime { total, ..PassTime::default() };
    let mut network = Network::new();
    let route = |network: &mut Network<_>| {
        let link = network.add_link(bytes_per_s);
        network.add_route(Route { links: vec![(link, 1.0)], latency })
    };
    let rank = |instructions: &[crate::program::Instruction]| {
        let chunk_of = |op| match op {
            Op::Forward { chunk, .. } => Some(chunk.0),
            _ => None,
        };
        let chunks = instructions.iter().filter_map(|i| chunk_of(i.op)).max().map_or(1, |last| u64::from(last) + 1);
        let pieces = instructions.iter().filter(|i| matches!(i.op, Op::Backward { part: Part::Block(_), .. }));
        let pieces = (pieces.count() as u64).max(1);
        let backward =
            |parts| BackwardTime { all: pass(SimTime(BACKWARD.0 / parts)), weights: SimTime(WEIGHTS.0 / parts) };
        let chunk = ChunkPrice { forward: pass(SimTime(FORWARD.0 / chunks)), backward: backward(chunks) };
        Arc::new(RankPrice {
            chunks: vec![chunk; chunks as usize],
            block_backward: [backward(pieces); 3],
            redundant_forward: PassTime::default(),
            optimizer: STEP,
        })
    };
    PricedProgram {
        ranks: program.ranks().iter().map(|r| rank(&r.instructions)).collect(),
        channel_bytes: program.channels().iter().map(|channel| channel.share.bytes(1_000)).collect(),
        channel_routes: program.channels().iter().map(|_| route(&mut network)).collect(),
        groups: program
            .groups()
            .iter()
            .map(|_| GroupPrice { route: route(&mut network), ..GroupPrice::default() })
            .collect(),
        network,
    }
}

fn run(program: &Program, priced: &PricedProgram) -> Timeline {
    let ranks: Vec<Rank> = (0..program.ranks().len()).map(Rank::from).collect();
    drive(program, &ranks, &mut SimBackend::new(program, priced)).expect("a lowered program runs")
}

fn makespan_on_free_links(plan: &Plan) -> SimTime {
    let program = Program::lower(plan, LowerOptions::default());
    run(&program, &priced(&program, f64::INFINITY, SimTime::ZERO)).makespan()
}

#[test]
fn a_pipeline_on_free_links_takes_its_closed_form() {
    for schedule in [ScheduleKind::OneForwardOneBackward, ScheduleKind::GPipe] {
        for depth in [1, 2, 3, 4, 8] {
            for micro_batches in [1, 2, 4, 7, 16] {
                let expected = (FORWARD + BACKWARD) * (u64::from(micro_batches) + depth as u64 - 1) + STEP;
                let found = makespan_on_free_links(&plan(&[(depth, micro_batches)], schedule, 1));
                assert_eq!(found, expected, "{schedule:?}, {depth} stages, {micro_batches} micro batches");
            }
        }
    }
}

#[test]
fn tensor_parallel_ranks_run_side_by_side() {
    let one = makespan_on_free_links(&plan(&[(4, 8)], ScheduleKind::OneForwardOneBackward, 1));
    let four = makespan_on_free_links(&plan(&[(4, 8)], ScheduleKind::OneForwardOneBackward, 4));
    assert_eq!(one, four);
}

#[test]
fn the_slowest_replica_decides() {
    let both = makespan_on_free_links(&plan(&[(2, 4), (4, 9)], ScheduleKind::OneForwardOneBackward, 1));
    let slow = makespan_on_free_links(&plan(&[(4, 9)], ScheduleKind::OneForwardOneBackward, 1));
    assert_eq!(both, slow);
}

#[test]
fn fill_and_drain_pay_each_boundary_once_when_transfers_are_short() {
    // 1,000 bytes at 1e10 bytes/s are 100 ns; with one micro batch every transfer is exposed, there and back.
    let plan = plan(&[(4, 1)], ScheduleKind::OneForwardOneBackward, 1);
    let program = Program::lower(&plan, LowerOptions::default());
    let found = run(&program, &priced(&program, 1e10, SimTime(50))).makespan();
    assert_eq!(found, (FORWARD + BACKWARD) * 4 + SimTime(150) * 6 + STEP);
}

#[test]
fn each_layer_is_reduced_while_the_layers_before_it_still_compute() {
    // Two replicas of one stage with two layers. The last backward is cut into head, layer 1, layer 0, embedding of 500
    // each; a reduction takes 400 (latency only), so only the last one is exposed.
    let plan = {
        let mut plan = plan(&[(1, 1), (1, 1)], ScheduleKind::OneForwardOneBackward, 1);
        for replica in &mut plan.replicas {
            replica.stages[0].num_layers = 2;
        }
        plan
    };
    let program = Program::lower(&plan, LowerOptions::default());
    assert_eq!(program.groups().len(), 4);
    let found = run(&program, &priced(&program, f64::INFINITY, SimTime(400))).makespan();
    assert_eq!(found, FORWARD + BACKWARD + SimTime(400) + STEP);
}

#[test]
fn the_parts_of_each_ranks_time_add_up_to_the_makespan() {
    let plan = plan(&[(2, 3), (3, 5)], ScheduleKind::OneForwardOneBackward, 2);
    let program = Program::lower(&plan, LowerOptions::default());
    let timeline = run(&program, &priced(&program, 1e9, SimTime(70)));
    for time in timeline.rank_times(&program) {
        assert_eq!(time.busy + time.exposed_communication + time.bubble, timeline.makespan());
    }
}

/// Replicas as depth and micro batches, and the degrees of the stages.
fn unlike_replicas() -> impl Strategy<Value = Vec<(u32, Vec<u32>)>> {
    let degree = prop::sample::select(vec![1_u32, 2, 4, 8]);
    prop::collection::vec((1..6_u32, prop::collection::vec(degree, 1..5)), 1..4)
}

fn replicas() -> impl Strategy<Value = Vec<(usize, u32)>> {
    prop::collection::vec((1..6_usize, 1..9_u32), 1..4)
}

proptest! {
    #[test]
    fn any_asymmetric_plan_lowers_to_a_valid_program_that_ends(
        replicas in replicas(),
        gpipe in any::<bool>(),
        tied in any::<bool>(),
        tensor_parallel_size in 1..3_u32,
    ) {
        let schedule = if gpipe { ScheduleKind::GPipe } else { ScheduleKind::OneForwardOneBackward };
        let plan = plan(&replicas, schedule, tensor_parallel_size);
        let program = Program::lower(&plan, LowerOptions { tie_word_embeddings: tied, ..LowerOptions::default() });
        prop_assert_eq!(program.validate(&plan), Ok(()));
        let priced = priced(&program, 1e9, SimTime(30));
        let timeline = run(&program, &priced);
        prop_assert_eq!(timeline.spans.len(), program.len());
        prop_assert_eq!(run(&program, &priced), timeline);
    }

    #[test]
    fn any_plan_of_unlike_degrees_lowers_to_a_valid_program_that_ends(
        replicas in unlike_replicas(),
        gpipe in any::<bool>(),
        tied in any::<bool>(),
        sequence_parallel in any::<bool>(),
    ) {
        let schedule = if gpipe { ScheduleKind::GPipe } else { ScheduleKind::OneForwardOneBackward };
        let depths: Vec<_> = replicas.iter().map(|(micro_batches, degrees)| (degrees.len(), *micro_batches)).collect();
        let mut plan = Plan { sequence_parallel, ..plan(&depths, schedule, 1) };
        for (replica, (_, degrees)) in plan.replicas.iter_mut().zip(&replicas) {
            for (stage, &degree) in replica.stages.iter_mut().zip(degrees) {
                stage.gpus = (0..degree).collect();
            }
        }
        let program = Program::lower(&plan, LowerOptions { tie_word_embeddings: tied, ..LowerOptions::default() });
        prop_assert_eq!(program.validate(&plan), Ok(()));
        let priced = priced(&program, 1e9, SimTime(30));
        let timeline = run(&program, &priced);
        prop_assert_eq!(timeline.spans.len(), program.len());
        prop_assert_eq!(run(&program, &priced), timeline);
    }

    #[test]
    fn no_pipeline_beats_its_bottleneck(replicas in replicas()) {
        let plan = plan(&replicas, ScheduleKind::OneForwardOneBackward, 1);
        let busiest = replicas.iter().map(|&(depth, k)| (FORWARD + BACKWARD) * (u64::from(k) + depth as u64 - 1)).max();
        prop_assert!(makespan_on_free_links(&plan) >= busiest.unwrap_or_default());
    }
}

#[test]
fn a_ring_over_nodes_takes_its_closed_form() {
    use crate::cluster::{Cluster, NodeDefaults};
    use crate::cost::communication::ring_all_reduce_s;
    use crate::cost::{CostModel, CostSettings};
    use crate::model::ModelSpec;

    let cluster = Cluster::parse_mix("4x1xA100-80", &NodeDefaults::default()).unwrap();
    let cost = CostModel::new(ModelSpec::preset("bert-large").unwrap(), CostSettings::default(), None);
    let mut plan = plan(&[(1, 1); 4], ScheduleKind::OneForwardOneBackward, 1);
    for (replica, node) in plan.replicas.iter_mut().zip(&cluster.nodes) {
        replica.stages[0].num_layers = cost.model().num_layers;
        replica.stages[0].node.clone_from(&node.name);
    }
    let iteration = simulate(&plan, &cluster, &cost).unwrap();
    let link = cluster.path(crate::ids::NodeId(0), crate::ids::NodeId(1));
    let mut reduced = 0;
    for span in &iteration.timeline.spans {
        let Op::AllReduce { block, .. } = iteration.program.instruction(span.rank, span.id).op else { continue };
        // A rank's reductions run one after the other, so each has the links to itself.
        let expected_s = ring_all_reduce_s(4, cost.gradient_bytes(block, &plan.execution_at(1)), link);
        approx::assert_abs_diff_eq!((span.end - span.start).as_seconds(), expected_s, epsilon = 2e-9);
        reduced += 1;
    }
    assert_eq!(reduced, 4 * (cost.model().num_layers + 1), "embedding (tied to the head) and layers on each rank");
}
