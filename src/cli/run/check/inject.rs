//! `autohet-run check --inject`: the same trace replayed by the simulator and on real processes.

use super::super::args::{Backend, CheckArgs};
use super::super::host::{self, CPU};
use super::super::inject::{Injection, gpus_up};
use super::super::interrupt::Stop;
use super::super::planning::{Asked, Planned};
use super::super::profile::measure_with_progress;
use super::super::worker_command;
use super::SCHEMA_VERSION;
use crate::cluster::{Cluster, Link, Node};
use crate::cost::CostModel;
use crate::elastic::ReconfigurationSettings;
use crate::plan::{Plan, PlanLimits, PlanRequest, Planner, TrainingSettings};
use crate::planner::autohet::{AutoHet, Engine};
use crate::profile::LayerProfile;
use crate::replay::{ReplaySettings, replay};
use crate::runtime::device::messages::Job;
use crate::runtime::device::{DataSet, DeviceKind, StorePace, check_job};
use crate::runtime::sim::Simulator;
use crate::trace::{NodeEvent, NodeEventKind};
use crate::training::{CheckpointPlan, Elsewhere, SIGN_OF_LIFE, Schedule, Training, check_nodes, train};
use crate::units::{SimTime, format_seconds};
use crate::validation::{
    Judged, Lived, Machine, ProfileRequest, Recovered, StageKind, Witness, WorldRow, compare_worlds,
};
use anyhow::anyhow;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// Steps of each profile.
const PROFILE_STEPS: u32 = 5;

/// The comparison.
#[derive(Serialize)]
pub(super) struct InjectReport {
    schema_version: u32,
    pub(super) backend: &'static str,
    pub(super) machine: Machine,
    pub(super) model: String,
    /// Length of the trace as it was replayed.
    pub(super) span_s: f64,
    pub(super) time_scale: f64,
    pub(super) tolerance: f64,
    pub(super) holds: bool,
    pub(super) rows: Vec<WorldRow>,
    /// Whether the same plans were in force in the same order, on the same nodes.
    pub(super) plans_equal: bool,
    /// The start's plan first.
    pub(super) plans: Count,
    pub(super) predicted_recoveries: Vec<Recovered>,
    pub(super) measured_recoveries: Vec<Recovered>,
}

/// How many plans there were.
#[derive(Serialize)]
pub(super) struct Count {
    pub(super) predicted: usize,
    pub(super) measured: usize,
    /// How many the two have in common from the start.
    pub(super) equal: usize,
}

/// Replays, runs, compares.
pub(super) fn check_trace(args: &CheckArgs, injection: Injection, tolerance: f64) -> anyhow::Result<InjectReport> {
    let time_scale = args.devices.time_scale;
    let checkpoint_dir = args.injection.checkpoint_dir.as_deref();
    checkpoint_dir.map_or(Ok(()), check_empty)?;
    let injection =
        if args.devices.backend == Backend::Cpu { on_cores(injection, args.devices.throttle()?) } else { injection };
    for note in &injection.notes {
        eprintln!("{note}");
    }
    let mut training = training(args, &injection)?;
    let replayed = replayed(&training, &injection, time_scale)?;
    let run = run(&mut training, checkpoint_dir, injection.span)?;
    // What was done and lost again is something to compare, too.
    let is_idle = |lived: &Lived| lived.iterations + lived.iterations_lost == 0;
    if is_idle(&replayed) && is_idle(&run) {
        return Err(anyhow!(
            "nothing was trained in {} of trace, in neither world: there is nothing to compare\nhint: use a longer trace, or a lower `--trace-speed`",
            format_seconds(injection.span.as_seconds())
        ));
    }
    let rows = compare_worlds(&replayed, &run, tolerance);
    let equal = replayed.plans.iter().zip(&run.plans).take_while(|(predicted, measured)| predicted == measured).count();
    Ok(InjectReport {
        schema_version: SCHEMA_VERSION,
        backend: args.devices.backend_name(),
        machine: Machine::this(),
        model: training.job.model.name.clone(),
        span_s: injection.span.as_seconds(),
        time_scale,
        tolerance,
        holds: rows.iter().all(|row| row.judged != Judged::Fails),
        rows,
        plans_equal: equal == replayed.plans.len().max(run.plans.len()),
        plans: Count { predicted: replayed.plans.len(), measured: run.plans.len(), equal },
        predicted_recoveries: replayed.recoveries,
        measured_recoveries: run.recoveries,
    })
}

