//! A recorded market that goes on.

use super::{PoolLoss, RecordedChange, RecordedMarket, RecordedPool};
use crate::trace::generator::streams::stream;
use crate::trace::{TraceEvent, TraceEventKind};
use crate::units::SimTime;
use rand::RngExt;
use rand_pcg::Pcg64;
use std::collections::{BTreeMap, VecDeque};

/// Ages of a pool's nodes that are compared: of more nodes so many, evenly spread over their ranks.
const AGES: usize = 16;
/// Ages are told apart by their ratio, those well below this by little.
const YOUNG_S: f64 = 60.0;
/// Changes that are compared before one of them is gone on from.
const MOST_COMPARED: usize = 256;

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
        empty: (0..pool.nodes as usize).collect(),
    });
    let mut replayed = Replayed {
        market,
        places: Places::of(market),
        pools: pools.collect(),
        random: stream(seed, "recorded market"),
        now: SimTime::ZERO,
        events: Vec::new(),
    };
    replayed.run(end);
    replayed.events
}

/// Where the recorded market was after each change but the last, which nothing follows.
struct Places {
    /// Ages of the nodes of each pool.
    ages_s: Vec<Vec<Vec<f64>>>,
    /// The changes by the nodes that were up after them, of each pool.
    by_level: BTreeMap<Vec<usize>, Vec<usize>>,
}

impl Places {
    fn of(market: &RecordedMarket) -> Self {
        let mut since_s: Vec<Vec<f64>> = vec![Vec::new(); market.pools.len()];
        let (mut now_s, mut ages_s) = (0.0, Vec::new());
        let mut by_level: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
        for (place, change) in market.changes[..market.changes.len() - 1].iter().enumerate() {
            now_s += change.after_s;
            for loss in &change.lost {
                let mut rank = 0..;
                since_s[loss.pool].retain(|_| rank.next().is_some_and(|rank| !loss.ranks.contains(&rank)));
            }
            for came in &change.came {
                since_s[came.pool].extend((0..came.nodes).map(|_| now_s));
            }
            ages_s.push(since_s.iter().map(|since| ages(since.iter().map(|since_s| now_s - since_s))).collect());
            by_level.entry(since_s.iter().map(Vec::len).collect()).or_default().push(place);
        }
        Self { ages_s, by_level }
    }

    /// The changes after which the fewest nodes more or less were up than there are.
    fn near(&self, level: &[usize]) -> &[usize] {
        if let Some(same) = self.by_level.get(level) {
            return same;
        }
        let distance =
            |other: &[usize]| level.iter().zip(other).map(|(one, other)| one.abs_diff(*other)).sum::<usize>();
        let nearest = self.by_level.iter().min_by_key(|(other, _)| distance(other));
        nearest.map_or(&[], |(_, places)| places)
    }
}

/// The ages that are compared.
fn ages(all: impl ExactSizeIterator<Item = f64> + Clone) -> Vec<f64> {
    let count = all.len();
    if count <= AGES {
        return all.collect();
    }
    (0..AGES).filter_map(|step| all.clone().nth(step * count / AGES)).collect()
}

struct Pool<'a> {
    recorded: &'a RecordedPool,
    name: String,
    /// Slots that are up and since when, the oldest first.
    up: Vec<(usize, SimTime)>,
    /// Slots that are empty, the first emptied first.
    empty: VecDeque<usize>,
}

impl Pool<'_> {
    fn node(&self, slot: usize) -> String {
        let width = self.recorded.nodes.to_string().len().max(2);
        format!("{}-{:0width$}", self.name, slot + 1)
    }
}

struct Replayed<'a> {
    market: &'a RecordedMarket,
    places: Places,
    pools: Vec<Pool<'a>>,
    random: Pcg64,
    now: SimTime,
    events: Vec<TraceEvent>,
}

