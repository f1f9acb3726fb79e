//! Where the threads of a rank leave things for each other. The program's dependencies see to it that whatever a thread
//! comes for is there, so that nobody ever waits here.

use crate::ids::MicroBatch;
use crate::model::Block;
use crate::program::{Direction, Op, RankProgram};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Activations and gradients on their way, and gradients of parameters.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    received: Tray,
    to_send: Tray,
    gradients: Mutex<BTreeMap<Block, Vec<f32>>>,
}

/// One message per direction and micro batch.
#[derive(Debug, Default)]
pub(super) struct Tray {
    left: Mutex<BTreeMap<(bool, MicroBatch), Vec<f32>>>,
    /// Of activations and of gradients, whether nobody comes for them.
    unread: [bool; 2],
}

impl Tray {
    pub(super) fn put(&self, direction: Direction, micro_batch: MicroBatch, values: Vec<f32>) {
        let is_gradient = direction == Direction::Upstream;
        if self.unread[usize::from(is_gradient)] {
            return;
        }
        let before = open(&self.left).insert((is_gradient, micro_batch), values);
        assert!(before.is_none(), "{micro_batch} was left twice");
    }

    pub(super) fn take(&self, direction: Direction, micro_batch: MicroBatch) -> Vec<f32> {
        let found = open(&self.left).remove(&(direction == Direction::Upstream, micro_batch));
        found.expect("the program orders every taking after its leaving")
    }
}

impl Mailbox {
    /// That of a rank. Beside a stage that fewer ranks share, some ranks compute what others send.
    pub(super) fn new(rank: &RankProgram) -> Self {
        let is_sent = |direction| {
            let sends = |op: Op| matches!(op, Op::Send { direction: found, .. } if found == direction);
            rank.instructions.iter().any(|instruction| sends(instruction.op))
        };
        let unread = [Direction::Downstream, Direction::Upstream].map(|direction| !is_sent(direction));
        Self { to_send: Tray { unread, ..Tray::default() }, ..Self::default() }
    }

    /// Throws everything away.
    pub(super) fn clear(&self) {
        open(&self.received.left).clear();
        open(&self.to_send.left).clear();
        open(&self.gradients).clear();
    }

    /// What came from neighbouring stages.
    pub(super) fn received(&self) -> &Tray {
        &self.received
    }

    /// What goes to neighbouring stages.
    pub(super) fn to_send(&self) -> &Tray {
        &self.to_send
    }

    /// Gradients of the parameters of each block, summed over the micro batches so far; one flat vector a block.
    pub(super) fn gradients(&self) -> MutexGuard<'_, BTreeMap<Block, Vec<f32>>> {
        open(&self.gradients)
    }
}

fn open<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked ends the process's part in the run; what it held is never used again.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
