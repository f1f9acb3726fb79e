//! Who is there, who is about to go, and how often that changes.

use super::composition::Composition;
use super::events::MembershipChange;
use super::policies::Outlook;
use crate::cluster::{Cluster, Node};
use crate::units::SimTime;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Time between losses, and between changes, that is assumed before any was seen. It counts as one observation.
const PRIOR_S: f64 = 3600.0;

/// The nodes that are up. Ordered by name, so that nothing depends on the order in which they came.
#[derive(Clone, Debug, Default)]
pub(super) struct Membership {
    /// Whether nodes under notice are planned without.
    heeds_notice: bool,
    nodes: BTreeMap<String, Node>,
    /// Nodes under notice, with the time of their loss; zero where that isn't known, since it may be at any moment.
    doomed: BTreeMap<String, SimTime>,
    /// Nodes that aren't up for long enough, with the time from which they are.
    young: BTreeMap<String, SimTime>,
    zones: BTreeMap<String, Zone>,
    /// Zones whose nodes are lost too often.
    shunned: BTreeSet<String>,
    nodes_lost: u32,
    /// Losses of nodes in use, by how many of how many went.
    hits: BTreeMap<(u32, u32), u32>,
    changes: u32,
    began: Option<SimTime>,
    /// Time that nodes were up, all together, until the last change.
    node_s: f64,
    changed: SimTime,
    views: Views,
}

/// What was seen of a zone.
#[derive(Clone, Copy, Debug, Default)]
struct Zone {
    nodes: u32,
    /// Times at which some were lost.
    losses: u32,
    /// Time with some that were up, until the last change.
    up_s: f64,
}

impl Zone {
    /// Losses in a second; one in an hour until it was seen for long enough.
    fn losses_per_s(&self) -> f64 {
        (1.0 + f64::from(self.losses)) / (PRIOR_S + self.up_s)
    }
}

/// The nodes as they are asked for, worked out when they change.
#[derive(Clone, Debug, Default)]
struct Views {
    present: Arc<Composition>,
    staying: Arc<Composition>,
    proven: Arc<Composition>,
}

impl Membership {
    /// Nobody, yet.
    pub(super) fn new(heeds_notice: bool) -> Self {
        Self { heeds_notice, ..Self::default() }
    }

    /// Takes in what changed.
    pub(super) fn apply(&mut self, at: SimTime, change: MembershipChange, min_up: SimTime) {
        self.began.get_or_insert(at);
        let passed_s = at.saturating_sub(self.changed).as_seconds();
        self.node_s += self.nodes.len() as f64 * passed_s;
        self.zones.values_mut().filter(|zone| zone.nodes > 0).for_each(|zone| zone.up_s += passed_s);
        self.changed = at;
        self.nodes_lost += change.lost.len() as u32;
        let mut hit = BTreeSet::new();
        for name in change.lost {
            hit.extend(self.nodes.remove(&name).map(|node| node.zone));
            self.doomed.remove(&name);
            self.young.remove(&name);
        }
        for name in change.spared {
            self.doomed.remove(&name);
        }
        for node in change.joined {
            if min_up > SimTime::ZERO {
                self.young.insert(node.name.clone(), at.saturating_add(min_up));
            }
            self.nodes.insert(node.name.clone(), node);
        }
        for zone in hit {
            self.zones.entry(zone).or_default().losses += 1;
        }
        self.zones.values_mut().for_each(|zone| zone.nodes = 0);
        for node in self.nodes.values() {
            self.zones.entry(node.zone.clone()).or_default().nodes += 1;
        }
        let noticed = change.noticed.into_iter().filter(|name| self.nodes.contains_key(name));
        self.doomed.extend(noticed.map(|name| (name, change.losses_at.unwrap_or_default())));
        self.look();
    }

    /// Says again which zones to keep away from, and whether those are others than before: as long as all others together train
    /// more without it, by the losses to be expected, the zone that loses most for each of its nodes. What trains is taken for
    /// proportional to the nodes, and a loss stops everybody for `pause_s`.
    pub(super) fn judge_zones(&mut self, pause_s: f64) -> bool {
        let mut kept: Vec<(&String, &Zone)> = self.zones.iter().filter(|(_, zone)| zone.nodes > 0).collect();
        let worst_first = |zone: &Zone| zone.losses_per_s() / f64::from(zone.nodes);
        kept.sort_by(|a, b| worst_first(a.1).total_cmp(&worst_first(b.1)).then(a.0.cmp(b.0)));
        let trained = |zones: &[(&String, &Zone)]| {
            let losses_per_s: f64 = zones.iter().map(|(_, zone)| zone.losses_per_s()).sum();
            let nodes: u32 = zones.iter().map(|(_, zone)| zone.nodes).sum();
            f64::from(nodes) / (1.0 + losses_per_s * pause_s)
        };
        let mut shunned = BTreeSet::new();
        while let Some(((name, _), others)) = kept.split_last()
            && trained(others) > trained(&kept)
        {
            shunned.insert((*name).clone());
            kept.pop();
        }
        let has_changed = shunned != self.shunned;
        if has_changed {
            self.shunned = shunned;
            self.look();
        }
        has_changed
    }

