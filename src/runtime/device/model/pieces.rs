//! A block as a chain of pieces. Each is a graph of its own, and what the ranks of a tensor-parallel group tell each other
//! they say between two pieces (Shoeybi et al. 2019): the sum of partial products on the way forward, the sum of what
//! each rank's columns say about their common input on the way backward.
//!
//! Two values travel along the chain: the residual stream, and a branch off it.

use super::parameters::shapes;
use crate::model::{Architecture, Block, ModelSpec};
use std::ops::Range;

/// One piece of a block.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) kind: Kind,
    /// Its parameters, among those of the block.
    pub(super) parameters: Range<usize>,
}

/// What a piece computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Word embeddings: of the rank's part of the vocabulary, zero for other tokens.
    Words,
    /// Adds positions; in BERT also the token type, and a norm.
    Positions,
    /// The branch is the norm of the residual.
    Norm,
    /// The branch is the residual.
    Fork,
    /// Query, key and value of the rank's heads.
    QueryKeyValue,
    /// What the heads attend to. Has no parameters, and can be computed again.
    Attention,
    /// Product with the rank's rows of the output matrix: a part of the sum.
    Project,
    /// Adds the branch, and the bias that its sum lacks, to the residual.
    Add,
    /// The same, and the norm of the sum.
    AddAndNorm,
    /// The MLP with the rank's part of its inner width: a part of the sum.
    Mlp,
    /// BERT's dense layer, GELU and norm before the vocabulary projection.
    Transform,
    /// Scores of the rank's part of the vocabulary.
    Logits,
}

/// What happens at the border behind a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Border {
    /// Nothing.
    Open,
    /// Forward, the branch is summed over the group. Where each rank then has its rows of the sum, their gradients are
    /// gathered backward.
    SumOutput,
    /// Backward, the branch's gradient is summed over the group. Where each rank has its rows of the branch, they are
    /// gathered forward.
    SumGradient,
}

impl Kind {
    pub(super) fn reads_residual(self) -> bool {
        matches!(self, Self::Norm | Self::Fork | Self::Add | Self::AddAndNorm | Self::Transform)
    }

    pub(super) fn writes_residual(self) -> bool {
        matches!(self, Self::Positions | Self::Add | Self::AddAndNorm)
    }

    pub(super) fn border(self) -> Border {
        match self {
            Self::Norm | Self::Fork | Self::Transform => Border::SumGradient,
            Self::Words | Self::Project | Self::Mlp => Border::SumOutput,
            _ => Border::Open,
        }
    }
}

/// The pieces of a block, from the input side.
pub(super) fn pieces(model: &ModelSpec, block: Block) -> Vec<Piece> {
    let bias = usize::from(model.architecture.has_bias());
    let norm = 1 + bias;
    let ups = if model.gated_mlp { 2 } else { 1 };
    let mlp = (Kind::Mlp, ups * (1 + bias) + 1);
    let attention = [(Kind::QueryKeyValue, 3 * (1 + bias)), (Kind::Attention, 0), (Kind::Project, 1)];
    let chain = match (block, model.architecture) {
        (Block::Embedding, Architecture::Llama) => vec![(Kind::Words, 1), (Kind::Positions, 0)],
        (Block::Embedding, Architecture::Gpt) => vec![(Kind::Words, 1), (Kind::Positions, 1)],
        (Block::Embedding, Architecture::Bert) => vec![(Kind::Words, 1), (Kind::Positions, 2 + norm)],
        (Block::Layer(_), Architecture::Bert) => {
            let added = (Kind::AddAndNorm, bias + norm);
            [&[(Kind::Fork, 0)][..], &attention, &[added, (Kind::Fork, 0), mlp, added]].concat()
        }
        (Block::Layer(_), _) => {
            let added = (Kind::Add, bias);
            [&[(Kind::Norm, norm)][..], &attention, &[added, (Kind::Norm, norm), mlp, added]].concat()
        }
        (Block::Head, Architecture::Bert) => vec![(Kind::Transform, 2 + norm), (Kind::Logits, 2)],
        (Block::Head, _) => vec![(Kind::Norm, norm), (Kind::Logits, 1)],
    };
    let mut first = 0;
    let pieces = chain.into_iter().map(|(kind, count)| {
        let parameters = first..first + count;
        first = parameters.end;
        Piece { kind, parameters }
    });
    let pieces = pieces.collect();
    assert_eq!(first, shapes(model, block).len(), "each parameter belongs to a piece");
    pieces
}
