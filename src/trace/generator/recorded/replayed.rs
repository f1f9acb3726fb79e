//! A recorded market that goes on.

use super::{PoolLoss, RecordedLoss, RecordedMarket, RecordedPool};
use crate::trace::generator::streams::stream;
use crate::trace::{NodeOffer, TraceEvent, TraceEventKind};
use crate::units::SimTime;
use rand::RngExt;
use rand_pcg::Pcg64;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The mean number of losses that follow each other as they did, in square roots of their number. Shorter runs forget more of how
/// nodes age between losses, longer ones make traces that are more alike; the tests say what is kept.
const RUN: f64 = 3.0;
/// No node is away for less.
const SHORTEST: SimTime = SimTime::SECOND;

/// What happens in the market until `end`, in order of time but for notices. `names` are those of the pools' nodes.
pub(in crate::trace::generator) fn replay(
    market: &RecordedMarket,
    seed: u64,
    end: SimTime,
    names: Vec<String>,
) -> Vec<TraceEvent> {
    let pools = market.pools.iter().zip(names).map(|(pool, name)| Pool {
        recorded: pool,
        name,
        up: Vec::new(),
        since: vec![SimTime::ZERO; pool.first_s.len()],
    });
    let mut replayed = Replayed {
        market,
        pools: pools.collect(),
        random: stream(seed, "recorded market"),
        now: SimTime::ZERO,
        coming: BinaryHeap::new(),
        events: Vec::new(),
    };
    replayed.run(end);
    replayed.events
}

struct Pool<'a> {
    recorded: &'a RecordedPool,
    name: String,
    /// Slots that are up, the oldest first.
    up: Vec<usize>,
    /// Since when each slot is up, or was.
    since: Vec<SimTime>,
}

impl Pool<'_> {
    fn node(&self, slot: usize) -> String {
        let width = self.since.len().to_string().len().max(2);
        format!("{}-{:0width$}", self.name, slot + 1)
    }
}

struct Replayed<'a> {
    market: &'a RecordedMarket,
    pools: Vec<Pool<'a>>,
    random: Pcg64,
    now: SimTime,
    /// Time, pool and slot of nodes that will come.
    coming: BinaryHeap<Reverse<(SimTime, usize, usize)>>,
    events: Vec<TraceEvent>,
}

impl Replayed<'_> {
    fn run(&mut self, end: SimTime) {
        for (index, pool) in self.pools.iter().enumerate() {
            for (slot, first_s) in pool.recorded.first_s.iter().enumerate() {
                self.coming.push(Reverse((SimTime::from_seconds(*first_s), index, slot)));
            }
        }
        let count = self.market.losses.len();
        let goes_on = 1.0 - 1.0 / (RUN * (count as f64).sqrt()).max(1.0);
        let mut next = self.random.random_range(0..count);
        loop {
            let loss = &self.market.losses[next];
            if !self.wait(SimTime::from_seconds(loss.after_s), end) {
                return;
            }
            self.lose(loss);
            next =
                if self.random.random_bool(goes_on) { (next + 1) % count } else { self.random.random_range(0..count) };
        }
    }

    /// Lets so much time pass in which any node is up; false where the end comes first.
    fn wait(&mut self, mut left: SimTime, end: SimTime) -> bool {
        loop {
            let is_up = self.pools.iter().any(|pool| !pool.up.is_empty());
            let due = is_up.then(|| self.now.saturating_add(left));
            let coming = self.coming.peek().map(|Reverse((time, _, _))| *time);
            let comes_first = coming.filter(|time| due.is_none_or(|due| *time <= due));
            match (comes_first, due) {
                (Some(time), _) if time <= end => {
                    if is_up {
                        left = left.saturating_sub(time.saturating_sub(self.now));
                    }
                    self.now = self.now.max(time);
                    self.arrive();
                }
                (None, Some(due)) if due <= end => {
                    self.now = due;
                    return true;
                }
                _ => return false,
            }
        }
    }

    fn arrive(&mut self) {
        let Some(Reverse((_, index, slot))) = self.coming.pop() else { return };
        let pool = &mut self.pools[index];
        pool.up.push(slot);
        pool.since[slot] = self.now;
        let RecordedPool { gpu_type, gpu_count, zone, price_usd_per_hour, .. } = pool.recorded.clone();
        let kind = TraceEventKind::Up(NodeOffer { gpu_type, gpu_count, zone, price_usd_per_hour });
        self.events.push(TraceEvent { time: self.now, node: pool.node(slot), kind });
    }

    fn lose(&mut self, loss: &RecordedLoss) {
        let counts: Vec<usize> = loss.of.iter().map(|part| self.count(part)).collect();
        let mut counts = counts;
        if counts.iter().all(|count| *count == 0) {
            // The loss happens, if to one node only: where the largest share of those that are up now went.
            let share = |part: &PoolLoss| part.ages.len() as f64 / f64::from(part.up.max(1));
            let parts = loss.of.iter().enumerate().filter(|(_, part)| !self.pools[part.pool].up.is_empty());
            let most = parts.max_by(|a, b| share(a.1).total_cmp(&share(b.1)));
            if let Some((place, _)) = most {
                counts[place] = 1;
            }
        }
        for (part, count) in loss.of.iter().zip(counts) {
            self.take(part, count, SimTime::from_seconds(loss.notice_s));
        }
    }

    /// How many nodes of a pool go: the share that went, of those that are up, rounded up or down by chance.
    fn count(&mut self, part: &PoolLoss) -> usize {
        let up = self.pools[part.pool].up.len();
        let exact = part.ages.len() as f64 / f64::from(part.up.max(1)) * up as f64;
        let more = self.random.random_bool(exact.fract());
        (exact as usize + usize::from(more)).min(up)
    }

    /// Takes nodes of the ages that went, evenly chosen where there are fewer or more of them.
    fn take(&mut self, part: &PoolLoss, count: usize, notice: SimTime) {
        let pool = &mut self.pools[part.pool];
        let up = pool.up.len();
        let mut gone: Vec<(usize, usize)> = Vec::with_capacity(count);
        for chosen in 0..count {
            let recorded = (chosen * part.ages.len() + part.ages.len() / 2) / count;
            let recorded = recorded.min(part.ages.len() - 1);
            let wanted = ((1.0 - part.ages[recorded]) * up as f64) as usize;
            let is_free = |place: &usize| *place < up && gone.iter().all(|(other, _)| other != place);
            let place = (0..up).flat_map(|off| [wanted.checked_sub(off), Some(wanted + off)]).flatten().find(is_free);
            gone.extend(place.map(|place| (place, recorded)));
        }
        for &(place, recorded) in &gone {
            let slot = pool.up[place];
            let node = pool.node(slot);
            let notice = notice.min(self.now.saturating_sub(pool.since[slot]));
            if notice > SimTime::ZERO {
                let kind = TraceEventKind::Notice { notice };
                self.events.push(TraceEvent { time: self.now - notice, node: node.clone(), kind });
            }
            self.events.push(TraceEvent { time: self.now, node, kind: TraceEventKind::Down });
            let away = SimTime::from_seconds(part.away_s[recorded]).max(SHORTEST);
            self.coming.push(Reverse((self.now.saturating_add(away), part.pool, slot)));
        }
        let mut place = 0;
        pool.up.retain(|_| {
            place += 1;
            gone.iter().all(|(other, _)| *other != place - 1)
        });
    }
}
