//! Who is there, who is about to go, and how often that changes.

use super::events::MembershipChange;
use super::policies::Outlook;
use crate::cluster::{Cluster, Node};
use crate::units::SimTime;
use std::collections::{BTreeMap, BTreeSet};

/// Time between losses, and between changes, that is assumed before any was seen. It counts as one observation.
const PRIOR_S: f64 = 3600.0;

/// The nodes that are up. Ordered by name, so that nothing depends on the order in which they came.
#[derive(Clone, Debug, Default)]
pub(super) struct Membership {
    nodes: BTreeMap<String, Node>,
    doomed: BTreeSet<String>,
    /// Nodes that aren't up for long enough, with the time from which they are.
    young: BTreeMap<String, SimTime>,
    loss_events: u32,
    nodes_lost: u32,
    changes: u32,
    began: Option<SimTime>,
    /// Time that nodes were up, all together, until the last change.
    node_s: f64,
    changed: SimTime,
}

impl Membership {
    /// Takes in what changed.
    pub(super) fn apply(&mut self, at: SimTime, change: MembershipChange, min_up: SimTime) {
        self.began.get_or_insert(at);
        self.node_s += self.nodes.len() as f64 * at.saturating_sub(self.changed).as_seconds();
        self.changed = at;
        self.nodes_lost += change.lost.len() as u32;
        self.loss_events += u32::from(!change.lost.is_empty());
        for name in change.lost {
            self.nodes.remove(&name);
            self.doomed.remove(&name);
            self.young.remove(&name);
        }
        for node in change.joined {
            if min_up > SimTime::ZERO {
                self.young.insert(node.name.clone(), at.saturating_add(min_up));
            }
            self.nodes.insert(node.name.clone(), node);
        }
        self.doomed.extend(change.noticed.into_iter().filter(|name| self.nodes.contains_key(name)));
    }

    /// Counts a change of plan.
    pub(super) fn note_change(&mut self) {
        self.changes += 1;
    }

    /// All nodes that are up, also those under notice: state can still be read from them.
    pub(super) fn present(&self) -> Cluster {
        Cluster { nodes: self.nodes.values().cloned().collect() }
    }

    /// Whether nodes are up for long enough now that weren't when this was last asked.
    pub(super) fn has_matured(&mut self, at: SimTime) -> bool {
        let before = self.young.len();
        self.young.retain(|_, from| *from > at);
        self.young.len() < before
    }

    /// The nodes of the plan are in training's use, however young.
    pub(super) fn settle(&mut self, is_used: impl Fn(&str) -> bool) {
        self.young.retain(|name, _| !is_used(name));
    }

    /// The nodes to plan with if they suffice: those that stay and are up for long enough.
    pub(super) fn proven(&self, heed_notice: bool) -> Cluster {
        let mut staying = self.staying(heed_notice);
        staying.nodes.retain(|node| !self.young.contains_key(&node.name));
        staying
    }

    /// Whether a node is under notice.
    pub(super) fn is_doomed(&self, name: &str) -> bool {
        self.doomed.contains(name)
    }

    /// The nodes to plan with: those under notice are left out if `heed_notice`.
    pub(super) fn staying(&self, heed_notice: bool) -> Cluster {
        let stays = |node: &&Node| !(heed_notice && self.doomed.contains(&node.name));
        Cluster { nodes: self.nodes.values().filter(stays).cloned().collect() }
    }

    /// Mean time from one loss event to the next, as observed so far.
    pub(super) fn mean_time_between_losses_s(&self, at: SimTime) -> f64 {
        self.mean_time_s(at, self.loss_events)
    }

    /// Mean time from one change of plan to the next, as observed so far.
    pub(super) fn mean_time_between_changes_s(&self, at: SimTime) -> f64 {
        self.mean_time_s(at, self.changes)
    }

    /// Share of the nodes that will have been lost by the next change of plan, at the rate observed so far. Before anything
    /// was seen a node is expected to be up for as long as the prior.
    pub(super) fn expected_losses(&self, at: SimTime) -> Outlook {
        let lately_s = self.nodes.len() as f64 * at.saturating_sub(self.changed).as_seconds();
        let nodes = self.nodes.len();
        let rate = (1.0 + f64::from(self.nodes_lost)) / (PRIOR_S * nodes.max(1) as f64 + self.node_s + lately_s);
        Outlook { lost_share: 1.0 - (-rate * self.mean_time_between_changes_s(at)).exp(), nodes }
    }

    fn mean_time_s(&self, at: SimTime, count: u32) -> f64 {
        let observed = at.saturating_sub(self.began.unwrap_or(at));
        (PRIOR_S + observed.as_seconds()) / (1.0 + f64::from(count))
    }
}
