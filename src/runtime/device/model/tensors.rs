//! What a backend of the tensor library has to be for the model to run on it, and how numbers get there and back.

use burn_autodiff::Autodiff;
use burn_flex::{Flex, FlexTensor};
use burn_tensor::backend::Backend;
use burn_tensor::ops::FloatTensor;
use burn_tensor::{DType, Int, Tensor, TensorData};

/// Tensors that the passes compute with. Their float is the precision of the passes; master weights, sums of gradients
/// and optimizer moments are fp32 in host memory, whatever it is.
pub(in super::super) trait Tensors: Backend {
    /// The way to the numbers, where tensors are fp32 in host memory. There, loops over them take the place of chains of
    /// tensor operations.
    fn host() -> Option<Host<Self>> {
        None
    }
}

/// The CPU, in fp32.
impl Tensors for Flex {
    fn host() -> Option<Host<Self>> {
        #[cfg(test)]
        if COMPUTES_BY_TENSORS.get() {
            return None;
        }
        Some(Host { into: |tensor| tensor, from: |tensor| tensor })
    }
}

#[cfg(test)]
thread_local! {
    /// Lets this thread compute by tensor operations on the CPU too, as other backends do.
    pub(super) static COMPUTES_BY_TENSORS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// How a backend's tensors become tensors in host memory, which they are, and back.
#[derive(Debug)]
pub(in super::super) struct Host<T: Tensors> {
    pub(super) into: fn(FloatTensor<T>) -> FlexTensor,
    pub(super) from: fn(FlexTensor) -> FloatTensor<T>,
}

impl<T: Tensors> Copy for Host<T> {}

// Derived, it would ask the backend to be `Copy` itself.
#[expect(clippy::expl_impl_clone_on_copy)]
impl<T: Tensors> Clone for Host<T> {
    fn clone(&self) -> Self {
        *self
    }
}

/// Tensors with a graph.
pub(super) type Tracked<T> = Autodiff<T>;
/// A vector of numbers as the blocks pass them on: `[micro_batch_size × seq_length, hidden_size]`.
pub(in super::super) type Hidden<T> = Tensor<T, 2>;
/// A parameter, flat.
pub(in super::super) type Parameter<T> = Tensor<T, 1>;

/// A flat tensor of these numbers.
pub(in super::super) fn parameter<T: Tensors>(values: &[f32], device: &T::Device) -> Parameter<T> {
    Parameter::from_data(TensorData::new(values.to_vec(), [values.len()]), device)
}

/// Hidden states from what came over the wire, in this float format.
pub(in super::super) fn hidden<T: Tensors>(
    values: Vec<f32>,
    width: usize,
    device: &T::Device,
    float: DType,
) -> Hidden<T> {
    let rows = values.len() / width;
    Hidden::from_data(TensorData::new(values, [rows, width]), (device, float))
}

/// The numbers of a tensor.
pub(in super::super) fn numbers<T: Tensors, const D: usize>(tensor: Tensor<T, D>) -> Vec<f32> {
    tensor.into_data().convert::<f32>().into_vec().expect("it was just converted to fp32")
}

/// Places along a dimension.
pub(super) fn indices<B: Backend>(places: impl Iterator<Item = usize>, device: &B::Device) -> Tensor<B, 1, Int> {
    let places: Vec<i64> = places.map(|place| i64::try_from(place).expect("places are below 2^63")).collect();
    let count = places.len();
    Tensor::from_data(TensorData::new(places, [count]), device)
}
