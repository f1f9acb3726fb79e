//! Operations of several steps as one node of the graph, computed by [loops](super::kernels) where the tensors are in
//! host memory; and the node with which a backward pass begins.

use super::kernels::{NormRows, Scores, add_row, gelu, gelu_backward, sum_rows, swap_middle};
use super::tensors::{Host, Tensors, Tracked};
use burn_autodiff::checkpoint::base::Checkpointer;
use burn_autodiff::checkpoint::strategy::NoCheckpointing;
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind};
use burn_flex::FlexTensor;
use burn_tensor::{Shape, Tensor, TensorData, TensorPrimitive};
use std::fmt::Debug;

/// An operation on `N` tensors by loops, and the way back.
pub(super) trait Loops<const N: usize>: Clone + Debug + Send + 'static {
    /// What the way back takes, beside the gradient of the output.
    type Kept: Clone + Debug + Send + 'static;

    fn forward(&self, inputs: [FlexTensor; N]) -> (FlexTensor, Self::Kept);

    fn backward(&self, kept: Self::Kept, gradient: FlexTensor) -> [FlexTensor; N];
}

/// The node of an operation in the graph.
#[derive(Debug)]
struct Fused<L>(std::marker::PhantomData<L>);

impl<T: Tensors, L: Loops<N> + Sync, const N: usize> Backward<T, N> for Fused<L> {
    type State = (Host<T>, L, L::Kept);

    fn backward(self, ops: Ops<Self::State, N>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let (host, loops, kept) = ops.state;
        let gradient = (host.into)(gradients.consume::<T>(&ops.node));
        for (parent, gradient) in ops.parents.into_iter().zip(loops.backward(kept, gradient)) {
            if let Some(parent) = parent {
                gradients.register::<T>(parent.id, (host.from)(gradient));
            }
        }
    }
}

/// The operation as part of a graph.
pub(super) fn apply<T: Tensors, L: Loops<N> + Sync, const N: usize, const D: usize>(
    host: Host<T>,
    loops: L,
    inputs: [Tensor<Tracked<T>, D>; N],
) -> Tensor<Tracked<T>, D> {
    let inputs = inputs.map(|input| input.into_primitive().tensor());
    let nodes = inputs.each_ref().map(|input| input.node.clone());
    let node = Fused(std::marker::PhantomData::<L>);
    let prepared = Backward::<T, N>::prepare::<NoCheckpointing>(node, nodes).compute_bound().stateful();
    let (output, kept) = loops.forward(inputs.map(|input| (host.into)(input.primitive)));
    let output = (host.from)(output);
    let output = match prepared {
        OpsKind::Tracked(prepared) => prepared.finish((host, loops, kept), output),
        OpsKind::UnTracked(prepared) => prepared.finish(output),
    };
    Tensor::from_primitive(TensorPrimitive::Float(output))
}

/// What every use has the gradient of, whatever it is used for.
#[derive(Debug)]
struct Seed;

impl<T: Tensors> Backward<T, 1> for Seed {
    type State = T::FloatTensorPrimitive;

    fn backward(self, ops: Ops<Self::State, 1>, gradients: &mut Gradients, _: &mut Checkpointer) {
        // Takes the gradient of the zero, which is one.
        gradients.consume::<T>(&ops.node);
        let [parent] = ops.parents;
        if let Some(parent) = parent {
            gradients.register::<T>(parent.id, ops.state);
        }
    }
}

/// A zero to go backward from: that gives `tensor` this gradient.
pub(super) fn seeded<T: Tensors, const D: usize>(
    tensor: Tensor<Tracked<T>, D>,
    gradient: Tensor<T, D>,
) -> Tensor<Tracked<T>, 1> {
    let zero = Tensor::<T, 1>::zeros([1], (&gradient.device(), gradient.dtype())).into_primitive().tensor();
    let tensor = tensor.into_primitive().tensor();
    let prepared = Backward::<T, 1>::prepare::<NoCheckpointing>(Seed, [tensor.node]).compute_bound().stateful();
    let output = match prepared {
        OpsKind::Tracked(prepared) => prepared.finish(gradient.into_primitive().tensor(), zero),
        OpsKind::UnTracked(prepared) => prepared.finish(zero),
    };
    Tensor::from_primitive(TensorPrimitive::Float(output))
}

