//! 1F1B with a flush at the end (PipeDream-Flush; Narayanan et al. 2021, section 2.2): warm-up forwards, then one
//! forward and one backward in turn, then the cool-down backwards.

use super::{StagePosition, backward, forward};
use crate::program::Op;

pub(super) fn compute_order(position: StagePosition) -> Vec<Op> {
    let StagePosition { stage, depth, micro_batches, .. } = position;
    let warm_up = micro_batches.min((depth - stage - 1) as u32);
    let steady = (warm_up..micro_batches).flat_map(|f| [forward(f), backward(f - warm_up)]);
    let cool_down = (micro_batches - warm_up..micro_batches).map(backward);
    (0..warm_up).map(forward).chain(steady).chain(cool_down).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_stage_alternates_from_the_start() {
        let order = compute_order(StagePosition { stage: 1, depth: 2, chunks: 1, micro_batches: 2 });
        assert_eq!(order, [forward(0), backward(0), forward(1), backward(1)]);
    }

    #[test]
    fn the_first_stage_warms_up_and_cools_down() {
        let order = compute_order(StagePosition { stage: 0, depth: 3, chunks: 1, micro_batches: 3 });
        assert_eq!(order, [forward(0), forward(1), forward(2), backward(0), backward(1), backward(2)]);
    }

    #[test]
    fn fewer_micro_batches_than_stages_is_all_warm_up() {
        let order = compute_order(StagePosition { stage: 0, depth: 4, chunks: 1, micro_batches: 1 });
        assert_eq!(order, [forward(0), backward(0)]);
    }
}
