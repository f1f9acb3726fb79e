//! Stages of unlike tensor-parallel degrees: who sends what to whom, what is reduced with whom, and what that takes.

use super::{BACKWARD, FORWARD, STEP, plan, priced, run};
use crate::cluster::{Cluster, NodeDefaults};
use crate::cost::communication::transfer_s;
use crate::cost::{CostModel, CostSettings};
use crate::ids::{LayerId, NodeId, Rank};
use crate::model::{Block, ModelSpec};
use crate::plan::{Plan, ScheduleKind};
use crate::program::{LowerOptions, Op, Program, Share};
use crate::runtime::sim::{PricedProgram, simulate};
use crate::units::SimTime;
use rstest::rstest;

/// One replica whose stages are of these degrees, one layer each.
fn pipeline(micro_batches: u32, degrees: &[u32], sequence_parallel: bool) -> Plan {
    let mut plan = plan(&[(degrees.len(), micro_batches)], ScheduleKind::OneForwardOneBackward, 1);
    for (stage, &degree) in plan.replicas[0].stages.iter_mut().zip(degrees) {
        stage.gpus = (0..degree).collect();
    }
    Plan { sequence_parallel, ..plan }
}

/// The plan's stages on nodes of their own, for 24 layers.
fn on_nodes(mut plan: Plan) -> (Plan, Cluster, CostModel) {
    let cluster = Cluster::parse_mix("3x8xA100-80", &NodeDefaults::default()).unwrap();
    let model = ModelSpec { tie_word_embeddings: false, ..ModelSpec::preset("gpt3-1.3b").unwrap() };
    let cost = CostModel::new(model, CostSettings::default(), None);
    let mut nodes = cluster.nodes.iter();
    for replica in &mut plan.replicas {
        let layers = 24 / replica.stages.len() as u32;
        for (index, stage) in replica.stages.iter_mut().enumerate() {
            stage.node.clone_from(&nodes.next().unwrap().name);
            (stage.first_layer, stage.num_layers) = (index as u32 * layers, layers);
        }
    }
    plan.model = cost.planned_model().clone();
    assert_eq!(plan.validate(&cluster, &cost), Ok(()));
    (plan, cluster, cost)
}

/// An activation of gpt3-1.3b has 2048 tokens of 2048 numbers of two bytes.
const ACTIVATION_BYTES: u64 = 2048 * 2048 * 2;

/// Activations and gradients: how many messages, and bytes of each.
#[rstest]
#[case::two_to_one([2, 1], false, (1, ACTIVATION_BYTES), (2, ACTIVATION_BYTES))]
#[case::one_to_four([1, 4], false, (4, ACTIVATION_BYTES), (1, ACTIVATION_BYTES))]
#[case::four_to_two([4, 2], false, (2, ACTIVATION_BYTES), (4, ACTIVATION_BYTES))]
#[case::equal([4, 4], false, (4, ACTIVATION_BYTES), (4, ACTIVATION_BYTES))]
#[case::rows_two_to_one([2, 1], true, (2, ACTIVATION_BYTES / 2), (2, ACTIVATION_BYTES / 2))]
#[case::rows_one_to_four([1, 4], true, (4, ACTIVATION_BYTES / 4), (4, ACTIVATION_BYTES / 4))]
#[case::rows_four_to_two([4, 2], true, (4, ACTIVATION_BYTES / 4), (4, ACTIVATION_BYTES / 4))]
#[case::rows_equal([4, 4], true, (4, ACTIVATION_BYTES / 4), (4, ACTIVATION_BYTES / 4))]
fn messages_over_a_boundary(
    #[case] degrees: [u32; 2],
    #[case] sequence_parallel: bool,
    #[case] activations: (usize, u64),
    #[case] gradients: (usize, u64),
) {
    let (plan, cluster, cost) = on_nodes(pipeline(1, &degrees, sequence_parallel));
    let program = Program::lower(&plan, LowerOptions::default());
    let priced = PricedProgram::new(&plan, &program, &cluster, &cost).unwrap();
    let of = |is_meant: &dyn Fn(Rank) -> bool| -> Vec<u64> {
        let channels = program.channels().iter().zip(&priced.channel_bytes);
        channels.filter(|(channel, _)| is_meant(channel.from)).map(|(_, bytes)| *bytes).collect()
    };
    let is_first = |rank: Rank| rank.index() < degrees[0] as usize;
    assert_eq!(of(&is_first), vec![activations.1; activations.0]);
    assert_eq!(of(&|rank| !is_first(rank)), vec![gradients.1; gradients.0]);
}

