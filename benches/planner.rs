//! How long planning takes.

use autohet::cluster::{Cluster, NodeDefaults};
use autohet::cost::{CostError, CostModel, CostSettings};
use autohet::model::{ModelSpec, Precision, Recompute};
use autohet::plan::{Judge, Plan, PlanRequest, Planner, TrainingSettings};
use autohet::planner::autohet::{AutoHet, Engine};
use autohet::planner::estimate;
use criterion::{Criterion, criterion_group, criterion_main};

/// The closed form in place of the simulator, so that only planning is measured.
struct ClosedForm;

impl Judge for ClosedForm {
    fn iteration_s(&self, plan: &Plan, cluster: &Cluster, cost: &CostModel) -> Result<f64, CostError> {
        estimate::iteration_s(plan, cluster, cost)
    }
}

fn planning(criterion: &mut Criterion) {
    let cost = CostModel::new(ModelSpec::preset("gpt3-6.7b").expect("a preset"), CostSettings::default(), None);
    let training = TrainingSettings {
        global_batch_size: 512,
        precision: Precision::Fp16,
        recompute: vec![Recompute::None, Recompute::Selective, Recompute::Full],
        micro_batch_sizes: vec![1, 2, 4, 8],
        tensor_parallel_sizes: vec![1, 2, 4, 8],
    };
    for mix in ["2x8xA100-80+3x8xV100-32+3x8xT4", "5x8xA100-40+4x8xV100-16+3x8xT4"] {
        let cluster = Cluster::parse_mix(mix, &NodeDefaults::default()).expect("a mix");
        let request = PlanRequest { cluster: &cluster, cost: &cost, training: &training, judge: &ClosedForm };
        for (name, engine) in [("fast", Engine::Fast), ("auto", Engine::Auto)] {
            let planner = AutoHet { engine };
            criterion.bench_function(&format!("plan/{mix}/{name}"), |bencher| bencher.iter(|| planner.plan(&request)));
        }
    }
}

criterion_group! { name = benches; config = Criterion::default().sample_size(10); targets = planning }
criterion_main!(benches);
