//! One block's pass over one micro batch: forward keeps the graphs of its pieces, backward consumes them.

use super::cross_entropy::{Loss, cross_entropy};
use super::forward::{Given, Matrix, Parameters, run};
use super::fused::seeded;
use super::pieces::{Border, Kind, Piece, pieces};
use super::tensors::{Hidden, Parameter, Tensors, Tracked, numbers};
use super::{Batch, Region, vocabulary};
use crate::model::{Block, ModelSpec};
use crate::runtime::device::tensor_parallel::{TensorGroup, TensorPart};
use crate::runtime::device::transport::TransportError;
use burn_tensor::{DType, Tensor};
use std::ops::Range;

/// What a block's passes take beside the hidden states.
pub(in super::super) struct BlockInput<'a, T: Tensors> {
    /// The model.
    pub(in super::super) model: &'a ModelSpec,
    /// The block.
    pub(in super::super) block: Block,
    /// The rank's part of it.
    pub(in super::super) part: TensorPart,
    /// Where its parameters lie in the whole ones.
    pub(in super::super) regions: &'a [Region],
    /// Its parameters.
    pub(in super::super) parameters: &'a [Parameter<T>],
    /// The tokens.
    pub(in super::super) batch: &'a Batch,
    /// How many those are, also where the stage needs none of them.
    pub(in super::super) tokens: usize,
    /// The rows of the residual stream that the rank holds, one for each token unless they are shared.
    pub(in super::super) rows: Range<usize>,
    /// Whether the attention core is computed again in the backward pass instead of kept.
    pub(in super::super) recompute_attention: bool,
}

/// A block's pass between forward and backward.
pub(in super::super) struct BlockPass<T: Tensors> {
    kept: Vec<Kept<T>>,
    output: Output<T>,
}

enum Output<T: Tensors> {
    Hidden(Hidden<T>),
    Loss(Loss<T>),
}

/// What is kept of a piece: its graph, or what it takes to make that again.
enum Kept<T: Tensors> {
    Graph(Graph<T>),
    Inputs(Flow<T>),
}

/// What travels along a block: hidden states on the way forward, their gradients on the way backward.
#[derive(Clone)]
struct Flow<T: Tensors> {
    residual: Option<Hidden<T>>,
    branch: Vec<Hidden<T>>,
}

impl<T: Tensors> BlockPass<T> {
    /// The forward pass; `hidden` is what the block before it gave, nothing for the embedding.
    pub(in super::super) fn forward(
        what: &BlockInput<'_, T>,
        hidden: Option<Hidden<T>>,
        group: &mut TensorGroup,
    ) -> Result<Self, TransportError> {
        let tokens = what.tokens;
        let mut flow = Flow { residual: hidden, branch: Vec::new() };
        let mut kept = Vec::new();
        for piece in pieces(what.model, what.block) {
            let residual = if piece.kind.reads_residual() { flow.residual.clone() } else { None };
            let inputs = Flow { residual, branch: std::mem::take(&mut flow.branch) };
            let again = (what.recompute_attention && piece.kind == Kind::Attention).then(|| inputs.clone());
            let graph = Graph::new(what, &piece, inputs);
            flow.branch = graph.given.branch.iter().map(|branch| branch.clone().inner()).collect();
            if let Some(residual) = &graph.given.residual {
                flow.residual = Some(residual.clone().inner());
            }
            flow.branch = across(piece.kind.border(), Border::SumOutput, flow.branch, tokens, group)?;
            kept.push(again.map_or(Kept::Graph(graph), Kept::Inputs));
        }
        let output = match what.block {
            Block::Head => {
                let logits = flow.branch.pop().expect("the head ends with scores");
                Output::Loss(cross_entropy(logits, what.batch, &vocabulary(what.model, what.part), group)?)
            }
            _ => Output::Hidden(flow.residual.expect("embedding and layers end with a residual")),
        };
        Ok(Self { kept, output })
    }

    /// What the next block takes; nothing behind the head.
    pub(in super::super) fn hidden(&self) -> Option<Hidden<T>> {
        match &self.output {
            Output::Hidden(hidden) => Some(hidden.clone()),
            Output::Loss(_) => None,
        }
    }

    /// The loss, of the head.
    pub(in super::super) fn loss(&self) -> Option<f64> {
        match &self.output {
            Output::Hidden(_) => None,
            Output::Loss(loss) => Some(loss.value),
        }
    }

    /// The backward pass: from the gradient of the output (for the head: the weight of its loss, whose gradient is one)
    /// to that of the input. Gradients of the parameters are added to `sums`.
    pub(in super::super) fn backward(
        self,
        what: &BlockInput<'_, T>,
        gradient: Option<Hidden<T>>,
        weight: f32,
        sums: &mut GradientSums<T>,
        group: &mut TensorGroup,
    ) -> Result<Option<Hidden<T>>, TransportError> {
        let mut flow = match self.output {
            Output::Hidden(_) => {
                Flow { residual: Some(gradient.expect("the block behind gave a gradient")), branch: Vec::new() }
            }
            Output::Loss(loss) => Flow { residual: None, branch: vec![loss.gradient_scaled(weight)] },
        };
        let tokens = what.tokens;
        let pieces = pieces(what.model, what.block);
        for (piece, kept) in pieces.iter().zip(self.kept).rev() {
            flow.branch = across(piece.kind.border(), Border::SumGradient, flow.branch, tokens, group)?;
            let graph = match kept {
                Kept::Graph(graph) => graph,
                Kept::Inputs(inputs) => Graph::new(what, piece, inputs),
            };
            flow = graph.backward(flow, piece.kind, &mut sums.sums[piece.parameters.clone()]);
        }
        sums.passes += 1;
        Ok(flow.residual)
    }
}

