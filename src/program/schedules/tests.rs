//! What a schedule says of memory against the order that it computes in.

use super::*;
use crate::plan::Held;
use proptest::prelude::*;

/// What a stage holds before each of its passes ends, by its order.
fn moments(kind: ScheduleKind, position: StagePosition) -> Vec<Held> {
    let mut held = Held { whole: vec![0; position.chunks], awaiting_weights: vec![0; position.chunks], running: None };
    let mut moments = Vec::new();
    for op in compute_order(kind, position) {
        let (chunk, gradients) = match op {
            Op::Forward { chunk, .. } => {
                held.whole[chunk.index()] += 1;
                (chunk.index(), None)
            }
            Op::Backward { chunk, gradients, .. } => (chunk.index(), Some(gradients)),
            Op::RedundantForward { .. } => continue,
            _ => unreachable!("a pass"),
        };
        held.running = (gradients != Some(Gradients::Weights)).then_some(chunk);
        moments.push(held.clone());
        match gradients {
            None => {}
            Some(Gradients::Weights) => held.awaiting_weights[chunk] -= 1,
            Some(half) => {
                held.whole[chunk] -= 1;
                held.awaiting_weights[chunk] += u32::from(half == Gradients::Inputs);
            }
        }
    }
    moments
}

/// Bytes where a micro batch takes so many in a chunk: whole, for its weights, and while a pass runs.
fn bytes(held: &Held, weights: &[[u32; 3]]) -> u32 {
    let chunks = held.whole.iter().zip(&held.awaiting_weights).zip(weights);
    let stored: u32 = chunks.map(|((whole, awaiting), [a, b, _])| whole * a + awaiting * b).sum();
    stored + held.running.map_or(0, |chunk| weights[chunk][2])
}

proptest! {
    #[test]
    fn the_fullest_moment_is_among_those_that_the_kind_names(
        kind in prop::sample::select(ScheduleKind::ALL.to_vec()),
        depth in 1..6_usize,
        place in 0..6_usize,
        chunks in 1..5_usize,
        micro_batches in 1..13_u32,
        // A transient in a chunk with the head is larger than elsewhere; it is the last chunk's.
        [stored, awaiting, running, head] in prop::array::uniform4(0..100_u32),
    ) {
        let is_interleaved = kind == ScheduleKind::Interleaved && depth > 1;
        let chunks = if is_interleaved { chunks } else { 1 };
        let micro_batches = if is_interleaved { micro_batches * depth as u32 } else { micro_batches };
        let position = StagePosition { stage: place % depth, depth, chunks, micro_batches };
        let mut weights = vec![[stored, awaiting, running]; chunks];
        weights[chunks - 1][0] += head;
        weights[chunks - 1][2] += head;
        let most = |moments: &[Held]| moments.iter().map(|held| bytes(held, &weights)).max();
        prop_assert_eq!(most(&kind.fullest(position)), most(&moments(kind, position)));
    }
}
