//! `autohet-run`: trains a model for real.

mod args;
mod check;
mod conditions;
mod host;
mod hosts;
mod inject;
mod interrupt;
mod planning;
mod profile;
mod record;
mod results;
mod screen;
mod session;
mod settings;

pub use args::RunArgs;

use super::{EXIT_INPUT, EXIT_VERDICT, Verdict, exit_code, files};
use crate::runtime::device::messages::Job;
use crate::runtime::device::{DataSet, DeviceError, DeviceKind, check_job};
use crate::training::{Progress, Schedule, Training, TrainingError, WorkerCommand, check_nodes, gpu_count, train};
use crate::validation::ValidationError;
use args::{Backend, RunCommand, WorkerArgs};
use conditions::Devices;
use interrupt::Stop;
use planning::{Asked, Planned};
use session::Session;
use settings::OptimizerSettings;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Runs `autohet-run`: data on stdout, everything else on stderr.
pub fn run_training(args: &RunArgs) -> ExitCode {
    if let Some(RunCommand::Worker(args)) = &args.command {
        return serve(args);
    }
    let done = match &args.command {
        Some(RunCommand::Profile(args)) => profile::run_profile(args).map(|()| Verdict::Good),
        Some(RunCommand::Check(args)) => check::run_check(args),
        Some(RunCommand::Worker(_)) | None => coordinate(args).map(|()| Verdict::Good),
    };
    exit_code(done, happened_while_training)
}

/// Whether an error is about the run, not about what was asked for.
fn happened_while_training(error: &anyhow::Error) -> bool {
    let while_measuring = error.downcast_ref::<ValidationError>().and_then(|error| match error {
        ValidationError::Training(error) => Some(error),
        _ => None,
    });
    let training = error.downcast_ref::<TrainingError>().or(while_measuring);
    training.is_some_and(TrainingError::happened_while_training)
}

fn serve(args: &WorkerArgs) -> ExitCode {
    let Err(error) = hosts::serve(args) else { return ExitCode::SUCCESS };
    let is_input =
        matches!(error.downcast_ref(), Some(DeviceError::Environment { .. } | DeviceError::NoCoordinator { .. }));
    // Of a process that it has started, the coordinator says what went wrong.
    if args.coordinator.is_some() || is_input {
        eprintln!("error: {error}");
    }
    ExitCode::from(if error.is::<DeviceError>() && !is_input { EXIT_VERDICT } else { EXIT_INPUT })
}

