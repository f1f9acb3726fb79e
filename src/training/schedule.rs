//! What is done to the nodes on purpose: a trace replayed on real processes, and kills at chosen moments.

use crate::elastic::MembershipChange;
use crate::runtime::device::messages::{StopPhase, StopPoint};
use crate::units::SimTime;
use std::collections::VecDeque;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time between looks at whether training is to end.
const ATTENTION: Duration = Duration::from_millis(100);

/// Changes of membership by time, and kills by place in the course of training.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// Nodes that come, are warned, or are killed with SIGKILL, in order of time since the start.
    pub changes: VecDeque<(SimTime, MembershipChange)>,
    /// Nodes that are killed at a moment of training.
    pub kills: Vec<KillPoint>,
    /// When training ends whatever is under way, if not with its steps: the end of a trace. Until then it waits where nothing
    /// fits.
    pub end: Option<SimTime>,
    /// If set to true by others, training ends at once, as at the end.
    pub stop: Option<Arc<AtomicBool>>,
}

/// A node, and when it is killed: `n1@3:all-reduce`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KillPoint {
    /// Name of the node.
    pub node: String,
    /// When.
    pub at: StopPoint,
}

impl FromStr for KillPoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected NODE@ITERATION or NODE@ITERATION:PHASE, such as `n1@3:all-reduce`";
        let (node, at) = text.rsplit_once('@').ok_or(expected)?;
        let (step, phase) = at.split_once(':').unwrap_or((at, "steady"));
        let step = step.parse().ok().filter(|step| *step > 0).ok_or(expected)?;
        let phase = match phase {
            "warm-up" => StopPhase::WarmUp,
            "steady" => StopPhase::Steady,
            "all-reduce" => StopPhase::AllReduce,
            "optimizer" => StopPhase::Optimizer,
            "checkpoint" => StopPhase::Checkpoint,
            "recovery" => StopPhase::Recovery,
            _ => {
                let phases = "warm-up, steady, all-reduce, optimizer, checkpoint, recovery";
                return Err(format!("unknown phase `{phase}`, expected one of {phases}"));
            }
        };
        Ok(Self { node: node.to_owned(), at: StopPoint { step, phase } })
    }
}

impl Schedule {
    /// When something is due next.
    pub(super) fn next_time(&self) -> Option<SimTime> {
        self.next_change().into_iter().chain(self.end).min()
    }

    /// For how long one may look away, where others may end training.
    pub(super) fn attention(&self) -> Option<Duration> {
        self.stop.as_ref().map(|_| ATTENTION)
    }

    fn next_change(&self) -> Option<SimTime> {
        self.changes.front().map(|(time, _)| *time)
    }

    /// Whether it is over.
    pub(super) fn has_ended(&self, now: SimTime) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) || self.end.is_some_and(|end| end <= now)
    }

    /// A change that is due.
    pub(super) fn take_due(&mut self, now: SimTime) -> Option<MembershipChange> {
        let is_due = self.next_change().is_some_and(|time| time <= now);
        is_due.then(|| self.changes.pop_front().map(|(_, change)| change)).flatten()
    }

    /// Whether it is worth waiting where nothing fits: nodes are still to come, or the end is.
    pub(super) fn is_worth_waiting(&self) -> bool {
        self.end.is_some() || self.changes.iter().any(|(_, change)| !change.joined.is_empty())
    }

    /// The moment of training at which a node is to be killed next.
    pub(super) fn stop_point(&self, node: &str) -> Option<StopPoint> {
        self.kills.iter().find(|kill| kill.node == node).map(|kill| kill.at)
    }

    /// Whether a node is to be killed while it writes the checkpoint of `step`.
    pub(super) fn stops_in_checkpoint(&self, node: &str, step: u64) -> bool {
        self.stop_point(node).is_some_and(|at| at.phase == StopPhase::Checkpoint && at.step <= step)
    }

    /// The nodes that are still to be killed at a moment of training, once for each kill.
    pub(super) fn nodes_to_kill(&self) -> Vec<String> {
        self.kills.iter().map(|kill| kill.node.clone()).collect()
    }

    /// A node was killed: its next kill was this one.
    pub(super) fn forget_kill(&mut self, node: &str) {
        if let Some(place) = self.kills.iter().position(|kill| kill.node == node) {
            self.kills.remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_are_named_by_node_iteration_and_phase() {
        let kill = KillPoint::from_str("n1@3:all-reduce").unwrap();
        assert_eq!((kill.node.as_str(), kill.at.step, kill.at.phase), ("n1", 3, StopPhase::AllReduce));
        assert_eq!(KillPoint::from_str("a@b@12").unwrap().node, "a@b");
        assert_eq!(KillPoint::from_str("n1@12").unwrap().at.phase, StopPhase::Steady);
        for bad in ["n1", "n1@", "n1@0", "n1@x", "n1@3:tea"] {
            assert!(KillPoint::from_str(bad).unwrap_err().contains("expected"), "{bad}");
        }
    }
}
