//! The two ends of the pipeline where they share the word matrix: what they reduce together. That includes the head's
//! norm, which has no group of its own then.

use super::mailbox::Mailbox;
use crate::model::{Block, ModelSpec};

/// Sizes of the parts that tied ends reduce.
#[derive(Clone, Copy, Debug)]
pub(super) struct TiedEnds {
    words: usize,
    positions: usize,
    norm: usize,
}

impl TiedEnds {
    /// The ends of this model, if it ties them.
    pub(super) fn of(model: &ModelSpec) -> Option<Self> {
        let (h, v, s) = (model.hidden_size as usize, model.vocab_size as usize, model.seq_length as usize);
        model.tie_word_embeddings.then_some(Self { words: v * h, positions: s * h, norm: 2 * h })
    }

    /// What this member brings; zeros for the ends that it doesn't hold.
    pub(super) fn gather(&self, mailbox: &Mailbox) -> Vec<f32> {
        let mut sums = vec![0.0; self.words + self.positions + self.norm];
        let gradients = mailbox.gradients();
        let add = |sums: &mut [f32], values: &[f32]| sums.iter_mut().zip(values).for_each(|(sum, v)| *sum += v);
        let (words, rest) = sums.split_at_mut(self.words);
        let (positions, norm) = rest.split_at_mut(self.positions);
        if let Some(embedding) = gradients.get(&Block::Embedding) {
            add(words, &embedding[..self.words]);
            add(positions, &embedding[self.words..]);
        }
        if let Some(head) = gradients.get(&Block::Head) {
            add(norm, &head[..self.norm]);
            add(words, &head[self.norm..]);
        }
        sums
    }

    /// Puts the sums where this member keeps its ends.
    pub(super) fn scatter(&self, sums: &[f32], mailbox: &Mailbox) {
        let mut gradients = mailbox.gradients();
        let (words, rest) = sums.split_at(self.words);
        let (positions, norm) = rest.split_at(self.positions);
        if let Some(embedding) = gradients.get_mut(&Block::Embedding) {
            *embedding = [words, positions].concat();
        }
        if let Some(head) = gradients.get_mut(&Block::Head) {
            *head = [norm, words].concat();
        }
    }
}