/// Refuses what one of the two worlds doesn't know.
pub(super) fn check_options(args: &CheckArgs) -> anyhow::Result<()> {
    let devices = &args.devices;
    let reason = match devices.backend {
        Backend::Cuda => Some("`--backend cuda`: GPUs can't be checked yet"),
        Backend::Cpu if args.plan.plan.is_some() => Some("`--plan` on `--backend cpu`, where each GPU is a core"),
        _ if devices.slowdown.is_some() => Some("`--slowdown`, which names ranks of one plan"),
        _ if devices.cluster.is_some() => Some("`--cluster`, as the nodes are those of the trace"),
        _ => None,
    };
    reason.map_or(Ok(()), |reason| Err(anyhow!("`--inject` can't be checked with {reason}\nhint: leave it out")))
}

/// A check begins with no state, as the replay does.
fn check_empty(folder: &Path) -> anyhow::Result<()> {
    if std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(anyhow!("`--checkpoint-dir` `{}` isn't empty\nhint: name a new folder", folder.display()));
    }
    Ok(())
}

/// Each GPU of the trace is played by a core, behind the loopback interface or a slower one that was asked for.
fn on_cores(mut injection: Injection, throttle: Option<Link>) -> Injection {
    let most = most_gpus(&injection.events).max(1);
    let core = host::core_spec(host::available_memory_bytes() / u64::from(most));
    let loopback = host::cores_as_nodes(1).nodes[0].nic;
    let nic = throttle.map_or(loopback, |asked| Link {
        bytes_per_s: asked.bytes_per_s.min(loopback.bytes_per_s),
        latency_s: asked.latency_s.max(loopback.latency_s),
    });
    let change = |node: &mut Node| {
        node.gpu = Arc::clone(&core);
        node.nic = nic;
    };
    injection.start.nodes.iter_mut().for_each(change);
    injection.all.nodes.iter_mut().for_each(change);
    injection.changes.iter_mut().flat_map(|(_, change)| &mut change.joined).for_each(change);
    for event in &mut injection.events {
        if let NodeEventKind::Up(node) = &mut event.kind {
            change(node);
        }
    }
    injection
}

/// GPUs that are up at one time, at most.
fn most_gpus(events: &[NodeEvent]) -> u32 {
    gpus_up(events).map(|(_, gpus)| gpus as u32).max().unwrap_or(0)
}

/// The run that both worlds are about. Where its checkpoints go is left open.
fn training(args: &CheckArgs, injection: &Injection) -> anyhow::Result<Training> {
    let reading = &args.injection.trace.reading;
    let planning = args.plan.planning();
    let asked = Asked { planning: &planning, devices: &args.devices, reading };
    let Planned { mut plan, model, cluster, mut cost, mut choices, .. } = Planned::of(asked, Some(injection))?;
    if let (Backend::Cpu, Some(choices)) = (args.devices.backend, &mut choices) {
        cost = measured_cost(&cost, choices, injection)?;
        plan = plan_on(&cluster, &cost, choices)?;
    }
    let devices = args.devices.resolve(&plan, &model, Some(&injection.all))?;
    // It ends with the trace.
    let job = Job { conditions: devices.conditions.clone(), ..Job::new(plan, model, u32::MAX) };
    check_job(&job, &DataSet::Synthetic)?;
    check_nodes(&job.plan, &cluster, &injection.all)?;
    let (every, peer_copies) = (args.injection.checkpoint_every, args.injection.peer_copies);
    Ok(Training {
        job,
        data: DataSet::Synthetic,
        cluster,
        choices,
        cost,
        elsewhere: Elsewhere::default(),
        conditions: Box::new(move |plan| devices.conditions_of(plan)),
        command: worker_command()?,
        schedule: Schedule { changes: injection.changes.clone(), end: Some(injection.span), ..Schedule::default() },
        checkpoints: Some(CheckpointPlan { folder: PathBuf::new(), every, pace: StorePace::default(), peer_copies }),
        sources: args.injection.recover_from.into(),
        max_restarts: 0,
        silence: SIGN_OF_LIFE,
    })
}