fn coordinate(args: &RunArgs) -> anyhow::Result<()> {
    let (mut training, mut session) = prepare(args)?;
    let stop = Stop::on_signals()?;
    training.schedule.stop = Some(Arc::clone(&stop.is_raised));
    let trained = train(&training, &mut |progress: &Progress<'_>| session.observe(progress));
    let signalled = stop.exit_code().filter(|_| trained.is_ok());
    let outcome = match &trained {
        Ok(()) if signalled.is_some() => "interrupted".to_owned(),
        Ok(()) => "done".to_owned(),
        Err(error) => error.to_string(),
    };
    if signalled.is_some() {
        session.note(&outcome);
    }
    let written = session.write(&outcome);
    match session.take_broken() {
        Some(error) => return Err(error),
        None => trained?,
    }
    written?;
    // All workers have ended, and nothing is left to be done.
    signalled.map_or(Ok(()), |code| std::process::exit(code))
}

/// From arguments to what is to be done and where it is told. What can't be done is refused here, before anything is.
fn prepare(args: &RunArgs) -> anyhow::Result<(Training, Session)> {
    let (output, plan_out) = (&args.output, args.planning.plan_out.as_deref());
    let checkpoint_dir = args.checkpoints.checkpoint_dir.as_deref();
    let places = [("--out", output.out.as_deref()), ("--plan-out", plan_out), ("--checkpoint-dir", checkpoint_dir)];
    files::check_distinct(&places)?;
    // The folder of checkpoints is only added to.
    files::check_kept(&inputs(args), &places[..2])?;
    plan_out.map(files::check_writable).transpose()?;
    let checkpoints = args.checkpoints.resolve()?;
    args.injection.trace.check_idle(args.devices.backend == Backend::Cuda && args.planning.plan.is_none())?;
    let injection = args.injection.trace.read(args.devices.node_defaults()?)?;
    let asked = Asked { planning: &args.planning, devices: &args.devices, reading: &args.injection.trace.reading };
    let planned = Planned::of(asked, injection.as_ref())?;
    let devices = args.devices.resolve(&planned.plan, &planned.model, injection.as_ref().map(|trace| &trace.all))?;
    let (job, data) = job(args, &planned, &devices)?;
    check_job(&job, &data)?;
    // A trace has its own nodes; others are those of which the options speak.
    let cluster = devices.cluster.as_ref().filter(|_| injection.is_none()).unwrap_or(&planned.cluster).clone();
    let all_nodes = injection.as_ref().map_or(&cluster, |injection| &injection.all);
    check_nodes(&job.plan, &cluster, all_nodes)?;
    let elsewhere = args.hosts.resolve(&planned.cluster, injection.is_some())?;
    if job.device == DeviceKind::Cpu && !job.conditions.is_emulated() {
        let peer_copies = checkpoints.as_ref().map_or(0, |plan| plan.peer_copies);
        host::check_memory(&job.plan, &job.model, data.held_bytes(), &elsewhere.nodes, peer_copies)?;
    }
    args.injection.check(all_nodes, args.steps, checkpoints.is_some())?;
    let session = Session::new(&job, output, slow_motion(args, &planned))?;
    if let Some(path) = plan_out {
        files::write_files(&[(path, planned.plan.to_json().as_bytes())])?;
    }
    injection.iter().flat_map(|injection| &injection.notes).for_each(|note| session.note(note));
    session.note(&start_line(&job, &planned, gpu_count(&cluster)));
    let training = Training {
        elsewhere,
        cluster,
        cost: planned.cost,
        conditions: Box::new(move |plan| devices.conditions_of(plan)),
        schedule: Schedule {
            changes: injection.map(|injection| injection.changes).unwrap_or_default(),
            kills: args.injection.kill.clone(),
            ..Schedule::default()
        },
        choices: planned.choices,
        checkpoints,
        sources: args.injection.recover_from.into(),
        max_restarts: args.injection.max_restarts,
        silence: Duration::from_secs(args.injection.silence_s),
        command: worker_command()?,
        data,
        job,
    };
    Ok((training, session))
}

/// What is read, of what may be a file.
fn inputs(args: &RunArgs) -> Vec<&Path> {
    let RunArgs { planning, data, devices, injection, hosts, .. } = args;
    let paths =
        [&planning.plan, &data.data, &devices.profile, &injection.trace.inject, &hosts.hosts, &hosts.secret_file];
    let names = [&planning.model, &devices.cluster].into_iter().flatten();
    paths.into_iter().flatten().map(PathBuf::as_path).chain(names.map(Path::new)).collect()
}

/// How many times slower than predicted devices are made; nothing where predictions say nothing of them. Those of the
/// simulator know of no rank that is slowed down by itself.
fn slow_motion(args: &RunArgs, planned: &Planned) -> Option<f64> {
    let is_predictable = planned.is_predictable && args.devices.slowdown.is_none();
    is_predictable.then_some(args.devices.time_scale)
}

/// How the processes of workers are started: this program again.
fn worker_command() -> anyhow::Result<WorkerCommand> {
    Ok(WorkerCommand { program: std::env::current_exe()?, arguments: vec!["worker".into()] })
}

/// What is to be trained, from plan and options.
fn job(args: &RunArgs, planned: &Planned, devices: &Devices) -> anyhow::Result<(Job, DataSet)> {
    let OptimizerSettings { optimizer, learning_rate, clip_norm } = args.optimizer.resolve()?;
    let job = Job {
        seed: args.seed,
        optimizer,
        learning_rate,
        clip_norm,
        device: args.devices.kind()?,
        conditions: devices.conditions.clone(),
        ..Job::new(planned.plan.clone(), planned.model.clone(), args.steps)
    };
    // Each rank holds the data, and so does the coordinator.
    let processes = planned.plan.world_size() as u64 + 1;
    let data = args.data.read(host::available_memory_bytes() / processes)?;
    Ok((job, data))
}

/// One process plays each GPU of the nodes, whether or not the plan makes it a rank.
fn start_line(job: &Job, planned: &Planned, processes: u64) -> String {
    let ranks = job.plan.world_size();
    let idle = if ranks as u64 == processes { String::new() } else { format!(", of which {ranks} train") };
    let plural = if processes == 1 { "" } else { "es" };
    let emulated = if job.conditions.is_emulated() { ", emulated devices" } else { "" };
    let line = format!("{} on {processes} process{plural}{idle}{emulated}", job.model.name);
    planned.summary.as_ref().map_or_else(|| line.clone(), |summary| format!("{line}, {summary}"))
}
