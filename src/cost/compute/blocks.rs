//! The operations of a block on one GPU, as the roofline sees them.
//!
//! The numbers of accesses per element and the host's times are fitted (see `roofline`); they are larger than what a
//! fused implementation needs because published profiles are of eager frameworks. Where the data don't tell forward
//! from backward (head, embedding), the accesses are halved between them and the host's time is split one to two.

use crate::model::{Architecture, Block, Execution, MatrixProduct, ModelSpec};

/// What a forward and a backward pass do on one of `t` GPUs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    /// Matrix products of the forward pass; unused places have no size.
    pub(super) products: [MatrixProduct; 6],
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
const LOGIT_ACCESSES: f64 = 6.24;
/// Accesses per element of the embedding's output in either pass.
const EMBEDDING_ACCESSES: f64 = 22.3;
/// As many more where the vocabulary is split: masking of foreign tokens.
const VOCABULARY_SPLIT_ACCESSES: f64 = 10.7;

impl Work {
    pub(super) fn of(model: &ModelSpec, block: Block, execution: &Execution) -> Self {
        match block {
            Block::Embedding => Self::embedding(model, execution),
            Block::Layer(_) => Self::layer(model, execution),
            Block::Head => Self::head(model, execution),
        }
    }

    fn layer(model: &ModelSpec, execution: &Execution) -> Self {
        let bytes = execution.precision.bytes() as f64;
        let t = f64::from(execution.tensor_parallel_size);
        let split = if execution.sequence_parallel { t } else { 1.0 };
        let residual = bytes * model.residual_elements(execution) as f64 / split;
        let tokens = f64::from(model.seq_length) * f64::from(execution.micro_batch_size);
        let mlp = bytes * tokens * f64::from(model.ffn_hidden_size) / t;
        let scores = bytes * tokens * f64::from(model.seq_length) * f64::from(model.num_attention_heads) / t;
        let (forward, backward) = layer_accesses(model.architecture);
        let pass = |accesses: &Accesses, host_s| Pass {
            stream_bytes: accesses.residual * residual + accesses.mlp * mlp + accesses.scores * scores,
            host_s,
        };
        Self {
            products: model.layer_products(execution),
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
        Self { products, forward: pass(HEAD_HOST_S.0), backward: pass(HEAD_HOST_S.1), core_stream_bytes: 0.0 }
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

/// Forward and backward. LLaMA: the residual's forward accesses are fitted, its backward ones in GPT's ratio, the fused
/// gated activation counted (two values read and one written, and the reverse), the scores taken over from GPT.
fn layer_accesses(architecture: Architecture) -> (Accesses, Accesses) {
    match architecture {
        Architecture::Gpt | Architecture::Bert => {
            (Accesses { residual: 57.0, mlp: 26.1, scores: 3.07 }, Accesses { residual: 61.7, mlp: 26.1, scores: 3.02 })
        }
        Architecture::Llama => {
            (Accesses { residual: 24.6, mlp: 3.0, scores: 3.07 }, Accesses { residual: 26.6, mlp: 6.0, scores: 3.02 })
        }
    }
}