/// The product of a matrix and another one transposed. The way back gives the gradient of the latter in its own order:
/// nothing has to be put in order after it.
#[derive(Debug)]
struct ProductWithTransposed;

impl<T: Tensors> Backward<T, 2> for ProductWithTransposed {
    type State = [T::FloatTensorPrimitive; 2];

    fn backward(self, ops: Ops<Self::State, 2>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = gradients.consume::<T>(&ops.node);
        let transposed = T::float_swap_dims(gradient.clone(), 2, 3);
        let ([left, right], [of_left, of_right]) = (ops.state, ops.parents);
        if let Some(parent) = of_left {
            gradients.register::<T>(parent.id, T::float_matmul(gradient, right));
        }
        if let Some(parent) = of_right {
            gradients.register::<T>(parent.id, T::float_matmul(transposed, left));
        }
    }
}

/// `left · rightᵀ`, matrix by matrix.
pub(super) fn product_with_transposed<T: Tensors>(
    left: Tensor<Tracked<T>, 4>,
    right: Tensor<Tracked<T>, 4>,
) -> Tensor<Tracked<T>, 4> {
    let [left, right] = [left, right].map(|factor| factor.into_primitive().tensor());
    let nodes = [left.node, right.node];
    let prepared =
        Backward::<T, 2>::prepare::<NoCheckpointing>(ProductWithTransposed, nodes).compute_bound().stateful();
    let product = T::float_matmul(left.primitive.clone(), T::float_swap_dims(right.primitive.clone(), 2, 3));
    let output = match prepared {
        OpsKind::Tracked(prepared) => prepared.finish([left.primitive, right.primitive], product),
        OpsKind::UnTracked(prepared) => prepared.finish(product),
    };
    Tensor::from_primitive(TensorPrimitive::Float(output))
}

/// The numbers in their order.
fn values(tensor: &FlexTensor) -> &[f32] {
    tensor.storage::<f32>()
}

fn tensor(values: Vec<f32>, shape: Shape) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape))
}

/// The tensor with its numbers changed: in place, if nobody else holds it.
fn changed(tensor: FlexTensor, change: impl FnOnce(&mut [f32])) -> FlexTensor {
    let mut contiguous = tensor.to_contiguous();
    // Held twice, the numbers would be copied.
    drop(tensor);
    change(contiguous.storage_mut::<f32>());
    contiguous
}

/// The sum of a matrix and a row.
#[derive(Clone, Debug)]
pub(super) struct AddRow;

impl Loops<2> for AddRow {
    type Kept = Shape;

    fn forward(&self, [matrix, row]: [FlexTensor; 2]) -> (FlexTensor, Shape) {
        let row = row.to_contiguous();
        (changed(matrix, |values_of_matrix| add_row(values_of_matrix, values(&row))), row.layout().shape().clone())
    }

    fn backward(&self, shape: Shape, gradient: FlexTensor) -> [FlexTensor; 2] {
        let gradient = gradient.to_contiguous();
        let row = sum_rows(values(&gradient), shape.num_elements());
        [gradient, tensor(row, shape)]
    }
}

/// GELU in its tanh form.
#[derive(Clone, Debug)]
pub(super) struct Gelu;

impl Loops<1> for Gelu {
    type Kept = FlexTensor;

    fn forward(&self, [input]: [FlexTensor; 1]) -> (FlexTensor, FlexTensor) {
        let input = input.to_contiguous();
        (tensor(gelu(values(&input)), input.layout().shape().clone()), input)
    }

