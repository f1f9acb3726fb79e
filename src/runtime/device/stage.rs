//! A rank's stage: its blocks, their optimizer state, and the micro batches in flight.

use super::DataSet;
use super::mailbox::Mailbox;
use super::messages::Job;
use super::model::{
    Batch, BlockGraph, BlockInput, Hidden, Parameter, ParameterShape, hidden, initial, numbers, parameter, shapes,
};
use super::optimizer::{AdamW, Moments};
use super::tied::TiedEnds;
use crate::ids::{LayerId, MicroBatch, Rank, StageId};
use crate::model::{Block, ModelSpec, Recompute};
use crate::plan::Replica;
use crate::program::{Direction, Part, Program};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Blocks, parameters and what is kept between forward and backward.
pub(super) struct Stage {
    model: ModelSpec,
    recompute: Recompute,
    optimizer: AdamW,
    blocks: Vec<BlockState>,
    samples: Samples,
    /// What a micro batch's loss counts in the mean over the global batch.
    weight: f32,
    mailbox: Arc<Mailbox>,
    in_flight: BTreeMap<MicroBatch, InFlight>,
    /// Tied ends that are both here and nowhere else, so that no reduction adds up their gradients.
    tied: Option<TiedEnds>,
    /// Sum of the losses of this step's micro batches, where the head is here.
    loss: f64,
}

struct BlockState {
    block: Block,
    shapes: Vec<ParameterShape>,
    values: Vec<f32>,
    /// The same values, as tensors.
    parameters: Vec<Parameter>,
    moments: Moments,
}

/// Where this rank's samples are found.
struct Samples {
    data: DataSet,
    seed: u64,
    global_batch_size: u64,
    micro_batch_size: u64,
    /// Micro batches of the replicas before this one.
    first_micro_batch: u64,
    step: u64,
}

/// A micro batch between its forward and its backward pass.
struct InFlight {
    /// What each block kept, from the input side; taken from the end as the backward pass proceeds.
    kept: Vec<Kept>,
    /// The gradient of the output of the last block in `kept`.
    gradient: Option<Hidden>,
}

/// What is kept of a block's forward pass: all of it, or the input to do it again.
enum Kept {
    Graph(Box<BlockGraph>),
    Input(Option<Hidden>),
}

impl Stage {
    /// The stage of `rank` before the first step.
    pub(super) fn new(job: &Job, program: &Program, rank: Rank, data: DataSet, mailbox: Arc<Mailbox>) -> Self {
        let plan = &job.plan;
        let place = &program.ranks()[rank.index()];
        let replica = &plan.replicas[place.replica.index()];
        let micro_batches =
            |replicas: &[Replica]| -> u64 { replicas.iter().map(|replica| u64::from(replica.micro_batches)).sum() };
        let blocks = blocks(replica, place.stage);
        Self {
            recompute: plan.recompute,
            optimizer: job.optimizer,
            blocks: blocks.into_iter().map(|block| BlockState::new(&job.model, block, job.seed)).collect(),
            samples: Samples {
                data,
                seed: job.seed,
                global_batch_size: u64::from(plan.global_batch_size),
                micro_batch_size: u64::from(plan.micro_batch_size),
                first_micro_batch: micro_batches(&plan.replicas[..place.replica.index()]),
                step: 0,
            },
            weight: (micro_batches(&plan.replicas) as f32).recip(),
            model: job.model.clone(),
            mailbox,
            in_flight: BTreeMap::new(),
            tied: TiedEnds::of(&job.model).filter(|_| program.ranks().len() == 1),
            loss: 0.0,
        }
    }

    /// Forward pass of one micro batch: takes what the stage before sent, leaves what the next one needs.
    pub(super) fn forward(&mut self, micro_batch: MicroBatch) {
        let batch = self.batch(micro_batch);
        let mut state = (!self.holds(Block::Embedding)).then(|| {
            let values = self.mailbox.received().take(Direction::Downstream, micro_batch);
            hidden(values, self.model.hidden_size as usize)
        });
        let mut kept = Vec::with_capacity(self.blocks.len());
        for block in &self.blocks {
            let graph = self.graph(block, state.clone(), &batch);
            let output = graph.hidden();
            self.loss += graph.loss().unwrap_or_default();
            kept.push(if self.recompute == Recompute::Full {
                Kept::Input(state)
            } else {
                Kept::Graph(Box::new(graph))
            });
            state = output;
        }
        if let Some(output) = state {
            self.mailbox.to_send().put(Direction::Downstream, micro_batch, numbers(output));
        }
        self.in_flight.insert(micro_batch, InFlight { kept, gradient: None });
    }

