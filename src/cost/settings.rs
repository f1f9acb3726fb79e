//! What the cost model takes as given.

use serde::{Deserialize, Serialize};

/// How a framework puts element-wise operations together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Kernels {
    /// Bias and activation, bias, dropout and addition, and scale, mask and softmax are one kernel each, as Megatron-LM has
    /// them.
    #[default]
    Fused,
    /// Scale, mask and softmax are one kernel, everything else is an operation of PyTorch's each.
    FusedSoftmax,
    /// The same, and attention is one kernel that doesn't write the scores, skips what is masked, and computes the scores again
    /// on the way back (`FlashAttention`, Dao et al. 2022). Neither are they stored.
    Flash,
    /// Every operation by itself, the softmax in fp32 between two conversions: Megatron-LM up to 1.1.5, of which DeepSpeed's
    /// examples were made, unless told otherwise.
    Separate,
}

/// Constants of memory and of the optimizer that a user may know better.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct CostSettings {
    /// Device memory that no tensor gets: CUDA context (about 0.5 GB), communicators' buffers (about 0.5 GB), library
    /// workspaces and the allocator's fragmentation. 2 GB by default, an assumption.
    pub reserve_bytes: u64,
    /// Optimizer state per parameter in half-precision training: 12 bytes for Adam, an fp32 master weight and two fp32
    /// moments. In fp32 training the weight is its own master, so that 4 bytes less are held.
    pub optimizer_bytes_per_parameter: u64,
    /// Bytes of one gradient in half-precision training: 2, or 4 where gradients are summed up in fp32. In fp32
    /// training always 4.
    pub gradient_bytes_per_parameter: u64,
    /// Weight, gradient and optimizer state per parameter where a profile measures memory: 24 bytes, as Sailor (SOSP'25)
    /// counts fp32 training with Adam; without such a profile it is 16.
    pub profiled_bytes_per_parameter: u64,
    /// More reserve where a profile measures memory and several GPUs share a stage: 1 GB, as Sailor counts.
    pub profiled_tensor_parallel_reserve_bytes: u64,
    /// How element-wise operations are put together: `fused`, `flash`, `fused_softmax` or `separate`.
    pub kernels: Kernels,
}

impl Default for CostSettings {
    fn default() -> Self {
        Self {
            reserve_bytes: 2_000_000_000,
            optimizer_bytes_per_parameter: 12,
            gradient_bytes_per_parameter: 2,
            profiled_bytes_per_parameter: 24,
            profiled_tensor_parallel_reserve_bytes: 1_000_000_000,
            kernels: Kernels::Fused,
        }
    }
}
