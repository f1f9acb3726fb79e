//! How the training state is cut: blocks of the model by slices along the tensor-parallel dimension.

pub use crate::model::{SHARDS_PER_BLOCK, Shard};

use crate::cost::CostModel;
use crate::ids::LayerId;
use crate::model::{Block, Precision};
use crate::plan::{Plan, Replica};
use std::ops::Range;

/// A shard's place in the [`StateLayout`]: blocks from the input side, slices in order.
pub type ShardIndex = usize;

/// The shards of one model's training state and their sizes.
///
/// ```
/// use autohet::cost::{CostModel, CostSettings};
/// use autohet::elastic::StateLayout;
/// use autohet::model::{ModelSpec, Precision};
///
/// let cost = CostModel::new(ModelSpec::preset("gpt3-6.7b").unwrap(), CostSettings::default(), None);
/// let layout = StateLayout::new(&cost, Precision::Fp16);
/// assert_eq!(layout.shard_count(), (32 + 2) * 8);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateLayout {
    num_layers: u32,
    embedding_bytes: u64,
    layer_bytes: u64,
    head_bytes: u64,
}

/// The slices that tensor-parallel rank `tensor_rank` of `tensor_parallel_size` holds: `[r·8/t, (r+1)·8/t)`. Where `t`
/// doesn't divide [`SHARDS_PER_BLOCK`], every slice that it has a part of.
pub fn rank_slices(tensor_rank: usize, tensor_parallel_size: usize) -> Range<usize> {
    let start = tensor_rank * SHARDS_PER_BLOCK / tensor_parallel_size;
    start..((tensor_rank + 1) * SHARDS_PER_BLOCK).div_ceil(tensor_parallel_size)
}

impl StateLayout {
    /// The layout of the priced model's state when trained in this precision.
    pub fn new(cost: &CostModel, precision: Precision) -> Self {
        Self {
            num_layers: cost.model().num_layers,
            embedding_bytes: cost.state_bytes(Block::Embedding, precision),
            layer_bytes: cost.state_bytes(Block::Layer(LayerId(0)), precision),
            head_bytes: cost.state_bytes(Block::Head, precision),
        }
    }

    /// A layout of round numbers.
    #[cfg(test)]
    pub(super) fn of_bytes(num_layers: u32, embedding_bytes: u64, layer_bytes: u64, head_bytes: u64) -> Self {
        Self { num_layers, embedding_bytes, layer_bytes, head_bytes }
    }

    /// Blocks: the layers, the embedding and the head.
    pub fn block_count(&self) -> usize {
        self.num_layers as usize + 2
    }

    /// Shards in all.
    pub fn shard_count(&self) -> usize {
        self.block_count() * SHARDS_PER_BLOCK
    }

    /// The shard at this place.
    pub fn shard(&self, index: ShardIndex) -> Shard {
        Shard { block: self.block(index / SHARDS_PER_BLOCK), slice: (index % SHARDS_PER_BLOCK) as u8 }
    }

    /// The place of a shard.
    pub fn index_of(&self, shard: Shard) -> ShardIndex {
        self.index(shard.block) * SHARDS_PER_BLOCK + usize::from(shard.slice)
    }

    /// Bytes of the shard at this place; a block's remainder is spread so that its slices add up to it exactly.
    pub fn bytes(&self, index: ShardIndex) -> u64 {
        let block_bytes = self.block_bytes(index / SHARDS_PER_BLOCK);
        let (slice, slices) = ((index % SHARDS_PER_BLOCK) as u64, SHARDS_PER_BLOCK as u64);
        (slice + 1) * block_bytes / slices - slice * block_bytes / slices
    }

    /// Bytes of the whole state, held once.
    pub fn total_bytes(&self) -> u64 {
        self.embedding_bytes + u64::from(self.num_layers) * self.layer_bytes + self.head_bytes
    }

