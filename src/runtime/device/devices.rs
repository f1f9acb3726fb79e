//! What can compute: each kind is a backend of the tensor library.

#[cfg(feature = "cuda")]
mod cuda;

use super::DeviceError;
use super::compute::Compute;
use super::stage::{Stage, StageSetting};
use crate::model::Precision;
use crate::plan::Plan;
use burn_flex::{Flex, FlexDevice};
use serde::{Deserialize, Serialize};

/// What computes a run's passes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// One core for each rank, in fp32.
    #[default]
    Cpu,
    /// NVIDIA GPUs, in bf16 or fp32; needs the feature `cuda`.
    Cuda {
        /// The GPU of each rank, as the driver counts them; several ranks may share one. Where there are more ranks than
        /// indices, these are dealt out in turn.
        indices: Vec<u32>,
    },
}

/// Checks that the devices of a plan are there and compute in its precision.
pub(super) fn check_devices(kind: &DeviceKind, plan: &Plan) -> Result<(), DeviceError> {
    let refuse = |hint| {
        let what = format!("a plan in {}", plan.precision);
        Err(DeviceError::Unsupported { what, hint })
    };
    match (kind, plan.precision) {
        (DeviceKind::Cpu, Precision::Fp32) => Ok(()),
        (DeviceKind::Cpu, _) => refuse("plan with `--precision fp32`"),
        (DeviceKind::Cuda { .. }, Precision::Fp16) => refuse("plan with `--precision bf16` or `--precision fp32`"),
        (DeviceKind::Cuda { indices }, _) => check_gpus(indices),
    }
}

#[cfg(feature = "cuda")]
use cuda::check_gpus;

#[cfg(not(feature = "cuda"))]
fn check_gpus(_indices: &[u32]) -> Result<(), DeviceError> {
    let what = "on GPUs, a plan".to_owned();
    Err(DeviceError::Unsupported { what, hint: "this program was built without them: build it with `--features cuda`" })
}

/// The stage of a rank, on its device.
pub(super) fn compute_on_device(setting: StageSetting<'_>) -> Box<dyn Compute> {
    match &setting.job.device {
        DeviceKind::Cpu => Box::new(Stage::<Flex>::new(setting, FlexDevice)),
        #[cfg(feature = "cuda")]
        DeviceKind::Cuda { indices } => cuda::compute_on_gpu(setting, indices),
        #[cfg(not(feature = "cuda"))]
        DeviceKind::Cuda { .. } => unreachable!("a job for GPUs is refused where there are none"),
    }
}