    /// Backward pass of one micro batch, whole or one block of it.
    pub(super) fn backward(&mut self, micro_batch: MicroBatch, part: Part) {
        let last = self.blocks.len() - 1;
        let blocks: Vec<usize> = match part {
            Part::Stage => (0..=last).rev().collect(),
            Part::Block(block) => {
                vec![self.blocks.iter().position(|state| state.block == block).expect("the block is of this stage")]
            }
        };
        for index in blocks {
            if index == last && !self.holds(Block::Head) {
                let values = self.mailbox.received().take(Direction::Upstream, micro_batch);
                self.pass(micro_batch).gradient = Some(hidden(values, self.model.hidden_size as usize));
            }
            self.backward_block(micro_batch, index);
        }
    }

    fn backward_block(&mut self, micro_batch: MicroBatch, index: usize) {
        let pass = self.pass(micro_batch);
        let gradient = pass.gradient.take();
        let kept = pass.kept.pop().expect("blocks go backward once, from the last to the first");
        assert_eq!(pass.kept.len(), index, "blocks go backward in order");
        let state = &self.blocks[index];
        let graph = match kept {
            Kept::Graph(graph) => *graph,
            Kept::Input(input) => self.graph(state, input, &self.batch(micro_batch)),
        };
        let mut sums = self.mailbox.gradients().remove(&state.block).unwrap_or_else(|| vec![0.0; state.values.len()]);
        let before = graph.backward(gradient, self.weight, &mut sums);
        self.mailbox.gradients().insert(state.block, sums);
        if index > 0 {
            self.pass(micro_batch).gradient = before;
            return;
        }
        self.in_flight.remove(&micro_batch);
        if let Some(before) = before {
            self.mailbox.to_send().put(Direction::Upstream, micro_batch, numbers(before));
        }
    }

    /// Moves the parameters. Gradients are those of the mean loss over the global batch by now.
    pub(super) fn optimizer_step(&mut self) {
        if let Some(tied) = &self.tied {
            let sums = tied.gather(&self.mailbox);
            tied.scatter(&sums, &self.mailbox);
        }
        for state in &mut self.blocks {
            let gradients = self.mailbox.gradients().remove(&state.block).expect("every block went backward");
            state.moments.step(&self.optimizer, &mut state.values, &gradients);
            state.parameters = tensors(&state.shapes, &state.values);
        }
        self.samples.step += 1;
    }

    /// The sum of the losses since it was last taken.
    pub(super) fn take_loss(&mut self) -> f64 {
        std::mem::take(&mut self.loss)
    }

    fn holds(&self, block: Block) -> bool {
        self.blocks.iter().any(|state| state.block == block)
    }

    fn pass(&mut self, micro_batch: MicroBatch) -> &mut InFlight {
        self.in_flight.get_mut(&micro_batch).expect("forward comes before backward")
    }

    fn graph(&self, state: &BlockState, hidden: Option<Hidden>, batch: &Batch) -> BlockGraph {
        let BlockState { block, shapes, parameters, .. } = state;
        BlockGraph::forward(&BlockInput { model: &self.model, block: *block, shapes, parameters, hidden, batch })
    }

    /// The tokens of a micro batch, where this stage needs any.
    fn batch(&self, micro_batch: MicroBatch) -> Batch {
        let mut batch = Batch::default();
        if !self.holds(Block::Embedding) && !self.holds(Block::Head) {
            return batch;
        }
        let Samples { data, seed, .. } = &self.samples;
        for number in self.samples.numbers(micro_batch) {
            let tokens = data.sample(number, *seed, &self.model);
            batch.inputs.extend_from_slice(&tokens[..tokens.len() - 1]);
            batch.targets.extend_from_slice(&tokens[1..]);
        }
        batch
    }
}

impl Samples {
    /// The samples of a micro batch: the global batch is dealt out replica by replica.
    fn numbers(&self, micro_batch: MicroBatch) -> std::ops::Range<u64> {
        let within_step = (self.first_micro_batch + u64::from(micro_batch.0)) * self.micro_batch_size;
        let first = self.step * self.global_batch_size + within_step;
        first..first + self.micro_batch_size
    }
}

impl BlockState {
    fn new(model: &ModelSpec, block: Block, seed: u64) -> Self {
        let shapes = shapes(model, block);
        let values = initial(model, block, seed);
        let parameters = tensors(&shapes, &values);
        Self { block, moments: Moments::new(values.len()), shapes, values, parameters }
    }
}

/// The parameters that lie one after the other in `values`.
fn tensors(shapes: &[ParameterShape], values: &[f32]) -> Vec<Parameter> {
    let mut rest = values;
    let mut take = |shape: &ParameterShape| {
        let (values, behind) = rest.split_at(shape.len());
        rest = behind;
        parameter(values)
    };
    shapes.iter().map(&mut take).collect()
}

/// The blocks of a stage, from the input side.
fn blocks(replica: &Replica, place: StageId) -> Vec<Block> {
    let stage = &replica.stages[place.index()];
    let embedding = (place.index() == 0).then_some(Block::Embedding);
    let layers = (stage.first_layer..stage.first_layer + stage.num_layers).map(|layer| Block::Layer(LayerId(layer)));
    let head = (place.index() + 1 == replica.stages.len()).then_some(Block::Head);
    embedding.into_iter().chain(layers).chain(head).collect()
}
