//! Markets taken from a recorded trace: its changes as they were, drawn again and again.
//!
//! A recorded market is a list of changes. Each says how long it was since the one before, which nodes of each pool went (by age,
//! among so many that were up) and how many came. Bulk losses, losses of several zones at once, heavy tails, outages and late
//! returns are in them as they were, without a law.
//!
//! [`fit`] takes the list from a trace, and the generator goes through it as the trace did, until by chance, after as many changes
//! as the square root of their number in the mean, it goes on elsewhere (Politis and Romano 1994): at a change after which as many
//! nodes of each pool were up as there are now, so that what follows fits, and of those at one of the few at which nodes were most
//! nearly as old as they are now (Lall and Sharma 1996), so that up-times last as they did across the seam. A trace begins as the
//! recorded one did. What it can't know: hours of the day, and anything that never happened while the trace was recorded.

mod fit;
mod replayed;

pub use fit::fit;
pub(super) use replayed::replay;

use super::settings::{GeneratorError, within};
use crate::trace::NodeOffer;
use serde::{Deserialize, Serialize};

/// A recorded market.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedMarket {
    /// How long it was observed, seconds.
    pub observed_s: f64,
    /// Its pools.
    pub pools: Vec<RecordedPool>,
    /// What happened, in order: the first change is the begin, and one in which nothing happens may be the end.
    pub changes: Vec<RecordedChange>,
}

/// Nodes of one kind in one zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedPool {
    /// As many as were up at once at most.
    pub nodes: u32,
    /// What is said of each of its nodes; their price is the mean of what they cost.
    pub node: NodeOffer,
}

/// Losses and arrivals at one time, losses first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedChange {
    /// Time since the change before, seconds.
    pub after_s: f64,
    /// The notice of those that went, seconds; 0 where there was none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub notice_s: f64,
    /// What pools lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<PoolLoss>,
    /// What pools got.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub came: Vec<PoolArrival>,
}

/// What a pool lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolLoss {
    /// The pool, from 0.
    pub pool: usize,
    /// By age, from 0 for the oldest, the nodes that went.
    pub ranks: Vec<u32>,
}

/// What a pool got.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolArrival {
    /// The pool, from 0.
    pub pool: usize,
    /// Nodes that came.
    pub nodes: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// Longest time of a recorded market, a century.
const LONGEST_S: f64 = 3.1536e9;
/// Least time between two changes.
const SHORTEST_S: f64 = 1e-3;
/// Most pools.
const MOST_POOLS: usize = 100;
/// Most nodes of a pool, and changes.
const MOST: usize = 10_000;
/// Most changes of a generated trace.
const MOST_CHANGES: f64 = 1e6;

impl RecordedMarket {
    /// Times at which nodes were lost.
    pub fn loss_events(&self) -> usize {
        self.changes.iter().filter(|change| !change.lost.is_empty()).count()
    }

    /// Nodes that were lost.
    pub fn nodes_lost(&self) -> usize {
        self.changes.iter().flat_map(|change| &change.lost).map(|loss| loss.ranks.len()).sum()
    }

    /// Checks that it can go on for so long.
    pub(super) fn validate(&self, hours: f64) -> Result<(), GeneratorError> {
        within("recorded.observed_s", self.observed_s, 0.0, LONGEST_S)?;
        let sizes = [("pools", self.pools.len(), 1_u32, MOST_POOLS), ("changes", self.changes.len(), 2, MOST)];
        for (what, count, least, most) in sizes {
            within(&format!("recorded.{what}, their number"), count as f64, f64::from(least), most as f64)?;
        }
        for (index, pool) in self.pools.iter().enumerate() {
            let name = |field: &str| format!("recorded.pools[{index}].{field}");
            within(&name("nodes"), f64::from(pool.nodes), 1.0, MOST as f64)?;
            within(&name("node.price_usd_per_hour"), pool.node.price_usd_per_hour.unwrap_or_default(), 0.0, 1e6)?;
            within(&name("node.gpu_count"), f64::from(pool.node.gpu_count.unwrap_or(1)), 1.0, 1024.0)?;
        }
        let mut up = vec![0_u32; self.pools.len()];
        for (index, change) in self.changes.iter().enumerate() {
            self.check(index, change, &mut up)?;
        }
        // Every change is as likely as any other, so that one lasts as long as they do in the mean.
        let after_s: f64 = self.changes.iter().map(|change| change.after_s).sum();
        within("recorded.changes.after_s, all together", after_s, 1.0, f64::MAX)?;
        let events = hours * 3600.0 / after_s * (self.changes.len() + self.nodes_lost()) as f64;
        within("hours, times the changes in each", events, 0.0, MOST_CHANGES)
    }

    /// Checks a change; `up` are the nodes of each pool before it, and then those after it.
    fn check(&self, index: usize, change: &RecordedChange, up: &mut [u32]) -> Result<(), GeneratorError> {
        let name = |field: &str| format!("recorded.changes[{index}].{field}");
        within(&name("after_s"), change.after_s, if index == 0 { 0.0 } else { SHORTEST_S }, LONGEST_S)?;
        within(&name("notice_s"), change.notice_s, 0.0, LONGEST_S)?;
        let pools = change.lost.iter().map(|loss| loss.pool).chain(change.came.iter().map(|came| came.pool));
        for pool in pools {
            within(&name("pool"), pool as f64, 0.0, (up.len() - 1) as f64)?;
        }
        for loss in &change.lost {
            let there = up[loss.pool];
            within(&name("lost.ranks, their number"), loss.ranks.len() as f64, 1.0, f64::from(there))?;
            for rank in &loss.ranks {
                within(&name("lost.ranks"), f64::from(*rank), 0.0, f64::from(there - 1))?;
            }
            up[loss.pool] = there - loss.ranks.len() as u32;
        }
        for came in &change.came {
            let most = self.pools[came.pool].nodes.saturating_sub(up[came.pool]);
            within(&name("came.nodes"), f64::from(came.nodes), 1.0, f64::from(most))?;
            up[came.pool] += came.nodes;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