impl Replayed<'_> {
    fn run(&mut self, end: SimTime) {
        let changes = &self.market.changes;
        let goes_on = 1.0 - 1.0 / (changes.len() as f64).sqrt();
        let mut place = 0;
        self.happen(&RecordedChange { after_s: 0.0, ..changes[0].clone() });
        loop {
            if place + 1 == changes.len() || !self.random.random_bool(goes_on) {
                place = self.elsewhere();
            }
            place += 1;
            let change = &changes[place];
            self.now = self.now.saturating_add(SimTime::from_seconds(change.after_s));
            if self.now > end {
                return;
            }
            self.happen(change);
        }
    }

    /// Another change to go on from.
    fn elsewhere(&mut self) -> usize {
        let level: Vec<usize> = self.pools.iter().map(|pool| pool.up.len()).collect();
        let mut near = self.places.near(&level).to_vec();
        // By chance among equals, too.
        let compared = near.len().min(MOST_COMPARED);
        for chosen in 0..compared {
            let other = self.random.random_range(chosen..near.len());
            near.swap(chosen, other);
        }
        near.truncate(compared);
        let now: Vec<Vec<f64>> = self.pools.iter().map(|pool| self.ages_of(pool)).collect();
        let mut ranked: Vec<(f64, usize)> =
            near.into_iter().map(|place| (unlike(&now, &self.places.ages_s[place]), place)).collect();
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        let few = (ranked.len() as f64).sqrt().ceil() as usize;
        ranked[self.random.random_range(0..few)].1
    }

    fn ages_of(&self, pool: &Pool) -> Vec<f64> {
        ages(pool.up.iter().map(|(_, since)| (self.now.saturating_sub(*since)).as_seconds()))
    }

    fn happen(&mut self, change: &RecordedChange) {
        for loss in &change.lost {
            self.take(loss, SimTime::from_seconds(change.notice_s));
        }
        for came in &change.came {
            for _ in 0..came.nodes {
                self.arrive(came.pool);
            }
        }
    }

    fn arrive(&mut self, index: usize) {
        let pool = &mut self.pools[index];
        let Some(slot) = pool.empty.pop_front() else { return };
        pool.up.push((slot, self.now));
        let kind = TraceEventKind::Up(pool.recorded.node.clone());
        self.events.push(TraceEvent { time: self.now, node: pool.node(slot), kind });
    }

    /// Takes the nodes of the ranks that went; the last ones in place of ranks that nobody has, while there are any.
    fn take(&mut self, loss: &PoolLoss, notice: SimTime) {
        let pool = &mut self.pools[loss.pool];
        let mut gone = vec![false; pool.up.len()];
        for rank in &loss.ranks {
            let free = (0..gone.len().min(*rank as usize + 1)).rev().find(|place| !gone[*place]);
            if let Some(place) = free {
                gone[place] = true;
            }
        }
        let went: Vec<(usize, SimTime)> =
            pool.up.iter().zip(&gone).filter(|(_, gone)| **gone).map(|(node, _)| *node).collect();
        let mut gone = gone.into_iter();
        pool.up.retain(|_| !gone.next().unwrap_or_default());
        for (slot, since) in went {
            pool.empty.push_back(slot);
            let node = pool.node(slot);
            let notice = notice.min(self.now.saturating_sub(since));
            if notice > SimTime::ZERO {
                let kind = TraceEventKind::Notice { notice };
                self.events.push(TraceEvent { time: self.now - notice, node: node.clone(), kind });
            }
            self.events.push(TraceEvent { time: self.now, node, kind: TraceEventKind::Down });
        }
    }
}

/// How unlike in age two sets of nodes are: by the logarithms of their ages, in order.
fn unlike(some: &[Vec<f64>], others: &[Vec<f64>]) -> f64 {
    let of_pool = |(some, others): (&Vec<f64>, &Vec<f64>)| {
        some.iter().zip(others).map(|(one, other)| ((one + YOUNG_S) / (other + YOUNG_S)).ln().abs()).sum::<f64>()
    };
    some.iter().zip(others).map(of_pool).sum()
}
