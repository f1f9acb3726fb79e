//! ZB-H1 (Qi et al. 2023, "Zero Bubble Pipeline Parallelism", section 2): backward passes in two, the gradient of the input
//! and those of the weights. The first is on the way of the stage before, the second can wait.
//!
//! Forward passes and backward passes for the input come in the order of 1F1B. Stage `p` computes gradients of weights `p`
//! micro batches late, so that the last stages, which would wait at the end, have some left to fill the time with. No stage
//! has more micro batches in flight than the first one has under 1F1B.

use super::{StagePosition, backward_of, forward};
use crate::program::{Gradients, Op};

pub(super) fn compute_order(position: StagePosition) -> Vec<Op> {
    let StagePosition { stage, depth, micro_batches, .. } = position;
    let warm_up = micro_batches.min((depth - stage - 1) as u32);
    let late = micro_batches.min(stage as u32);
    let mut order: Vec<Op> = (0..warm_up).map(forward).collect();
    for micro_batch in 0..micro_batches {
        order.extend((micro_batch + warm_up < micro_batches).then(|| forward(micro_batch + warm_up)));
        order.push(backward_of(micro_batch, Gradients::Inputs));
        order.extend(micro_batch.checked_sub(late).map(|ready| backward_of(ready, Gradients::Weights)));
    }
    order.extend((micro_batches - late..micro_batches).map(|left| backward_of(left, Gradients::Weights)));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(stage: usize, depth: usize, micro_batches: u32) -> String {
        let name = |op: &Op| match op {
            Op::Forward { micro_batch, .. } => format!("F{}", micro_batch.0),
            Op::Backward { micro_batch, gradients: Gradients::Inputs, .. } => format!("B{}", micro_batch.0),
            Op::Backward { micro_batch, .. } => format!("W{}", micro_batch.0),
            _ => unreachable!("a pass"),
        };
        let position = StagePosition { stage, depth, chunks: 1, micro_batches };
        compute_order(position).iter().map(name).collect::<Vec<_>>().join(" ")
    }

    /// Qi et al. 2023, figure 2, its first and last stage.
    #[test]
    fn later_stages_put_weights_off() {
        assert_eq!(text(0, 3, 4), "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
        assert_eq!(text(2, 3, 4), "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3");
    }

    #[test]
    fn fewer_micro_batches_than_stages() {
        assert_eq!(text(0, 4, 2), "F0 F1 B0 W0 B1 W1");
        assert_eq!(text(3, 4, 2), "F0 B0 F1 B1 W0 W1");
    }
}
