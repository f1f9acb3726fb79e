//! GPipe (Huang et al. 2019): all forwards, then all backwards. Every micro batch is in flight at once.

use super::{StagePosition, backward, forward};
use crate::program::Op;

pub(super) fn compute_order(position: StagePosition) -> Vec<Op> {
    (0..position.micro_batches).map(forward).chain((0..position.micro_batches).map(backward)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forwards_come_before_all_backwards() {
        let order = compute_order(StagePosition { stage: 1, depth: 4, chunks: 1, micro_batches: 2 });
        assert_eq!(order, [forward(0), forward(1), backward(0), backward(1)]);
    }
}
