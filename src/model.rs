//! What is trained: transformer language models, described layer by layer.
//!
//! A model is a chain of [`Block`]s: the embedding, `num_layers` equal transformer layers, and the head (final norm,
//! vocabulary projection, loss). Every cost in this crate is a function of a block, never of "the model".

mod activations;
mod description;
mod error;
mod parameters;
mod planned;
mod presets;
mod products;
mod shard;
mod weight_gradients;

#[cfg(test)]
pub(crate) use description::file_schema;
pub use error::ModelError;
pub use planned::PlannedModel;
pub use products::MatrixProduct;
pub use shard::{SHARDS_PER_BLOCK, Shard};

use crate::ids::LayerId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A transformer language model: the shapes that decide its cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// Name, as on the command line: `gpt3-6.7b`.
    pub name: String,
    /// Family, which decides norms, position embeddings and biases.
    pub architecture: Architecture,
    /// Number of transformer layers, `L`.
    pub num_layers: u32,
    /// Width of the residual stream, `h`.
    pub hidden_size: u32,
    /// Query heads, `a`.
    pub num_attention_heads: u32,
    /// Key and value heads; fewer than query heads under grouped-query attention.
    pub num_key_value_heads: u32,
    /// Width of one head; usually `hidden_size / num_attention_heads`.
    pub head_dim: u32,
    /// Inner width of the MLP.
    pub ffn_hidden_size: u32,
    /// Whether the MLP is gated (`SwiGLU`: three matrices) or plain (GELU: two).
    pub gated_mlp: bool,
    /// Vocabulary size, `V`.
    pub vocab_size: u32,
    /// Tokens per sample, `s`.
    pub seq_length: u32,
    /// Whether the head shares the embedding's matrix.
    pub tie_word_embeddings: bool,
}

/// The model family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Architecture {
    /// Decoder with learned positions, `LayerNorm` and GELU.
    Gpt,
    /// Decoder with rotary positions, `RMSNorm` and `SwiGLU`.
    Llama,
    /// Encoder with learned positions, `LayerNorm` and GELU; attention isn't causal.
    Bert,
}

/// A part of the model that lives on exactly one stage: the unit of placement, of gradient reduction and of checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// Token (and position) embedding, on the first stage.
    Embedding,
    /// One transformer layer.
    Layer(LayerId),
    /// Final norm, vocabulary projection and loss, on the last stage.
    Head,
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedding => f.write_str("embedding"),
            Self::Layer(layer) => layer.fmt(f),
            Self::Head => f.write_str("head"),
        }
    }
}

/// What of a layer's activations is stored for the backward pass, and what is computed again (Korthikanti et al. 2022).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Recompute {
    /// Everything is stored.
    None,
    /// The attention core (scores, softmax, dropout, weighted values) is computed again.
    #[default]
    Selective,
    /// Only the layer's input is stored; the whole layer is computed again.
    Full,
}

impl fmt::Display for Recompute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Selective => "selective",
            Self::Full => "full",
        })
    }
}

/// Number format of weights and activations in the matrix products.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// 32-bit throughout.
    Fp32,
    /// 16-bit with fp32 master weights.
    #[default]
    Fp16,
    /// bfloat16 with fp32 master weights.
    Bf16,
}

/// How one layer is executed: everything beside the model and the GPU that its cost depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Execution {
    /// Tensor-parallel degree `t`: GPUs that share every layer.
    pub tensor_parallel_size: u32,
    /// Samples per micro batch, `b`.
    pub micro_batch_size: u32,
    /// What is stored for the backward pass.
    pub recompute: Recompute,
    /// Whether norms, dropout and residuals are split along the sequence over the tensor-parallel group.
    pub sequence_parallel: bool,
    /// Number format.
    pub precision: Precision,
}

impl Architecture {
    /// Whether training drops out activations, whose masks are stored (one byte an element).
    pub fn has_dropout(self) -> bool {
        !matches!(self, Self::Llama)
    }

    /// Whether linear layers and norms have biases.
    pub fn has_bias(self) -> bool {
        !matches!(self, Self::Llama)
    }
}

impl Precision {
    /// Bytes of one weight or activation.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Fp32 => 4,
            Self::Fp16 | Self::Bf16 => 2,
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fp32 => "fp32",
            Self::Fp16 => "fp16",
            Self::Bf16 => "bf16",
        })
    }
}
