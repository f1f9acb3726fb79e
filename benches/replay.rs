//! Replays: planning, simulating and booking, without writing files.
//!
//! First, once each, what is to take no longer than a bar, printed beside it: Bamboo's p3 trace under each policy, if the
//! environment variable `AUTOHET_BAMBOO_P3` names it or it is in `../shared/data/traces`; a thousand generated days under one policy;
//! and thirty days of a generated market of 256 GPUs under all policies, with the most memory that the process had. Then a day of
//! the repository's trace under each policy, by criterion.
//!
//! `cargo bench --bench replay -- bars` is the first part alone, and writes it to `results/benchmarks/replay.csv`.

use autohet::cost::{CostModel, CostSettings};
use autohet::elastic::checkpoint::CheckpointSettings;
use autohet::elastic::{PlanMemory, Policy, ReconfigurationSettings, policies};
use autohet::model::ModelSpec;
use autohet::plan::TrainingSettings;
use autohet::replay::{IterationMemory, ReplaySettings, replay, replay_with};
use autohet::trace::generator::{GeneratorSettings, PoolSettings, generate};
use autohet::trace::{OfferDefaults, ReadOptions, Trace, read, read_with};
use criterion::Criterion;
use rayon::prelude::*;
use std::hint::black_box;
use std::path::Path;
use std::slice;
use std::sync::Arc;
use std::time::Instant;

/// A job with the usual settings.
struct Job {
    cost: CostModel,
    training: TrainingSettings,
    checkpoint: CheckpointSettings,
    reconfiguration: ReconfigurationSettings,
}

impl Job {
    fn new(model: &str) -> Self {
        Self {
            cost: CostModel::new(ModelSpec::preset(model).expect("a preset"), CostSettings::default(), None),
            training: TrainingSettings::default(),
            checkpoint: CheckpointSettings::default(),
            reconfiguration: ReconfigurationSettings::default(),
        }
    }

    fn settings(&self) -> ReplaySettings<'_> {
        ReplaySettings {
            cost: &self.cost,
            training: &self.training,
            checkpoint: &self.checkpoint,
            reconfiguration: &self.reconfiguration,
        }
    }

    /// Iterations of the first policy.
    fn replay(&self, trace: &Trace, policies: &[Policy], memory: &IterationMemory) -> u64 {
        let events = trace.cluster_events(&OfferDefaults::default()).expect("nodes are known");
        let replayed = replay_with(&events, trace.span, policies, self.settings(), memory, &|_| ()).expect("it runs");
        replayed.policies[0].iterations
    }
}

fn main() {
    // `cargo test` and `cargo bench` compile this alike; only the latter runs it with this argument.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let rows = bars();
    if std::env::args().any(|argument| argument == "bars") {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("results/benchmarks/replay.csv");
        std::fs::write(path, format!("what,bar,measured,unit\n{}", rows.concat())).expect("the results can be written");
    } else {
        day(&mut Criterion::default().configure_from_args());
    }
}

/// What is measured once, beside what it is to take at most on two cores.
fn bars() -> Vec<String> {
    println!("{:<72} {:>9} {:>9}", "", "bar", "measured");
    bamboo().into_iter().chain([thousand_days()]).chain(month()).collect()
}

/// Prints a row, and gives it back for the file.
fn row(what: &str, bar: f64, measured: f64, unit: &str) -> String {
    println!("{what:<72} {:>9} {:>9}", format!("{bar} {unit}"), format!("{measured:.2} {unit}"));
    format!("\"{what}\",{bar},{measured:.2},{unit}\n")
}

/// The most memory that this process has had, in 10^6 bytes, where the system says so.
fn most_memory_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<f64>().ok()? * 1024.0 / 1e6)
}

