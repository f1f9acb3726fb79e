//! Kinds of schedules, and what follows from each for memory: which micro batches a stage holds when it holds most.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Order of forward and backward passes within a pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum ScheduleKind {
    /// One forward, one backward, with pipeline flush (PipeDream-Flush, Narayanan et al. 2021).
    #[default]
    #[serde(rename = "1f1b")]
    OneForwardOneBackward,
    /// All forwards, then all backwards (Huang et al. 2019).
    #[serde(rename = "gpipe")]
    GPipe,
    /// 1F1B over several chunks of each stage in turn (virtual stages; Narayanan et al. 2021, section 2.2): a smaller bubble
    /// for more transfers. A replica whose stages have one chunk each runs plain 1F1B.
    #[serde(rename = "interleaved")]
    Interleaved,
    /// Backward passes in two, of which the gradients of weights fill the bubble (ZB-H1, Qi et al. 2023).
    #[serde(rename = "zb-h1")]
    ZeroBubbleH1,
    /// 1F1B in which each stage also does the forward pass of the next stage's layers, of which it holds a second copy (the
    /// last stage has the first one's): redundant computation in the neighbour, so that a stage that is lost can be stood in
    /// for (Bamboo, Thorpe et al. 2023). Replicas of one stage have no neighbour and run plain 1F1B.
    #[serde(rename = "redundant")]
    Redundant,
}

/// A stage's place in its pipeline, all that a schedule may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagePosition {
    /// Place of the stage, from the input side.
    pub stage: usize,
    /// Stages of the pipeline, `P`.
    pub depth: usize,
    /// Chunks of each stage, `v`.
    pub chunks: usize,
    /// Micro batches per iteration, `K`.
    pub micro_batches: u32,
}

/// What a stage holds at one moment, by chunk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    /// Micro batches whose forward pass has begun, and whose backward pass (for the input) hasn't ended.
    pub whole: Vec<u32>,
    /// Micro batches of which only the gradients of weights are still to be computed.
    pub awaiting_weights: Vec<u32>,
    /// Chunk through which a forward pass or a backward pass for the input is under way.
    pub running: Option<usize>,
}

impl ScheduleKind {
    /// All kinds.
    pub const ALL: [Self; 5] =
        [Self::OneForwardOneBackward, Self::GPipe, Self::Interleaved, Self::ZeroBubbleH1, Self::Redundant];

    /// Most passes of chunks that a stage has in flight: those whose forward pass has begun and whose backward pass hasn't
    /// wholly ended.
    ///
    /// `min(K, P - p)` under 1F1B (Narayanan et al. 2021, section 2.2), all under `GPipe`; `min(K, P)` under ZB-H1, of which
    /// `p` only await the gradients of their weights (Qi et al. 2023: no stage holds more than the first one does under
    /// 1F1B); with `v` chunks `2 (P - p - 1) + (v - 1) P + 1`, of `K v` at most.
    pub fn in_flight(self, position: StagePosition) -> u32 {
        let StagePosition { stage, depth, micro_batches, .. } = position;
        match self {
            Self::GPipe => micro_batches,
            Self::ZeroBubbleH1 => micro_batches.min(depth as u32),
            Self::Interleaved if position.chunks > 1 => {
                let all = position.chunk_passes();
                all.min(position.interleaved_warm_up() + 1)
            }
            Self::OneForwardOneBackward | Self::Interleaved | Self::Redundant => {
                micro_batches.min((depth - stage) as u32)
            }
        }
    }

    /// The moments of which one is that at which the stage holds most, whatever its chunks and passes take.
    pub fn fullest(self, position: StagePosition) -> Vec<Held> {
        match self {
            Self::ZeroBubbleH1 => position.zero_bubble_moments(),
            Self::Interleaved if position.chunks > 1 => position.interleaved_moments(),
            _ => {
                let whole = vec![self.in_flight(position)];
                vec![Held { whole, awaiting_weights: vec![0], running: Some(0) }]
            }
        }
    }

    /// What people call it.
    pub fn title(self) -> &'static str {
        match self {
            Self::OneForwardOneBackward => "1F1B",
            Self::GPipe => "GPipe",
            Self::Interleaved => "interleaved 1F1B",
            Self::ZeroBubbleH1 => "ZB-H1",
            Self::Redundant => "1F1B with redundant forward passes",
        }
    }
}

impl StagePosition {
    /// Forward passes of chunks, as many as backward ones: `K v`.
    pub fn chunk_passes(self) -> u32 {
        self.micro_batches.saturating_mul(self.chunks as u32)
    }

    /// Forward passes of chunks before the first backward pass's own forward pass, under the interleaved schedule.
    pub fn interleaved_warm_up(self) -> u32 {
        let warm_up = 2 * (self.depth - self.stage - 1) + (self.chunks - 1) * self.depth;
        self.chunk_passes().min(warm_up as u32)
    }

    /// Chunk and micro batch of a stage's `n`-th forward pass under the interleaved schedule: `P` micro batches through the
    /// first chunk, the same through the second one, …, then the next `P`.
    pub fn interleaved_forward(self, n: u32) -> (usize, u32) {
        let (depth, chunks) = (self.depth as u32, self.chunks as u32);
        let (round, within) = (n / (depth * chunks), n % (depth * chunks));
        ((within / depth) as usize, round * depth + within % depth)
    }

