//! One block's pass over one micro batch: forward keeps the graph, backward consumes it.

use super::forward::{Parameters, embedding, head, layer};
use super::{Hidden, Parameter, ParameterShape, Plain, Tracked, numbers};
use crate::model::{Block, ModelSpec};
use burn_tensor::Tensor;

/// The tokens of a micro batch, sample by sample.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Batch {
    /// What the model sees.
    pub(in super::super) inputs: Vec<u32>,
    /// What follows each of them.
    pub(in super::super) targets: Vec<u32>,
}

/// What a block's forward pass takes beside its parameters.
pub(in super::super) struct BlockInput<'a> {
    /// The model.
    pub(in super::super) model: &'a ModelSpec,
    /// The block.
    pub(in super::super) block: Block,
    /// Shapes of its parameters.
    pub(in super::super) shapes: &'a [ParameterShape],
    /// Its parameters.
    pub(in super::super) parameters: &'a [Parameter],
    /// What the block before it gave; nothing for the embedding.
    pub(in super::super) hidden: Option<Hidden>,
    /// The tokens.
    pub(in super::super) batch: &'a Batch,
}

/// A block's graph, from its input and parameters to its output.
pub(in super::super) struct BlockGraph {
    input: Option<Tensor<Tracked, 2>>,
    parameters: Vec<Tensor<Tracked, 1>>,
    output: Output,
}

enum Output {
    Hidden(Tensor<Tracked, 2>),
    Loss(Tensor<Tracked, 1>),
}

impl BlockGraph {
    /// The forward pass. Every graph has leaves of its own, so that graphs of different micro batches share nothing.
    pub(in super::super) fn forward(what: &BlockInput<'_>) -> Self {
        let leaf = |parameter: &Parameter| Tensor::from_inner(parameter.clone()).require_grad();
        let parameters: Vec<Tensor<Tracked, 1>> = what.parameters.iter().map(leaf).collect();
        let input = what.hidden.clone().map(|hidden| Tensor::<Tracked, 2>::from_inner(hidden).require_grad());
        let shaped = parameters.iter().zip(what.shapes);
        let mut matrices = Parameters(shaped.map(|(leaf, shape)| leaf.clone().reshape([shape.rows, shape.columns])));
        let hidden = || input.clone().expect("only the embedding has no block before it");
        let output = match what.block {
            Block::Embedding => Output::Hidden(embedding(what.model, &mut matrices, &what.batch.inputs)),
            Block::Layer(_) => Output::Hidden(layer(what.model, &mut matrices, hidden())),
            Block::Head => Output::Loss(head(&mut matrices, hidden(), &what.batch.targets)),
        };
        Self { input, parameters, output }
    }

    /// What the next block takes; nothing behind the head.
    pub(in super::super) fn hidden(&self) -> Option<Hidden> {
        match &self.output {
            Output::Hidden(hidden) => Some(hidden.clone().inner()),
            Output::Loss(_) => None,
        }
    }

    /// The loss, of the head.
    pub(in super::super) fn loss(&self) -> Option<f64> {
        match &self.output {
            Output::Hidden(_) => None,
            Output::Loss(loss) => Some(f64::from(numbers(loss.clone().inner())[0])),
        }
    }

    /// The backward pass: from the gradient of the output (for the head: the weight of its loss, whose gradient is one)
    /// to that of the input. Gradients of the parameters are added to `sums`.
    pub(in super::super) fn backward(self, gradient: Option<Hidden>, weight: f32, sums: &mut [f32]) -> Option<Hidden> {
        // The product with a constant, summed up, has that constant as its gradient.
        let gradients = match self.output {
            Output::Hidden(hidden) => {
                let gradient = gradient.expect("the block behind gave a gradient");
                (hidden * Tensor::from_inner(gradient)).sum().backward()
            }
            Output::Loss(loss) => (loss * weight).backward(),
        };
        let mut rest = sums;
        for parameter in &self.parameters {
            let (sums, behind) = rest.split_at_mut(parameter.dims()[0]);
            rest = behind;
            let Some(gradient): Option<Tensor<Plain, 1>> = parameter.grad(&gradients) else { continue };
            sums.iter_mut().zip(numbers(gradient)).for_each(|(sum, value)| *sum += value);
        }
        self.input.and_then(|input| input.grad(&gradients))
    }
}
