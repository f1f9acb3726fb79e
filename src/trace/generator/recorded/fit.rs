//! A recorded market from a trace.

use super::{PoolLoss, RecordedLoss, RecordedMarket, RecordedPool};
use crate::trace::{NodeOffer, Trace, TraceEventKind};
use crate::units::SimTime;
use std::collections::{HashMap, HashSet};

/// The market of a trace; nothing of one in which no node is ever lost.
pub fn fit(trace: &Trace) -> Option<RecordedMarket> {
    let start = trace.events.first()?.time;
    let mut recorder = Recorder { start, now: start, since_loss: SimTime::ZERO, ..Recorder::default() };
    let mut rest = &trace.events[..];
    while let Some(first) = rest.first() {
        let count = rest.partition_point(|event| event.time <= first.time);
        recorder.advance(first.time);
        recorder.losses_of(&rest[..count]);
        recorder.arrivals_of(&rest[..count]);
        rest = &rest[count..];
    }
    recorder.advance(trace.span);
    recorder.finish(trace.span)
}

/// A place in a pool that nodes fill one after the other.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// The loss (event, part, place) that emptied it, and when.
    lost: Option<((usize, usize, usize), SimTime)>,
}

#[derive(Default)]
struct Pool {
    recorded: RecordedPool,
    prices: (f64, f64),
    slots: Vec<Slot>,
    /// Slots that are empty, the first lost first.
    empty: Vec<usize>,
    /// Slots that are full, the oldest first.
    full: Vec<usize>,
}

/// GPU type, GPUs and zone of a pool.
type Kind = (Option<String>, Option<u32>, Option<String>);

#[derive(Default)]
struct Recorder {
    start: SimTime,
    now: SimTime,
    /// Time with any node up since the loss before.
    since_loss: SimTime,
    pools: Vec<Pool>,
    kinds: HashMap<Kind, usize>,
    /// Pool and slot of each node that is up, and its last notice.
    up: HashMap<String, (usize, usize, Option<SimTime>)>,
    /// Pool and slot that a name had.
    before: HashMap<String, (usize, usize)>,
    losses: Vec<RecordedLoss>,
    /// Completed absences of each pool, seconds.
    away_s: Vec<Vec<f64>>,
}

impl Recorder {
    fn advance(&mut self, time: SimTime) {
        if !self.up.is_empty() {
            self.since_loss += time.saturating_sub(self.now);
        }
        self.now = time;
    }

    /// Nodes that were up and go now, together.
    fn losses_of(&mut self, events: &[crate::trace::TraceEvent]) {
        for event in events {
            if let (TraceEventKind::Notice { .. }, Some((_, _, notice))) = (&event.kind, self.up.get_mut(&event.node)) {
                notice.get_or_insert(event.time);
            }
        }
        let is_loss = |event: &&crate::trace::TraceEvent| event.kind == TraceEventKind::Down;
        let mut lost: HashSet<(usize, usize)> = HashSet::new();
        let mut notice = SimTime::ZERO;
        for event in events.iter().filter(is_loss) {
            if let Some((pool, slot, warned)) = self.up.remove(&event.node) {
                notice = notice.max(warned.map_or(SimTime::ZERO, |at| event.time.saturating_sub(at)));
                self.before.insert(event.node.clone(), (pool, slot));
                lost.insert((pool, slot));
            }
        }
        if lost.is_empty() {
            return;
        }
        let mut loss =
            RecordedLoss { after_s: self.since_loss.as_seconds(), notice_s: notice.as_seconds(), of: Vec::new() };
        self.since_loss = SimTime::ZERO;
        for (index, pool) in self.pools.iter_mut().enumerate() {
            let up = pool.full.len();
            // From the youngest on.
            let gone: Vec<(usize, usize)> = (0..up)
                .map(|age| (age, pool.full[up - 1 - age]))
                .filter(|(_, slot)| lost.contains(&(index, *slot)))
                .collect();
            if gone.is_empty() {
                continue;
            }
            let part = (self.losses.len(), loss.of.len());
            for (place, (_, slot)) in gone.iter().enumerate() {
                pool.slots[*slot].lost = Some(((part.0, part.1, place), self.now));
                pool.empty.push(*slot);
            }
            pool.full.retain(|slot| !lost.contains(&(index, *slot)));
            let ages = gone.iter().map(|(age, _)| (*age as f64 + 0.5) / up as f64).collect();
            loss.of.push(PoolLoss { pool: index, up: up as u32, ages, away_s: vec![f64::NAN; gone.len()] });
        }
        self.losses.push(loss);
    }