fn day(criterion: &mut Criterion) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/aws-spot.csv");
    let trace = read(&path).expect("our own trace");
    let events = trace.cluster_events(&OfferDefaults::default()).expect("our own trace");
    let job = Job::new("gpt3-6.7b");
    let mut group = criterion.benchmark_group("replay_aws_spot");
    group.sample_size(10);
    for name in policies::NAMES {
        let policy = policies::by_name(name).expect("one of the names");
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let policies = slice::from_ref(&policy);
                black_box(replay(&events, trace.span, policies, job.settings(), &|_| ())).expect("it runs")
            });
        });
    }
    group.finish();
}

/// All policies by name, with plans that they share.
fn remembering(names: &[&str]) -> Vec<Policy> {
    let memory = Arc::new(PlanMemory::default());
    names.iter().map(|name| policies::by_name(name).expect("one of the names").remembering(&memory)).collect()
}

/// A market of these pools, whose nodes stay up for so long in the mean.
fn market(pools: &[&str], hours: f64, up_time_mean_hours: f64) -> GeneratorSettings {
    let pool = |text: &&str| {
        let pool = PoolSettings::parse(text).expect("our own notation");
        PoolSettings { up_time_mean_hours, ..pool }
    };
    GeneratorSettings { hours, pools: pools.iter().map(pool).collect(), ..GeneratorSettings::default() }
}

fn month() -> Vec<String> {
    let pools = ["12x8xA100-40@us-east-1a:8.0", "10x8xV100-16@us-east-1b:6.5", "10x8xT4@us-east-1a:2.9"];
    let trace = generate(&market(&pools, 720.0, 13.5)).expect("within the ranges");
    let (job, policies) = (Job::new("gpt3-6.7b"), remembering(&policies::NAMES));
    let begun = Instant::now();
    job.replay(&trace, &policies, &IterationMemory::default());
    let seconds = begun.elapsed().as_secs_f64();
    let what = format!("30 days, 256 GPUs of 3 types, {} events, all policies", trace.events.len());
    let mut rows = vec![row(&what, 10.0, seconds, "s")];
    rows.extend(most_memory_mb().map(|most| row("most memory of all of these", 500.0, most, "MB")));
    rows
}

fn thousand_days() -> String {
    const SEEDS: u64 = 1000;
    let settings =
        market(&["5x8xA100-40@us-east-1a:8.0", "4x8xV100-16@us-east-1b:6.5", "3x8xT4@us-east-1a:2.9"], 24.0, 2.0);
    let (job, policies, memory) = (Job::new("gpt3-6.7b"), remembering(&["autohet"]), IterationMemory::default());
    let begun = Instant::now();
    let of_seed = |seed| {
        let trace = generate(&GeneratorSettings { seed, ..settings.clone() }).expect("within the ranges");
        job.replay(&trace, &policies, &memory)
    };
    let iterations: Vec<u64> = (0..SEEDS).into_par_iter().map(of_seed).collect();
    let mean = iterations.iter().sum::<u64>() as f64 / SEEDS as f64;
    let what = format!("{SEEDS} generated days, autohet, {mean:.0} iterations in the mean");
    row(&what, 60.0, begun.elapsed().as_secs_f64(), "s")
}

fn bamboo() -> Vec<String> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/traces/bamboo-p3-trace.csv");
    let path = std::env::var_os("AUTOHET_BAMBOO_P3").map_or_else(beside, Into::into);
    if !path.exists() {
        return Vec::new();
    }
    let options = ReadOptions { gpu_type: Some("V100-16".into()), gpus_per_node: Some(1), ..ReadOptions::default() };
    let trace = read_with(&path, &options).expect("a trace");
    let job = Job::new("gpt3-1.3b");
    let of_policy = |name: &&str| {
        let policies = remembering(&[*name]);
        let begun = Instant::now();
        let iterations = job.replay(&trace, &policies, &IterationMemory::default());
        let what = format!("Bamboo's p3 trace, {} events, {name}, {iterations} iterations", trace.events.len());
        row(&what, 0.3, begun.elapsed().as_secs_f64(), "s")
    };
    policies::NAMES.iter().map(of_policy).collect()
}
