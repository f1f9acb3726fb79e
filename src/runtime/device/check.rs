//! What can be trained here, said before any process is started.

use super::devices::check_devices;
use super::messages::Job;
use super::{DataSet, DeviceError, EmulatedRank};
use crate::model::{Architecture, ModelSpec};
use crate::plan::{Plan, ScheduleKind};
use crate::runtime::MAX_RANKS;
use crate::units::format_bytes;

/// Tensor-parallel degrees: those that cut the eight slices of a block's state evenly.
const TENSOR_PARALLEL_SIZES: [u32; 4] = [1, 2, 4, 8];
/// Most bytes that emulated ranks hold in all.
const MAX_EMULATED_BYTES: u64 = 4_000_000_000;

/// Checks that this machine can run the job, as far as that can be said beforehand.
pub fn check_job(job: &Job, data: &DataSet) -> Result<(), DeviceError> {
    let Job { plan, model, .. } = job;
    check_schedule(plan)?;
    if job.conditions.is_emulated() {
        return check_emulated(job);
    }
    check_model(model)?;
    for size in plan.tensor_parallel_sizes() {
        check_tensor_parallel(model, size)?;
    }
    if plan.global_batch_size == 0 {
        let what = "a global batch of 0 samples".to_owned();
        return Err(DeviceError::Unsupported { what, hint: "plan with one sample or more" });
    }
    check_ranks(job)?;
    data.check(model)?;
    check_devices(&job.device, plan)
}

/// Backward passes are computed whole, and a rank has one chunk of layers.
fn check_schedule(plan: &Plan) -> Result<(), DeviceError> {
    match plan.schedule {
        ScheduleKind::OneForwardOneBackward | ScheduleKind::GPipe => Ok(()),
        kind @ (ScheduleKind::Interleaved | ScheduleKind::ZeroBubbleH1 | ScheduleKind::Redundant) => {
            Err(DeviceError::Unsupported {
                what: format!("the schedule {}", kind.title()),
                hint: "it is simulated only: plan with `--schedule 1f1b` or `--schedule gpipe`",
            })
        }
    }
}

/// Any plan of any model can be emulated whose state this machine can hold.
fn check_emulated(job: &Job) -> Result<(), DeviceError> {
    check_ranks(job)?;
    let held: u64 = job.conditions.emulated.iter().map(EmulatedRank::held_bytes).sum();
    if held > MAX_EMULATED_BYTES {
        let what = format!("`{}` with {} of state over all ranks", job.model.name, format_bytes(held));
        return Err(DeviceError::Unsupported {
            what,
            hint: "an emulated device holds a state as large as a real one: emulate a smaller model or fewer replicas",
        });
    }
    Ok(())
}

fn check_ranks(job: &Job) -> Result<(), DeviceError> {
    job.plan.validate_shape(&job.model).map_err(DeviceError::Plan)?;
    if job.plan.world_size() > MAX_RANKS {
        let what = format!("a plan of {} ranks", job.plan.world_size());
        return Err(DeviceError::Unsupported {
            what,
            hint: "each rank is a process of this machine, at most 64 of them",
        });
    }
    Ok(())
}

fn check_model(model: &ModelSpec) -> Result<(), DeviceError> {
    let is_llama = model.architecture == Architecture::Llama;
    let hint = if is_llama && !model.head_dim.is_multiple_of(2) {
        "rotary positions turn pairs: give the model an even head_dim"
    } else if model.gated_mlp != is_llama {
        "LLaMA has a gated MLP, GPT and BERT have a plain one: `gpt-tiny`, `llama-tiny` and `bert-tiny` are for CPUs"
    } else {
        return Ok(());
    };
    Err(DeviceError::Unsupported { what: format!("`{}`", model.name), hint })
}

fn check_tensor_parallel(model: &ModelSpec, size: u32) -> Result<(), DeviceError> {
    let what = || format!("a plan with a stage of {size} GPUs");
    if !TENSOR_PARALLEL_SIZES.contains(&size) {
        return Err(DeviceError::Unsupported {
            what: what(),
            hint: "a stage can have 1, 2, 4 or 8 GPUs, its tensor-parallel ranks",
        });
    }
    if !model.num_key_value_heads.is_multiple_of(size) {
        let what =
            format!("{} of `{}`, which has {} key and value heads,", what(), model.name, model.num_key_value_heads);
        let hint = "each rank holds whole heads: give each stage a number of GPUs that divides theirs";
        return Err(DeviceError::Unsupported { what, hint });
    }
    if model.vocab_size < size {
        let hint = "each rank holds some of the vocabulary: give each stage fewer GPUs";
        return Err(DeviceError::Unsupported { what: format!("{} of {} tokens", what(), model.vocab_size), hint });
    }
    Ok(())
}
