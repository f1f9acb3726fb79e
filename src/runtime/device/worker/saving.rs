//! Taking a checkpoint: training waits for a copy in memory only. In the background the copy is sent to those who are to keep
//! it, then written, to the node's disk first.

use super::standstill::stand_still;
use crate::model::Shard;
use crate::runtime::device::control::Control;
use crate::runtime::device::holding::Holding;
use crate::runtime::device::messages::{Delivery, FromWorker, Saved, SavedPlace, SnapshotOrder};
use crate::runtime::device::peers::Peers;
use crate::runtime::device::{BlockState, DeviceError, ShardEntry, StoreError, Vaults};
use std::sync::Arc;

/// A copy of a rank's state on its way.
pub(super) struct Saving {
    pub(super) copy: Arc<Holding>,
    pub(super) order: SnapshotOrder,
    pub(super) vaults: Vaults,
    pub(super) peers: Peers,
    pub(super) control: Control,
}

impl Saving {
    pub(super) fn run(self) {
        let step = self.order.step;
        let sent = self.order.to_peers.iter().flat_map(|delivery| &delivery.shards);
        let ordered = self.order.to_disk.iter().chain(&self.order.to_object_store).chain(sent);
        if let Some(Shard { block, slice }) = ordered.copied().find(|shard| !self.copy.holds(*shard)) {
            let message = DeviceError::NotHeld { block, slice }.to_string();
            return self.tell(&FromWorker::NotSaved { step, message });
        }
        if self.order.keep {
            self.to_peers();
        }
        let written = self.to_disk().and_then(|()| {
            self.saved(SavedPlace::Disk);
            if self.order.stop {
                stand_still(&self.control);
            }
            self.to_object_store()
        });
        match written {
            Ok(entries) => self.saved(SavedPlace::ObjectStore(entries)),
            Err(error) => self.tell(&FromWorker::NotSaved { step, message: error.to_string() }),
        }
    }

    /// Who is to keep a part and doesn't get it may be gone: then the rest is to no less avail.
    fn to_peers(&self) {
        let step = self.order.step;
        let deliver = |delivery: &Delivery| {
            let cut = |shard| self.copy.shard(shard);
            self.peers.deliver(delivery.to, step, &delivery.shards, cut)
        };
        match self.order.to_peers.iter().try_for_each(deliver) {
            Ok(()) => self.saved(SavedPlace::Host),
            Err(error) => self.tell(&FromWorker::NotCopied { step, message: error.to_string() }),
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
        disk.prune(self.order.kept)?;
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

    fn saved(&self, place: SavedPlace) {
        self.tell(&FromWorker::Saved(Saved { step: self.order.step, place }));
    }

    /// Where the coordinator can't be told, it is gone, and so is this process in a moment.
    fn tell(&self, message: &FromWorker) {
        drop(self.control.tell(message));
    }
}

fn borrowed(shards: &[(Shard, BlockState)]) -> Vec<(Shard, &BlockState)> {
    shards.iter().map(|(shard, state)| (*shard, state)).collect()
}
