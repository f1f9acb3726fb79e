//! Gradient reduction: what the members of a group bring is the gradients of a slice of its block. A rank that holds several
//! slices reduces one after the other.

use crate::model::{Block, ModelSpec};
use crate::program::{Group, Op};
use crate::runtime::device::DeviceError;
use crate::runtime::device::all_reduce::Ring;
use crate::runtime::device::clock::Clock;
use crate::runtime::device::mailbox::Mailbox;
use crate::runtime::device::model::{cut_part, paste_part};
use crate::runtime::device::tensor_parallel::TensorPart;
use crate::runtime::device::tied::TiedEnds;
use crate::units::SimTime;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The groups that a rank is a member of.
pub(in super::super) struct Collective {
    rings: BTreeMap<u32, Ring>,
    mailbox: Arc<Mailbox>,
    /// What is reduced of tensors; nothing where gradients lie as they are reduced.
    slices: BTreeMap<u32, Slice>,
}

/// What a rank reduces in one group.
struct Slice {
    model: ModelSpec,
    /// What the rank holds of the block.
    held: TensorPart,
    /// What of it is reduced.
    reduced: TensorPart,
    /// Whether it is the last slice of what the rank holds.
    is_last: bool,
    /// Both ends, where they are tied and this is their group.
    tied: Option<TiedEnds>,
}

impl Slice {
    fn new(model: &ModelSpec, held: TensorPart, group: &Group) -> Self {
        let reduced = TensorPart::of_slice(group);
        let is_last = held.parts_of(reduced.size).next_back() == Some(reduced);
        let tied = TiedEnds::of(model, held, reduced).filter(|_| group.block() == Block::Embedding);
        Self { model: model.clone(), held, reduced, is_last, tied }
    }

    /// What the rank brings.
    fn gather(&self, block: Block, mailbox: &Mailbox) -> Vec<f32> {
        if let Some(tied) = &self.tied {
            return tied.gather(mailbox);
        }
        let mut gradients = mailbox.gradients();
        if self.reduced == self.held {
            return gradients.remove(&block).expect("a block goes backward before it is reduced");
        }
        let values = gradients.get(&block).expect("a block goes backward before it is reduced");
        cut_part(&self.model, block, self.held, values, self.reduced).into_owned()
    }

    /// Puts the sums where the rank keeps its gradients. All slices carry what isn't cut: it stays as the rank brings it
    /// until the last of them.
    fn scatter(&self, block: Block, sums: Vec<f32>, mailbox: &Mailbox) {
        if let Some(tied) = &self.tied {
            tied.scatter(&sums, mailbox, self.is_last);
        } else if self.reduced == self.held {
            mailbox.gradients().insert(block, sums);
        } else if let Some(values) = mailbox.gradients().get_mut(&block) {
            paste_part(&self.model, block, self.held, values, (self.reduced, &sums), self.is_last);
        }
    }
}

impl Collective {
    /// The member's side of its groups, which are among all `groups` of the program.
    pub(in super::super) fn new(
        model: &ModelSpec,
        held: TensorPart,
        groups: &[Group],
        rings: BTreeMap<u32, Ring>,
        mailbox: Arc<Mailbox>,
    ) -> Self {
        let slice = |&group: &u32| (group, Slice::new(model, held, &groups[group as usize]));
        Self { slices: rings.keys().map(slice).collect(), rings, mailbox }
    }

    /// That of a rank whose gradients lie under the blocks that its reductions name, each as large as what is reduced.
    pub(in super::super) fn untied(rings: BTreeMap<u32, Ring>, mailbox: Arc<Mailbox>) -> Self {
        Self { rings, mailbox, slices: BTreeMap::new() }
    }

    pub(super) fn run(&mut self, op: Op, clock: &Clock) -> Result<SimTime, DeviceError> {
        let Op::AllReduce { group, block } = op else { unreachable!("{op} is no reduction") };
        let ring = self.rings.get_mut(&group).expect("a rank reduces with its own groups only");
        if let Some(slice) = self.slices.get(&group) {
            let mut sums = slice.gather(block, &self.mailbox);
            let start = ring.sum(&mut sums, clock)?;
            slice.scatter(block, sums, &self.mailbox);
            return Ok(start);
        }
        let mut sums = self.mailbox.gradients().remove(&block).expect("a block goes backward before it is reduced");
        let start = ring.sum(&mut sums, clock)?;
        self.mailbox.gradients().insert(block, sums);
        Ok(start)
    }
}
