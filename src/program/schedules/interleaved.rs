//! Interleaved 1F1B (Narayanan et al. 2021, section 2.2, in the order of Megatron-LM): each stage holds several chunks of
//! layers, and takes `P` micro batches through the first one, the same through the second one, and so on. The bubble shrinks
//! by the number of chunks, for as many times the transfers, and for more activations in flight.

use super::StagePosition;
use crate::ids::{ChunkId, MicroBatch};
use crate::program::{Gradients, Op, Part};

pub(super) fn compute_order(position: StagePosition) -> Vec<Op> {
    let (all, warm_up) = (position.chunk_passes(), position.interleaved_warm_up());
    let forward = |n| {
        let (chunk, micro_batch) = position.interleaved_forward(n);
        Op::Forward { micro_batch: MicroBatch(micro_batch), chunk: ChunkId::from(chunk) }
    };
    let backward = |n| {
        let (chunk, micro_batch) = position.interleaved_backward(n);
        let (micro_batch, chunk) = (MicroBatch(micro_batch), ChunkId::from(chunk));
        Op::Backward { micro_batch, chunk, part: Part::Chunk, gradients: Gradients::All }
    };
    let steady = (warm_up..all).flat_map(|n| [forward(n), backward(n - warm_up)]);
    (0..warm_up).map(forward).chain(steady).chain((all - warm_up..all).map(backward)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(stage: usize, depth: usize, micro_batches: u32) -> String {
        let name = |op: &Op| match op {
            Op::Forward { micro_batch, chunk } => format!("F{}{}", micro_batch.0, ["a", "b"][chunk.index()]),
            Op::Backward { micro_batch, chunk, .. } => format!("B{}{}", micro_batch.0, ["a", "b"][chunk.index()]),
            _ => unreachable!("a pass"),
        };
        let position = StagePosition { stage, depth, chunks: 2, micro_batches };
        compute_order(position).iter().map(name).collect::<Vec<_>>().join(" ")
    }

    /// Narayanan et al. 2021, figure 4, for two stages of two chunks, `a` and `b`.
    #[test]
    fn chunks_take_turns_pipeline_by_pipeline() {
        assert_eq!(text(0, 2, 2), "F0a F1a F0b F1b B0b B1b B0a B1a");
        assert_eq!(text(1, 2, 4), "F0a F1a F0b B0b F1b B1b F2a B0a F3a B1a F2b B2b F3b B3b B2a B3a");
    }
}
