//! A change of plan under way: which nodes it still needs, and what it has moved.

use super::{Controller, Phase};
use crate::elastic::layout::ShardIndex;
use crate::elastic::reconfiguration::Reconfiguration;
use crate::elastic::recovery::{Origin, ShardCopy, Source};
use crate::units::SimTime;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A change of plan with the time in which its state moves: when the plan is there, and before communicators are made anew.
#[derive(Clone, Debug)]
pub(super) struct UnderWay {
    to: Arc<Reconfiguration>,
    senders: BTreeSet<Arc<str>>,
    fetch_begins: SimTime,
    fetch_ends: SimTime,
}

impl UnderWay {
    pub(super) fn new(to: &Arc<Reconfiguration>, at: SimTime) -> Self {
        let fetch_begins = at.saturating_add(to.time.detect + to.time.plan);
        let fetch_ends = fetch_begins.saturating_add(to.time.fetch);
        Self { to: Arc::clone(to), senders: to.recovery.senders(), fetch_begins, fetch_ends }
    }

    /// Whether something may still be to be read from a node; `foreseen` if all is as foreseen.
    pub(super) fn needs(&self, node: &str, at: SimTime, foreseen: bool) -> bool {
        (!foreseen || at < self.fetch_ends) && self.senders.contains(node)
    }

    /// Share of the moving that is done.
    fn done(&self, at: SimTime) -> f64 {
        if at >= self.fetch_ends {
            return 1.0;
        }
        let passed_s = at.saturating_sub(self.fetch_begins).as_seconds();
        passed_s / (self.fetch_ends - self.fetch_begins).as_seconds()
    }
}

impl Controller<'_> {
    /// Something is about to be lost during a change of plan: what has arrived until now counts as copies. Every sender has
    /// sent its share of what it has to send in even pace, first what fewest nodes have. State of an older step counts once all
    /// of it is there.
    pub(super) fn keep_what_has_arrived(&mut self, at: SimTime) {
        let Phase::Reconfiguring(under_way) = self.phase.clone() else { return };
        let recovery = &under_way.to.recovery;
        let done = under_way.done(at);
        let is_live = recovery.origin == Origin::Live && self.bitmap.live_step() == Some(recovery.resume_step);
        if !is_live {
            if done >= 1.0 {
                self.bitmap.set_live(&under_way.to.placed.plan, recovery.resume_step);
            }
            return;
        }
        let mut by_sender: BTreeMap<&Source, Vec<&ShardCopy>> = BTreeMap::new();
        for copy in &recovery.shards {
            by_sender.entry(&copy.source).or_default().push(copy);
        }
        let mut arrived: Vec<(ShardIndex, Arc<str>)> = Vec::new();
        for copies in by_sender.values_mut() {
            let layout = self.bitmap.layout();
            copies.sort_by_key(|copy| {
                (self.bitmap.live_holders(layout.index_of(copy.shard)), layout.index_of(copy.shard))
            });
            let bytes = |copy: &ShardCopy| layout.bytes(layout.index_of(copy.shard)) as f64;
            let sent = done * copies.iter().map(|copy| bytes(copy)).sum::<f64>();
            let mut sum = 0.0;
            for copy in copies {
                sum += bytes(copy);
                if sum <= sent {
                    arrived.push((layout.index_of(copy.shard), Arc::clone(&copy.to)));
                }
            }
        }
        for (shard, node) in arrived {
            self.bitmap.add_live(shard, &node);
        }
    }
}
