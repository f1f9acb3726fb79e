//! How the training state is cut: blocks by slices along the tensor-parallel dimension.

use super::Block;
use serde::{Deserialize, Serialize};

/// Slices into which the state of each block is cut along the tensor-parallel dimension: the largest degree in use, so
/// that ranks of any smaller power of two hold whole slices, and plans of unlike degree read each other's state exactly.
pub const SHARDS_PER_BLOCK: usize = 8;

/// One slice of one block's training state: weights, master weights and optimizer moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Shard {
    /// The block.
    pub block: Block,
    /// Which of its [`SHARDS_PER_BLOCK`] slices.
    pub slice: u8,
}
