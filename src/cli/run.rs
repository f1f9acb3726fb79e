//! `autohet-run`: trains a model for real, on this machine.

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
use crate::training::{Progress, Schedule, Training, TrainingError, WorkerCommand, train};
use crate::validation::ValidationError;
use args::{Backend, RunCommand, WorkerArgs};
use conditions::Devices;
use planning::{Asked, Planned};
use session::Session;
use settings::OptimizerSettings;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

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
    // Of a process that it has started, the coordinator says what went wrong.
    if args.coordinator.is_some() {
        eprintln!("error: {error}");
    }
    ExitCode::from(if error.is::<DeviceError>() { EXIT_VERDICT } else { EXIT_INPUT })
}

fn coordinate(args: &RunArgs) -> anyhow::Result<()> {
    let output = &args.output;
    files::check_distinct(&[("--out", output.out.as_deref()), ("--plan-out", args.planning.plan_out.as_deref())])?;
    args.injection.trace.check_idle(args.devices.backend == Backend::Cuda && args.planning.plan.is_none())?;
    let injection = args.injection.trace.read(args.devices.node_defaults()?)?;
    let asked = Asked { planning: &args.planning, devices: &args.devices, reading: &args.injection.trace.reading };
    let planned = Planned::of(asked, injection.as_ref())?;
    let devices = args.devices.resolve(&planned.plan, &planned.model, injection.as_ref().map(|trace| &trace.all))?;
    let (job, data) = job(args, &planned, &devices)?;
    check_job(&job, &data)?;
    let elsewhere = args.hosts.resolve(&planned.cluster, injection.is_some())?;
    if job.device == DeviceKind::Cpu && !job.conditions.is_emulated() {
        planned.check_memory(data.held_bytes(), &elsewhere.nodes)?;
    }
    // A trace has its own nodes; others are those of which the options speak.
    let cluster = devices.cluster.as_ref().filter(|_| injection.is_none()).unwrap_or(&planned.cluster).clone();
    let all_nodes = injection.as_ref().map_or(&cluster, |injection| &injection.all);
    args.injection.check(all_nodes, args.checkpoints.checkpoint_dir.is_some())?;
    if let Some(path) = &args.planning.plan_out {
        files::write_files(&[(path.as_path(), planned.plan.to_json().as_bytes())])?;
    }
    let session = Session::new(&job, output, planned.is_predictable.then_some(args.devices.time_scale))?;
    for note in injection.iter().flat_map(|injection| &injection.notes) {
        session.note(note);
    }
    session.note(&start_line(&job, &planned));
    let training = Training {
        elsewhere,
        cluster,
        cost: planned.cost,
        conditions: Box::new(move |plan| devices.conditions_of(plan)),
        schedule: Schedule {
            changes: injection.map(|injection| injection.changes).unwrap_or_default(),
            kills: args.injection.kill.clone(),
            end: None,
        },
        choices: planned.choices,
        checkpoints: args.checkpoints.resolve()?,
        sources: args.injection.recover_from.into(),
        max_restarts: args.injection.max_restarts,
        command: worker_command()?,
        data,
        job,
    };
    let session = Arc::new(Mutex::new(session));
    interrupt::end_on_signals(&session)?;
    let open = || session.lock().unwrap_or_else(PoisonError::into_inner);
    let trained = train(&training, &mut |progress: &Progress<'_>| open().observe(progress));
    let mut session = open();
    let outcome = trained.as_ref().map_or_else(ToString::to_string, |()| "done".to_owned());
    let written = session.write(&outcome);
    match session.take_broken() {
        Some(error) => return Err(error),
        None => trained?,
    }
    written
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

fn start_line(job: &Job, planned: &Planned) -> String {
    let ranks = job.plan.world_size();
    let processes = if ranks == 1 { "process" } else { "processes" };
    let emulated = if job.conditions.is_emulated() { ", emulated devices" } else { "" };
    let line = format!("{} on {ranks} {processes}{emulated}", job.model.name);
    planned.summary.as_ref().map_or_else(|| line.clone(), |summary| format!("{line}, {summary}"))
}
