//! `autohet-run check`: predicts, runs, compares.

mod inject;
mod table;

use super::args::{Backend, CheckArgs};
use super::conditions::Devices;
use super::host::{self, CPU};
use super::inject::Injection;
use super::planning::{agree, measures_all, read_plan};
use super::profile::measure_with_progress;
use super::worker_command;
use crate::cli::{Verdict, files, print_as};
use crate::cost::{CostModel, CostSettings};
use crate::plan::Plan;
use crate::profile::{LayerProfile, MeasuredLinks, ProfileFile};
use crate::report::{Records, ResultsFolder, perfetto_json};
use crate::runtime::device::messages::Job;
use crate::runtime::device::{Conditions, DataSet, DeviceKind, check_job};
use crate::training::{StepReport, check_nodes, host_cluster, memory, train_plan};
use crate::units::format_number;
use crate::validation::{
    CheckReport, Host, Judged, Linked, Machine, Prediction, ProfileRequest, RankConditions, StageKind, compare,
    measure_links, median_profile, predict, with_host_links,
};
use anyhow::anyhow;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Steps that aren't counted: caches and connections warm up.
const WARM_UP_STEPS: u32 = 2;
/// Steps of each profile that a check takes itself.
const PROFILE_STEPS: u32 = 3;
/// Profiles that it takes, with a part of the run after each: what else the machine does changes from minute to minute,
/// and shall not show in one of the two only.
const ROUNDS: u32 = 4;
/// What is accepted of one plan where nothing is said.
const TOLERANCE: &str = "8%";
/// What is accepted of a trace: processes of a busy machine don't recover twice in the same time.
const TRACE_TOLERANCE: &str = "25%";
/// Version of the report's JSON.
const SCHEMA_VERSION: u32 = 1;

/// What was run.
struct Run {
    /// Steps after the warm-up.
    steps: Vec<StepReport>,
    peak_memory_bytes: Vec<Option<u64>>,
}

pub(super) fn run_check(args: &CheckArgs) -> anyhow::Result<Verdict> {
    let out = args.output.out.as_deref();
    files::check_distinct(&[("--out", out), ("--checkpoint-dir", args.injection.checkpoint_dir.as_deref())])?;
    out.map(ResultsFolder::check).transpose()?;
    let paths = [&args.plan.plan, &args.devices.profile, &args.injection.trace.inject].into_iter().flatten();
    let names = [&args.plan.model, &args.devices.cluster].into_iter().flatten();
    let inputs: Vec<&Path> = paths.map(PathBuf::as_path).chain(names.map(Path::new)).collect();
    files::check_kept(&inputs, &[("--out", out)])?;
    args.injection.trace.check_idle(false)?;
    let default = if args.injection.trace.inject.is_some() { TRACE_TOLERANCE } else { TOLERANCE };
    let tolerance = parse_tolerance(args.output.tolerance.as_deref().unwrap_or(default))?;
    if args.injection.trace.inject.is_some() {
        inject::check_options(args)?;
        if let Some(injection) = args.injection.trace.read(args.devices.node_defaults()?)? {
            return check_trace(args, injection, tolerance);
        }
    }
    check_plan(args, tolerance)
}

/// In both worlds, what a trace does.
fn check_trace(args: &CheckArgs, injection: Injection, tolerance: f64) -> anyhow::Result<Verdict> {
    let out = args.output.out.as_deref();
    let report = inject::check_trace(args, injection, tolerance)?;
    let value = serde_json::to_value(&report)?;
    let rows = Records::of_json(value["rows"].as_array().into_iter().flatten());
    print_as(args.output.format, || table::trace_table(&report), &value, &rows)?;
    if let Some(out) = out {
        let folder = ResultsFolder::create(out)?;
        folder.write("summary.json", serde_json::to_string_pretty(&value)? + "\n")?;
        folder.write("table.txt", table::trace_table(&report))?;
        folder.commit()?;
    }
    Ok(if report.holds { Verdict::Good } else { Verdict::Bad })
}

