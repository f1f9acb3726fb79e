//! Copies of checkpoints that a worker keeps in host memory: of its own state, and what peers have sent it of theirs.

use super::holding::{Found, Holding};
use super::tensor_parallel::TensorPart;
use crate::model::{Block, Shard};
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
        let step = copy.state.step;
        self.open().entry(step).or_default().own = Some(copy);
    }

    /// Keeps what a peer has sent.
    pub(super) fn keep(&self, step: u64, shard: Shard, bytes: Vec<u8>) {
        self.open().entry(step).or_default().of_peers.insert(shard, bytes);
    }

    /// A shard of a checkpoint, if it is kept.
    pub(super) fn shard(&self, step: u64, shard: Shard) -> Option<Found> {
        let kept = self.open();
        let kept = kept.get(&step)?;
        let own = kept.own.as_ref().and_then(|copy| copy.shard(shard)).map(Found::Slice);
        own.or_else(|| kept.of_peers.get(&shard).cloned().map(Found::Bytes))
    }

    /// All that this worker kept of its own state of a block, if it had just this part of it.
    pub(super) fn part(&self, step: u64, block: Block, part: TensorPart) -> Option<Found> {
        let own = self.open().get(&step)?.own.clone()?;
        own.part(block, part)
    }

    /// Lets go of all checkpoints before step `from`, but for this earlier one.
    pub(super) fn keep_only(&self, earlier: Option<u64>, from: u64) {
        self.open().retain(|step, _| *step >= from || Some(*step) == earlier);
    }

    /// Lets go of all checkpoints after this step.
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
    use crate::model::ModelSpec;
    use crate::runtime::device::BlockState;
    use crate::runtime::device::compute::TrainingState;
    use crate::runtime::device::model::initial_part;

    const HEAD: Shard = Shard { block: Block::Head, slice: 3 };
    const EMBEDDING: Shard = Shard { block: Block::Embedding, slice: 0 };

    fn holding(step: u64) -> Holding {
        let model = ModelSpec::preset("gpt-tiny").unwrap();
        let values = vec![step as f32; initial_part(&model, Block::Head, TensorPart::WHOLE, 0).len()];
        let blocks = [(Block::Head, BlockState::initial(values))].into();
        Holding { model, part: TensorPart::WHOLE, state: TrainingState { step, blocks } }
    }

    #[test]
    fn own_and_sent_shards_are_found_by_their_step() {
        let copies = Copies::default();
        copies.keep_own(Arc::new(holding(4)));
        copies.keep(4, EMBEDDING, vec![1; 12]);
        assert!(matches!(copies.shard(4, EMBEDDING), Some(Found::Bytes(bytes)) if bytes == [1; 12]));
        let Some(Found::Slice(head)) = copies.shard(4, HEAD) else { panic!("it is kept") };
        assert!(!head.values.is_empty() && head.values.iter().all(|value| value.to_bits() == 4.0_f32.to_bits()));
        assert!(copies.shard(5, EMBEDDING).is_none() && copies.shard(4, Shard { slice: 1, ..EMBEDDING }).is_none());
        assert!(copies.part(4, Block::Head, TensorPart::WHOLE).is_some());
        assert!(copies.part(4, Block::Head, TensorPart { rank: 0, size: 2 }).is_none());
        assert!(copies.part(4, Block::Embedding, TensorPart::WHOLE).is_none());
    }

    #[test]
    fn what_is_superseded_or_given_up_is_let_go() {
        let copies = Copies::default();
        for step in [2, 4, 6, 8] {
            copies.keep(step, EMBEDDING, vec![0; 12]);
        }
        let kept = || [2, 4, 6, 8].map(|step| copies.shard(step, EMBEDDING).is_some());
        copies.keep_only(Some(2), 6);
        assert_eq!(kept(), [true, false, true, true]);
        copies.keep_only(None, 6);
        assert_eq!(kept(), [false, false, true, true]);
        copies.forget_after(6);
        assert_eq!(kept(), [false, false, true, false]);
    }
}
