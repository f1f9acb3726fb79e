//! How long planning takes, and how that grows with the cluster.
//!
//! The simulator judges, as it does for users. Before the samples, a table of one plan each from 8 to 10,240 GPUs is
//! printed.

use autohet::cluster::{Cluster, NodeDefaults};
use autohet::cost::{CostModel, CostSettings};
use autohet::model::ModelSpec;
use autohet::plan::{PlanLimits, PlanRequest, Planner, TrainingSettings};
use autohet::planner::autohet::{AutoHet, Engine};
use autohet::planner::replan::{Incumbent, LOCAL_WORK, replan};
use autohet::runtime::sim::Simulator;
use criterion::{Criterion, criterion_group, criterion_main};
use std::time::{Duration, Instant};

/// A cluster and a job.
struct Problem {
    name: String,
    cluster: Cluster,
    cost: CostModel,
    training: TrainingSettings,
}

impl Problem {
    fn new(mix: &str, model: &str, global_batch_size: u32) -> Self {
        let cluster = Cluster::parse_mix(mix, &NodeDefaults::default()).expect("a mix");
        let cost = CostModel::new(ModelSpec::preset(model).expect("a preset"), CostSettings::default(), None);
        let training = TrainingSettings { global_batch_size, ..TrainingSettings::default() };
        let types = mix.split('+').count();
        let name = format!("{} GPUs of {types} types, {model}", cluster.gpu_count());
        Self { name, cluster, cost, training }
    }

    fn request(&self) -> PlanRequest<'_> {
        PlanRequest {
            cluster: &self.cluster,
            cost: &self.cost,
            training: &self.training,
            judge: &Simulator,
            limits: PlanLimits::default(),
        }
    }
}

/// So many nodes of 8 GPUs in five types, as even as can be; fewer types where there are fewer nodes.
fn five_types(nodes: u32) -> String {
    let types = ["A100-80", "A100-40", "V100-32", "A10G", "T4"];
    let count = |index: u32| nodes / 5 + u32::from(index < nodes % 5);
    let parts = types.iter().zip(0..).filter(|(_, index)| count(*index) > 0);
    parts.map(|(gpu, index)| format!("{}x8x{gpu}", count(index))).collect::<Vec<_>>().join("+")
}

/// The large ones have as many samples an iteration as GPUs.
fn of_five_types(gpus: u32) -> Problem {
    Problem::new(&five_types(gpus / 8), "llama-13b", gpus.max(512))
}

fn print_growth() {
    println!("| GPUs | replicas | iteration (s) | gap | planned in (s) |\n|---|---|---|---|---|");
    for gpus in [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 5120, 10_240] {
        let problem = of_five_types(gpus);
        let start = Instant::now();
        let planned = AutoHet::default().plan(&problem.request());
        let took_s = start.elapsed().as_secs_f64();
        match planned {
            Ok(planned) => {
                let (replicas, seconds) = (planned.plan.replicas.len(), planned.predicted_iteration_s);
                println!("| {gpus} | {replicas} | {seconds:.3} | {:.0} % | {took_s:.3} |", planned.gap * 100.0);
            }
            Err(error) => println!("| {gpus} | {} | | | {took_s:.3} |", error.to_string().lines().next().unwrap_or("")),
        }
    }
}

fn planning(criterion: &mut Criterion) {
    print_growth();
    let problems = [
        Problem::new("32x4xA100-40+96x4xV100-16", "gpt3-1.3b", 1024),
        Problem::new("4x8xA100-80+4x8xV100-32+4x8xT4", "gpt3-6.7b", 512),
        of_five_types(1024),
        of_five_types(10_240),
    ];
    for problem in &problems {
        for (name, engine) in [("fast", Engine::Fast), ("auto", Engine::Auto)] {
            let planner = AutoHet { engine };
            let plan = || planner.plan(&problem.request()).expect("it fits");
            criterion.bench_function(&format!("plan/{}/{name}", problem.name), |bencher| bencher.iter(plan));
        }
    }
}

/// One node of 1,024 GPUs is lost.
fn replanning(criterion: &mut Criterion) {
    let mut problem = of_five_types(1024);
    let planned = AutoHet { engine: Engine::Fast }.plan(&problem.request()).expect("it fits");
    let lost = planned.plan.replicas[0].stages[0].node.clone();
    problem.cluster.nodes.retain(|node| node.name != lost);
    let incumbent = Incumbent { plan: &planned.plan, horizon_s: 3600.0, pause_s: 50.0, store_bytes_per_s: 1.2e9 };
    let limits = PlanLimits { work: LOCAL_WORK, ..PlanLimits::default() };
    let again = || replan(&PlanRequest { limits, ..problem.request() }, &incumbent).expect("it fits");
    criterion.bench_function(&format!("replan/{}", problem.name), |bencher| bencher.iter(again));
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10).measurement_time(Duration::from_secs(5));
    targets = planning, replanning
}
criterion_main!(benches);
