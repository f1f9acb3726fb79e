//! A plan under another schedule.

use super::{LayerRange, Plan, Replica, ScheduleKind};
use std::fmt;
use std::str::FromStr;

/// A schedule as it is asked for: `1f1b`, `gpipe`, `zb-h1`, `redundant`, or `interleaved:2` with the chunks of each stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleChoice {
    kind: ScheduleKind,
    /// Chunks of each stage, one but under the interleaved schedule.
    chunks: u32,
}

/// Not a schedule that can be asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown schedule `{0}`\nhint: write 1f1b, gpipe, zb-h1, redundant or, with two chunks a stage, interleaved:2")]
pub struct ScheduleChoiceError(String);

impl ScheduleChoice {
    /// The kind.
    pub fn kind(self) -> ScheduleKind {
        self.kind
    }

    /// Chunks of each stage, one but under the interleaved schedule.
    pub fn chunks(self) -> u32 {
        self.chunks
    }

    /// The interleaved schedule with so many chunks of each stage, 1F1B where that is one.
    pub fn with_chunks(chunks: u32) -> Self {
        let kind = if chunks > 1 { ScheduleKind::Interleaved } else { ScheduleKind::OneForwardOneBackward };
        Self { kind, chunks: chunks.max(1) }
    }

    /// Whether it is covered by what is proven of plans under 1F1B and `GPipe`.
    pub fn is_within_bounds(self) -> bool {
        matches!(self.kind, ScheduleKind::OneForwardOneBackward | ScheduleKind::GPipe)
    }
}

impl FromStr for ScheduleChoice {
    type Err = ScheduleChoiceError;

    fn from_str(text: &str) -> Result<Self, ScheduleChoiceError> {
        let unknown = || ScheduleChoiceError(text.to_owned());
        let (name, chunks) = match text.split_once(':') {
            Some((name, chunks)) => (name, Some(chunks.parse::<u32>().map_err(|_| unknown())?)),
            None => (text, None),
        };
        let kind: ScheduleKind = name.parse().map_err(|_| unknown())?;
        match (kind, chunks) {
            (ScheduleKind::Interleaved, Some(chunks @ 2..=64)) => Ok(Self { kind, chunks }),
            (ScheduleKind::Interleaved, _) | (_, Some(_)) => Err(unknown()),
            (kind, None) => Ok(Self { kind, chunks: 1 }),
        }
    }
}

impl fmt::Display for ScheduleChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ScheduleKind::Interleaved => write!(f, "{}:{}", self.kind, self.chunks),
            kind => kind.fmt(f),
        }
    }
}

impl Plan {
    /// The plan with its stages as they are and another schedule; `None` where that schedule isn't for it. Layers of a stage
    /// are dealt out to its chunks as evenly as they can be; replicas of one stage keep one chunk, but have no neighbour that
    /// could hold a copy. Memory is another question.
    pub fn rescheduled(&self, choice: ScheduleChoice) -> Option<Self> {
        let is_alone = |replica: &Replica| replica.stages.len() < 2;
        if choice.kind == ScheduleKind::Redundant && self.replicas.iter().any(is_alone) {
            return None;
        }
        let replicas = self.replicas.iter().map(|replica| replica.with_chunks(choice.chunks)).collect::<Option<_>>()?;
        Some(Self { schedule: choice.kind, replicas, ..self.clone() })
    }
}