    fn backward(&self, input: FlexTensor, gradient: FlexTensor) -> [FlexTensor; 1] {
        [changed(gradient, |gradient| gelu_backward(values(&input), gradient))]
    }
}

/// `LayerNorm` of a matrix's rows, with gain and bias.
#[derive(Clone, Debug)]
pub(super) struct LayerNorm;

/// `RMSNorm` of a matrix's rows, with gain.
#[derive(Clone, Debug)]
pub(super) struct RmsNorm;

fn rows(matrix: &FlexTensor, is_centred: bool) -> NormRows {
    NormRows { width: matrix.layout().shape()[1], is_centred }
}

impl Loops<3> for LayerNorm {
    type Kept = [FlexTensor; 2];

    fn forward(&self, inputs: [FlexTensor; 3]) -> (FlexTensor, Self::Kept) {
        let [input, gain, bias] = inputs.map(|input| input.to_contiguous());
        let output = rows(&input, true).forward(values(&input), values(&gain), values(&bias));
        (tensor(output, input.layout().shape().clone()), [input, gain])
    }

    fn backward(&self, [input, gain]: Self::Kept, gradient: FlexTensor) -> [FlexTensor; 3] {
        let shape = gain.layout().shape().clone();
        let mut sums = [Vec::new(), Vec::new()];
        let by_input = changed(gradient, |gradient| {
            sums = rows(&input, true).backward(values(&input), values(&gain), gradient);
        });
        let [by_gain, by_bias] = sums.map(|sums| tensor(sums, shape.clone()));
        [by_input, by_gain, by_bias]
    }
}

impl Loops<2> for RmsNorm {
    type Kept = [FlexTensor; 2];

    fn forward(&self, inputs: [FlexTensor; 2]) -> (FlexTensor, Self::Kept) {
        let [input, gain] = inputs.map(|input| input.to_contiguous());
        let output = rows(&input, false).forward(values(&input), values(&gain), &[]);
        (tensor(output, input.layout().shape().clone()), [input, gain])
    }

    fn backward(&self, [input, gain]: Self::Kept, gradient: FlexTensor) -> [FlexTensor; 2] {
        let shape = gain.layout().shape().clone();
        let mut by_gain = Vec::new();
        let by_input = changed(gradient, |gradient| {
            [by_gain, _] = rows(&input, false).backward(values(&input), values(&gain), gradient);
        });
        [by_input, tensor(by_gain, shape)]
    }
}

impl Loops<1> for Scores {
    type Kept = FlexTensor;

    fn forward(&self, [scores]: [FlexTensor; 1]) -> (FlexTensor, FlexTensor) {
        let softmax = changed(scores, |scores| self.softmax(scores));
        (softmax.clone(), softmax)
    }

    fn backward(&self, softmax: FlexTensor, gradient: FlexTensor) -> [FlexTensor; 1] {
        [changed(gradient, |gradient| Scores::backward(*self, values(&softmax), gradient))]
    }
}

/// The two dimensions in the middle of four change places.
#[derive(Clone, Debug)]
pub(super) struct SwapMiddle;

impl SwapMiddle {
    fn swap(input: &FlexTensor) -> FlexTensor {
        let input = input.to_contiguous();
        let shape = input.layout().shape();
        let [outer, rows, columns, width] = [shape[0], shape[1], shape[2], shape[3]];
        let output = swap_middle(values(&input), [rows, columns, width]);
        tensor(output, Shape::new([outer, columns, rows, width]))
    }
}

impl Loops<1> for SwapMiddle {
    type Kept = ();

    fn forward(&self, [input]: [FlexTensor; 1]) -> (FlexTensor, ()) {
        (Self::swap(&input), ())
    }

    fn backward(&self, (): (), gradient: FlexTensor) -> [FlexTensor; 1] {
        [Self::swap(&gradient)]
    }
}
