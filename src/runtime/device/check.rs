//! What can be trained here, said before any process is started.

use super::messages::Job;
use super::{DataSet, DeviceError};
use crate::model::{Architecture, ModelSpec, Precision, Recompute};

/// Most processes that one machine is asked to run.
const MAX_RANKS: usize = 64;

/// Checks that this machine can run the job, as far as that can be said beforehand.
pub fn check_job(job: &Job, data: &DataSet) -> Result<(), DeviceError> {
    let Job { plan, model, .. } = job;
    if plan.tensor_parallel_size != 1 {
        let what = format!("a plan with tensor parallel size {}", plan.tensor_parallel_size);
        let hint = "use a plan whose tensor_parallel_size is 1, such as one for nodes with one GPU each";
        return Err(DeviceError::Unsupported { what, hint });
    }
    check_model(model)?;
    if plan.precision != Precision::Fp32 {
        let what = format!("a plan in {}", plan.precision);
        return Err(DeviceError::Unsupported { what, hint: "plan with `--precision fp32`" });
    }
    if plan.recompute == Recompute::Selective {
        let what = "a plan with selective recomputation".to_owned();
        let hint = "a plan stores all activations (`none`) or recomputes whole layers (`full`)";
        return Err(DeviceError::Unsupported { what, hint });
    }
    if plan.global_batch_size == 0 {
        let what = "a global batch of 0 samples".to_owned();
        return Err(DeviceError::Unsupported { what, hint: "plan with one sample or more" });
    }
    plan.validate_shape(model).map_err(DeviceError::Plan)?;
    if plan.world_size() > MAX_RANKS {
        let what = format!("a plan of {} ranks", plan.world_size());
        return Err(DeviceError::Unsupported {
            what,
            hint: "each rank is a process of this machine, at most 64 of them",
        });
    }
    data.check(model)
}

fn check_model(model: &ModelSpec) -> Result<(), DeviceError> {
    let is_gpt = model.architecture == Architecture::Gpt
        && !model.gated_mlp
        && model.num_key_value_heads == model.num_attention_heads;
    if !is_gpt {
        let what = format!("`{}`", model.name);
        let hint = "models of the GPT family can: `gpt-tiny` is one for CPUs";
        return Err(DeviceError::Unsupported { what, hint });
    }
    Ok(())
}
