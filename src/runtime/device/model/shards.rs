//! Parts of blocks: what a tensor-parallel rank holds, and the slices in which state is stored and travels.
//!
//! A slice is the same whatever the tensor-parallel degree is, so that state written under one plan is read under
//! another. Slice `s` of a dimension of width `w` is `floor(s·w/8)..floor((s+1)·w/8)`; rank `r` of `t` holds slices
//! `r·8/t..(r+1)·8/t`. Each slice carries the parameters that aren't cut as well, whole: slices of one block come from
//! unlike places at times, and a rank starts from any of them.

use super::initial::initial;
use super::parameters::{Cut, ParameterShape, shapes};
use crate::model::{Block, ModelSpec, SHARDS_PER_BLOCK};
use crate::runtime::device::compute::BlockState;
use crate::runtime::device::tensor_parallel::TensorPart;
use std::borrow::Cow;
use std::ops::Range;

/// Slices of a block.
const SLICES_PER_BLOCK: usize = SHARDS_PER_BLOCK;

/// Where some of a parameter lies in the whole of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Region {
    pub(in super::super) rows: Range<usize>,
    pub(in super::super) columns: Range<usize>,
}

impl Region {
    /// What these slices of a parameter cover.
    fn of(shape: &ParameterShape, slices: &Range<usize>) -> Self {
        let covered = |width: usize| width * slices.start / SLICES_PER_BLOCK..width * slices.end / SLICES_PER_BLOCK;
        match shape.cut {
            Cut::Replicated => Self { rows: 0..shape.rows, columns: 0..shape.columns },
            Cut::Columns => Self { rows: 0..shape.rows, columns: covered(shape.columns) },
            Cut::Rows => Self { rows: covered(shape.rows), columns: 0..shape.columns },
        }
    }

    /// What a rank holds of a parameter.
    pub(in super::super) fn of_part(shape: &ParameterShape, part: TensorPart) -> Self {
        Self::of(shape, &slices(part))
    }

    /// Number of values.
    pub(in super::super) fn len(&self) -> usize {
        self.rows.len() * self.columns.len()
    }

    /// Where each of this region's rows lies in the flat values of `outer`, which covers it.
    fn rows_in(&self, outer: &Self) -> impl Iterator<Item = Range<usize>> {
        let (width, columns) = (outer.columns.len(), self.columns.len());
        let first = self.columns.start - outer.columns.start;
        let above = outer.rows.start;
        self.rows.clone().map(move |row| {
            let start = (row - above) * width + first;
            start..start + columns
        })
    }
}

/// The slices that a rank holds.
pub(in super::super) fn slices(part: TensorPart) -> Range<usize> {
    part.rank * SLICES_PER_BLOCK / part.size..(part.rank + 1) * SLICES_PER_BLOCK / part.size
}

/// Number of values that a rank holds of a block.
pub(in super::super) fn part_len(model: &ModelSpec, block: Block, part: TensorPart) -> usize {
    shapes(model, block).iter().map(|shape| Region::of_part(shape, part).len()).sum()
}

/// Number of values of a slice of a block.
pub(in super::super) fn slice_len(model: &ModelSpec, block: Block, slice: usize) -> usize {
    shapes(model, block).iter().map(|shape| Region::of(shape, &(slice..slice + 1)).len()).sum()
}

/// A rank's initial values of a block, one parameter after the other.
pub(in super::super) fn initial_part(model: &ModelSpec, block: Block, part: TensorPart, seed: u64) -> Vec<f32> {
    let mut values = Vec::with_capacity(part_len(model, block, part));
    for (shape, whole) in shapes(model, block).iter().zip(initial(model, block, seed)) {
        let all = Region::of(shape, &(0..SLICES_PER_BLOCK));
        for row in Region::of_part(shape, part).rows_in(&all) {
            values.extend_from_slice(&whole[row]);
        }
    }
    values
}

/// The content of one of the rank's own slices of a block, from the rank's flat values.
pub(in super::super) fn cut_slice(
    model: &ModelSpec,
    block: Block,
    part: TensorPart,
    values: &[f32],
    slice: usize,
) -> Vec<f32> {
    assert!(slices(part).contains(&slice), "a rank cuts its own slices only");
    cut_slices(model, block, part, values, &(slice..slice + 1))
}