#[test]
fn unlike_replicas_reduce_slice_by_slice() {
    let mut plan = plan(&[(1, 1), (1, 1), (1, 1)], ScheduleKind::OneForwardOneBackward, 1);
    for (replica, degree) in plan.replicas.iter_mut().zip([4, 2, 1]) {
        replica.stages[0].gpus = (0..degree).collect();
    }
    let (plan, cluster, cost) = on_nodes(plan);
    let program = Program::lower(&plan, LowerOptions::default());
    let priced = PricedProgram::new(&plan, &program, &cluster, &cost).unwrap();
    let layer = Block::Layer(LayerId(5));
    let groups: Vec<_> =
        program.groups().iter().zip(&priced.groups).filter(|(group, _)| group.block() == layer).collect();
    // Ranks 0 to 3, 4 and 5, 6: of each replica the holder of the quarter.
    let expected = [[0, 4, 6], [1, 4, 6], [2, 5, 6], [3, 5, 6]];
    assert_eq!(groups.len(), 4);
    for (slice, ((group, price), expected)) in groups.into_iter().zip(expected).enumerate() {
        assert_eq!((group.share, &group.ranks[..]), (Share::of_rank(slice as u32, 4), &expected.map(Rank)[..]));
        // A quarter of 12 h^2 + 13 h gradients of two bytes; of three members each sends 2 x 2/3 of it.
        let quarter = (12 * 2048 * 2048 + 13 * 2048) / 4 * 2;
        approx::assert_relative_eq!(price.ring_bytes, f64::from(quarter) * 4.0 / 3.0);
    }
    // The one rank of the last replica reduces four slices of each of 26 blocks, those of the first one each.
    let reductions = |rank: usize| {
        let instructions = &program.ranks()[rank].instructions;
        instructions.iter().filter(|instruction| matches!(instruction.op, Op::AllReduce { .. })).count()
    };
    assert_eq!([reductions(0), reductions(4), reductions(6)], [26, 2 * 26, 4 * 26]);
}

#[test]
fn tied_ends_of_unlike_degrees_reduce_the_finer_slices() {
    let program = Program::lower(
        &pipeline(1, &[2, 1, 4], false),
        LowerOptions { tie_word_embeddings: true, ..LowerOptions::default() },
    );
    let ranks: Vec<_> = program.groups().iter().map(|group| (group.block(), group.ranks.clone())).collect();
    // Two ranks of the first stage, one of the second, four of the third.
    let group = |first, last| (Block::Embedding, vec![Rank(first), Rank(last)]);
    assert_eq!(ranks, [group(0, 3), group(0, 4), group(1, 5), group(1, 6)]);
}

/// With one micro batch everything is exposed: passes of both stages, each message of whichever rank has most of them, and
/// the step. A message of 1,000 bytes takes 100 ns and 50 ns of latency.
#[rstest]
#[case::two_to_one([2, 1], false, 150 + 2 * 150)]
#[case::one_to_four([1, 4], false, 4 * 150 + 150)]
#[case::four_to_two([4, 2], false, 150 + 2 * 150)]
#[case::rows_two_to_one([2, 1], true, 2 * 100 + 2 * 100)]
#[case::rows_one_to_four([1, 4], true, 4 * 75 + 4 * 75)]
#[case::equal([4, 4], false, 150 + 150)]
fn an_iteration_takes_its_closed_form(
    #[case] degrees: [u32; 2],
    #[case] sequence_parallel: bool,
    #[case] transfers: u64,
) {
    let plan = pipeline(1, &degrees, sequence_parallel);
    let program = Program::lower(&plan, LowerOptions::default());
    let timeline = run(&program, &priced(&program, 1e10, SimTime(50)));
    assert_eq!(timeline.makespan(), (FORWARD + BACKWARD) * 2 + SimTime(transfers) + STEP);
    // Those who share a stage begin each pass together.
    for stage in [0..degrees[0], degrees[0]..degrees[0] + degrees[1]] {
        let starts = stage.map(|rank| {
            let passes = timeline.spans.iter().filter(|span| span.rank == Rank(rank));
            let is_pass = |op| matches!(op, Op::Forward { .. } | Op::Backward { .. });
            let passes = passes.filter(|span| is_pass(program.instruction(span.rank, span.id).op));
            passes.map(|span| span.start).collect::<Vec<_>>()
        });
        let starts: Vec<_> = starts.collect();
        assert!(starts.iter().all(|other| *other == starts[0]), "{starts:?}");
    }
}

#[test]
fn degrees_make_no_difference_where_links_are_free() {
    for degrees in [[2, 1], [1, 4], [4, 2]] {
        let plan = pipeline(6, &degrees, false);
        let program = Program::lower(&plan, LowerOptions::default());
        let found = run(&program, &priced(&program, f64::INFINITY, SimTime::ZERO)).makespan();
        assert_eq!(found, (FORWARD + BACKWARD) * 7 + STEP);
    }
}

#[test]
fn a_priced_iteration_is_the_sum_of_its_parts() {
    let (plan, cluster, cost) = on_nodes(pipeline(1, &[1, 4], false));
    let gpu = &cluster.nodes[0].gpu;
    let link = cluster.path(NodeId(0), NodeId(1));
    let mut expected_s = 5.0 * transfer_s(ACTIVATION_BYTES, link);
    for (stage, end) in plan.replicas[0].stages.iter().zip([Block::Embedding, Block::Head]) {
        let price = |block| cost.block_cost(block, gpu, &plan.execution(stage)).unwrap().total_s();
        expected_s += 12.0 * price(Block::Layer(LayerId(0))) + price(end);
    }
    // The first stage ends last, and steps alone.
    let parameters = 12 * cost.model().layer_parameters() + cost.model().block_parameters(Block::Embedding);
    expected_s += cost.optimizer_step_s(gpu, parameters, plan.precision);
    let found = simulate(&plan, &cluster, &cost).unwrap().timeline.makespan();
    approx::assert_relative_eq!(found.as_seconds(), expected_s, max_relative = 1e-6);
}
