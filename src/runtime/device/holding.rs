//! State that a worker holds between two plans, for itself and for others to read.

use super::DeviceError;
use super::compute::{BlockState, TrainingState};
use super::model::{cut_state, slices};
use super::numbers::{to_bytes, vector};
use super::tensor_parallel::TensorPart;
use super::transport::{TcpTransport, Transport, TransportError};
use crate::model::{Block, ModelSpec, Shard};
use std::sync::{Arc, Mutex, PoisonError};

/// A rank's state, and which part of each block it is.
#[derive(Debug)]
pub(super) struct Holding {
    pub(super) model: ModelSpec,
    pub(super) part: TensorPart,
    pub(super) state: TrainingState,
}

impl Holding {
    /// Whether this rank has a slice of a block.
    pub(super) fn holds(&self, Shard { block, slice }: Shard) -> bool {
        self.state.blocks.contains_key(&block) && slices(self.part).contains(&usize::from(slice))
    }

    /// All that this rank has of a block, if it has just this part of it.
    pub(super) fn part(self: Arc<Self>, block: Block, part: TensorPart) -> Option<Found> {
        let is_held = self.part == part && self.state.blocks.contains_key(&block);
        is_held.then_some(Found::Part(self, block))
    }

    /// One slice of a block, if this rank has it.
    pub(super) fn shard(&self, shard: Shard) -> Option<BlockState> {
        let held = self.state.blocks.get(&shard.block).filter(|_| self.holds(shard))?;
        Some(cut_state(&self.model, shard.block, self.part, held, usize::from(shard.slice)))
    }
}

/// State that is handed to a peer.
pub(super) enum Found {
    /// As it travels.
    Bytes(Vec<u8>),
    /// A slice of a block.
    Slice(BlockState),
    /// All that a rank has of a block.
    Part(Arc<Holding>, Block),
}

impl Found {
    /// Sends it: parameters, then both moments.
    pub(super) fn send(&self, to: &mut TcpTransport) -> Result<(), TransportError> {
        let state = match self {
            Self::Bytes(bytes) => return to.send(bytes),
            Self::Slice(state) => state,
            Self::Part(holding, block) => &holding.state.blocks[block],
        };
        let vectors = [&state.values, &state.mean, &state.mean_of_squares].map(|values| to_bytes(values));
        to.send_parts(&vectors.each_ref().map(|bytes| &**bytes))
    }
}

/// What a worker holds at the moment; nothing while it trains.
#[derive(Clone, Debug, Default)]
pub(super) struct Held(Arc<Mutex<Option<Arc<Holding>>>>);

impl Held {
    pub(super) fn get(&self) -> Option<Arc<Holding>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set(&self, holding: Option<Holding>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = holding.map(Arc::new);
    }
}

/// The state in a message from `peer`.
pub(super) fn shard_from_bytes(bytes: &[u8], peer: &str) -> Result<BlockState, DeviceError> {
    // Three vectors of four-byte numbers, equally long.
    if !bytes.len().is_multiple_of(12) {
        return Err(DeviceError::Protocol { from: peer.to_owned() });
    }
    let length = bytes.len() / 3;
    let [values, mean, mean_of_squares] = std::array::from_fn(|place| vector(&bytes[place * length..][..length]));
    Ok(BlockState { values, mean, mean_of_squares })
}
