//! Devices that compute nothing: they sleep for as long as the real ones would compute, hold a state of the same size and
//! hand on as many bytes.

mod sleeper;
mod slowed;

pub(super) use slowed::Slowed;

use super::DeviceError;
use super::compute::{BlockState, BlockTime, Compute, Measured, Pass, TrainingState, Update};
use super::conditions::{EmulatedBlock, EmulatedRank, numbers};
use super::mailbox::Mailbox;
use crate::ids::MicroBatch;
use crate::model::Block;
use crate::program::{Direction, Part};
use sleeper::{Debtor, Sleeper, SystemSleeper};
use std::sync::Arc;
use std::time::Duration;

/// A stage that takes its time.
pub(super) struct Emulated<S = SystemSleeper> {
    rank: EmulatedRank,
    state: TrainingState,
    mailbox: Arc<Mailbox>,
    sleeper: Debtor<S>,
    measured: Measured,
}

impl Emulated {
    /// The stage of a rank, going on from `state`. Blocks that it doesn't have start with zeros.
    pub(super) fn new(rank: &EmulatedRank, mailbox: Arc<Mailbox>, state: TrainingState) -> Self {
        Self::with_sleeper(rank, mailbox, state, SystemSleeper::default())
    }
}

impl<S: Sleeper> Emulated<S> {
    fn with_sleeper(rank: &EmulatedRank, mailbox: Arc<Mailbox>, mut state: TrainingState, sleeper: S) -> Self {
        let mut blocks = std::mem::take(&mut state.blocks);
        for held in &rank.blocks {
            let zeros = || BlockState::initial(vec![0.0; held.parameters as usize]);
            state.blocks.insert(held.block, blocks.remove(&held.block).unwrap_or_else(zeros));
        }
        Self { rank: rank.clone(), state, mailbox, sleeper: Debtor::new(sleeper), measured: Measured::default() }
    }

    /// Sleeps for these blocks' passes, one after the other, and takes them down.
    fn pass(&mut self, blocks: std::ops::Range<usize>, pass: Pass) {
        let seconds = |held: &EmulatedBlock| if pass == Pass::Forward { held.forward_s } else { held.backward_s };
        let foreseen: f64 = self.rank.blocks[blocks.clone()].iter().map(seconds).sum();
        let took = self.sleeper.spend(Duration::from_secs_f64(foreseen)).as_secs_f64();
        let stretch = if foreseen > 0.0 { took / foreseen } else { 1.0 };
        for held in &self.rank.blocks[blocks] {
            let time = BlockTime { block: held.block, pass, seconds: seconds(held) * stretch };
            self.measured.block_times.push(time);
        }
    }

    fn is_first(&self) -> bool {
        self.rank.blocks.first().is_some_and(|held| held.block == Block::Embedding)
    }

    fn is_last(&self) -> bool {
        self.rank.blocks.last().is_some_and(|held| held.block == Block::Head)
    }

    fn send(&self, direction: Direction, micro_batch: MicroBatch) {
        self.mailbox.to_send().put(direction, micro_batch, vec![0.0; self.rank.boundary_numbers()]);
    }

    /// Leaves gradients for the reductions, which leave sums of the same size. They stay there from step to step.
    fn leave_gradients(&self) {
        let mut gradients = self.mailbox.gradients();
        for &(block, bytes) in &self.rank.reduced {
            gradients.entry(block).or_insert_with(|| vec![0.0; numbers(bytes)]);
        }
    }
}

impl<S: Sleeper> Compute for Emulated<S> {
    fn forward(&mut self, micro_batch: MicroBatch) -> Result<(), DeviceError> {
        if !self.is_first() {
            self.mailbox.received().take(Direction::Downstream, micro_batch);
        }
        self.pass(0..self.rank.blocks.len(), Pass::Forward);
        if !self.is_last() {
            self.send(Direction::Downstream, micro_batch);
        }
        Ok(())
    }

    fn backward(&mut self, micro_batch: MicroBatch, part: Part) -> Result<(), DeviceError> {
        let all = self.rank.blocks.len();
        let blocks = match part {
            Part::Chunk => 0..all,
            Part::Block(block) => {
                let index = self.rank.blocks.iter().position(|held| held.block == block);
                let index = index.expect("the block is of this stage");
                index..index + 1
            }
        };
        if blocks.end == all && !self.is_last() {
            self.mailbox.received().take(Direction::Upstream, micro_batch);
        }
        let reaches_the_input = blocks.start == 0;
        self.pass(blocks, Pass::Backward);
        self.leave_gradients();
        if reaches_the_input && !self.is_first() {
            self.send(Direction::Upstream, micro_batch);
        }
        Ok(())
    }

    /// There is none.
    fn loss(&self) -> f64 {
        0.0
    }

    fn squared_gradient_norm(&mut self) -> f64 {
        0.0
    }

    /// The first parameter of each block counts its steps, so that a state that missed one can be told from the others.
    fn optimizer_step(&mut self, _: Update) -> Result<(), DeviceError> {
        self.sleeper.spend(Duration::from_secs_f64(self.rank.optimizer_s));
        self.state.step += 1;
        for first in self.state.blocks.values_mut().filter_map(|block| block.values.first_mut()) {
            *first += 1.0;
        }
        Ok(())
    }

    fn abandon_iteration(&mut self) {
        self.measured = Measured::default();
        self.mailbox.clear();
    }

    fn take_measured(&mut self) -> Measured {
        std::mem::take(&mut self.measured)
    }

    fn state(&self) -> TrainingState {
        self.state.clone()
    }

    fn into_state(self: Box<Self>) -> TrainingState {
        self.state
    }
}

#[cfg(test)]
mod tests;
