//! `autohet-run profile`: measures this machine for the planner and the simulator.

use super::args::{Backend, ProfileArgs};
use super::{host, worker_command};
use crate::cli::files;
use crate::model::{ModelSpec, Precision};
use crate::profile::{LayerProfile, ProfileFile};
use crate::runtime::device::messages::Job;
use crate::runtime::device::{DataSet, DeviceKind, check_job};
use crate::validation::{ProfileRequest, StageKind, measure_profile};
use anyhow::anyhow;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeSet;

pub(super) fn run_profile(args: &ProfileArgs) -> anyhow::Result<()> {
    if args.backend == Backend::Emulated {
        return Err(anyhow!("emulated devices have nothing to measure\nhint: profile with `--backend cpu`"));
    }
    let is_cuda = args.backend == Backend::Cuda;
    // Ranks that share a GPU wait for each other: what one takes alone is what adds up.
    let at_once = if is_cuda { 1 } else { host::cores() };
    let device = if is_cuda { DeviceKind::Cuda { indices: vec![0] } } else { DeviceKind::Cpu };
    let request = ProfileRequest {
        device,
        precision: args.precision.unwrap_or(if is_cuda { Precision::Bf16 } else { Precision::Fp32 }),
        model: ModelSpec::from_argument(&args.model)?.with_seq_length(args.seq_length)?,
        tensor_parallel_sizes: distinct("--tensor-parallel-sizes", &args.tensor_parallel_sizes)?,
        micro_batch_sizes: distinct("--micro-batch-sizes", &args.micro_batch_sizes)?,
        stage: StageKind::SMALL,
        concurrency: args.concurrency.unwrap_or(at_once),
        gpu_type: args.gpu_type.clone().unwrap_or_else(|| host::device_name(args.backend).to_owned()),
        steps: args.steps,
    };
    args.out.as_deref().map(files::check_writable).transpose()?;
    let file = measure_with_progress(&request)?;
    let text = serde_json::to_string_pretty(&file)? + "\n";
    // What is written can be read.
    LayerProfile::from_json(&text, "the measured profile")?;
    match &args.out {
        Some(path) => files::write_files(&[(path.as_path(), text.as_bytes())]),
        None => crate::cli::print(&text),
    }
}

/// Measures, with a bar on stderr, what this machine can hold.
pub(super) fn measure_with_progress(request: &ProfileRequest) -> anyhow::Result<ProfileFile> {
    if request.device == DeviceKind::Cpu {
        for (model, plan) in request.points() {
            check_job(&Job::new(plan.clone(), model.clone(), request.steps), &DataSet::Synthetic)?;
            host::check_memory(&plan, &model, 0, &BTreeSet::new(), 0)?;
        }
    }
    let bar = ProgressBar::new(request.all_steps()).with_message(format!("profiling {}", request.model.name));
    bar.set_style(ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} steps, {eta} left")?);
    let measured = measure_profile(request, &worker_command()?, &|| bar.inc(1));
    bar.finish_and_clear();
    Ok(measured?)
}

fn distinct(option: &str, sizes: &[u32]) -> anyhow::Result<Vec<u32>> {
    if let Some((_, twice)) = sizes.iter().enumerate().find(|(index, size)| sizes[..*index].contains(size)) {
        return Err(anyhow!("`{option}` has `{twice}` twice\nhint: name each size once"));
    }
    Ok(sizes.to_vec())
}