/// One plan.
fn check_plan(args: &CheckArgs, tolerance: f64) -> anyhow::Result<Verdict> {
    let plan = read_plan(args.plan.plan.as_deref())?;
    agree(&args.plan.planning(), &plan)?;
    let steps = args.output.steps;
    let model = plan.model.spec()?;
    let devices = args.devices.resolve(&plan, &model, None)?;
    let (conditions, device) = (devices.conditions.clone(), args.devices.kind()?);
    let job = Job { device, conditions, ..Job::new(plan, model, steps) };
    check_job(&job, &DataSet::Synthetic)?;
    let host = host_cluster(&job.plan, CPU);
    check_nodes(&job.plan, &host, &host)?;
    if args.devices.backend == Backend::Cpu {
        host::check_memory(&job.plan, &job.model, 0, &BTreeSet::new(), 0)?;
    }
    let (prediction, run) = match args.devices.backend {
        Backend::Cpu | Backend::Cuda => check_host(&job, &devices, steps)?,
        Backend::Emulated => {
            let prediction = predict_emulated(&job, &devices, args.devices.time_scale)?;
            (prediction, run(&job, steps)?)
        }
    };
    let (rows, operations) = compare(&prediction, &run.steps, &run.peak_memory_bytes, tolerance);
    let report = CheckReport {
        schema_version: SCHEMA_VERSION,
        backend: args.devices.backend_name(),
        machine: Machine::this(),
        model: job.model.name.clone(),
        world_size: job.plan.world_size(),
        steps: run.steps.len(),
        time_scale: args.devices.time_scale,
        slowdown: job.conditions.slowdown.clone(),
        tolerance,
        holds: rows.iter().all(|row| row.judged != Judged::Fails),
        rows,
        operations,
    };
    let value = serde_json::to_value(&report)?;
    let rows = Records::of_json(value["rows"].as_array().into_iter().flatten());
    print_as(args.output.format, || table::table(&report), &value, &rows)?;
    if let Some(out) = &args.output.out {
        let folder = ResultsFolder::create(out)?;
        folder.write("summary.json", serde_json::to_string_pretty(&value)? + "\n")?;
        folder.write("table.txt", table::table(&report))?;
        let timeline = |timeline| perfetto_json(&job.plan, &prediction.program, timeline, None);
        folder.write("predicted.perfetto.json", timeline(&prediction.timeline))?;
        if let Some(last) = run.steps.last() {
            folder.write("measured.perfetto.json", timeline(&last.timeline))?;
        }
        folder.commit()?;
    }
    Ok(if report.holds { Verdict::Good } else { Verdict::Bad })
}

/// A share, as `8%` or `0.08`.
fn parse_tolerance(text: &str) -> anyhow::Result<f64> {
    let parsed = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        // `5` may be meant as five percent, and as five hundred.
        None => text.parse().map(|share: f64| if share > 1.0 { f64::NAN } else { share }),
    };
    let tolerance = parsed.ok().filter(|share| (0.0..=10.0).contains(share));
    tolerance.ok_or_else(|| {
        anyhow!("`--tolerance` is `{text}`, expected 0% to 1000%, or 0 to 1\nhint: `8%` and `0.08` are the same")
    })
}

/// On this machine's processors: with the profile that was given, or with one that is taken in turns with the run.
fn check_host(job: &Job, devices: &Devices, steps: u32) -> anyhow::Result<(Prediction, Run)> {
    let kinds = StageKind::of_ranks(&job.plan);
    if let Some(profile) = devices.cost.profile() {
        let profiles = kinds.iter().map(|&kind| (kind, profile.clone())).collect();
        let prediction = predict_on_host(job, devices, profiles)?;
        return Ok((prediction, run(job, steps)?));
    }
    let rounds = ROUNDS.min(steps);
    let mut profiles: BTreeMap<StageKind, Vec<ProfileFile>> = BTreeMap::new();
    let mut all = Run { steps: Vec::new(), peak_memory_bytes: Vec::new() };
    for round in 0..rounds {
        for kind in kinds.iter().copied().collect::<BTreeSet<_>>() {
            profiles.entry(kind).or_default().push(measure(job, kind)?);
        }
        let part = run(job, steps / rounds + u32::from(round < steps % rounds))?;
        all.steps.extend(part.steps);
        all.peak_memory_bytes = part.peak_memory_bytes;
    }
    let of_kind = |(kind, files): (StageKind, Vec<ProfileFile>)| {
        let Some(file) = median_profile(&files) else { unreachable!("there is a step, and so a round") };
        Ok((kind, LayerProfile::from_entries(file, "the measured profile")?))
    };
    let profiles = profiles.into_iter().map(of_kind).collect::<anyhow::Result<_>>()?;
    Ok((predict_on_host(job, devices, profiles)?, all))
}

/// Layers as the profile of each kind of stage has them, links as fast as measured, or as slow as they are made.
fn predict_on_host(
    job: &Job,
    devices: &Devices,
    profiles: BTreeMap<StageKind, LayerProfile>,
) -> anyhow::Result<Prediction> {
    let Job { plan, model, .. } = job;
    let name = device_name(job);
    let mut links = None;
    for profile in profiles.values() {
        links = profile.links();
        if !measures_all(profile, name, plan)? || links.is_none() {
            let sizes: Vec<String> = plan.tensor_parallel_sizes().iter().map(ToString::to_string).collect();
            let sizes = sizes.join(",");
            return Err(anyhow!(
                "the profile lacks layers, ends or links of `{name}`\nhint: measure them with `autohet-run profile --model {} --tensor-parallel-sizes {sizes} --micro-batch-sizes {} --out profile.json`",
                model.name,
                plan.micro_batch_size
            ));
        }
    }
    let Some(links) = links else { unreachable!("a plan has stages, and each a profile") };
    let mut cluster = host_cluster(plan, name);
    if let Some(described) = &devices.cluster {
        for node in &mut cluster.nodes {
            if let Some(id) = described.find(&node.name) {
                node.nic = described.node(id).nic;
                node.zone.clone_from(&described.node(id).zone);
            }
        }
    }
    let cost = |(kind, profile)| (kind, CostModel::new(model.clone(), CostSettings::default(), Some(profile)));
    let by_kind: BTreeMap<StageKind, CostModel> = profiles.into_iter().map(cost).collect();
    let costs: Vec<&CostModel> = StageKind::of_ranks(plan).iter().map(|kind| &by_kind[kind]).collect();
    // Copying is part of what ranks do on their own cores.
    let host = Host { links, cores: f64::INFINITY };
    let ranks = RankConditions { slowdown: &job.conditions.slowdown, costs: &costs };
    Ok(predict(plan, &with_host_links(&cluster, links), costs[0], ranks, host)?)
}