    /// The shards that the plan's nodes hold, with the node's name; replica by replica, from the input side.
    ///
    /// A shard that a node holds on several GPUs, or in a second copy for its neighbour, comes up more than once.
    pub fn held<'a>(&'a self, plan: &'a Plan) -> impl Iterator<Item = (&'a str, ShardIndex)> + 'a {
        let shards = |(node, blocks): (&'a str, Vec<usize>)| {
            blocks.into_iter().flat_map(Self::block_shards).map(move |shard| (node, shard))
        };
        self.held_blocks(plan).flat_map(shards)
    }

    /// The same in blocks, stage by stage: a node holds all slices of a block, as tensor-parallel groups are within nodes.
    pub fn held_blocks<'a>(&'a self, plan: &'a Plan) -> impl Iterator<Item = (&'a str, Vec<usize>)> + 'a {
        plan.replicas.iter().flat_map(move |replica| {
            replica.stages.iter().enumerate().map(move |(position, stage)| {
                let mut blocks = self.stage_blocks(replica, position);
                if let Some(copied) = plan.stands_in_for(replica, position) {
                    blocks.extend(self.stage_blocks(replica, copied));
                }
                (stage.node.as_str(), blocks)
            })
        })
    }

    /// The blocks that one stage of the plan holds, counted from the input side.
    pub fn stage_blocks(&self, replica: &Replica, stage: usize) -> Vec<usize> {
        let blocks = replica.blocks(stage).into_iter().map(|block| self.index(block));
        blocks.filter(|block| *block < self.block_count()).collect()
    }

    /// The slices of a block.
    pub fn block_shards(block: usize) -> Range<ShardIndex> {
        block * SHARDS_PER_BLOCK..(block + 1) * SHARDS_PER_BLOCK
    }

    /// Bytes of a block, all slices together.
    pub fn block_bytes(&self, block: usize) -> u64 {
        match self.block(block) {
            Block::Embedding => self.embedding_bytes,
            Block::Layer(_) => self.layer_bytes,
            Block::Head => self.head_bytes,
        }
    }

    fn index(&self, block: Block) -> usize {
        match block {
            Block::Embedding => 0,
            Block::Layer(layer) => layer.index() + 1,
            Block::Head => self.num_layers as usize + 1,
        }
    }

    fn block(&self, index: usize) -> Block {
        match index {
            0 => Block::Embedding,
            _ if index <= self.num_layers as usize => Block::Layer(LayerId(index as u32 - 1)),
            _ => Block::Head,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::CostSettings;
    use crate::elastic::fixtures::{plan, shards_of};
    use crate::model::ModelSpec;

    #[test]
    fn ranks_of_any_degree_hold_every_slice_once() {
        assert_eq!(rank_slices(0, 1), 0..8);
        assert_eq!(rank_slices(1, 2), 4..8);
        assert_eq!(rank_slices(2, 4), 4..6);
        assert_eq!(rank_slices(7, 8), 7..8);
        for degree in [1, 2, 4, 8] {
            let slices: Vec<usize> = (0..degree).flat_map(|rank| rank_slices(rank, degree)).collect();
            assert_eq!(slices, (0..SHARDS_PER_BLOCK).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_degree_that_cuts_slices_counts_them_for_both_ranks() {
        assert_eq!((0..3).map(|rank| rank_slices(rank, 3)).collect::<Vec<_>>(), [0..3, 2..6, 5..8]);
        assert_eq!(rank_slices(15, 16), 7..8);
    }

    #[test]
    fn slices_add_up_to_their_block() {
        let layout = StateLayout::of_bytes(2, 1003, 77, 5);
        let block = |block: usize| (0..8).map(|slice| layout.bytes(block * 8 + slice)).sum::<u64>();
        assert_eq!([block(0), block(1), block(2), block(3)], [1003, 77, 77, 5]);
        assert_eq!(layout.total_bytes(), 1003 + 2 * 77 + 5);
        let blocks: Vec<Block> = (0..4).map(|block| layout.shard(block * 8 + 7).block).collect();
        assert_eq!(blocks, [Block::Embedding, Block::Layer(LayerId(0)), Block::Layer(LayerId(1)), Block::Head]);
        assert_eq!(layout.shard(15).slice, 7);
    }

    #[test]
    fn half_precision_state_is_14_bytes_a_parameter() {
        let model = ModelSpec::preset("gpt3-6.7b").unwrap();
        // A GPT layer has 12 h^2 + 13 h parameters; 2 bytes of weight, 4 + 4 + 4 of master weight and moments.
        let layer_parameters = 12 * 4096_u64.pow(2) + 13 * 4096;
        let layout = StateLayout::new(&CostModel::new(model, CostSettings::default(), None), Precision::Fp16);
        assert_eq!((8..16).map(|shard| layout.bytes(shard)).sum::<u64>(), 14 * layer_parameters);
    }

    #[test]
    fn first_and_last_stages_hold_embedding_and_head() {
        let layout = StateLayout::of_bytes(3, 8, 8, 8);
        let plan = plan(2, &[&[("a", 0, 1), ("b", 1, 2)], &[("c", 0, 3)]]);
        let held: Vec<_> = layout.held(&plan).collect();
        let of =
            |node: &str| held.iter().filter(|(name, _)| *name == node).map(|(_, shard)| *shard).collect::<Vec<_>>();
        assert_eq!(of("a"), shards_of(0..2));
        assert_eq!(of("b"), shards_of(2..5));
        assert_eq!(of("c"), shards_of(0..5));
    }

    #[test]
    fn a_stage_holds_the_same_shards_whatever_its_degree() {
        let layout = StateLayout::of_bytes(3, 8, 8, 8);
        let one = plan(1, &[&[("a", 0, 1), ("b", 1, 2)], &[("c", 0, 3)]]);
        let mut unlike = one.clone();
        unlike.replicas[0].stages[1].gpus = vec![0, 1];
        unlike.replicas[1].stages[0].gpus = vec![0, 1, 2, 3];
        assert!(layout.held(&unlike).eq(layout.held(&one)));
    }
}
