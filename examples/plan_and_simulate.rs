//! Plans a small mixed cluster, executes one iteration on the simulated clock, and says where its GPU time went.
//!
//! ```sh
//! cargo run --release --example plan_and_simulate
//! ```

use autohet::cluster::{Cluster, NodeDefaults};
use autohet::cost::{CostModel, CostSettings};
use autohet::metrics::{Activity, IterationBreakdown};
use autohet::model::ModelSpec;
use autohet::plan::{PlanLimits, PlanRequest, TrainingSettings};
use autohet::planner;
use autohet::runtime::sim::{Simulator, simulate};

fn main() -> anyhow::Result<()> {
    let cluster = Cluster::parse_mix("1x4xA100-40+1x4xV100-16", &NodeDefaults::default())?;
    let cost = CostModel::new(ModelSpec::preset("gpt3-1.3b")?, CostSettings::default(), None);
    let training = TrainingSettings { global_batch_size: 128, ..TrainingSettings::default() };
    let request = PlanRequest {
        cluster: &cluster,
        cost: &cost,
        training: &training,
        judge: &Simulator,
        limits: PlanLimits::default(),
    };

    let planner = planner::by_name("autohet").expect("the recommended planner");
    let planned = planner.plan(&request)?;
    for (number, replica) in planned.plan.replicas.iter().enumerate() {
        let stages = replica.stages.iter().map(|stage| format!("{} layers on {}", stage.num_layers, stage.gpu_type));
        let stages = stages.collect::<Vec<_>>().join(", ");
        println!("replica {number}: {} micro batches; {stages}", replica.micro_batches);
    }

    let iteration = simulate(&planned.plan, &cluster, &cost)?;
    let breakdown = IterationBreakdown::of(&iteration);
    println!("iteration: {}, {:.1} % above the bound", breakdown.makespan, 100.0 * planned.gap);
    for activity in Activity::ALL {
        let share = breakdown.ledger.get(activity).as_gpu_seconds() / breakdown.ledger.total().as_gpu_seconds();
        if share > 0.0 {
            println!("{:>6.1} % {}", 100.0 * share, activity.key());
        }
    }
    Ok(())
}
