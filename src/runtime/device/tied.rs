//! The two ends of the pipeline where they share the word matrix: what they reduce together. That includes the rest of
//! the head, which has no group of its own then.

use super::mailbox::Mailbox;
use super::model::{Region, WORDS_IN_EMBEDDING, cut_part, paste_part, shapes, words_in_head};
use super::tensor_parallel::TensorPart;
use crate::model::{Block, ModelSpec};
use std::ops::Range;

/// What tied ends reduce of one slice, and the sizes of its parts.
#[derive(Clone, Debug)]
pub(super) struct TiedEnds {
    model: ModelSpec,
    /// What this rank holds of its ends.
    held: TensorPart,
    /// The slice: all of that, or some of it where others hold less.
    slice: TensorPart,
    /// Values of the embedding, whose first ones are the words.
    embedding: usize,
    /// Values of the head.
    head: usize,
    /// Place of the words in the head.
    words: Range<usize>,
}

impl TiedEnds {
    /// The ends of a slice of what a rank holds of this model, if it ties them.
    pub(super) fn of(model: &ModelSpec, held: TensorPart, slice: TensorPart) -> Option<Self> {
        if !model.tie_word_embeddings {
            return None;
        }
        let lengths = |block| -> Vec<usize> {
            shapes(model, block).iter().map(|shape| Region::of_part(shape, slice).len()).collect()
        };
        let (embedding, head) = (lengths(Block::Embedding), lengths(Block::Head));
        let start = head[..words_in_head(model)].iter().sum();
        let words = start..start + embedding[WORDS_IN_EMBEDDING];
        let (embedding, head) = (embedding.iter().sum(), head.iter().sum());
        Some(Self { model: model.clone(), held, slice, embedding, head, words })
    }

    /// What this member brings; zeros for the ends that it doesn't hold.
    pub(super) fn gather(&self, mailbox: &Mailbox) -> Vec<f32> {
        let mut sums = vec![0.0; self.embedding + self.head - self.words.len()];
        let gradients = mailbox.gradients();
        let of_slice = |block| Some(cut_part(&self.model, block, self.held, gradients.get(&block)?, self.slice));
        let add = |sums: &mut [f32], values: &[f32]| sums.iter_mut().zip(values).for_each(|(sum, v)| *sum += v);
        let (embedding, before_and_after) = sums.split_at_mut(self.embedding);
        let (before, after) = before_and_after.split_at_mut(self.words.start);
        if let Some(values) = of_slice(Block::Embedding) {
            add(embedding, &values);
        }
        if let Some(values) = of_slice(Block::Head) {
            add(before, &values[..self.words.start]);
            add(&mut embedding[..self.words.len()], &values[self.words.clone()]);
            add(after, &values[self.words.end..]);
        }
        sums
    }

    /// Puts the sums where this member keeps its ends; those of what isn't cut only where it `is_last` of the member's
    /// slices, all of which bring that.
    pub(super) fn scatter(&self, sums: &[f32], mailbox: &Mailbox, is_last: bool) {
        let mut gradients = mailbox.gradients();
        let (embedding, before_and_after) = sums.split_at(self.embedding);
        let (before, after) = before_and_after.split_at(self.words.start);
        let mut paste = |block, content: &[f32]| {
            if let Some(values) = gradients.get_mut(&block) {
                paste_part(&self.model, block, self.held, values, (self.slice, content), is_last);
            }
        };
        paste(Block::Embedding, embedding);
        paste(Block::Head, &[before, &embedding[..self.words.len()], after].concat());
    }
}