/// What of a rank's flat values of a block is in these slices of it.
fn cut_slices(model: &ModelSpec, block: Block, part: TensorPart, values: &[f32], slices: &Range<usize>) -> Vec<f32> {
    assert_eq!(values.len(), part_len(model, block, part), "the values are those of the rank's part");
    let mut cut = Vec::with_capacity(values.len() * slices.len() / SLICES_PER_BLOCK);
    let mut rest = values;
    for shape in shapes(model, block) {
        let held = Region::of_part(&shape, part);
        let (own, behind) = rest.split_at(held.len());
        rest = behind;
        for row in Region::of(&shape, slices).rows_in(&held) {
            cut.extend_from_slice(&own[row]);
        }
    }
    cut
}

/// What a rank of a larger degree holds of a rank's flat values of a block: some of what is cut, and all of what isn't.
pub(in super::super) fn cut_part<'a>(
    model: &ModelSpec,
    block: Block,
    part: TensorPart,
    values: &'a [f32],
    smaller: TensorPart,
) -> Cow<'a, [f32]> {
    if smaller == part {
        return Cow::Borrowed(values);
    }
    Cow::Owned(cut_slices(model, block, part, values, &slices(smaller)))
}

/// Puts back what [`cut_part`] cut; what isn't cut only where `with_replicated` says so.
pub(in super::super) fn paste_part(
    model: &ModelSpec,
    block: Block,
    part: TensorPart,
    values: &mut [f32],
    (smaller, content): (TensorPart, &[f32]),
    with_replicated: bool,
) {
    let (mut rest, mut content) = (values, content);
    for shape in shapes(model, block) {
        let held = Region::of_part(&shape, part);
        let (own, behind) = rest.split_at_mut(held.len());
        rest = behind;
        let pasted = Region::of_part(&shape, smaller);
        let (new, behind) = content.split_at(pasted.len());
        content = behind;
        if shape.cut == Cut::Replicated && !with_replicated {
            continue;
        }
        let width = pasted.columns.len().max(1);
        for (row, new) in pasted.rows_in(&held).zip(new.chunks_exact(width)) {
            own[row].copy_from_slice(new);
        }
    }
}

/// A rank's flat values of a block, from the contents of its own slices in order.
pub(in super::super) fn assemble(
    model: &ModelSpec,
    block: Block,
    part: TensorPart,
    contents: &[impl AsRef<[f32]>],
) -> Vec<f32> {
    assert_eq!(contents.len(), slices(part).len(), "one content for each of the rank's slices");
    let mut values = vec![0.0; part_len(model, block, part)];
    for (slice, content) in slices(part).zip(contents.iter().map(AsRef::as_ref)) {
        assert_eq!(content.len(), slice_len(model, block, slice), "the content is that of slice {slice}");
        let (mut rest, mut content) = (values.as_mut_slice(), content);
        for shape in shapes(model, block) {
            let held = Region::of_part(&shape, part);
            let (own, behind) = rest.split_at_mut(held.len());
            rest = behind;
            for row in Region::of(&shape, &(slice..slice + 1)).rows_in(&held) {
                let (values, behind) = content.split_at(row.len());
                own[row].copy_from_slice(values);
                content = behind;
            }
        }
    }
    values
}

/// [`cut_slice`] of each of the three vectors of a block's state.
pub(in super::super) fn cut_state(
    model: &ModelSpec,
    block: Block,
    part: TensorPart,
    state: &BlockState,
    slice: usize,
) -> BlockState {
    let cut = |values: &[f32]| cut_slice(model, block, part, values, slice);
    let BlockState { values, mean, mean_of_squares } = state;
    BlockState { values: cut(values), mean: cut(mean), mean_of_squares: cut(mean_of_squares) }
}

