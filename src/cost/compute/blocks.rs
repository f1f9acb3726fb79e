//! The operations of a block on one GPU, as the roofline sees them.
//!
//! Accesses of fused kernels are counted from what they read and write. Those of PyTorch's separate operations and the host's
//! times are fitted (see `roofline`). Where the data don't tell forward from backward (head, embedding), accesses are halved
//! between them and the host's time is split one to two.

use crate::cost::{CostSettings, Kernels};
use crate::model::{Architecture, Block, Execution, MatrixProduct, ModelSpec, Precision};

/// What a forward and a backward pass do on one of `t` GPUs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    /// Matrix products of the forward pass; unused places have no size.
    pub(super) products: [MatrixProduct; 6],
    /// A product of the forward pass that the backward pass does again whatever is recomputed; mostly none.
    pub(super) again: MatrixProduct,
    /// The forward pass beside its products.
    pub(super) forward: Pass,
    /// The backward pass beside its products.
    pub(super) backward: Pass,
    /// The part of the forward pass's stream in the attention core.
    pub(super) core_stream_bytes: f64,
}

/// What one pass does beside matrix products.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pass {
    /// Bytes that element-wise operations, norms and softmax read and write.
    pub(super) stream_bytes: f64,
    /// Seconds that the host needs to issue the pass.
    pub(super) host_s: f64,
}

/// Accesses per element of what a layer's element-wise operations work on.
struct Accesses {
    /// The residual stream: norms, biases, dropouts, additions.
    residual: f64,
    /// The MLP's inner activation: bias, activation function.
    mlp: f64,
    /// The scores: scale, mask, softmax, dropout.
    scores: f64,
}

/// Share of the fitted host times that shows in training: the profiles above time operators one by one and wait for
/// each, a training run issues them ahead of the GPU. What remains is read off a profile that times whole layers (Sailor,
/// SOSP'25: OPT-350M on GH200, 4-way tensor parallel, one sample, where the GPU itself needs less): 1.50 ms forward and
/// 1.72 ms backward with their collectives, about half of the fitted times. The half was first chosen with an eye on 21
/// end-to-end runs without tensor parallelism (`vTrain`): those runs are no test of it.
const ISSUED_AHEAD: f64 = 0.5;
/// Host seconds of a layer's forward and backward pass.
const LAYER_HOST_S: (f64, f64) = (1.85e-3 * ISSUED_AHEAD, 3.36e-3 * ISSUED_AHEAD);
/// Host seconds of the head's passes.
const HEAD_HOST_S: (f64, f64) = (1.14e-3 * ISSUED_AHEAD, 2.27e-3 * ISSUED_AHEAD);
/// Host seconds of the embedding's passes.
const EMBEDDING_HOST_S: (f64, f64) = (0.4e-3 * ISSUED_AHEAD, 0.8e-3 * ISSUED_AHEAD);
/// Accesses per fp32 logit in either pass: conversion, softmax, loss, and its gradient.
const LOGIT_ACCESSES: f64 = 5.65;
/// Accesses per element of the embedding's output in either pass.
const EMBEDDING_ACCESSES: f64 = 22.3;
/// As many more where the vocabulary is split: masking of foreign tokens.
const VOCABULARY_SPLIT_ACCESSES: f64 = 10.7;

impl Work {
    pub(super) fn of(model: &ModelSpec, block: Block, execution: &Execution, settings: &CostSettings) -> Self {
        let mut work = match block {
            Block::Embedding => Self::embedding(model, execution),
            Block::Layer(_) => Self::layer(model, execution, settings.kernels),
            Block::Head => Self::head(model, execution),
        };
        let weights: f64 = work.products.iter().filter(|product| !product.attention_core).map(|p| p.n * p.k).sum();
        work.backward.stream_bytes += weights * accumulation_bytes(execution.precision, settings);
        work
    }

    fn layer(model: &ModelSpec, execution: &Execution, kernels: Kernels) -> Self {
        let bytes = execution.precision.bytes() as f64;
        let t = f64::from(execution.tensor_parallel_size);
        let split = if execution.sequence_parallel { t } else { 1.0 };
        let residual = bytes * model.residual_elements(execution) as f64 / split;
        let tokens = f64::from(model.seq_length) * f64::from(execution.micro_batch_size);
        let mlp = bytes * tokens * f64::from(model.ffn_hidden_size) / t;
        let scores = bytes * tokens * f64::from(model.seq_length) * f64::from(model.num_attention_heads) / t;
        let (forward, backward) = layer_accesses(model.architecture, kernels);
        // Queries, keys and values become batches of heads, and back.
        let heads = HEAD_ACCESSES * bytes * model.residual_elements(execution) as f64 / t;
        let pass = |accesses: &Accesses, host_s| Pass {
            stream_bytes: accesses.residual * residual + accesses.mlp * mlp + accesses.scores * scores + heads,
            host_s,
        };
        let mut products = model.layer_products(execution);
        let mut again = MatrixProduct::default();
        if kernels == Kernels::Flash {
            let done = if model.architecture == Architecture::Bert { 1.0 } else { 0.5 };
            products.iter_mut().filter(|product| product.attention_core).for_each(|product| product.count *= done);
            again = products.iter().find(|product| product.attention_core).copied().unwrap_or_default();
        }
        Self {
            products,
            again,
            forward: pass(&forward, LAYER_HOST_S.0),
            backward: pass(&backward, LAYER_HOST_S.1),
            core_stream_bytes: forward.scores * scores,
        }
    }

