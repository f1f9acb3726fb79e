//! Tensor parallelism: which part of a stage a rank computes, and how the parts' results come together.

use super::all_reduce::Ring;
use super::model::{Hidden, Tensors, hidden, numbers};
use super::transport::TransportError;
use crate::plan::Plan;
use crate::program::{Group, RankProgram};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// One rank's place among those that share a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TensorPart {
    /// Its number, from zero.
    pub(super) rank: usize,
    /// How many there are, `t`.
    pub(super) size: usize,
}

impl TensorPart {
    /// All of a stage.
    #[cfg(test)]
    pub(super) const WHOLE: Self = Self { rank: 0, size: 1 };

    /// The part of a rank.
    pub(super) fn of(program: &RankProgram) -> Self {
        Self { rank: program.tensor_rank as usize, size: program.tensor_parallel_size as usize }
    }

    /// The part that is a slice of a block, as those are cut that reduce it together.
    pub(super) fn of_slice(group: &Group) -> Self {
        Self { rank: group.share.start as usize, size: group.share.of as usize }
    }

    /// The parts of another size that this part has some of.
    pub(super) fn parts_of(self, size: usize) -> impl DoubleEndedIterator<Item = Self> {
        let parts = self.rank * size / self.size..((self.rank + 1) * size).div_ceil(self.size);
        parts.map(move |rank| Self { rank, size })
    }
}

/// A rank's connection to those that share its stage, used between graphs and by the thread that computes them.
///
/// Under sequence parallelism (Korthikanti et al. 2022) each of them holds its rows only of whatever isn't shared by
/// columns: sums are scattered instead of handed to all, and rows gathered before they are multiplied.
pub(super) struct TensorGroup {
    /// This rank's part.
    pub(super) part: TensorPart,
    /// None where nobody shares the stage.
    ring: Option<Ring>,
    /// Whether rows are shared too.
    shares_rows: bool,
}

impl TensorGroup {
    /// The group of a rank; it has a ring if it has other members.
    pub(super) fn new(plan: &Plan, rank: &RankProgram, ring: Option<Ring>) -> Self {
        let part = TensorPart::of(rank);
        assert_eq!(ring.is_some(), part.size > 1, "those who share a stage are connected");
        Self { part, ring, shares_rows: plan.sequence_parallel }
    }

    /// The group of a rank that shares its stage with nobody.
    #[cfg(test)]
    pub(super) fn alone() -> Self {
        Self { part: TensorPart::WHOLE, ring: None, shares_rows: false }
    }

    /// The rows of hidden states that this rank holds between the products, out of so many.
    pub(super) fn rows(&self, tokens: usize) -> Range<usize> {
        if self.shares_rows { share(self.part, tokens) } else { 0..tokens }
    }

    /// The sum over all members, the same bits on each.
    pub(super) fn sum<T: Tensors>(&mut self, values: Hidden<T>) -> Result<Hidden<T>, TransportError> {
        self.combined(values, |value, other| *value += other)
    }

    /// The largest over all members, element by element.
    pub(super) fn max<T: Tensors>(&mut self, values: Hidden<T>) -> Result<Hidden<T>, TransportError> {
        self.combined(values, |value, other| *value = value.max(other))
    }

    /// The sum over all members: all of it, or this rank's rows where rows are shared.
    pub(super) fn sum_to_rows<T: Tensors>(&mut self, values: Hidden<T>) -> Result<Hidden<T>, TransportError> {
        let (true, Some(ring)) = (self.shares_rows, &mut self.ring) else { return self.sum(values) };
        let ([rows, width], device, float) = (values.dims(), values.device(), values.dtype());
        let mut on_host = numbers(values);
        let pieces = |rank| scaled(share(TensorPart { rank, ..self.part }, rows), width);
        ring.reduce_scatter(&mut on_host, pieces, |value, other| *value += other)?;
        Ok(hidden::<T>(on_host[pieces(self.part.rank)].to_vec(), width, &device, float))
    }

    /// All rows out of `rows` where each member holds some of them; what all of them hold is left as it is.
    pub(super) fn all_rows<T: Tensors>(&mut self, values: Hidden<T>, rows: usize) -> Result<Hidden<T>, TransportError> {
        let (true, Some(ring)) = (self.shares_rows, &mut self.ring) else { return Ok(values) };
        let (width, device, float) = (values.dims()[1], values.device(), values.dtype());
        let pieces = |rank| scaled(share(TensorPart { rank, ..self.part }, rows), width);
        let mut on_host = vec![0.0; rows * width];
        on_host[pieces(self.part.rank)].copy_from_slice(&numbers(values));
        ring.all_gather(&mut on_host, pieces)?;
        Ok(hidden::<T>(on_host, width, &device, float))
    }

    /// Completes the gradients of parameters that all members hold: each knows what its rows say.
    pub(super) fn sum_replicated(&mut self, gradients: &mut [f32]) -> Result<(), TransportError> {
        match &mut self.ring {
            Some(ring) if self.shares_rows => ring.combine(gradients, |value, other| *value += other),
            _ => Ok(()),
        }
    }

    fn combined<T: Tensors>(
        &mut self,
        values: Hidden<T>,
        combine: impl Fn(&mut f32, f32),
    ) -> Result<Hidden<T>, TransportError> {
        let Some(ring) = &mut self.ring else { return Ok(values) };
        let (width, device, float) = (values.dims()[1], values.device(), values.dtype());
        let mut on_host = numbers(values);
        ring.combine(&mut on_host, combine)?;
        // In the format that it had, which isn't the backend's own where a sum asks for more digits.
        Ok(hidden::<T>(on_host, width, &device, float))
    }
}

/// A member's rows.
fn share(part: TensorPart, rows: usize) -> Range<usize> {
    rows * part.rank / part.size..rows * (part.rank + 1) / part.size
}

fn scaled(range: Range<usize>, by: usize) -> Range<usize> {
    range.start * by..range.end * by
}