/// [`assemble`] of each of the three vectors of a block's state.
pub(in super::super) fn assemble_state(
    model: &ModelSpec,
    block: Block,
    part: TensorPart,
    slices: &[BlockState],
) -> BlockState {
    let join = |of: fn(&BlockState) -> &Vec<f32>| {
        let contents: Vec<&[f32]> = slices.iter().map(|slice| of(slice).as_slice()).collect();
        assemble(model, block, part, &contents)
    };
    BlockState {
        values: join(|state| &state.values),
        mean: join(|state| &state.mean),
        mean_of_squares: join(|state| &state.mean_of_squares),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::LayerId;
    use proptest::prelude::*;

    fn any_model() -> impl Strategy<Value = ModelSpec> {
        let name = prop::sample::select(vec!["gpt-tiny", "llama-tiny", "bert-tiny"]);
        // Widths that eight slices don't divide.
        (name, 1_u32..4, 1_u32..5, 1_u32..40, 1_u32..6).prop_map(|(name, heads, head_dim, vocab_size, ffn)| ModelSpec {
            hidden_size: 5,
            num_attention_heads: heads * 8,
            num_key_value_heads: 8,
            head_dim,
            ffn_hidden_size: ffn * 8,
            vocab_size,
            seq_length: 3,
            ..ModelSpec::preset(name).unwrap()
        })
    }

    /// The ranks' parts of a block, as each of its `size` ranks would start.
    fn parts(model: &ModelSpec, block: Block, size: usize) -> Vec<Vec<f32>> {
        (0..size).map(|rank| initial_part(model, block, TensorPart { rank, size }, 7)).collect()
    }

    proptest! {
        #[test]
        fn slices_lead_from_any_degree_to_any_other(
            model in any_model(), from in 0_u32..4, to in 0_u32..4, place in 0_usize..3,
        ) {
            let block = [Block::Embedding, Block::Layer(LayerId(0)), Block::Head][place];
            let (from, to) = (1_usize << from, 1_usize << to);
            let mut contents = Vec::new();
            for (rank, values) in parts(&model, block, from).iter().enumerate() {
                let part = TensorPart { rank, size: from };
                let own: Vec<_> = slices(part).map(|slice| cut_slice(&model, block, part, values, slice)).collect();
                prop_assert_eq!(&assemble(&model, block, part, &own), values);
                contents.extend(own);
            }
            prop_assert_eq!(contents.len(), SLICES_PER_BLOCK);
            for (rank, values) in parts(&model, block, to).into_iter().enumerate() {
                let part = TensorPart { rank, size: to };
                prop_assert_eq!(assemble(&model, block, part, &contents[slices(part)]), values);
            }
        }
    }

    #[test]
    fn parts_of_a_part_are_cut_and_put_back() {
        for name in ["gpt-tiny", "llama-tiny", "bert-tiny"] {
            let model = ModelSpec::preset(name).unwrap();
            let (held, block) = (TensorPart { rank: 1, size: 2 }, Block::Layer(LayerId(0)));
            let values = initial_part(&model, block, held, 7);
            let mut copy = vec![0.0; values.len()];
            for smaller in held.parts_of(8) {
                let cut = cut_part(&model, block, held, &values, smaller);
                assert_eq!(*cut, initial_part(&model, block, smaller, 7));
                paste_part(&model, block, held, &mut copy, (smaller, &cut), smaller.rank == 7);
            }
            assert_eq!(copy, values);
        }
    }

    #[test]
    fn a_slice_by_hand() {
        // GPT's embedding: 3 words of width 2, cut by rows, then 2 positions. Slice 5 of 8 is rows 1..2 of 3.
        let model =
            ModelSpec { vocab_size: 3, hidden_size: 2, seq_length: 2, ..ModelSpec::preset("gpt-tiny").unwrap() };
        let whole: Vec<f32> = (0..10_u8).map(f32::from).collect();
        let cut = |slice| cut_slice(&model, Block::Embedding, TensorPart::WHOLE, &whole, slice);
        assert_eq!(cut(5), [2.0, 3.0, 6.0, 7.0, 8.0, 9.0]);
        assert_eq!(cut(0), [6.0, 7.0, 8.0, 9.0]);
        assert_eq!(slice_len(&model, Block::Embedding, 5), 6);
    }
}