    fn look(&mut self) {
        let composition = |stays: &dyn Fn(&Node) -> bool| {
            Arc::new(Composition::of(self.nodes.values().filter(|node| stays(node)).cloned().collect()))
        };
        let stays = |node: &Node| !(self.heeds_notice && self.doomed.contains_key(&node.name));
        let is_proven = |node: &Node| !self.young.contains_key(&node.name) && !self.shunned.contains(&node.zone);
        let present = composition(&|_| true);
        let staying = if self.nodes.values().all(stays) { Arc::clone(&present) } else { composition(&stays) };
        let proven = if self.nodes.values().all(is_proven) {
            Arc::clone(&staying)
        } else {
            composition(&|node| stays(node) && is_proven(node))
        };
        self.views = Views { present, staying, proven };
    }

    /// Counts a change of plan.
    pub(super) fn note_change(&mut self) {
        self.changes += 1;
    }

    /// Counts a loss of nodes in use: so many of so many.
    pub(super) fn note_hit(&mut self, lost: u32, of: u32) {
        *self.hits.entry((lost, of)).or_default() += 1;
    }

    /// All nodes that are up, also those under notice: state can still be read from them.
    pub(super) fn present(&self) -> &Cluster {
        &self.views.present.cluster
    }

    /// Whether nodes are up for long enough now that weren't when this was last asked.
    pub(super) fn has_matured(&mut self, at: SimTime) -> bool {
        let before = self.young.len();
        self.young.retain(|_, from| *from > at);
        let has = self.young.len() < before;
        if has {
            self.look();
        }
        has
    }

    /// The nodes of the plan are in training's use, however young.
    pub(super) fn settle(&mut self, is_used: impl Fn(&str) -> bool) {
        let before = self.young.len();
        self.young.retain(|name, _| !is_used(name));
        if self.young.len() < before {
            self.look();
        }
    }

    /// The nodes to plan with if they suffice: those that stay, are up for long enough, and aren't in a zone to keep away
    /// from.
    pub(super) fn proven(&self) -> &Arc<Composition> {
        &self.views.proven
    }

    /// Whether a node is under notice.
    pub(super) fn is_doomed(&self, name: &str) -> bool {
        self.doomed.contains_key(name)
    }

    /// When the first of some nodes is announced to be lost, zero if that isn't known; `None` if none of them is under notice.
    pub(super) fn first_loss(&self, is_meant: impl Fn(&str) -> bool) -> Option<SimTime> {
        self.doomed.iter().filter(|(name, _)| is_meant(name)).map(|(_, at)| *at).min()
    }

    /// The nodes to plan with: those under notice are left out where notices are heeded.
    pub(super) fn staying(&self) -> &Arc<Composition> {
        &self.views.staying
    }

    /// Mean time from one loss that a checkpoint is needed for to the next, as observed so far: `fatal_share` is how likely a
    /// loss of so many of so many nodes is one. The one that is assumed beforehand is.
    pub(super) fn mean_time_between_fatal_losses_s(&self, at: SimTime, fatal: f64) -> f64 {
        (PRIOR_S + self.observed(at).as_seconds()) / (1.0 + fatal)
    }

    /// How many of the losses of nodes in use a checkpoint would have been needed for.
    pub(super) fn fatal_losses(&self, fatal_share: impl Fn(u32, u32) -> f64) -> f64 {
        self.hits.iter().map(|(&(lost, of), &times)| f64::from(times) * fatal_share(lost, of)).sum()
    }

    /// Mean time from one change of plan to the next, as observed so far.
    pub(super) fn mean_time_between_changes_s(&self, at: SimTime) -> f64 {
        (PRIOR_S + self.observed(at).as_seconds()) / (1.0 + f64::from(self.changes))
    }

    /// When that will be so long, if no change comes between.
    pub(super) fn when_mean_time_between_changes_is(&self, seconds: f64) -> SimTime {
        let observed_s = seconds * (1.0 + f64::from(self.changes)) - PRIOR_S;
        self.began.unwrap_or_default().saturating_add(SimTime::from_seconds(observed_s))
    }

    /// Share of the nodes that will have been lost by the next change of plan, at the rate observed so far. Before anything
    /// was seen a node is expected to be up for as long as the prior.
    pub(super) fn expected_losses(&self, at: SimTime) -> Outlook {
        let lately_s = self.nodes.len() as f64 * at.saturating_sub(self.changed).as_seconds();
        let nodes = self.nodes.len();
        let rate = (1.0 + f64::from(self.nodes_lost)) / (PRIOR_S * nodes.max(1) as f64 + self.node_s + lately_s);
        Outlook { lost_share: 1.0 - (-rate * self.mean_time_between_changes_s(at)).exp(), nodes }
    }

    fn observed(&self, at: SimTime) -> SimTime {
        at.saturating_sub(self.began.unwrap_or(at))
    }
}