    /// Nodes that come now and stay for some time.
    fn arrivals_of(&mut self, events: &[crate::trace::TraceEvent]) {
        let losses = events.iter().enumerate().filter(|(_, event)| event.kind == TraceEventKind::Down);
        let last_loss: HashMap<&str, usize> = losses.map(|(place, event)| (event.node.as_str(), place)).collect();
        for (place, event) in events.iter().enumerate() {
            let TraceEventKind::Up(offer) = &event.kind else { continue };
            let goes_at_once = last_loss.get(event.node.as_str()).is_some_and(|loss| *loss > place);
            if !goes_at_once {
                self.arrive(&event.node, offer);
            }
        }
    }

    fn arrive(&mut self, node: &str, offer: &NodeOffer) {
        let kind = (offer.gpu_type.clone(), offer.gpu_count, offer.zone.clone());
        let index = *self.kinds.entry(kind).or_insert_with(|| {
            let (gpu_type, gpu_count, zone) = (offer.gpu_type.clone(), offer.gpu_count, offer.zone.clone());
            let recorded = RecordedPool { gpu_type, gpu_count, zone, ..RecordedPool::default() };
            self.pools.push(Pool { recorded, ..Pool::default() });
            self.away_s.push(Vec::new());
            self.pools.len() - 1
        });
        let pool = &mut self.pools[index];
        if let Some(price) = offer.price_usd_per_hour {
            pool.prices = (pool.prices.0 + price, pool.prices.1 + 1.0);
        }
        // Its own slot if it had one, else the one that is empty for longest, else a new one.
        let own = self.before.remove(node).filter(|(pool, _)| *pool == index).map(|(_, slot)| slot);
        let place = own.and_then(|slot| pool.empty.iter().position(|empty| *empty == slot));
        let place = place.or((!pool.empty.is_empty()).then_some(0));
        let slot = place.map_or_else(
            || {
                pool.slots.push(Slot::default());
                pool.recorded.first_s.push(self.now.saturating_sub(self.start).as_seconds());
                pool.slots.len() - 1
            },
            |place| pool.empty.remove(place),
        );
        if let Some(((event, part, place), since)) = pool.slots[slot].lost.take() {
            let away_s = self.now.saturating_sub(since).as_seconds();
            self.losses[event].of[part].away_s[place] = away_s;
            self.away_s[index].push(away_s);
        }
        pool.full.push(slot);
        self.up.insert(node.to_owned(), (index, slot, None));
    }

    fn finish(mut self, span: SimTime) -> Option<RecordedMarket> {
        if self.losses.is_empty() {
            return None;
        }
        for (pool, away_s) in self.pools.iter().zip(&self.away_s) {
            for ((event, part, place), since) in pool.slots.iter().filter_map(|slot| slot.lost) {
                // It is away at the end: as long as those that stayed away for longer than it is, on average.
                let seen_s = span.saturating_sub(since).as_seconds();
                let longer: Vec<f64> = away_s.iter().copied().filter(|away_s| *away_s > seen_s).collect();
                let mean_s = longer.iter().sum::<f64>() / longer.len().max(1) as f64;
                self.losses[event].of[part].away_s[place] = seen_s.max(mean_s);
            }
        }
        if self.since_loss > SimTime::ZERO {
            self.losses.push(RecordedLoss { after_s: self.since_loss.as_seconds(), ..RecordedLoss::default() });
        }
        let pools = self.pools.into_iter().map(|pool| {
            let (sum, count) = pool.prices;
            let price_usd_per_hour = (count > 0.0).then(|| (sum / count * 1e4).round() / 1e4);
            RecordedPool { price_usd_per_hour, ..pool.recorded }
        });
        let observed_s = span.saturating_sub(self.start).as_seconds();
        Some(RecordedMarket { observed_s, pools: pools.collect(), losses: self.losses })
    }
}
