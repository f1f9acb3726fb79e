//! Taking a checkpoint: training waits for a copy in memory only; the copy is written in the background, to the node's
//! disk first.

use super::standstill::stand_still;
use crate::model::Shard;
use crate::runtime::device::control::Control;
use crate::runtime::device::holding::Holding;
use crate::runtime::device::messages::{FromWorker, Saved, SnapshotOrder};
use crate::runtime::device::{BlockState, DeviceError, ShardEntry, StoreError, Vaults};

/// Checkpoints that stay on a disk.
const KEPT: usize = 2;

/// A copy of a rank's state on its way.
pub(super) struct Saving {
    pub(super) copy: Holding,
    pub(super) order: SnapshotOrder,
    pub(super) vaults: Vaults,
    pub(super) control: Control,
}

impl Saving {
    pub(super) fn run(self) {
        let step = self.order.step;
        let ordered = self.order.to_disk.iter().chain(&self.order.to_object_store);
        if let Some(Shard { block, slice }) = ordered.copied().find(|shard| !self.copy.holds(*shard)) {
            let message = DeviceError::NotHeld { block, slice }.to_string();
            return self.tell(&FromWorker::NotSaved { step, message });
        }
        let written = self.to_disk().and_then(|()| {
            self.tell(&FromWorker::Saved(Saved { step, in_object_store: None }));
            if self.order.stop {
                stand_still(&self.control);
            }
            self.to_object_store()
        });
        match written {
            Ok(entries) => self.tell(&FromWorker::Saved(Saved { step, in_object_store: Some(entries) })),
            Err(error) => self.tell(&FromWorker::NotSaved { step, message: error.to_string() }),
        }
    }

    fn to_disk(&self) -> Result<(), StoreError> {
        let (step, disk) = (self.order.step, &self.vaults.own_disk);
        if self.order.to_disk.is_empty() {
            return Ok(());
        }
        disk.begin(step)?;
        let shards = self.cut(&self.order.to_disk);
        disk.commit(step, disk.writer().write_all(step, &borrowed(&shards))?)?;
        disk.prune(KEPT)?;
        Ok(())
    }

    fn to_object_store(&self) -> Result<Vec<ShardEntry>, StoreError> {
        let shards = self.cut(&self.order.to_object_store);
        self.vaults.object_store.writer().write_all(self.order.step, &borrowed(&shards))
    }

    fn cut(&self, shards: &[Shard]) -> Vec<(Shard, BlockState)> {
        let cut = |&shard| (shard, self.copy.shard(shard).expect("checked before anything is written"));
        shards.iter().map(cut).collect()
    }

    /// Where the coordinator can't be told, it is gone, and so is this process in a moment.
    fn tell(&self, message: &FromWorker) {
        drop(self.control.tell(message));
    }
}

fn borrowed(shards: &[(Shard, BlockState)]) -> Vec<(Shard, &BlockState)> {
    shards.iter().map(|(shard, state)| (*shard, state)).collect()
}
