//! `timeline.csv`: what each policy did when, and with how many GPUs.

use crate::replay::{Phase, PolicyOutcome, Replay, Segment};
use crate::units::SimTime;
use serde::Serialize;

/// A stretch of time in which one policy did one thing and the capacity stayed the same.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Stretch {
    pub policy: &'static str,
    pub start_s: f64,
    pub end_s: f64,
    pub phase: Phase,
    pub plan: Option<usize>,
    pub gpus_up: u32,
    pub gpus_in_use: u32,
    pub iterations: u64,
    pub rolled_back: u64,
    pub tokens_per_s: f64,
}

/// The segments of all policies as CSV, cut where the capacity changes. Columns:
///
/// - `policy`, `start_s`, `end_s`, `phase` (`training`, `checkpointing`, `recovering`, `waiting`);
/// - `plan`: index into the policy's plans (`plan_index` of `plans.jsonl`), empty where there is none;
/// - `gpus_up`: GPUs that are there; `gpus_in_use`: GPUs that hold the plan, zero while recovering or waiting;
/// - `iterations`: iterations that ended in it, also those rolled back later;
/// - `rolled_back`: iterations done before that were rolled back at its start. All `iterations` less all `rolled_back` are
///   those that count in the end;
/// - `tokens_per_s`: the plan's rate while training, else zero.
pub fn timeline_csv(replay: &Replay, tokens_per_iteration: u64) -> String {
    let mut csv = csv::Writer::from_writer(Vec::new());
    for outcome in &replay.policies {
        for stretch in stretches(replay, outcome, tokens_per_iteration) {
            csv.serialize(stretch).expect("writing to memory doesn't fail");
        }
    }
    String::from_utf8(csv.into_inner().expect("writing to memory doesn't fail")).expect("names and numbers are UTF-8")
}

/// One policy's segments, cut where the capacity changes.
fn stretches(replay: &Replay, outcome: &PolicyOutcome, tokens_per_iteration: u64) -> Vec<Stretch> {
    let mut all = Vec::new();
    for segment in &outcome.segments {
        let mut counted = 0;
        for (start, end) in pieces(replay, segment) {
            let ended = iterations_until(outcome, segment, end);
            all.push(Stretch {
                policy: outcome.policy,
                start_s: start.as_seconds(),
                end_s: end.as_seconds(),
                phase: segment.phase,
                plan: segment.plan,
                gpus_up: gpus_up(replay, start),
                gpus_in_use: gpus_in_use(outcome, segment),
                iterations: ended - counted,
                rolled_back: if start == segment.start { segment.rolled_back } else { 0 },
                tokens_per_s: tokens_per_s(outcome, segment, tokens_per_iteration),
            });
            counted = ended;
        }
    }
    all
}

/// The segment, cut at the changes of capacity within it. A segment of no length stays as it is.
fn pieces(replay: &Replay, segment: &Segment) -> Vec<(SimTime, SimTime)> {
    let within = |time: &SimTime| *time > segment.start && *time < segment.end;
    let mut cuts = vec![segment.start];
    cuts.extend(replay.capacity.iter().map(|point| point.time).filter(within));
    cuts.dedup();
    cuts.push(segment.end);
    cuts.windows(2).map(|pair| (pair[0], pair[1])).collect()
}

/// GPUs up right after `time`.
fn gpus_up(replay: &Replay, time: SimTime) -> u32 {
    let after = replay.capacity.partition_point(|point| point.time <= time);
    after.checked_sub(1).map_or(0, |index| replay.capacity[index].gpus.iter().sum())
}

fn gpus_in_use(outcome: &PolicyOutcome, segment: &Segment) -> u32 {
    match (segment.phase, segment.plan) {
        (Phase::Training | Phase::Checkpointing, Some(plan)) => outcome.plans[plan].plan.world_size() as u32,
        _ => 0,
    }
}

/// The rate at which a segment trains: the plan's, zero unless it is training.
pub(super) fn tokens_per_s(outcome: &PolicyOutcome, segment: &Segment, tokens_per_iteration: u64) -> f64 {
    match (segment.phase, segment.plan) {
        (Phase::Training, Some(plan)) => {
            super::figures::ratio(tokens_per_iteration as f64, outcome.plans[plan].predicted_iteration_s).unwrap_or(0.0)
        }
        _ => 0.0,
    }
}

/// Iterations of the segment that have ended by `time`, at the plan's pace. All of them at its end.
fn iterations_until(outcome: &PolicyOutcome, segment: &Segment, time: SimTime) -> u64 {
    if time >= segment.end {
        return segment.iterations;
    }
    let elapsed_s = time.saturating_sub(segment.start).as_seconds();
    let pace_s = segment.plan.map_or(f64::INFINITY, |plan| outcome.plans[plan].predicted_iteration_s);
    segment.iterations.min((elapsed_s / pace_s) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{self, TOKENS_PER_ITERATION};
    use proptest::prelude::*;

    #[test]
    fn a_segment_is_cut_where_the_capacity_changes() {
        let csv = timeline_csv(&fixture::small(), TOKENS_PER_ITERATION);
        let autohet: Vec<_> = csv.lines().filter(|line| !line.starts_with("restart")).collect();
        assert_eq!(
            autohet,
            [
                "policy,start_s,end_s,phase,plan,gpus_up,gpus_in_use,iterations,rolled_back,tokens_per_s",
                "autohet,0.0,5.0,recovering,0,12,0,0,0,0.0",
                "autohet,5.0,38.0,training,0,12,6,4,0,4096.0",
                "autohet,38.0,40.0,checkpointing,0,12,6,0,0,0.0",
                "autohet,40.0,50.0,recovering,1,8,0,0,1,0.0",
                "autohet,50.0,70.0,training,1,8,4,2,0,3276.8",
                "autohet,70.0,75.0,training,1,12,4,0,0,3276.8",
                "autohet,75.0,80.0,recovering,0,12,0,0,0,0.0",
                "autohet,80.0,100.0,training,0,12,6,2,0,4096.0",
            ]
        );
    }

    #[test]
    fn the_same_replay_gives_the_same_bytes() {
        let write = || timeline_csv(&fixture::small(), TOKENS_PER_ITERATION);
        assert_eq!(write(), write());
    }

    proptest! {
        /// Whatever the changes of capacity: no gaps, no overlaps, no iteration lost.
        #[test]
        fn stretches_cover_the_span(changes in prop::collection::vec((0_u64..=100, 0_u32..9), 0..12)) {
            let mut replay = fixture::small();
            let mut changes = changes;
            changes.sort_unstable();
            replay.capacity = changes
                .iter()
                .map(|&(s, gpus)| crate::replay::CapacityPoint { time: fixture::at(s), gpus: vec![gpus, 1] })
                .collect();
            for outcome in &replay.policies {
                let all = stretches(&replay, outcome, TOKENS_PER_ITERATION);
                prop_assert!(all[0].start_s.abs() < 1e-9);
                prop_assert!((all.last().unwrap().end_s - 100.0).abs() < 1e-9);
                prop_assert!(all.windows(2).all(|pair| (pair[0].end_s - pair[1].start_s).abs() < 1e-9));
                prop_assert!(all.iter().all(|stretch| stretch.start_s < stretch.end_s));
                let counted: u64 = all.iter().map(|stretch| stretch.iterations).sum();
                let rolled_back: u64 = all.iter().map(|stretch| stretch.rolled_back).sum();
                prop_assert_eq!(counted - rolled_back, outcome.iterations);
            }
        }
    }
}
