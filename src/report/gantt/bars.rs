//! What a row of the chart shows, from a timeline.

use crate::ids::MicroBatch;
use crate::program::{Gradients, Op, Program};
use crate::runtime::Timeline;
use crate::units::SimTime;

/// What a bar stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Forward,
    /// All of a backward pass, or its half for the input.
    Backward,
    Weights,
    /// The forward pass of the neighbour's layers.
    Redundant,
    Optimizer,
    Send,
    Receive,
    Reduction,
}

/// One bar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bar {
    pub kind: Kind,
    pub micro_batch: Option<MicroBatch>,
    pub chunk: u32,
    pub start: SimTime,
    pub end: SimTime,
}

impl Kind {
    /// From light to dark: idle is white, then forward, backward, weights, optimizer. Later chunks take turns in a darker shade.
    pub(super) fn fill(self, chunk: u32) -> &'static str {
        match (self, chunk % 2) {
            (Self::Forward, 0) => "#b9dcf5",
            (Self::Forward, _) => "#8fc4ea",
            (Self::Backward, 0) => "#e89a3c",
            (Self::Backward, _) => "#d07f1e",
            (Self::Weights, _) => "#1f6f5c",
            (Self::Optimizer, _) => "#2b2b2b",
            (Self::Send, _) => "#7a3b8f",
            (Self::Receive, _) => "#c79ad6",
            (Self::Reduction, _) => "#72849c",
            (Self::Redundant, _) => "#d9e4ee",
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Weights => "backward for the weights",
            Self::Redundant => "redundant forward",
            Self::Optimizer => "optimizer step",
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Reduction => "reduction",
        }
    }

    /// Colour of the label on it.
    pub(super) fn ink(self) -> &'static str {
        match self {
            Self::Weights | Self::Optimizer => "#ffffff",
            _ => "#1a1a1a",
        }
    }
}

impl Bar {
    /// The micro batch, and the chunk's letter where there are several.
    pub(super) fn label(&self, shows_chunk: bool) -> String {
        match self.micro_batch {
            Some(micro_batch) if shows_chunk => format!("{}{}", micro_batch.0, chunk_letter(self.chunk)),
            Some(micro_batch) => micro_batch.0.to_string(),
            None => String::new(),
        }
    }
}

/// `a` for the first chunk; numbers go on behind the alphabet.
pub(super) fn chunk_letter(chunk: u32) -> String {
    match char::from_u32('a' as u32 + chunk) {
        Some(letter) if letter.is_ascii_lowercase() => letter.to_string(),
        _ => format!(".{chunk}"),
    }
}

/// The bars of each rank, in the order in which they ended. A backward pass that is cut into blocks is one bar as long as
/// nothing comes between.
pub(super) fn bars_of_ranks(program: &Program, timeline: &Timeline) -> Vec<Vec<Bar>> {
    let mut bars: Vec<Vec<Bar>> = vec![Vec::new(); program.ranks().len()];
    for span in &timeline.spans {
        let (kind, micro_batch, chunk) = match program.instruction(span.rank, span.id).op {
            Op::Forward { micro_batch, chunk } => (Kind::Forward, Some(micro_batch), chunk.0),
            Op::Backward { micro_batch, chunk, gradients, .. } => {
                let kind = if gradients == Gradients::Weights { Kind::Weights } else { Kind::Backward };
                (kind, Some(micro_batch), chunk.0)
            }
            Op::RedundantForward { micro_batch } => (Kind::Redundant, Some(micro_batch), 0),
            Op::Send { .. } => (Kind::Send, None, 0),
            Op::Receive { .. } => (Kind::Receive, None, 0),
            Op::AllReduce { .. } | Op::ReduceScatter { .. } | Op::AllGather { .. } => (Kind::Reduction, None, 0),
            Op::OptimizerStep => (Kind::Optimizer, None, 0),
        };
        let bar = Bar { kind, micro_batch, chunk, start: span.start, end: span.end };
        let of_rank = &mut bars[span.rank.index()];
        let goes_on = |before: &&mut Bar| {
            (before.kind, before.micro_batch, before.chunk, before.end) == (kind, micro_batch, chunk, bar.start)
        };
        match of_rank.iter_mut().rev().find(|before| before.kind == kind).filter(goes_on) {
            Some(before) => before.end = bar.end,
            None => of_rank.push(bar),
        }
    }
    bars
}
