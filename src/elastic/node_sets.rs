//! One set of nodes per shard, as bits.

use super::layout::ShardIndex;
use std::ops::Range;

const WORD_BITS: usize = u64::BITS as usize;

/// For every shard, the nodes that hold a copy. Nodes are bit positions; the sets grow with the largest one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeSets {
    shards: usize,
    words: usize,
    bits: Vec<u64>,
}

impl NodeSets {
    /// Empty sets.
    pub(super) fn new(shards: usize) -> Self {
        Self { shards, words: 1, bits: vec![0; shards] }
    }

    /// Adds a node to a shard's set.
    pub(super) fn insert(&mut self, shard: ShardIndex, node: usize) {
        self.widen(node / WORD_BITS + 1);
        self.bits[shard * self.words + node / WORD_BITS] |= 1 << (node % WORD_BITS);
    }

    /// Adds a node to the sets of these shards.
    pub(super) fn insert_all(&mut self, shards: Range<ShardIndex>, node: usize) {
        self.widen(node / WORD_BITS + 1);
        let (word, mask) = (node / WORD_BITS, 1 << (node % WORD_BITS));
        shards.for_each(|shard| self.bits[shard * self.words + word] |= mask);
    }

    /// Adds to each set what the other one of this shard has.
    pub(super) fn add_all(&mut self, others: &Self) {
        self.widen(others.words);
        for (sets, other) in self.bits.chunks_exact_mut(self.words).zip(others.bits.chunks_exact(others.words)) {
            sets.iter_mut().zip(other).for_each(|(bits, other)| *bits |= other);
        }
    }

    /// Takes a node out of all sets.
    pub(super) fn remove_node(&mut self, node: usize) {
        let (word, mask) = (node / WORD_BITS, !(1_u64 << (node % WORD_BITS)));
        if word < self.words {
            self.bits.iter_mut().skip(word).step_by(self.words).for_each(|bits| *bits &= mask);
        }
    }

    /// Whether the node is in the shard's set.
    pub(super) fn contains(&self, shard: ShardIndex, node: usize) -> bool {
        node / WORD_BITS < self.words && self.set(shard)[node / WORD_BITS] & (1 << (node % WORD_BITS)) != 0
    }

    /// The nodes of the shard's set, in order of their bits.
    pub(super) fn nodes(&self, shard: ShardIndex) -> impl Iterator<Item = usize> + '_ {
        self.set(shard).iter().enumerate().flat_map(|(word, &bits)| {
            let rest = std::iter::successors(Some(bits), |bits| Some(bits & (bits.wrapping_sub(1))));
            rest.take_while(|&bits| bits != 0).map(move |bits| word * WORD_BITS + bits.trailing_zeros() as usize)
        })
    }

    /// Whether the shard's set has a node of the mask.
    pub(super) fn meets(&self, shard: ShardIndex, mask: &NodeMask) -> bool {
        self.set(shard).iter().zip(&mask.bits).any(|(nodes, mask)| nodes & mask != 0)
    }

    /// Whether no set is empty.
    pub(super) fn cover_everything(&self) -> bool {
        (0..self.shards).all(|shard| self.set(shard).iter().any(|&bits| bits != 0))
    }

    fn set(&self, shard: ShardIndex) -> &[u64] {
        &self.bits[shard * self.words..(shard + 1) * self.words]
    }

    fn widen(&mut self, words: usize) {
        if words <= self.words {
            return;
        }
        let mut bits = vec![0; self.shards * words];
        for (wide, narrow) in bits.chunks_exact_mut(words).zip(self.bits.chunks_exact(self.words)) {
            wide[..narrow.len()].copy_from_slice(narrow);
        }
        (self.words, self.bits) = (words, bits);
    }
}

/// Some of the nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeMask {
    bits: Vec<u64>,
}

impl FromIterator<usize> for NodeMask {
    fn from_iter<I: IntoIterator<Item = usize>>(nodes: I) -> Self {
        let mut mask = Self::default();
        for node in nodes {
            let word = node / WORD_BITS;
            mask.bits.resize(mask.bits.len().max(word + 1), 0);
            mask.bits[word] |= 1 << (node % WORD_BITS);
        }
        mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_grow_past_one_word_and_keep_what_they_hold() {
        let mut sets = NodeSets::new(3);
        sets.insert(1, 5);
        sets.insert(2, 63);
        sets.insert(1, 200);
        assert_eq!(sets.nodes(1).collect::<Vec<_>>(), [5, 200]);
        assert_eq!(sets.nodes(2).collect::<Vec<_>>(), [63]);
        assert!(sets.contains(1, 200) && !sets.contains(0, 200) && !sets.contains(1, 1000));
        sets.remove_node(5);
        sets.remove_node(1000);
        assert_eq!(sets.nodes(1).collect::<Vec<_>>(), [200]);
    }

    #[test]
    fn sets_take_in_others_of_another_width() {
        let (mut narrow, mut wide) = (NodeSets::new(2), NodeSets::new(2));
        narrow.insert(0, 3);
        wide.insert(1, 70);
        let mut both = narrow.clone();
        both.add_all(&wide);
        wide.add_all(&narrow);
        assert_eq!(both, wide);
        assert!(both.contains(0, 3) && both.contains(1, 70) && !both.contains(0, 70));
    }

    #[test]
    fn coverage_needs_a_node_for_every_shard() {
        let mut sets = NodeSets::new(2);
        sets.insert(0, 1);
        assert!(!sets.cover_everything());
        sets.insert(1, 70);
        assert!(sets.cover_everything());
        let mask: NodeMask = [1].into_iter().collect();
        assert!(sets.meets(0, &mask) && !sets.meets(1, &mask));
    }
}
