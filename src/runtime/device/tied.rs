//! The two ends of the pipeline where they share the word matrix: what they reduce together. That includes the rest of
//! the head, which has no group of its own then.

use super::mailbox::Mailbox;
use super::model::{Region, WORDS_IN_EMBEDDING, shapes, words_in_head};
use super::tensor_parallel::TensorPart;
use crate::model::{Block, ModelSpec};
use std::ops::Range;

/// Sizes of the parts that tied ends reduce.
#[derive(Clone, Debug)]
pub(super) struct TiedEnds {
    /// Values of the embedding, whose first ones are the words.
    embedding: usize,
    /// Values of the head.
    head: usize,
    /// Place of the words in the head.
    words: Range<usize>,
}

impl TiedEnds {
    /// The ends of a rank's part of this model, if it ties them.
    pub(super) fn of(model: &ModelSpec, part: TensorPart) -> Option<Self> {
        if !model.tie_word_embeddings {
            return None;
        }
        let lengths = |block| -> Vec<usize> {
            shapes(model, block).iter().map(|shape| Region::of_part(shape, part).len()).collect()
        };
        let (embedding, head) = (lengths(Block::Embedding), lengths(Block::Head));
        let start = head[..words_in_head(model)].iter().sum();
        let words = start..start + embedding[WORDS_IN_EMBEDDING];
        Some(Self { embedding: embedding.iter().sum(), head: head.iter().sum(), words })
    }

    /// What this member brings; zeros for the ends that it doesn't hold.
    pub(super) fn gather(&self, mailbox: &Mailbox) -> Vec<f32> {
        let mut sums = vec![0.0; self.embedding + self.head - self.words.len()];
        let gradients = mailbox.gradients();
        let add = |sums: &mut [f32], values: &[f32]| sums.iter_mut().zip(values).for_each(|(sum, v)| *sum += v);
        let (embedding, before_and_after) = sums.split_at_mut(self.embedding);
        let (before, after) = before_and_after.split_at_mut(self.words.start);
        if let Some(values) = gradients.get(&Block::Embedding) {
            add(embedding, values);
        }
        if let Some(values) = gradients.get(&Block::Head) {
            add(before, &values[..self.words.start]);
            add(&mut embedding[..self.words.len()], &values[self.words.clone()]);
            add(after, &values[self.words.end..]);
        }
        sums
    }

    /// Puts the sums where this member keeps its ends.
    pub(super) fn scatter(&self, sums: &[f32], mailbox: &Mailbox) {
        let mut gradients = mailbox.gradients();
        let (embedding, before_and_after) = sums.split_at(self.embedding);
        let (before, after) = before_and_after.split_at(self.words.start);
        if let Some(values) = gradients.get_mut(&Block::Embedding) {
            *values = embedding.to_vec();
        }
        if let Some(values) = gradients.get_mut(&Block::Head) {
            *values = [before, &embedding[..self.words.len()], after].concat();
        }
    }
}
