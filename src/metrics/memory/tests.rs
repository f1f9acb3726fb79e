use super::*;
use crate::cluster::{Cluster, NodeDefaults};
use crate::cost::CostSettings;
use crate::model::{ModelSpec, Precision, Recompute};
use crate::plan::{LayerRange, SCHEMA_VERSION, ScheduleKind, Stage, StagePlace};
use crate::runtime::sim::simulate;
use proptest::prelude::*;

/// GPT-3 1.3B on nodes of two A100, a stage each, of so many chunks.
fn plan(depth: usize, chunks: usize, micro_batches: u32, schedule: ScheduleKind, recompute: Recompute) -> Plan {
    let cut = |place: usize| (24 * place / (depth * chunks)) as u32;
    let range = |place: usize| LayerRange { first_layer: cut(place), num_layers: cut(place + 1) - cut(place) };
    let stage = |p: usize| {
        let LayerRange { first_layer, num_layers } = range(p);
        Stage {
            node: format!("a100-80-{p}"),
            gpus: vec![0, 1],
            gpu_type: "A100-80".to_owned(),
            first_layer,
            num_layers,
            later_chunks: (1..chunks).map(|chunk| range(chunk * depth + p)).collect(),
        }
    };
    Plan {
        schema_version: SCHEMA_VERSION,
        planner: "test".to_owned(),
        model: "gpt3-1.3b".into(),
        global_batch_size: micro_batches,
        micro_batch_size: 1,
        sequence_parallel: true,
        recompute,
        precision: Precision::Fp16,
        schedule,
        replicas: vec![Replica { micro_batches, stages: (0..depth).map(stage).collect() }],
    }
}

fn world(depth: usize) -> (Cluster, CostModel) {
    let cluster = Cluster::parse_mix(&format!("{depth}x2xA100-80"), &NodeDefaults::default()).unwrap();
    (cluster, CostModel::new(ModelSpec::preset("gpt3-1.3b").unwrap(), CostSettings::default(), None))
}

fn over_time(plan: &Plan) -> (Vec<RankMemory>, CostModel) {
    let (cluster, cost) = world(plan.replicas[0].stages.len());
    let iteration = simulate(plan, &cluster, &cost).unwrap();
    (memory_over_time(plan, &iteration.program, &iteration.timeline, &cost), cost)
}

proptest! {
    /// The check of a plan charges what an executed iteration holds at its peak, no more and no less.
    #[test]
    fn the_peak_over_time_is_what_the_check_charges(
        schedule in prop::sample::select(ScheduleKind::ALL.to_vec()),
        recompute in prop::sample::select(vec![Recompute::None, Recompute::Selective, Recompute::Full]),
        depth in 1..5_usize,
        chunks in 2..4_usize,
        micro_batches in 1..10_u32,
    ) {
        let is_interleaved = schedule == ScheduleKind::Interleaved && depth > 1;
        let (chunks, rounds) = if is_interleaved { (chunks, depth as u32) } else { (1, 1) };
        let plan = plan(depth, chunks, micro_batches * rounds, schedule, recompute);
        let (ranks, cost) = over_time(&plan);
        prop_assert_eq!(ranks.len(), 2 * depth);
        for memory in ranks {
            let place = StagePlace { replica: 0, stage: memory.rank.index() / 2 };
            let charged = plan.stage_memory(place, &cost);
            prop_assert_eq!(memory.peak().memory.total_bytes(), charged.total_bytes(), "{:?} {}", memory.rank, schedule);
        }
    }
}

#[test]
fn memory_rises_with_each_forward_pass_and_is_empty_at_the_end() {
    let plan = plan(2, 1, 3, ScheduleKind::GPipe, Recompute::None);
    let (ranks, cost) = over_time(&plan);
    let activations: Vec<u64> = ranks[0].changes.iter().map(|change| change.memory.activations_bytes).collect();
    let one = plan.stage_memory(StagePlace { replica: 0, stage: 0 }, &cost).activations_bytes / 3;
    assert_eq!(activations.iter().max(), Some(&(3 * one)));
    assert_eq!((activations[0], activations.last()), (one, Some(&0)));
    assert!(ranks[0].changes.windows(2).all(|pair| pair[0].at < pair[1].at));
    let first = ranks[0].changes[0].memory;
    let fixed = |memory: &StageMemory| (memory.parameters_bytes, memory.gradients_bytes, memory.optimizer_bytes);
    assert!(ranks[0].changes.iter().all(|change| fixed(&change.memory) == fixed(&first)));
}