/// What the job's devices are called in profiles.
fn device_name(job: &Job) -> &'static str {
    host::device_name(if job.device == DeviceKind::Cpu { Backend::Cpu } else { Backend::Cuda })
}

/// A profile of what a stage of the plan needs, with as many ranks at work as the plan has.
fn measure(job: &Job, stage: StageKind) -> anyhow::Result<ProfileFile> {
    let ranks = job.plan.world_size() as u32;
    let concurrency = if job.device == DeviceKind::Cpu { ranks.min(host::cores()) } else { ranks };
    let request = ProfileRequest {
        model: job.model.clone(),
        tensor_parallel_sizes: job.plan.tensor_parallel_sizes(),
        micro_batch_sizes: vec![job.plan.micro_batch_size],
        stage,
        concurrency,
        device: job.device.clone(),
        precision: job.plan.precision,
        gpu_type: device_name(job).to_owned(),
        steps: PROFILE_STEPS,
    };
    measure_with_progress(&request)
}

/// On devices that sleep: what they stand for, in slow motion where that is wanted, and what this machine's transport adds.
fn predict_emulated(job: &Job, devices: &Devices, time_scale: f64) -> anyhow::Result<Prediction> {
    let Job { plan, model, .. } = job;
    let Some(cluster) = &devices.cluster else { unreachable!("emulated devices are those of a cluster") };
    let idle = |plan: &Plan| {
        let host = host_cluster(plan, CPU);
        let cost = CostModel::new(model.clone(), CostSettings::default(), None);
        let conditions = Conditions::emulating(plan, &host, &cost, 1.0);
        conditions.and_then(|conditions| conditions.throttled(plan, &host, 1.0)).unwrap_or_default()
    };
    let links =
        if model.num_layers > 1 { measure_links(&Linked::of_job(job), &worker_command()?, &idle)? } else { IDEAL };
    // Time scales linearly: what the host adds is as much shorter before as it is after.
    let links = MeasuredLinks {
        dispatch_s: links.dispatch_s / time_scale,
        latency_s: links.latency_s / time_scale,
        bytes_per_s: links.bytes_per_s * time_scale,
        all_reduce_latency_s: links.all_reduce_latency_s / time_scale,
        all_reduce_bytes_per_s: links.all_reduce_bytes_per_s * time_scale,
    };
    let ranks = RankConditions { slowdown: &job.conditions.slowdown, costs: &[] };
    let host = Host { links, cores: Machine::this().cores as f64 };
    let prediction = predict(plan, &with_host_links(cluster, links), &devices.cost, ranks, host)?;
    Ok(prediction.in_slow_motion(time_scale))
}

/// Links of which nothing is known.
const IDEAL: MeasuredLinks = MeasuredLinks {
    dispatch_s: 0.0,
    latency_s: 0.0,
    bytes_per_s: 1e15,
    all_reduce_latency_s: 0.0,
    all_reduce_bytes_per_s: 1e15,
};

/// Runs so many steps, and some before that aren't counted.
fn run(job: &Job, steps: u32) -> anyhow::Result<Run> {
    let job = &Job { steps: WARM_UP_STEPS.saturating_add(steps), ..job.clone() };
    let bar = ProgressBar::new(u64::from(job.steps)).with_message(format!("running {}", job.model.name));
    bar.set_style(ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} steps, {eta} left")?);
    let mut run = Run { steps: Vec::new(), peak_memory_bytes: Vec::new() };
    train_plan(job, host_cluster(&job.plan, CPU), &worker_command()?, &mut |report| {
        bar.inc(1);
        if report.step > u64::from(WARM_UP_STEPS) {
            run.steps.push(report.clone());
        }
        // Emulated devices hold no activations, so that their memory says nothing.
        if report.step == u64::from(job.steps) && !job.conditions.is_emulated() {
            run.peak_memory_bytes = report.ranks.iter().map(|rank| memory::peak_bytes(rank.process_id)).collect();
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    Ok(run)
}

/// The tolerance as it is printed.
pub(super) fn percent(share: f64) -> String {
    format_number((share * 1e4).round() / 1e2) + " %"
}
