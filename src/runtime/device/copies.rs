//! Copies of checkpoints that a worker keeps in host memory: of its own state, and what peers have sent it of theirs.

use super::holding::{Holding, shard_to_bytes};
use crate::model::Shard;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// By the step of the checkpoint.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies(Arc<Mutex<BTreeMap<u64, Kept>>>);

/// Of one step.
#[derive(Debug, Default)]
struct Kept {
    own: Option<Arc<Holding>>,
    /// As they travel.
    of_peers: BTreeMap<Shard, Vec<u8>>,
}

impl Copies {
    /// Keeps a copy of the worker's own state.
    pub(super) fn keep_own(&self, copy: Arc<Holding>) {
        self.open().entry(copy.state.step).or_default().own = Some(copy);
    }

    /// Keeps what a peer has sent.
    pub(super) fn keep(&self, step: u64, shard: Shard, bytes: Vec<u8>) {
        self.open().entry(step).or_default().of_peers.insert(shard, bytes);
    }

    /// A shard of a checkpoint as it travels, if it is kept.
    pub(super) fn shard(&self, step: u64, shard: Shard) -> Option<Vec<u8>> {
        let kept = self.open();
        let kept = kept.get(&step)?;
        let own = kept.own.as_ref().and_then(|copy| copy.shard(shard));
        own.map(|found| shard_to_bytes(&found)).or_else(|| kept.of_peers.get(&shard).cloned())
    }

    /// Lets go of earlier checkpoints.
    pub(super) fn forget_before(&self, step: u64) {
        self.open().retain(|kept, _| *kept >= step);
    }

    /// Lets go of later checkpoints: they belong to a history that is given up.
    pub(super) fn forget_after(&self, step: u64) {
        self.open().retain(|kept, _| *kept <= step);
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Block, ModelSpec};
    use crate::runtime::device::BlockState;
    use crate::runtime::device::compute::TrainingState;
    use crate::runtime::device::holding::shard_from_bytes;
    use crate::runtime::device::model::part_len;
    use crate::runtime::device::tensor_parallel::TensorPart;

    const HEAD: Shard = Shard { block: Block::Head, slice: 3 };
    const EMBEDDING: Shard = Shard { block: Block::Embedding, slice: 0 };

    fn holding(step: u64) -> Holding {
        let model = ModelSpec::preset("gpt-tiny").unwrap();
        let values = vec![step as f32; part_len(&model, Block::Head, TensorPart::WHOLE)];
        let blocks = [(Block::Head, BlockState::initial(values))].into();
        Holding { model, part: TensorPart::WHOLE, state: TrainingState { step, blocks } }
    }

    #[test]
    fn own_and_sent_shards_are_found_by_their_step() {
        let copies = Copies::default();
        copies.keep_own(Arc::new(holding(4)));
        copies.keep(4, EMBEDDING, vec![1; 12]);
        assert_eq!(copies.shard(4, EMBEDDING), Some(vec![1; 12]));
        let head = shard_from_bytes(&copies.shard(4, HEAD).unwrap(), "a peer").unwrap();
        assert!(!head.values.is_empty() && head.values.iter().all(|value| *value == 4.0));
        assert_eq!((copies.shard(5, EMBEDDING), copies.shard(4, Shard { slice: 1, ..EMBEDDING })), (None, None));
    }

    #[test]
    fn earlier_ones_are_superseded_and_later_ones_given_up() {
        let copies = Copies::default();
        for step in [2, 4, 6] {
            copies.keep(step, EMBEDDING, vec![0; 12]);
        }
        copies.forget_before(4);
        copies.forget_after(4);
        let found = [2, 4, 6].map(|step| copies.shard(step, EMBEDDING).is_some());
        assert_eq!(found, [false, true, false]);
    }
}
