//! How far plans are from the bound that they carry: `cargo bench --bench gap -- [--out FILE.csv] [--only TEXT]`.
//!
//! Every model on every cluster below, planned with the default settings and judged by the simulator. Cases that don't fit
//! are left out and named. Nothing here depends on a time but the column that says how long planning took.

use autohet::cluster::{Cluster, NodeDefaults};
use autohet::cost::{CostModel, CostSettings};
use autohet::model::ModelSpec;
use autohet::plan::{PlanError, PlanRequest, PlannedIteration, Planner, TrainingSettings};
use autohet::planner::autohet::AutoHet;
use autohet::runtime::sim::Simulator;
use std::fmt::Write as _;
use std::time::Instant;

const MODELS: [&str; 5] = ["gpt3-1.3b", "gpt3-6.7b", "llama-7b", "llama-13b", "bert-large"];

/// One type; two with even and uneven counts; three; the 1:3 mix of Sailor's paper; four and five types.
const CLUSTERS: [&str; 24] = [
    "1x8xA100-80",
    "2x8xA100-80",
    "4x8xA100-80",
    "8x8xA100-80",
    "16x8xA100-80",
    "32x8xA100-80",
    "1x4xA100-80+1x4xH20",
    "1x8xA100-80+1x4xH20",
    "1x5xA100-80+1x3xH20",
    "1x7xA100-80+1x2xH20",
    "2x8xA100-80+2x8xH20",
    "8x8xA100-80+8x8xH20",
    "1x4xA100-80+1x4xH800+1x4xH20",
    "1x8xA100-80+1x8xH800+1x4xH20",
    "4x8xA100-80+4x8xH800+4x8xH20",
    "8x8xA100-80+8x8xH800+16x8xH20",
    "1x8xA100-40+3x8xV100-16",
    "2x8xA100-40+6x8xV100-16",
    "8x8xA100-40+24x8xV100-16",
    "1x8xA100-80+1x8xV100-32+1x8xRTX-3090",
    "1x8xA100-80+1x8xH800+1x8xH20+1x8xA100-40",
    "4x8xA100-80+4x8xH800+4x8xH20+4x8xA100-40",
    "1x8xA100-80+1x8xH800+1x8xH20+1x8xA100-40+1x8xV100-32",
    "4x8xA100-80+4x8xH800+4x8xH20+4x8xA100-40+4x8xV100-32",
];

/// A case with its plan.
struct Row {
    cluster: &'static str,
    model: &'static str,
    gpus: u32,
    planned: PlannedIteration,
    planning_s: f64,
}

impl Row {
    /// The plan in few words: degree, micro batch, recompute, and the shapes of the replicas.
    fn shape(&self) -> String {
        let plan = &self.planned.plan;
        let mut depths: Vec<(usize, usize)> = Vec::new();
        for replica in &plan.replicas {
            let depth = replica.stages.len();
            match depths.iter_mut().find(|(known, _)| *known == depth) {
                Some((_, count)) => *count += 1,
                None => depths.push((depth, 1)),
            }
        }
        let depths: Vec<String> = depths.iter().map(|(depth, count)| format!("{count}x{depth}")).collect();
        let execution = plan.execution();
        let (t, b) = (execution.tensor_parallel_size, execution.micro_batch_size);
        format!("t{t} b{b} {:?} {}", execution.recompute, depths.join("+")).to_lowercase()
    }
}

fn plan(cluster: &'static str, model: &'static str) -> Result<Row, PlanError> {
    let described = Cluster::parse_mix(cluster, &NodeDefaults::default()).expect("a mix");
    let cost = CostModel::new(ModelSpec::preset(model).expect("a preset"), CostSettings::default(), None);
    let training = TrainingSettings::default();
    let request = PlanRequest { cluster: &described, cost: &cost, training: &training, judge: &Simulator };
    let start = Instant::now();
    let planned = AutoHet::default().plan(&request)?;
    let planning_s = start.elapsed().as_secs_f64();
    Ok(Row { cluster, model, gpus: described.gpu_count(), planned, planning_s })
}

/// The value below which a share of the sorted values lies, by nearest rank.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// What follows a flag on the command line.
fn after(flag: &str) -> Option<String> {
    let mut arguments = std::env::args().skip_while(|argument| argument != flag);
    arguments.next().and_then(|_| arguments.next())
}

fn main() {
    let only = after("--only").unwrap_or_default();
    let mut csv = String::from("cluster,gpus,model,iteration_s,bound_s,gap,plan\n");
    let mut gaps = Vec::new();
    for cluster in CLUSTERS {
        for model in MODELS {
            if !format!("{cluster} {model}").contains(&only) {
                continue;
            }
            let row = match plan(cluster, model) {
                Ok(row) => row,
                Err(error) => {
                    let error = error.to_string();
                    println!("{cluster:56} {model:10} {}", error.lines().next().unwrap_or_default());
                    continue;
                }
            };
            let PlannedIteration { predicted_iteration_s, lower_bound_s, gap, .. } = row.planned;
            let (cluster, model, gpus, shape) = (row.cluster, row.model, row.gpus, row.shape());
            let percent = gap * 100.0;
            println!(
                "{cluster:56} {model:10} {predicted_iteration_s:9.4} s {lower_bound_s:9.4} s {percent:6.2} % {:6.2} s  {shape}",
                row.planning_s
            );
            writeln!(csv, "{cluster},{gpus},{model},{predicted_iteration_s:.6},{lower_bound_s:.6},{gap:.6},{shape}")
                .expect("a string");
            gaps.push(gap);
        }
    }
    if gaps.is_empty() {
        return;
    }
    gaps.sort_by(f64::total_cmp);
    let (median, p95) = (quantile(&gaps, 0.5) * 100.0, quantile(&gaps, 0.95) * 100.0);
    println!("{} cases: median gap {median:.2} %, p95 {p95:.2} %", gaps.len());
    if let Some(path) = after("--out") {
        std::fs::write(path, csv).expect("the file can be written");
    }
}
