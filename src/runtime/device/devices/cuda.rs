//! NVIDIA GPUs.

use crate::model::Precision;
use crate::runtime::device::DeviceError;
use crate::runtime::device::compute::Compute;
use crate::runtime::device::model::Tensors;
use crate::runtime::device::stage::{Stage, StageSetting};
use burn_cuda::{Cuda, CudaDevice};
use burn_tensor::bf16;
use cudarc::driver::{CudaContext, DriverError};
use std::panic;

type Fp32 = Cuda<f32, i32>;
type Bf16 = Cuda<bf16, i32>;

impl Tensors for Fp32 {}
impl Tensors for Bf16 {}

/// Checks that these GPUs are there.
pub(super) fn check_gpus(indices: &[u32]) -> Result<(), DeviceError> {
    let refuse = |where_: String, hint| Err(DeviceError::Unsupported { what: format!("{where_}, a plan"), hint });
    let found = match count() {
        None => {
            let hint = "no CUDA driver can be loaded: install NVIDIA's, or train on the CPU";
            return refuse("on GPUs".to_owned(), hint);
        }
        Some(Err(error)) => {
            let hint = "the CUDA driver doesn't start: see what `nvidia-smi` says, or train on the CPU";
            return refuse(format!("on GPUs ({error:?})"), hint);
        }
        Some(Ok(found)) => found,
    };
    let hint = "name GPUs that `nvidia-smi` lists, and mind `CUDA_VISIBLE_DEVICES`";
    let is_lacking = |&&index: &&u32| i32::try_from(index).map_or(true, |index| index >= found);
    match indices.iter().find(is_lacking) {
        Some(index) => refuse(format!("on GPU {index} of {found}"), hint),
        None if indices.is_empty() => refuse("on no GPU".to_owned(), hint),
        None => Ok(()),
    }
}

/// How many there are, if there is a driver. The library loads it at its first use and panics if it can't: that is caught
/// here, and nothing of it is printed.
fn count() -> Option<Result<i32, DriverError>> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let counted = panic::catch_unwind(CudaContext::device_count);
    panic::set_hook(hook);
    counted.ok()
}

/// The stage of a rank, on its GPU, in the precision of the plan.
pub(super) fn compute_on_gpu(setting: StageSetting<'_>, indices: &[u32]) -> Box<dyn Compute> {
    let index = indices[setting.rank.index() % indices.len()];
    let device = CudaDevice::new(index as usize);
    if setting.job.plan.precision == Precision::Fp32 {
        Box::new(Stage::<Fp32>::new(setting, device))
    } else {
        Box::new(Stage::<Bf16>::new(setting, device))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_that_arent_there_are_refused() {
        let message = check_gpus(&[u32::MAX]).unwrap_err().to_string();
        assert!(message.contains("can't be trained here\nhint: "), "{message}");
    }
}