    /// Chunk and micro batch of its `n`-th backward pass: as forward, with the chunks in the other order.
    pub fn interleaved_backward(self, n: u32) -> (usize, u32) {
        let (chunk, micro_batch) = self.interleaved_forward(n);
        (self.chunks - 1 - chunk, micro_batch)
    }

    /// The stage begins as under 1F1B, and computes gradients of weights `p` micro batches late. In the last of these
    /// moments as many await them as ever; from then on nothing grows.
    fn zero_bubble_moments(self) -> Vec<Held> {
        let Self { stage, depth, micro_batches, .. } = self;
        let mut moments = Vec::new();
        for ended in 0..micro_batches.min(stage as u32 + 1) {
            let begun = micro_batches.min(ended + (depth - stage) as u32);
            let moment =
                |whole, awaiting, running| Held { whole: vec![whole], awaiting_weights: vec![awaiting], running };
            moments.push(moment(begun - ended, ended, Some(0)));
            moments.push(moment(begun - ended - 1, ended + 1, None));
        }
        moments
    }

    /// Before each backward pass, with the forward pass before it or itself under way.
    fn interleaved_moments(self) -> Vec<Held> {
        let (all, warm_up) = (self.chunk_passes(), self.interleaved_warm_up());
        let mut moments = BTreeSet::new();
        let mut whole = vec![0; self.chunks];
        (0..warm_up).for_each(|n| whole[self.interleaved_forward(n).0] += 1);
        for ended in 0..all {
            let mut add = |running, whole: &[u32]| {
                let (whole, awaiting_weights) = (whole.to_vec(), vec![0; self.chunks]);
                moments.insert(Held { whole, awaiting_weights, running: Some(running) });
            };
            if warm_up + ended < all {
                let (forward, _) = self.interleaved_forward(warm_up + ended);
                whole[forward] += 1;
                add(forward, &whole);
            }
            let (backward, _) = self.interleaved_backward(ended);
            add(backward, &whole);
            whole[backward] -= 1;
        }
        moments.into_iter().collect()
    }
}

impl fmt::Display for ScheduleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OneForwardOneBackward => "1f1b",
            Self::GPipe => "gpipe",
            Self::Interleaved => "interleaved",
            Self::ZeroBubbleH1 => "zb-h1",
            Self::Redundant => "redundant",
        })
    }
}

/// Not the name of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown schedule `{0}`\nhint: one of 1f1b, gpipe, interleaved, zb-h1 and redundant")]
pub struct ScheduleNameError(String);

impl FromStr for ScheduleKind {
    type Err = ScheduleNameError;

    fn from_str(text: &str) -> Result<Self, ScheduleNameError> {
        let is_named = |kind: &Self| kind.to_string() == text;
        Self::ALL.into_iter().find(is_named).ok_or_else(|| ScheduleNameError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(stage: usize, depth: usize, chunks: usize, micro_batches: u32) -> StagePosition {
        StagePosition { stage, depth, chunks, micro_batches }
    }

    #[test]
    fn micro_batches_in_flight_by_hand() {
        let at = |kind: ScheduleKind, stage| kind.in_flight(position(stage, 4, 1, 8));
        assert_eq!([0, 1, 2, 3].map(|stage| at(ScheduleKind::OneForwardOneBackward, stage)), [4, 3, 2, 1]);
        assert_eq!([0, 1, 2, 3].map(|stage| at(ScheduleKind::GPipe, stage)), [8; 4]);
        assert_eq!([0, 1, 2, 3].map(|stage| at(ScheduleKind::ZeroBubbleH1, stage)), [4; 4]);
        // Narayanan et al. 2021, figure 4: the first of four stages with two chunks does 11 forward passes before its first
        // backward pass, the last one 5.
        let interleaved = |stage| ScheduleKind::Interleaved.in_flight(position(stage, 4, 2, 8));
        assert_eq!([0, 1, 2, 3].map(interleaved), [11, 9, 7, 5]);
        // One chunk is plain 1F1B.
        assert_eq!(ScheduleKind::Interleaved.in_flight(position(1, 4, 1, 8)), 3);
    }

    #[test]
    fn no_moment_has_more_in_flight_than_the_schedule_allows_and_one_has_as_many() {
        for kind in ScheduleKind::ALL {
            for (stage, depth, rounds) in [(0, 1, 3), (0, 2, 1), (1, 2, 4), (0, 4, 1), (2, 4, 3), (3, 4, 2)] {
                for chunks in if kind == ScheduleKind::Interleaved && depth > 1 { 1..4 } else { 1..2 } {
                    let position = position(stage, depth, chunks, rounds * depth as u32);
                    let moments = kind.fullest(position);
                    let held = |held: &Held| held.whole.iter().chain(&held.awaiting_weights).sum::<u32>();
                    assert_eq!(moments.iter().map(held).max(), Some(kind.in_flight(position)), "{kind} {position:?}");
                }
            }
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for kind in ScheduleKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.to_string());
        }
        assert!("2f2b".parse::<ScheduleKind>().unwrap_err().to_string().contains("hint: one of 1f1b"));
    }
}