    /// Final norm, projection, and softmax and loss over the logits in fp32.
    fn head(model: &ModelSpec, execution: &Execution) -> Self {
        let mut products = [MatrixProduct::default(); 6];
        products[..2].copy_from_slice(&model.head_products(execution));
        let stream_bytes = LOGIT_ACCESSES * model.logits_bytes(execution) as f64;
        let pass = |host_s| Pass { stream_bytes, host_s };
        Self { products, forward: pass(HEAD_HOST_S.0), backward: pass(HEAD_HOST_S.1), ..Self::default() }
    }

    /// A look-up forward; backward the gradient of the whole table is cleared and added to.
    fn embedding(model: &ModelSpec, execution: &Execution) -> Self {
        let bytes = execution.precision.bytes() as f64;
        let t = f64::from(execution.tensor_parallel_size);
        let split = if execution.tensor_parallel_size > 1 { VOCABULARY_SPLIT_ACCESSES } else { 0.0 };
        let output = (EMBEDDING_ACCESSES + split) * bytes * model.residual_elements(execution) as f64;
        let table = 2.0 * bytes * model.word_embedding_parameters() as f64 / t;
        Self {
            forward: Pass { stream_bytes: output, host_s: EMBEDDING_HOST_S.0 },
            backward: Pass { stream_bytes: output + table, host_s: EMBEDDING_HOST_S.1 },
            ..Self::default()
        }
    }
}

/// Accesses per element of the attention's input that putting heads together takes.
const HEAD_ACCESSES: f64 = 2.0;

/// Bytes for each weight in the backward pass: a micro batch's gradient, just computed, is read and added to the sum.
fn accumulation_bytes(precision: Precision, settings: &CostSettings) -> f64 {
    let sum_bytes = match precision {
        Precision::Fp32 => 4,
        Precision::Fp16 | Precision::Bf16 => settings.gradient_bytes_per_parameter,
    };
    (precision.bytes() + 2 * sum_bytes) as f64
}

/// Forward and backward.
///
/// Fused, counted by 2-byte elements, masks being half of one. Forward: two norms read and write (4), twice bias, dropout and
/// addition read two streams, write one and the mask (7); the activation with its bias reads and writes (2); the scores'
/// softmax reads and writes, their dropout too, and a mask (4.5). Backward: norms read the stream and its gradient twice, once
/// for the weights, and write (10), dropout reads a mask, writes, and gives the bias's gradient (7), streams are added (6);
/// the activation reads two, writes one, and the bias reads again (4); dropout and softmax of the scores (2.5 and 3).
///
/// Separate: fitted on operator profiles of a V100 (see `roofline`), whose softmax was fused. Without that the scores are
/// multiplied by the mask and added to it (4), converted (3), go through a softmax in fp32 (4), are converted back (3) and
/// dropped out (2.5), and the same on the way back.
///
/// LLaMA: no dropout, norms with less to read, and a fused gated activation (two values read and one written, and the
/// reverse), where kernels are fused; else the residual's forward accesses as fitted on Galvatron's profile, its backward ones
/// in GPT's ratio.
fn layer_accesses(architecture: Architecture, kernels: Kernels) -> (Accesses, Accesses) {
    let accesses = |residual, mlp, scores| Accesses { residual, mlp, scores };
    let pieces = 16.5;
    match (architecture, kernels) {
        (Architecture::Gpt | Architecture::Bert, Kernels::Fused) => {
            (accesses(11.0, 2.0, 4.5), accesses(23.0, 4.0, 5.5))
        }
        (Architecture::Gpt | Architecture::Bert, Kernels::Flash) => {
            (accesses(11.0, 2.0, 0.0), accesses(23.0, 4.0, 0.0))
        }
        (Architecture::Llama, Kernels::Flash) => (accesses(10.0, 3.0, 0.0), accesses(20.0, 6.0, 0.0)),
        (Architecture::Gpt | Architecture::Bert, Kernels::FusedSoftmax) => {
            (accesses(49.8, 39.8, 1.0), accesses(51.1, 12.0, 3.2))
        }
        (Architecture::Gpt | Architecture::Bert, Kernels::Separate) => {
            (accesses(49.8, 39.8, pieces), accesses(51.1, 12.0, pieces))
        }
        (Architecture::Llama, Kernels::Fused) => (accesses(10.0, 3.0, 2.0), accesses(20.0, 6.0, 3.0)),
        (Architecture::Llama, Kernels::FusedSoftmax) => (accesses(24.6, 3.0, 2.0), accesses(26.6, 6.0, 3.0)),
        (Architecture::Llama, Kernels::Separate) => (accesses(24.6, 3.0, pieces), accesses(26.6, 6.0, pieces)),
    }
}
