//! A rank's stage: its blocks, their optimizer state, and the micro batches in flight.

mod held;
mod samples;

use super::compute::{BlockState, BlockTime, Compute, Measured, Pass, TrainingState, Update};
use super::mailbox::Mailbox;
use super::messages::Job;
use super::model::{Batch, BlockPass, GradientSums, Hidden, Tensors, hidden, initial_part, numbers};
use super::optimizer::{AdamW, LearningRate, OptimizerStep};
use super::tensor_parallel::TensorGroup;
use super::tied::TiedEnds;
use super::{DataSet, DeviceError};
use crate::ids::{MicroBatch, Rank};
use crate::model::{Block, ModelSpec, Recompute};
use crate::program::{Direction, Part, Program};
use burn_tensor::Element;
use held::HeldBlock;
use samples::Samples;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// Blocks, parameters and what is kept between forward and backward, computed by one backend of the tensor library.
pub(super) struct Stage<T: Tensors> {
    model: ModelSpec,
    device: T::Device,
    recompute: Recompute,
    optimizer: AdamW,
    learning_rate: LearningRate,
    blocks: Vec<HeldBlock<T>>,
    /// Gradients of each block, of the micro batches so far.
    sums: Vec<GradientSums<T>>,
    group: TensorGroup,
    samples: Samples,
    /// Those of the replica, in each iteration.
    micro_batches: u32,
    /// What a micro batch's loss counts in the mean over the global batch.
    weight: f32,
    mailbox: Arc<Mailbox>,
    in_flight: BTreeMap<MicroBatch, InFlight<T>>,
    /// Tied ends that are both here and nowhere else, so that no reduction adds up their gradients.
    tied: Option<TiedEnds>,
    /// Whether they have been added up since the last backward pass.
    is_tied: bool,
    /// Sum of the losses of this iteration's micro batches.
    loss: f64,
    measured: Measured,
}

/// A micro batch between its forward and its backward pass.
struct InFlight<T: Tensors> {
    batch: Batch,
    /// What each block kept, from the input side; taken from the end as the backward pass proceeds.
    kept: Vec<Kept<T>>,
    /// The gradient of the output of the last block in `kept`.
    gradient: Option<Hidden<T>>,
}

/// What is kept of a block's forward pass: all of it, or the input to do it again.
enum Kept<T: Tensors> {
    Pass(Box<BlockPass<T>>),
    Input(Option<Hidden<T>>),
}

/// What a stage is made from, beside its backend and device.
pub(super) struct StageSetting<'a> {
    /// What is to be trained.
    pub(super) job: &'a Job,
    /// The lowered program.
    pub(super) program: &'a Program,
    /// The rank.
    pub(super) rank: Rank,
    /// The samples.
    pub(super) data: DataSet,
    /// Where the other threads leave things.
    pub(super) mailbox: Arc<Mailbox>,
    /// What to go on from; blocks that it lacks start with initial weights.
    pub(super) state: TrainingState,
    /// Those who share the stage.
    pub(super) group: TensorGroup,
}

impl<T: Tensors> Stage<T> {
    /// The stage of a rank.
    pub(super) fn new(setting: StageSetting<'_>, device: T::Device) -> Self {
        let StageSetting { job, program, rank, data, mailbox, mut state, group } = setting;
        let plan = &job.plan;
        let place = &program.ranks()[rank.index()];
        let replica = &plan.replicas[place.replica.index()];
        let micro_batches: u32 = plan.replicas.iter().map(|replica| replica.micro_batches).sum();
        let stages: usize = plan.replicas.iter().map(|replica| replica.stages.len()).sum();
        let part = group.part;
        let mut hold = |block| {
            let initial = || BlockState::initial(initial_part(&job.model, block, part, job.seed));
            HeldBlock::new(&job.model, block, part, state.blocks.remove(&block).unwrap_or_else(initial), &device)
        };
        let blocks: Vec<HeldBlock<T>> = replica.blocks(place.stage.index()).into_iter().map(&mut hold).collect();
        Self {
            sums: blocks.iter().map(|held| GradientSums::new(held.regions.len())).collect(),
            micro_batches: replica.micro_batches,
            recompute: plan.recompute,
            optimizer: job.optimizer,
            learning_rate: job.learning_rate,
            blocks,
            samples: Samples::new(plan, place.replica.index(), data, job.seed, state.step),
            weight: (micro_batches as f32).recip(),
            model: job.model.clone(),
            mailbox,
            in_flight: BTreeMap::new(),
            tied: TiedEnds::of(&job.model, part, part).filter(|_| stages == 1),
            is_tied: false,
            group,
            device,
            loss: 0.0,
            measured: Measured::default(),
        }
    }

    fn backward_block(&mut self, micro_batch: MicroBatch, index: usize) -> Result<(), DeviceError> {
        let Self { model, recompute, blocks, sums, group, samples, in_flight, .. } = self;
        let pass = in_flight.get_mut(&micro_batch).expect("forward comes before backward");
        let gradient = pass.gradient.take();
        let kept = pass.kept.pop().expect("blocks go backward once, from the last to the first");
        assert_eq!(pass.kept.len(), index, "blocks go backward in order");
        let clock = Instant::now();
        let held = &blocks[index];
        let what = held.input(model, &pass.batch, *recompute, group, samples.tokens(model));
        let kept = match kept {
            Kept::Pass(kept) => *kept,
            Kept::Input(input) => BlockPass::forward(&what, input, group)?,
        };
        let block = held.block;
        let before = kept.backward(&what, gradient, self.weight, &mut sums[index], group)?;
        let is_last = sums[index].passes() == self.micro_batches;
        if is_last {
            let mut gradients = sums[index].take();
            held.complete(&mut gradients, group)?;
            self.mailbox.gradients().insert(block, gradients);
        }
        let what = if is_last { Pass::LastBackward } else { Pass::Backward };
        self.measured.block_times.push(BlockTime { block, pass: what, seconds: clock.elapsed().as_secs_f64() });
        if index > 0 {
            pass.gradient = before;
            return Ok(());
        }
        in_flight.remove(&micro_batch);
        if let Some(before) = before {
            self.mailbox.to_send().put(Direction::Upstream, micro_batch, numbers(before));
        }
        Ok(())
    }

