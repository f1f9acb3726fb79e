//! How far plans are from the bound that they carry.
//!
//! `cargo bench --bench gap -- [--out FOLDER] [--only TEXT] [--global-batch-size SAMPLES] [--nic-gbit-per-s GBIT]
//! [--bound-work STEPS]`
//!
//! Every model on every cluster below, planned with the default settings and judged by the simulator. Cases that don't fit
//! are left out and named. Nothing here depends on a time but the column that says how long planning took. Into the folder
//! go `gap.csv`, a row for each case, and `gap.md`, what they come to.

use autohet::cluster::{Cluster, NodeDefaults};
use autohet::cost::{CostModel, CostSettings};
use autohet::model::ModelSpec;
use autohet::plan::{PlanError, PlanLimits, PlanRequest, PlannedIteration, Planner, TrainingSettings};
use autohet::planner::autohet::AutoHet;
use autohet::runtime::sim::Simulator;
use std::fmt::Write as _;
use std::time::Instant;

/// Models with the samples per step that they were published with: GPT-3 in Brown et al. 2020, table 2.1, half a million, one
/// or two million tokens (of 2048 each); LLaMA in Touvron et al. 2023, table 2, four million; BERT in Devlin et al. 2019,
/// appendix A.2, 256 sequences.
const MODELS: [(&str, u32); 5] =
    [("gpt3-1.3b", 512), ("gpt3-6.7b", 1024), ("llama-7b", 2048), ("llama-13b", 2048), ("bert-large", 256)];

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
        let degrees: Vec<String> = plan.tensor_parallel_sizes().iter().map(ToString::to_string).collect();
        let (t, b) = (degrees.join("/"), plan.micro_batch_size);
        format!("t{t} b{b} {:?} {}", plan.recompute, depths.join("+")).to_lowercase()
    }
}

fn plan(
    cluster: &'static str,
    (model, global_batch_size): (&'static str, u32),
    defaults: &NodeDefaults,
    limits: PlanLimits<'static>,
) -> Result<Row, PlanError> {
    let described = Cluster::parse_mix(cluster, defaults).expect("a mix");
    let cost = CostModel::new(ModelSpec::preset(model).expect("a preset"), CostSettings::default(), None);
    let training = TrainingSettings { global_batch_size, ..TrainingSettings::default() };
    let request = PlanRequest { cluster: &described, cost: &cost, training: &training, judge: &Simulator, limits };
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

/// A line of the summary: how many cases of a group there are, with the median and the 95th percentile of their gaps.
fn summary(name: &str, rows: &[Row], is_in: impl Fn(&Row) -> bool) -> String {
    let mut gaps: Vec<f64> = rows.iter().filter(|row| is_in(row)).map(|row| row.planned.gap).collect();
    gaps.sort_by(f64::total_cmp);
    if gaps.is_empty() {
        return format!("| {name} | 0 | | | |\n");
    }
    let percent = |share: f64| format!("{:.1} %", quantile(&gaps, share) * 100.0);
    let (median, p95, most) = (percent(0.5), percent(0.95), percent(1.0));
    format!("| {name} | {} | {median} | {p95} | {most} |\n", gaps.len())
}

/// All groups that are told apart, as a table in Markdown.
fn summaries(rows: &[Row]) -> String {
    let mut table = "| | cases | median gap | p95 | largest |\n|---|---|---|---|---|\n".to_owned();
    table += &summary("all", rows, |_| true);
    table += &summary("up to 12 GPUs", rows, |row| row.gpus <= 12);
    table += &summary("13 to 40 GPUs", rows, |row| (13..=40).contains(&row.gpus));
    table += &summary("more GPUs", rows, |row| row.gpus > 40);
    table += &summary("one type of GPU", rows, |row| !row.cluster.contains('+'));
    table += &summary("several types", rows, |row| row.cluster.contains('+'));
    for (model, batch) in MODELS {
        table += &summary(&format!("{model}, {batch} samples"), rows, |row| row.model == model);
    }
    table
}

fn main() {
    let only = after("--only").unwrap_or_default();
    let batch: Option<u32> = after("--global-batch-size").map(|text| text.parse().expect("a number of samples"));
    let nic: Option<f64> = after("--nic-gbit-per-s").map(|text| text.parse().expect("a bandwidth"));
    let mut limits = PlanLimits::default();
    if let Some(steps) = after("--bound-work") {
        limits.bound_work = steps.parse().expect("a number of steps");
    }
    let mut defaults = NodeDefaults::default();
    if let Some(gbit_per_s) = nic {
        defaults = defaults.with_nic_gbit_per_s(gbit_per_s).expect("a bandwidth that is believed");
    }
    let mut rows = Vec::new();
    for cluster in CLUSTERS {
        for (model, published) in MODELS {
            if !format!("{cluster} {model}").contains(&only) {
                continue;
            }
            match plan(cluster, (model, batch.unwrap_or(published)), &defaults, limits) {
                Ok(row) => {
                    let PlannedIteration { predicted_iteration_s, lower_bound_s, gap, .. } = row.planned;
                    println!(
                        "{cluster:56} {model:10} {predicted_iteration_s:9.4} s {lower_bound_s:9.4} s {:6.2} % {:6.2} s  {}",
                        gap * 100.0,
                        row.planning_s,
                        row.shape()
                    );
                    rows.push(row);
                }
                Err(error) => {
                    let error = error.to_string();
                    println!("{cluster:56} {model:10} {}", error.lines().next().unwrap_or_default());
                }
            }
        }
    }
    print!("{}", summaries(&rows));
    if let Some(folder) = after("--out") {
        let folder = std::path::PathBuf::from(folder);
        std::fs::write(folder.join("gap.csv"), csv(&rows)).expect("the folder can be written to");
        std::fs::write(folder.join("gap.md"), summaries(&rows)).expect("the folder can be written to");
    }
}

fn csv(rows: &[Row]) -> String {
    let mut csv = String::from("cluster,gpus,model,global_batch_size,iteration_s,bound_s,gap,plan\n");
    for row in rows {
        let PlannedIteration { plan, predicted_iteration_s, lower_bound_s, gap, .. } = &row.planned;
        let (cluster, gpus, model, batch, shape) =
            (row.cluster, row.gpus, row.model, plan.global_batch_size, row.shape());
        writeln!(
            csv,
            "{cluster},{gpus},{model},{batch},{predicted_iteration_s:.6},{lower_bound_s:.6},{gap:.6},{shape}"
        )
        .expect("a string");
    }
    csv
}