/// Prices of cores as measured, with as many of them at work as the trace has, where no profile was given. What plans
/// may choose from is what has a price.
fn measured_cost(cost: &CostModel, choices: &mut TrainingSettings, injection: &Injection) -> anyhow::Result<CostModel> {
    choices.tensor_parallel_sizes = vec![1];
    let largest = choices.global_batch_size;
    choices.micro_batch_sizes.retain(|size| *size <= largest);
    if cost.profile().is_some() {
        return Ok(cost.clone());
    }
    let file = measure_with_progress(&ProfileRequest {
        model: cost.model().clone(),
        tensor_parallel_sizes: choices.tensor_parallel_sizes.clone(),
        micro_batch_sizes: choices.micro_batch_sizes.clone(),
        stage: StageKind::SMALL,
        concurrency: most_gpus(&injection.events).min(host::cores()),
        device: DeviceKind::Cpu,
        precision: choices.precision,
        gpu_type: CPU.to_owned(),
        steps: PROFILE_STEPS,
    })?;
    let profile = LayerProfile::from_entries(file, "the measured profile")?;
    Ok(CostModel::new(cost.model().clone(), host::cost_settings(), Some(profile)))
}

fn plan_on(cluster: &Cluster, cost: &CostModel, choices: &TrainingSettings) -> anyhow::Result<Plan> {
    let request = PlanRequest { cluster, cost, training: choices, judge: &Simulator, limits: PlanLimits::default() };
    Ok(AutoHet { engine: Engine::Search }.plan(&request)?.plan)
}

/// What comes of it by the simulator. Emulated devices in slow motion are replayed at their own speed: the times of the
/// trace, and of what the host does, are as much shorter.
fn replayed(training: &Training, injection: &Injection, time_scale: f64) -> anyhow::Result<Lived> {
    let rules = training.rules();
    let own = |time: SimTime| SimTime::from_seconds(time.as_seconds() / time_scale);
    let reconfiguration = in_own_time(&rules.reconfiguration, time_scale);
    let events: Vec<NodeEvent> =
        injection.events.iter().map(|event| NodeEvent { time: own(event.time), ..event.clone() }).collect();
    let settings = ReplaySettings {
        cost: &training.cost,
        training: &rules.training,
        checkpoint: &rules.checkpoint,
        reconfiguration: &reconfiguration,
    };
    let span = own(injection.span);
    let outcome = replay(&events, span, &[rules.policy], settings, &|_| {})?;
    Ok(Lived::of_replay(&outcome.policies[0], span, time_scale))
}

fn in_own_time(settings: &ReconfigurationSettings, time_scale: f64) -> ReconfigurationSettings {
    ReconfigurationSettings {
        detection_s: settings.detection_s / time_scale,
        planning_s: settings.planning_s / time_scale,
        rendezvous_s: settings.rendezvous_s / time_scale,
        communicators_s: settings.communicators_s / time_scale,
        communicators_per_node_s: settings.communicators_per_node_s / time_scale,
        transfer_bytes_per_s: settings.transfer_bytes_per_s * time_scale,
        coordinator_s: settings.coordinator_s / time_scale,
        boot_s: settings.boot_s / time_scale,
        min_up_s: settings.min_up_s / time_scale,
        ..*settings
    }
}

/// What comes of it on real processes. Where no folder for checkpoints is given there is one for as long as the run lasts,
/// also if a signal ends it, and with it this process.
fn run(training: &mut Training, checkpoint_dir: Option<&Path>, span: SimTime) -> anyhow::Result<Lived> {
    let stop = Stop::on_signals()?;
    training.schedule.stop = Some(Arc::clone(&stop.is_raised));
    let temporary = checkpoint_dir.is_none().then(tempfile::tempdir).transpose()?;
    let folder = temporary.as_ref().map(TempDir::path).or(checkpoint_dir);
    if let (Some(checkpoints), Some(folder)) = (&mut training.checkpoints, folder) {
        folder.clone_into(&mut checkpoints.folder);
    }

    let bar =
        ProgressBar::new(span.as_seconds().ceil() as u64).with_message(format!("running {}", training.job.model.name));
    bar.set_style(ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} s")?);
    let mut witness = Witness::default();
    train(training, &mut |progress| {
        let elapsed = bar.elapsed();
        witness.observe(progress, elapsed.as_secs_f64());
        bar.set_position(elapsed.as_secs());
        Ok(())
    })?;
    bar.finish_and_clear();
    drop(temporary);
    if let Some(code) = stop.exit_code() {
        eprintln!("interrupted");
        std::process::exit(code);
    }
    let tokens = u64::from(training.job.plan.global_batch_size) * u64::from(training.job.model.seq_length);
    Ok(witness.close(tokens, span.as_seconds()))
}
