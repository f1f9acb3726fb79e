//! The event queue, lowering, and one simulated iteration, at sizes up to the largest that the simulator is held to:
//! 256 GPUs as 8 replicas of 32 stages with 64 micro batches each.
//!
//! `cargo bench --bench simulator -- --scaling` measures what an event costs in clusters of 64 to 8,192 GPUs instead, and writes
//! a table and a figure to `results/benchmarks/`.

#[path = "simulator/scaling.rs"]
mod scaling;

use autohet::cluster::{Cluster, NodeDefaults};
use autohet::cost::{CostModel, CostSettings};
use autohet::model::{ModelSpec, Precision, Recompute};
use autohet::plan::{Plan, Replica, SCHEMA_VERSION, ScheduleKind, Stage};
use autohet::program::{LowerOptions, Program};
use autohet::runtime::sim::{queue::EventQueue, simulate};
use autohet::units::SimTime;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use std::hint::black_box;

/// Micro batches of each replica.
const MICRO_BATCHES: u32 = 64;
/// Layers of gpt3-30b go into 32 stages of one or two.
const MODEL: &str = "gpt3-30b";

/// `replicas` pipelines of `depth` stages, one GPU a stage, packed into nodes of eight.
fn pipelines(replicas: u32, depth: u32, num_layers: u32) -> Plan {
    let cut = |stage: u32| stage * num_layers / depth;
    let stage = |replica: u32, stage: u32| {
        let gpu = replica * depth + stage;
        let (first_layer, end) = (cut(stage), cut(stage + 1));
        let node = format!("a100-80-{}", gpu / 8);
        Stage {
            node,
            gpus: vec![gpu % 8],
            gpu_type: "A100-80".into(),
            first_layer,
            num_layers: end - first_layer,
            later_chunks: Vec::new(),
        }
    };
    let replica = |r| Replica { micro_batches: MICRO_BATCHES, stages: (0..depth).map(|p| stage(r, p)).collect() };
    Plan {
        schema_version: SCHEMA_VERSION,
        planner: "bench".into(),
        model: MODEL.into(),
        global_batch_size: replicas * MICRO_BATCHES,
        micro_batch_size: 1,
        sequence_parallel: false,
        recompute: Recompute::Full,
        precision: Precision::Fp16,
        schedule: ScheduleKind::OneForwardOneBackward,
        replicas: (0..replicas).map(replica).collect(),
    }
}

fn queue(criterion: &mut Criterion) {
    const EVENTS: u64 = 10_000;
    let mut group = criterion.benchmark_group("event_queue");
    group.throughput(Throughput::Elements(EVENTS));
    group.bench_function("push_pop", |bencher| {
        bencher.iter(|| {
            let mut queue = EventQueue::default();
            for event in 0..EVENTS {
                // A fixed scramble, so that the heap has work to do.
                queue.push(SimTime(event.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32), event);
            }
            while let Some(event) = queue.pop() {
                black_box(event);
            }
        });
    });
    group.finish();
}

fn iteration(criterion: &mut Criterion) {
    let model = ModelSpec::preset(MODEL).expect("a preset");
    let cost = CostModel::new(model.clone(), CostSettings::default(), None);
    let cluster = Cluster::parse_mix("32x8xA100-80", &NodeDefaults::default()).expect("a cluster");
    let options = LowerOptions { tie_word_embeddings: model.tie_word_embeddings, ..LowerOptions::default() };
    let mut group = criterion.benchmark_group("iteration");
    group.sample_size(20);
    for (replicas, depth) in [(2, 16), (4, 16), (4, 32), (8, 32)] {
        let plan = pipelines(replicas, depth, model.num_layers);
        let program = Program::lower(&plan, options);
        let gpus = replicas * depth;
        group.throughput(Throughput::Elements(program.len() as u64));
        group.bench_with_input(BenchmarkId::new("lower", gpus), &plan, |bencher, plan| {
            bencher.iter(|| black_box(Program::lower(plan, options)));
        });
        group.bench_with_input(BenchmarkId::new("simulate", gpus), &plan, |bencher, plan| {
            bencher.iter(|| black_box(simulate(plan, &cluster, &cost)).expect("it runs"));
        });
    }
    group.finish();
}

criterion_group!(benches, queue, iteration);

fn main() {
    if std::env::args().any(|argument| argument == "--scaling") {
        return scaling::run();
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
}
