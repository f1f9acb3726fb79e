//! Markets taken from a recorded trace: its losses as they were, drawn again and again.
//!
//! A recorded market is a list of loss events. Each says how long it was since the one before (while any node was up), and of
//! each pool how many nodes were up, which of them went (by age: 0 is the youngest, 1 the oldest), and how long each stayed
//! away. Bulk losses, losses of several zones at once, heavy tails and late returns are in them as they were, without a law.
//!
//! [`fit`] takes the list from a trace, and the generator draws from it: runs of events in their order, of random begin and length
//! (Politis and Romano 1994), so that storms stay storms. Another number of nodes up loses the same share. What it can't know:
//! hours of the day, and anything that never happened while the trace was recorded.

mod fit;
mod replayed;

pub use fit::fit;
pub(super) use replayed::replay;

use super::settings::{GeneratorError, within};
use serde::{Deserialize, Serialize};

/// A recorded market.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedMarket {
    /// How long it was observed, seconds.
    pub observed_s: f64,
    /// Its pools.
    pub pools: Vec<RecordedPool>,
    /// What happened, in order; the last one is the quiet time after the last loss.
    pub losses: Vec<RecordedLoss>,
}

/// Nodes of one kind in one zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedPool {
    /// GPU type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_type: Option<String>,
    /// GPUs of a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_count: Option<u32>,
    /// The zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The mean price of a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_usd_per_hour: Option<f64>,
    /// When each of its nodes first came, seconds since the begin: as many as were up at once at most.
    pub first_s: Vec<f64>,
}

/// A loss event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedLoss {
    /// Time since the loss before in which any node was up, seconds.
    pub after_s: f64,
    /// The notice, seconds; 0 where there was none.
    #[serde(default)]
    pub notice_s: f64,
    /// What each pool lost; nothing in a quiet time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub of: Vec<PoolLoss>,
}

/// What a pool lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolLoss {
    /// The pool, from 0.
    pub pool: usize,
    /// Its nodes that were up.
    pub up: u32,
    /// By age, from 0 for the youngest to 1 for the oldest, the nodes that went.
    pub ages: Vec<f64>,
    /// How long each of them stayed away, seconds.
    pub away_s: Vec<f64>,
}

/// Longest time of a recorded market, a century.
const LONGEST_S: f64 = 3.1536e9;
/// Most pools, nodes of one, and losses.
const MOST: usize = 10_000;
/// Most losses of a generated trace.
const MOST_LOSSES: f64 = 1e6;

impl RecordedMarket {
    /// Checks that it can go on for so long.
    pub(super) fn validate(&self, hours: f64) -> Result<(), GeneratorError> {
        let seconds = |what: &str, value: f64| within(&format!("recorded.{what}"), value, 0.0, LONGEST_S);
        let fault = |what: String, expected: &str, found: usize| GeneratorError::Setting {
            setting: format!("recorded.{what}"),
            expected: expected.to_owned(),
            found: found.to_string(),
        };
        for (what, count) in [("pools", self.pools.len()), ("losses", self.losses.len())] {
            if !(1..=MOST).contains(&count) {
                return Err(fault(what.to_owned(), "1 to 10 000 of them", count));
            }
        }
        for (index, pool) in self.pools.iter().enumerate() {
            if !(1..=MOST).contains(&pool.first_s.len()) {
                return Err(fault(format!("pools[{index}].first_s"), "1 to 10 000 times", pool.first_s.len()));
            }
            pool.first_s.iter().try_for_each(|first_s| seconds(&format!("pools[{index}].first_s"), *first_s))?;
            let price = pool.price_usd_per_hour.unwrap_or_default();
            within(&format!("recorded.pools[{index}].price_usd_per_hour"), price, 0.0, 1e6)?;
            within(&format!("recorded.pools[{index}].gpu_count"), f64::from(pool.gpu_count.unwrap_or(1)), 1.0, 1024.0)?;
        }
        let mut lost = 0;
        for (index, loss) in self.losses.iter().enumerate() {
            let name = |field: &str| format!("losses[{index}].{field}");
            seconds(&name("after_s"), loss.after_s)?;
            seconds(&name("notice_s"), loss.notice_s)?;
            for part in &loss.of {
                let Some(pool) = self.pools.get(part.pool) else {
                    return Err(fault(name("pool"), "a pool by its number, from 0", part.pool));
                };
                let nodes = pool.first_s.len();
                if part.ages.len() != part.away_s.len() || !(1..=nodes).contains(&part.ages.len()) {
                    return Err(fault(
                        name("ages"),
                        "one for each of `away_s`, and no more than there are nodes",
                        part.ages.len(),
                    ));
                }
                let up = f64::from(part.up);
                within(&format!("recorded.{}", name("up")), up, part.ages.len() as f64, nodes as f64)?;
                part.ages.iter().try_for_each(|age| within(&format!("recorded.{}", name("ages")), *age, 0.0, 1.0))?;
                part.away_s.iter().try_for_each(|away_s| seconds(&name("away_s"), *away_s))?;
                lost += part.ages.len();
            }
        }
        let after_s: f64 = self.losses.iter().map(|loss| loss.after_s).sum();
        within("recorded.losses.after_s, all together", after_s, 1.0, f64::MAX)?;
        let often = hours * 3600.0 / after_s;
        let events = often * (self.losses.len() + lost) as f64;
        within("hours, times the losses in each", events, 0.0, MOST_LOSSES)
    }
}

#[cfg(test)]
mod tests;
