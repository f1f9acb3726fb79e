//! `autohet-run`: trains a plan's model for real, on this machine's CPU.

mod args;
mod results;

pub use args::RunArgs;

use super::{EXIT_INPUT, EXIT_VERDICT, is_broken_pipe};
use crate::ids::Rank;
use crate::model::ModelSpec;
use crate::plan::Plan;
use crate::runtime::device::{
    AdamW, COORDINATOR_VARIABLE, DataSet, DeviceError, Job, RANK_VARIABLE, RankCommand, SECRET_VARIABLE, Secret,
    StepReport, check_job, run_rank, train,
};
use anyhow::anyhow;
use args::RunCommand;
use results::Results;
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Instant;

/// Runs `autohet-run`: data on stdout, everything else on stderr.
pub fn run_training(args: &RunArgs) -> ExitCode {
    if let Some(RunCommand::Rank) = args.command {
        // The coordinator says what went wrong; here nothing is left to say.
        return if serve_as_rank().is_ok() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_VERDICT) };
    }
    match coordinate(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            let is_failure = error.downcast_ref::<DeviceError>().is_some_and(happened_while_training);
            ExitCode::from(if is_failure { EXIT_VERDICT } else { EXIT_INPUT })
        }
    }
}

/// Whether the error is about the run, not about what was asked for.
fn happened_while_training(error: &DeviceError) -> bool {
    !matches!(
        error,
        DeviceError::Plan(_)
            | DeviceError::Unsupported { .. }
            | DeviceError::TooLittleData { .. }
            | DeviceError::Vocabulary { .. }
    )
}

fn serve_as_rank() -> Result<(), DeviceError> {
    let secret = Secret::from_hex(&variable::<String>(SECRET_VARIABLE)?);
    let secret = secret.ok_or(DeviceError::Environment { variable: SECRET_VARIABLE })?;
    run_rank(variable(COORDINATOR_VARIABLE)?, &secret, Rank(variable(RANK_VARIABLE)?))
}

fn variable<T: FromStr>(variable: &'static str) -> Result<T, DeviceError> {
    let found = std::env::var(variable).ok().and_then(|value| value.parse().ok());
    found.ok_or(DeviceError::Environment { variable })
}

fn coordinate(args: &RunArgs) -> anyhow::Result<()> {
    let (job, data) = job(args)?;
    check_job(&job, &data)?;
    let mut results = Results::new(args.out.as_deref())?;
    let command = RankCommand { program: std::env::current_exe()?, arguments: vec!["rank".into()] };
    let world_size = job.plan.world_size();
    eprintln!("{} on {} process{}", job.model.name, world_size, if world_size == 1 { "" } else { "es" });
    println_row("   step      loss    tokens/s  iteration")?;
    let mut last = Instant::now();
    let mut broken_pipe = None;
    let trained = train(&job, &data, &command, &mut |report: &StepReport| {
        // The first step's time includes starting the processes; its own tokens/s say so.
        let wall_s = std::mem::replace(&mut last, Instant::now()).elapsed().as_secs_f64();
        results.take(report, wall_s);
        let printed = println_row(&results::row(report, wall_s));
        printed.map_err(|error| {
            let message = error.to_string();
            broken_pipe = Some(error);
            message
        })
    });
    match broken_pipe {
        Some(error) => return Err(error),
        None => trained?,
    }
    if let Some(folder) = results.write(&job)? {
        eprintln!("details: {}", folder.display());
    }
    Ok(())
}

/// What is to be trained, from files and options.
fn job(args: &RunArgs) -> anyhow::Result<(Job, DataSet)> {
    let path = args.plan.as_deref().ok_or_else(|| {
        anyhow!(
            "no plan\nhint: make one with `{}`, then give it as `--plan plan.json`",
            "autohet-sim plan --cluster 1x1xL4+1x1xT4 --model gpt-tiny --global-batch-size 8 --precision fp32 --out plan.json"
        )
    })?;
    let text = read(path)?;
    let text = String::from_utf8(text).map_err(|_| anyhow!("`{}` isn't UTF-8 text", path.display()))?;
    let plan = Plan::from_json(&text, &path.display().to_string())?;
    let model = ModelSpec::preset(&plan.model)?;
    let data = match &args.data {
        Some(path) => DataSet::Text(read(path)?.into()),
        None => DataSet::Synthetic,
    };
    if !(args.learning_rate.is_finite() && args.learning_rate > 0.0) {
        return Err(anyhow!("`--learning-rate` is `{}`, expected a number above 0", args.learning_rate));
    }
    let optimizer = AdamW { learning_rate: args.learning_rate, ..AdamW::default() };
    Ok((Job { plan, model, seed: args.seed, steps: args.steps, optimizer }, data))
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| anyhow!("cannot read `{}`: {error}", path.display()))
}

fn println_row(row: &str) -> anyhow::Result<()> {
    super::print(row)
}