impl Replica {
    /// With so many chunks on each stage. `None` where a stage has fewer layers, or where there are several and the micro
    /// batches aren't a multiple of the stages.
    fn with_chunks(&self, chunks: u32) -> Option<Self> {
        let depth = self.stages.len() as u32;
        let chunks = if depth > 1 { chunks } else { 1 };
        if chunks > 1 && !self.micro_batches.is_multiple_of(depth) {
            return None;
        }
        let mut replica = self.clone();
        let layers: Vec<u32> = self.stages.iter().map(super::Stage::layer_count).collect();
        replica.stages.iter_mut().for_each(|stage| stage.later_chunks.clear());
        let mut first_layer = 0;
        for chunk in 0..chunks {
            for (stage, &count) in replica.stages.iter_mut().zip(&layers) {
                let num_layers = (chunk + 1) * count / chunks - chunk * count / chunks;
                if num_layers == 0 {
                    return None;
                }
                match chunk {
                    0 => (stage.first_layer, stage.num_layers) = (first_layer, num_layers),
                    _ => stage.later_chunks.push(LayerRange { first_layer, num_layers }),
                }
                first_layer += num_layers;
            }
        }
        Some(replica)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::{cluster, cost, plan};

    fn choice(text: &str) -> ScheduleChoice {
        text.parse().unwrap()
    }

    #[test]
    fn choices_are_read_as_they_are_written() {
        for text in ["1f1b", "gpipe", "zb-h1", "interleaved:2", "interleaved:8"] {
            assert_eq!(choice(text).to_string(), text);
        }
        for text in ["interleaved", "interleaved:1", "interleaved:x", "zb-h1:2", "zb", ""] {
            let error = text.parse::<ScheduleChoice>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("unknown schedule `{text}`\nhint: ")), "{error}");
        }
    }

    #[test]
    fn layers_are_dealt_out_to_chunks() {
        let interleaved = plan().rescheduled(choice("interleaved:4")).unwrap();
        assert_eq!(interleaved.validate(&cluster(), &cost()), Ok(()));
        let ranges: Vec<(u32, u32)> =
            interleaved.replicas[0].stages[1].chunks().map(|range| (range.first_layer, range.num_layers)).collect();
        assert_eq!(ranges, [(3, 3), (9, 3), (15, 3), (21, 3)]);
        assert_eq!(Plan::from_json(&interleaved.to_json(), "plan.json").unwrap(), interleaved);
        // And back.
        assert_eq!(interleaved.rescheduled(choice("1f1b")).unwrap(), plan());
        assert_eq!(plan().rescheduled(choice("zb-h1")).unwrap().replicas, plan().replicas);
    }

    #[test]
    fn uneven_stages_have_uneven_chunks() {
        let mut uneven = plan();
        (uneven.replicas[0].stages[0].num_layers, uneven.replicas[0].stages[1].first_layer) = (17, 17);
        uneven.replicas[0].stages[1].num_layers = 7;
        let interleaved = uneven.rescheduled(choice("interleaved:2")).unwrap();
        assert_eq!(interleaved.validate(&cluster(), &cost()), Ok(()));
        assert_eq!(interleaved.replicas[0].stages[0].layer_count(), 17);
    }

    #[test]
    fn what_does_not_go_is_left() {
        assert_eq!(plan().rescheduled(choice("interleaved:13")), None);
        let mut odd = plan();
        (odd.replicas[0].micro_batches, odd.global_batch_size) = (5, 10);
        assert_eq!(odd.rescheduled(choice("interleaved:2")), None);
        let mut single = plan();
        single.replicas[0].stages.truncate(1);
        single.replicas[0].stages[0].num_layers = 24;
        let same = single.rescheduled(choice("interleaved:2")).unwrap();
        assert_eq!((same.schedule, &same.replicas), (ScheduleKind::Interleaved, &single.replicas));
        assert_eq!(single.rescheduled(choice("redundant")), None);
        assert_eq!(plan().rescheduled(choice("redundant")).unwrap().schedule, ScheduleKind::Redundant);
    }

    #[test]
    fn wrong_chunks_are_named() {
        let said = |change: fn(&mut Plan), expected: &str| {
            let mut changed = plan().rescheduled(choice("interleaved:2")).unwrap();
            change(&mut changed);
            let found = changed.validate(&cluster(), &cost()).unwrap_err();
            assert!(found.iter().any(|violation| violation.to_string().contains(expected)), "{expected}: {found:?}");
        };
        said(|p| p.schedule = ScheduleKind::ZeroBubbleH1, "replica 0 stage 0: has 2 chunks of layers, expected 1");
        said(|p| p.replicas[0].stages[1].later_chunks.clear(), "replica 0 stage 1: has 1 chunks of layers, expected 2");
        said(|p| p.replicas[0].stages[0].later_chunks[0].first_layer = 11, "starts at layer 11, expected layer 12");
        said(|p| p.replicas[0].stages[1].later_chunks[0].num_layers = 0, "replica 0 stage 1: holds no layers");
        said(|p| p.replicas[0].stages[1].later_chunks[0].num_layers = 7, "holds 25 layers, the model has 24");
        said(
            |p| (p.replicas[0].micro_batches, p.global_batch_size) = (3, 6),
            "replica 0 has 3 micro batches, which isn't a multiple of its 2 stages",
        );
    }
}