    /// Adds up the gradients of tied ends that no reduction adds up.
    fn tie(&mut self) {
        if let (Some(tied), false) = (&self.tied, self.is_tied) {
            let sums = tied.gather(&self.mailbox);
            tied.scatter(&sums, &self.mailbox, true);
            self.is_tied = true;
        }
    }

    /// What came over the wire, as a tensor in the precision of the passes.
    fn hidden(&self, direction: Direction, micro_batch: MicroBatch) -> Hidden<T> {
        let values = self.mailbox.received().take(direction, micro_batch);
        hidden::<T>(values, self.model.hidden_size as usize, &self.device, T::FloatElem::dtype())
    }

    fn holds(&self, block: Block) -> bool {
        self.blocks.iter().any(|held| held.block == block)
    }

    /// The tokens of a micro batch, where this stage needs any.
    fn batch(&self, micro_batch: MicroBatch) -> Batch {
        if self.holds(Block::Embedding) || self.holds(Block::Head) {
            return self.samples.batch(&self.model, micro_batch);
        }
        Batch::default()
    }
}

impl<T: Tensors> Compute for Stage<T> {
    fn forward(&mut self, micro_batch: MicroBatch) -> Result<(), DeviceError> {
        let batch = self.batch(micro_batch);
        let mut state = (!self.holds(Block::Embedding)).then(|| self.hidden(Direction::Downstream, micro_batch));
        let mut kept = Vec::with_capacity(self.blocks.len());
        let (part, tokens) = (self.group.part, self.samples.tokens(&self.model));
        for held in &self.blocks {
            let clock = Instant::now();
            let what = held.input(&self.model, &batch, self.recompute, &self.group, tokens);
            let pass = BlockPass::forward(&what, state.clone(), &mut self.group)?;
            let output = pass.hidden();
            // Those who share the head all have its loss, which counts once.
            if part.rank == 0 {
                self.loss += pass.loss().unwrap_or_default();
            }
            let seconds = clock.elapsed().as_secs_f64();
            self.measured.block_times.push(BlockTime { block: held.block, pass: Pass::Forward, seconds });
            kept.push(if self.recompute == Recompute::Full { Kept::Input(state) } else { Kept::Pass(Box::new(pass)) });
            state = output;
        }
        if let Some(output) = state {
            self.mailbox.to_send().put(Direction::Downstream, micro_batch, numbers(output));
        }
        self.in_flight.insert(micro_batch, InFlight { batch, kept, gradient: None });
        Ok(())
    }

    fn backward(&mut self, micro_batch: MicroBatch, part: Part) -> Result<(), DeviceError> {
        let last = self.blocks.len() - 1;
        let blocks: Vec<usize> = match part {
            Part::Chunk => (0..=last).rev().collect(),
            Part::Block(block) => {
                vec![self.blocks.iter().position(|held| held.block == block).expect("the block is of this stage")]
            }
        };
        for index in blocks {
            if index == last && !self.holds(Block::Head) {
                let gradient = self.hidden(Direction::Upstream, micro_batch);
                self.in_flight.get_mut(&micro_batch).expect("forward comes before backward").gradient = Some(gradient);
            }
            self.backward_block(micro_batch, index)?;
        }
        Ok(())
    }

    fn loss(&self) -> f64 {
        self.loss
    }

    fn squared_gradient_norm(&mut self) -> f64 {
        self.tie();
        let gradients = self.mailbox.gradients();
        self.blocks.iter().map(|held| held.squared_norm(gradients.get(&held.block).map_or(&[], Vec::as_slice))).sum()
    }

    fn optimizer_step(&mut self, update: Update) -> Result<(), DeviceError> {
        self.tie();
        self.is_tied = false;
        self.samples.step += 1;
        self.loss = 0.0;
        let number = self.samples.step;
        let learning_rate = self.learning_rate.at(number);
        let step = OptimizerStep { number, learning_rate, gradient_scale: update.gradient_scale };
        for held in &mut self.blocks {
            let gradients = self.mailbox.gradients().remove(&held.block).expect("every block went backward");
            self.optimizer.step(step, &mut held.state, &gradients);
            held.renew(&self.device);
        }
        Ok(())
    }

    fn abandon_iteration(&mut self) {
        self.in_flight.clear();
        self.loss = 0.0;
        self.sums.iter_mut().for_each(GradientSums::clear);
        self.is_tied = false;
        self.measured = Measured::default();
        self.mailbox.clear();
    }

    fn take_measured(&mut self) -> Measured {
        std::mem::take(&mut self.measured)
    }

    fn state(&self) -> TrainingState {
        let blocks = self.blocks.iter().map(|held| (held.block, held.state.clone())).collect();
        TrainingState { step: self.samples.step, blocks }
    }

    fn into_state(self: Box<Self>) -> TrainingState {
        let step = self.samples.step;
        TrainingState { step, blocks: self.blocks.into_iter().map(|held| (held.block, held.state)).collect() }
    }
}

#[cfg(test)]
mod tests;
