//! 1F1B with redundant computation (Bamboo, Thorpe et al. 2023): behind each forward pass that of the next stage's layers,
//! which fills the bubble where there is one.

use super::{StagePosition, one_forward_one_backward};
use crate::program::Op;

pub(super) fn compute_order(position: StagePosition) -> Vec<Op> {
    let order = one_forward_one_backward::compute_order(position);
    if position.depth < 2 {
        return order;
    }
    let with_redundant = |op| match op {
        Op::Forward { micro_batch, .. } => [Some(op), Some(Op::RedundantForward { micro_batch })],
        _ => [Some(op), None],
    };
    order.into_iter().flat_map(with_redundant).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::super::{backward, forward};
    use super::*;
    use crate::ids::MicroBatch;

    #[test]
    fn each_forward_pass_is_followed_by_that_of_the_neighbour() {
        let again = |micro_batch| Op::RedundantForward { micro_batch: MicroBatch(micro_batch) };
        let order = compute_order(StagePosition { stage: 0, depth: 2, chunks: 1, micro_batches: 2 });
        assert_eq!(order, [forward(0), again(0), forward(1), again(1), backward(0), backward(1)]);
        let alone = StagePosition { stage: 0, depth: 1, chunks: 1, micro_batches: 2 };
        assert_eq!(compute_order(alone), one_forward_one_backward::compute_order(alone));
    }
}
