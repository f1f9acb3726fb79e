//! Closed forms of schedules beside 1F1B and `GPipe`: their papers' bubbles, by execution.

use super::{BACKWARD, FORWARD, STEP, WEIGHTS, makespan_on_free_links, plan, priced, run};
use crate::plan::{LayerRange, Plan, ScheduleKind};
use crate::program::{LowerOptions, Program};
use crate::units::SimTime;
use proptest::prelude::*;

/// The plan with each stage's layers dealt out to so many chunks, of as many layers each as the model has chunks.
fn interleaved(replicas: &[(usize, u32)], chunks: usize) -> Plan {
    let mut plan = plan(replicas, ScheduleKind::Interleaved, 1);
    let layers = replicas.iter().map(|(depth, _)| depth * chunks).max().unwrap_or(0);
    for replica in &mut plan.replicas {
        let depth = replica.stages.len();
        let of_replica = if depth > 1 { chunks } else { 1 };
        let cut = |place: usize| (place * layers / (depth * of_replica)) as u32;
        for (p, stage) in replica.stages.iter_mut().enumerate() {
            let range = |chunk: usize| {
                let place = chunk * depth + p;
                LayerRange { first_layer: cut(place), num_layers: cut(place + 1) - cut(place) }
            };
            LayerRange { first_layer: stage.first_layer, num_layers: stage.num_layers } = range(0);
            stage.later_chunks = (1..of_replica).map(range).collect();
        }
    }
    plan
}

/// Qi et al. 2023, table 2: a bubble of `(P - 1) (F + B - W)`, where 1F1B has `(P - 1) (F + B + W)`.
#[test]
fn zero_bubble_takes_its_closed_form() {
    for depth in [1, 2, 3, 4, 8] {
        for micro_batches in [depth as u32, 8, 9, 16, 33] {
            let bubble = (FORWARD + BACKWARD - WEIGHTS * 2) * (depth as u64 - 1);
            let expected = (FORWARD + BACKWARD) * u64::from(micro_batches) + bubble + STEP;
            let found = makespan_on_free_links(&plan(&[(depth, micro_batches)], ScheduleKind::ZeroBubbleH1, 1));
            assert_eq!(found, expected, "{depth} stages, {micro_batches} micro batches");
        }
    }
}

/// Narayanan et al. 2021, section 2.2: a bubble of `(P - 1) (F + B) / v`.
#[test]
fn interleaved_takes_its_closed_form() {
    for chunks in [1, 2, 4, 5] {
        for depth in [2, 3, 4, 8] {
            for rounds in [1, 2, 3, 5] {
                let micro_batches = rounds * depth as u32;
                let bubble = SimTime((FORWARD + BACKWARD).0 * (depth as u64 - 1) / chunks as u64);
                let expected = (FORWARD + BACKWARD) * u64::from(micro_batches) + bubble + STEP;
                let found = makespan_on_free_links(&interleaved(&[(depth, micro_batches)], chunks));
                assert_eq!(found, expected, "{depth} stages of {chunks} chunks, {micro_batches} micro batches");
            }
        }
    }
}

proptest! {
    #[test]
    fn replicas_of_any_depth_lower_to_valid_programs_that_end(
        replicas in prop::collection::vec((1..5_usize, 1..4_u32), 1..4),
        chunks in 1..4_usize,
        tied in any::<bool>(),
        is_interleaved in any::<bool>(),
    ) {
        let plan = if is_interleaved {
            let replicas: Vec<_> = replicas.iter().map(|(depth, rounds)| (*depth, rounds * *depth as u32)).collect();
            interleaved(&replicas, chunks)
        } else {
            plan(&replicas, ScheduleKind::ZeroBubbleH1, 1)
        };
        let program = Program::lower(&plan, LowerOptions { tie_word_embeddings: tied, ..LowerOptions::default() });
        prop_assert_eq!(program.validate(&plan), Ok(()));
        let priced = priced(&program, 1e9, SimTime(30));
        let timeline = run(&program, &priced);
        prop_assert_eq!(timeline.spans.len(), program.len());
        prop_assert_eq!(run(&program, &priced), timeline);
    }
}
