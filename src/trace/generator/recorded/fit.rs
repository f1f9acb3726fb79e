//! A recorded market from a trace.

use super::{PoolArrival, PoolLoss, RecordedChange, RecordedMarket, RecordedPool};
use crate::trace::{NodeOffer, Trace, TraceEvent, TraceEventKind};
use crate::units::SimTime;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The market of a trace; nothing of one in which no node is ever lost.
pub fn fit(trace: &Trace) -> Option<RecordedMarket> {
    let start = trace.events.first()?.time;
    let mut recorder = Recorder { last: start, ..Recorder::default() };
    for events in trace.events.chunk_by(|one, next| one.time == next.time) {
        recorder.take(events);
    }
    recorder.finish(start, trace.span)
}

/// GPU type, GPUs and zone of a pool.
type Kind = (Option<String>, Option<u32>, Option<String>);

#[derive(Default)]
struct Pool {
    recorded: RecordedPool,
    prices: (f64, f64),
    /// The nodes that are up, the oldest first.
    up: Vec<String>,
}

#[derive(Default)]
struct Recorder {
    /// When something changed the last time.
    last: SimTime,
    pools: Vec<Pool>,
    kinds: HashMap<Kind, usize>,
    /// When nodes that are up were warned.
    warned: HashMap<String, SimTime>,
    changes: Vec<RecordedChange>,
}

impl Recorder {
    /// What happens at one time.
    fn take(&mut self, events: &[TraceEvent]) {
        let now = events[0].time;
        for event in events {
            match event.kind {
                TraceEventKind::Notice { .. } => drop(self.warned.entry(event.node.clone()).or_insert(now)),
                TraceEventKind::Cancelled => drop(self.warned.remove(&event.node)),
                TraceEventKind::Up(_) | TraceEventKind::Down => {}
            }
        }
        let (lost, notice) = self.losses_of(events, now);
        let came = self.arrivals_of(events);
        if !lost.is_empty() || !came.is_empty() {
            let after_s = (now - self.last).as_seconds();
            self.changes.push(RecordedChange { after_s, notice_s: notice.as_seconds(), lost, came });
            self.last = now;
        }
    }

    /// Nodes that were up and go now, together, and the longest notice that one of them had.
    fn losses_of(&mut self, events: &[TraceEvent], now: SimTime) -> (Vec<PoolLoss>, SimTime) {
        let is_loss = |event: &&TraceEvent| event.kind == TraceEventKind::Down;
        let gone: HashSet<&str> = events.iter().filter(is_loss).map(|event| event.node.as_str()).collect();
        let mut lost = Vec::new();
        let mut notice = SimTime::ZERO;
        for (index, pool) in self.pools.iter_mut().enumerate() {
            let goes = |node: &String| gone.contains(node.as_str());
            let ranks: Vec<u32> = (0..).zip(&pool.up).filter(|(_, node)| goes(node)).map(|(rank, _)| rank).collect();
            for node in pool.up.iter().filter(|node| goes(node)) {
                let warned = self.warned.remove(node);
                notice = notice.max(warned.map_or(SimTime::ZERO, |at| now.saturating_sub(at)));
            }
            pool.up.retain(|node| !goes(node));
            if !ranks.is_empty() {
                lost.push(PoolLoss { pool: index, ranks });
            }
        }
        (lost, notice)
    }

    /// Nodes that come now and stay for some time.
    fn arrivals_of(&mut self, events: &[TraceEvent]) -> Vec<PoolArrival> {
        let losses = events.iter().enumerate().filter(|(_, event)| event.kind == TraceEventKind::Down);
        let last_loss: HashMap<&str, usize> = losses.map(|(place, event)| (event.node.as_str(), place)).collect();
        let mut came: BTreeMap<usize, u32> = BTreeMap::new();
        for (place, event) in events.iter().enumerate() {
            let TraceEventKind::Up(offer) = &event.kind else { continue };
            let goes_at_once = last_loss.get(event.node.as_str()).is_some_and(|loss| *loss > place);
            if !goes_at_once {
                *came.entry(self.arrive(&event.node, offer)).or_default() += 1;
            }
        }
        came.into_iter().map(|(pool, nodes)| PoolArrival { pool, nodes }).collect()
    }

    /// The pool that a node comes to.
    fn arrive(&mut self, node: &str, offer: &NodeOffer) -> usize {
        let kind = (offer.gpu_type.clone(), offer.gpu_count, offer.zone.clone());
        let index = *self.kinds.entry(kind).or_insert_with(|| {
            let node = NodeOffer { price_usd_per_hour: None, ..offer.clone() };
            self.pools.push(Pool { recorded: RecordedPool { nodes: 0, node }, ..Pool::default() });
            self.pools.len() - 1
        });
        let pool = &mut self.pools[index];
        if let Some(price) = offer.price_usd_per_hour {
            pool.prices = (pool.prices.0 + price, pool.prices.1 + 1.0);
        }
        pool.up.push(node.to_owned());
        pool.recorded.nodes = pool.recorded.nodes.max(pool.up.len() as u32);
        index
    }

    fn finish(mut self, start: SimTime, span: SimTime) -> Option<RecordedMarket> {
        if self.changes.iter().all(|change| change.lost.is_empty()) {
            return None;
        }
        if span > self.last {
            let after_s = (span - self.last).as_seconds();
            self.changes.push(RecordedChange { after_s, ..RecordedChange::default() });
        }
        let pools = self.pools.into_iter().map(|mut pool| {
            let (sum, count) = pool.prices;
            pool.recorded.node.price_usd_per_hour = (count > 0.0).then(|| (sum / count * 1e4).round() / 1e4);
            pool.recorded
        });
        let observed_s = span.saturating_sub(start).as_seconds();
        Some(RecordedMarket { observed_s, pools: pools.collect(), changes: self.changes })
    }
}