/// Takes the branch, or its gradient, across a border: what is to be summed in this direction is summed, and where that
/// leaves each member with its rows, the other direction gathers them.
fn across<T: Tensors>(
    border: Border,
    summed: Border,
    branch: Vec<Hidden<T>>,
    tokens: usize,
    group: &mut TensorGroup,
) -> Result<Vec<Hidden<T>>, TransportError> {
    let mut cross = |values| match border {
        Border::Open => Ok(values),
        border if border == summed => group.sum_to_rows(values),
        _ => group.all_rows(values, tokens),
    };
    branch.into_iter().map(&mut cross).collect()
}

/// The graph of one piece. It has leaves of its own, so that graphs of different pieces and micro batches share nothing.
struct Graph<T: Tensors> {
    residual: Option<Matrix<T>>,
    branch: Vec<Matrix<T>>,
    parameters: Vec<Tensor<Tracked<T>, 1>>,
    given: Given<T>,
}

impl<T: Tensors> Graph<T> {
    fn new(what: &BlockInput<'_, T>, piece: &Piece, inputs: Flow<T>) -> Self {
        let leaf = |hidden: Hidden<T>| Matrix::<T>::from_inner(hidden).require_grad();
        let residual = inputs.residual.map(leaf);
        let branch: Vec<_> = inputs.branch.into_iter().map(leaf).collect();
        let leaf = |parameter: &Parameter<T>| Tensor::from_inner(parameter.clone()).require_grad();
        let parameters: Vec<Tensor<Tracked<T>, 1>> =
            what.parameters[piece.parameters.clone()].iter().map(leaf).collect();
        let regions = what.regions[piece.parameters.clone()].iter();
        let matrices = parameters.iter().zip(regions);
        let matrices =
            matrices.map(|(leaf, region)| leaf.clone().reshape([region.rows.len(), region.columns.len()])).collect();
        let given = run(piece.kind, what, Parameters::new(what.model, matrices), residual.clone(), branch.clone());
        Self { residual, branch, parameters, given }
    }

    /// From the gradients of what the piece gave to those of what it took.
    fn backward(self, flow: Flow<T>, kind: Kind, sums: &mut [Option<Parameter<T>>]) -> Flow<T> {
        let (seed, carried) = if kind.writes_residual() { (flow.residual, None) } else { (None, flow.residual) };
        let given = self.given.residual.into_iter().zip(seed).chain(self.given.branch.into_iter().zip(flow.branch));
        let seeds = given.map(|(given, gradient)| seeded(given, gradient));
        let total = seeds.reduce(|total, seed| total + seed).expect("each piece gives something");
        let mut gradients = total.backward();
        for (parameter, sum) in self.parameters.iter().zip(sums) {
            let gradient = parameter.grad_remove(&mut gradients).expect("a piece uses all its parameters");
            let gradient = gradient.cast(DType::F32);
            *sum = Some(match sum.take() {
                Some(sum) => sum + gradient,
                None => gradient,
            });
        }
        let mut of = |leaf: Matrix<T>| leaf.grad_remove(&mut gradients).expect("a piece uses all that it takes");
        let residual = match (carried, self.residual.map(&mut of)) {
            (Some(carried), Some(own)) => Some(carried + own),
            (carried, own) => carried.or(own),
        };
        Flow { residual, branch: self.branch.into_iter().map(of).collect() }
    }
}

/// The gradients of a block's parameters, summed over micro batches in fp32 where the passes compute.
pub(in super::super) struct GradientSums<T: Tensors> {
    sums: Vec<Option<Parameter<T>>>,
    /// Backward passes so far.
    passes: u32,
}

impl<T: Tensors> GradientSums<T> {
    /// Nothing yet, of so many parameters.
    pub(in super::super) fn new(parameters: usize) -> Self {
        Self { sums: vec![None; parameters], passes: 0 }
    }

    /// How many backward passes there were since they started anew.
    pub(in super::super) fn passes(&self) -> u32 {
        self.passes
    }

    /// The sums in host memory, one parameter after the other. They start anew.
    pub(in super::super) fn take(&mut self) -> Vec<f32> {
        self.passes = 0;
        let count = self.sums.iter().flatten().map(|sum| sum.dims()[0]).sum();
        let mut all = Vec::with_capacity(count);
        for sum in &mut self.sums {
            all.extend(numbers(sum.take().expect("the block went backward")));
        }
        all
    }

    /// Forgets everything.
    pub(in super::super) fn clear(&mut self) {
        self.sums.fill(None);
        self.passes = 0;
    }
}
