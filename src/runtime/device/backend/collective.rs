//! Gradient reduction: what the members of a group bring is the gradients of its block.

use crate::model::{Block, ModelSpec};
use crate::program::Op;
use crate::runtime::device::DeviceError;
use crate::runtime::device::all_reduce::Ring;
use crate::runtime::device::clock::Clock;
use crate::runtime::device::mailbox::Mailbox;
use crate::runtime::device::tensor_parallel::TensorPart;
use crate::runtime::device::tied::TiedEnds;
use crate::units::SimTime;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The groups that a rank is a member of.
pub(in super::super) struct Collective {
    rings: BTreeMap<u32, Ring>,
    mailbox: Arc<Mailbox>,
    tied: Option<TiedEnds>,
}

impl Collective {
    /// The member's side of its groups.
    pub(in super::super) fn new(
        model: &ModelSpec,
        part: TensorPart,
        rings: BTreeMap<u32, Ring>,
        mailbox: Arc<Mailbox>,
    ) -> Self {
        Self { rings, mailbox, tied: TiedEnds::of(model, part) }
    }

    /// That of a rank whose gradients lie under the blocks that its reductions name.
    pub(in super::super) fn untied(rings: BTreeMap<u32, Ring>, mailbox: Arc<Mailbox>) -> Self {
        Self { rings, mailbox, tied: None }
    }

    pub(super) fn run(&mut self, op: Op, clock: &Clock) -> Result<SimTime, DeviceError> {
        let Op::AllReduce { group, block } = op else { unreachable!("{op} is no reduction") };
        let ring = self.rings.get_mut(&group).expect("a rank reduces with its own groups only");
        if let (Some(tied), Block::Embedding) = (&self.tied, block) {
            let mut sums = tied.gather(&self.mailbox);
            let start = ring.sum(&mut sums, clock)?;
            tied.scatter(&sums, &self.mailbox);
            return Ok(start);
        }
        let mut sums = self.mailbox.gradients().remove(&block).expect("a block goes backward before it is reduced");
        let start = ring.sum(&mut sums, clock)?;
        self.mailbox.gradients().insert(block, sums);
        Ok(start)
    }
}
