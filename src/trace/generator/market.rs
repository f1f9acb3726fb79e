//! The market in motion: a queue of nodes that come and lifetimes that end.

use super::recorded::RecordedMarket;
use super::settings::{GeneratorSettings, PoolSettings};
use super::streams::stream;
use crate::trace::{NodeOffer, TraceEvent, TraceEventKind};
use crate::units::SimTime;
use rand::RngExt;
use rand_distr::{Distribution, Normal};
use rand_pcg::Pcg64;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::f64::consts::TAU;

/// No node is up or away for less, so that no change of a slot is hidden behind the next.
const SHORTEST_S: u64 = 60;

/// What a share of a pool gains on average when it is rounded up to whole nodes.
const ROUNDED_UP: f64 = 0.5;

/// Longer times than this are as good as never.
const LONGEST_S: f64 = 1e9;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    /// A node comes up in a slot.
    ComesUp,
    /// The lifetime of the node that came up as change number `number` of its slot is over.
    IsOver { number: u32 },
}

/// Where a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SlotId {
    pool: usize,
    slot: usize,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    up_since_s: Option<u64>,
    /// Changes so far; tells a lifetime that still counts from one that a bulk loss has ended.
    changes: u32,
}

struct Pool<'a> {
    settings: &'a PoolSettings,
    name: String,
    /// The median of the lifetimes that end by themselves.
    lifetime_median_s: f64,
    random: Pcg64,
    slots: Vec<Slot>,
}

impl Pool<'_> {
    /// The slots that are up, but for `without`.
    fn up(&self, without: Option<usize>) -> Vec<usize> {
        let is_up = |slot: &usize| self.slots[*slot].up_since_s.is_some() && Some(*slot) != without;
        (0..self.slots.len()).filter(is_up).collect()
    }

    /// A lognormal time whose logarithm has the mean `ln(median)`.
    fn lognormal_s(&mut self, median_s: f64, sigma: f64) -> f64 {
        // A standard normal scaled here, because a distribution with sigma 0 isn't accepted everywhere.
        let normal = Normal::new(0.0, 1.0).map_or(0.0, |normal| normal.sample(&mut self.random));
        (median_s * (sigma * normal).exp()).min(LONGEST_S)
    }

    fn node_name(&self, slot: usize) -> String {
        let width = self.slots.len().to_string().len().max(2);
        format!("{}-{:0width$}", self.name, slot + 1)
    }
}

/// The busy and the quiet hours of a day.
#[derive(Clone, Copy)]
struct Day {
    /// From time zero to the first busiest hour.
    busiest_s: f64,
}

impl Day {
    const LENGTH_S: f64 = 86_400.0;

    /// How fast lifetimes run at `time_s`; 1 on average over a day.
    fn pace(self, time_s: f64, swing: f64) -> f64 {
        1.0 + swing * (TAU * (time_s - self.busiest_s) / Self::LENGTH_S).cos()
    }

    /// The integral of the pace from zero to `time_s`.
    fn passed(self, time_s: f64, swing: f64) -> f64 {
        let angle = |time_s: f64| (TAU * (time_s - self.busiest_s) / Self::LENGTH_S).sin();
        time_s + swing * Self::LENGTH_S / TAU * (angle(time_s) - angle(0.0))
    }

    /// How long a lifetime that starts at `start_s` lasts on the clock: the inverse of `passed`, by bisection.
    fn clock_time_s(self, start_s: f64, lifetime_s: f64, swing: f64) -> f64 {
        let target = self.passed(start_s, swing) + lifetime_s;
        let (mut low, mut high) = (start_s, start_s + lifetime_s / (1.0 - swing));
        for _ in 0..64 {
            let middle = f64::midpoint(low, high);
            if self.passed(middle, swing) < target {
                low = middle;
            } else {
                high = middle;
            }
        }
        high - start_s
    }
}

pub(super) struct Market<'a> {
    pools: Vec<Pool<'a>>,
    zones: BTreeMap<&'a str, Pcg64>,
    day: Day,
    end_s: u64,
    queue: BinaryHeap<Reverse<(u64, u64, SlotId, Change)>>,
    queued: u64,
    events: Vec<TraceEvent>,
}

impl<'a> Market<'a> {
    /// The market at time zero. The settings have been validated.
    pub fn new(settings: &'a GeneratorSettings) -> Self {
        let mut pools: Vec<Pool> = Vec::with_capacity(settings.pools.len());
        let mut zones = BTreeMap::new();
        for pool in &settings.pools {
            let plain = plain_name(pool);
            let alike = settings.pools[..pools.len()].iter().filter(|other| plain_name(other) == plain).count();
            let name = if alike == 0 { plain } else { format!("{plain}.{}", alike + 1) };
            let random = stream(settings.seed, &format!("pool {name}"));
            let lifetime_median_s = lifetime_median_s(settings, pools.len());
            let slots = vec![Slot::default(); pool.nodes as usize];
            pools.push(Pool { settings: pool, name, lifetime_median_s, random, slots });
            if let Some(zone) = pool.zone.as_deref() {
                zones.entry(zone).or_insert_with(|| stream(settings.seed, &format!("zone {zone}")));
            }
        }
        let busiest_s = (settings.busiest_hour_utc - settings.start_hour_utc) * 3600.0;
        let end_s = (settings.hours * 3600.0).floor() as u64;
        let (queue, events) = (BinaryHeap::new(), Vec::new());
        Self { pools, zones, day: Day { busiest_s }, end_s, queue, queued: 0, events }
    }

    /// Everything that happens until the end, not yet in order of time.
    pub fn run(mut self) -> Vec<TraceEvent> {
        self.start();
        // Losses after the end count for their notices before it.
        let longest_notice_s = self.pools.iter().map(|pool| u64::from(pool.settings.notice_s)).max().unwrap_or(0);
        let last_s = self.end_s + longest_notice_s;
        while let Some(Reverse((now_s, _, id, change))) = self.queue.pop() {
            if now_s > last_s {
                break;
            }
            match change {
                Change::ComesUp => self.come_up(now_s, id),
                Change::IsOver { number } if self.pools[id.pool].slots[id.slot].changes == number => {
                    self.lose(now_s, id);
                }
                Change::IsOver { .. } => {}
            }
        }
        let end = SimTime::SECOND * self.end_s;
        self.events.retain(|event| event.time <= end);
        self.events
    }

    fn start(&mut self) {
        for pool in 0..self.pools.len() {
            for slot in 0..self.pools[pool].slots.len() {
                let settings = self.pools[pool].settings;
                let is_up = self.pools[pool].random.random_bool(settings.availability()) || slot == 0;
                let after_s = if is_up { 0 } else { self.absence_s(0, pool) as u64 };
                self.enqueue(after_s, SlotId { pool, slot }, Change::ComesUp);
            }
        }
    }

    fn come_up(&mut self, now_s: u64, id: SlotId) {
        let pool = &mut self.pools[id.pool];
        let settings = pool.settings;
        let factor = 1.0 + settings.price_swing * pool.random.random_range(-1.0..=1.0);
        let offer = NodeOffer {
            gpu_type: Some(settings.gpu_type.clone()),
            gpu_count: Some(settings.gpu_count),
            zone: settings.zone.clone(),
            price_usd_per_hour: settings.price_usd_per_hour.map(|mean| (mean * factor * 100.0).round() / 100.0),
        };
        let lifetime_s = pool.lognormal_s(pool.lifetime_median_s, settings.up_time_sigma);
        let clock_s = self.day.clock_time_s(now_s as f64, lifetime_s, settings.day_swing);
        let slot = &mut pool.slots[id.slot];
        slot.up_since_s = Some(now_s);
        slot.changes += 1;
        let change = Change::IsOver { number: slot.changes };
        let node = pool.node_name(id.slot);
        self.enqueue(now_s + (clock_s.round() as u64).max(SHORTEST_S), id, change);
        self.push(now_s, node, TraceEventKind::Up(offer));
    }

    /// The lifetime of `first` is over: a loss event, perhaps of many.
    fn lose(&mut self, now_s: u64, first: SlotId) {
        let pool = &mut self.pools[first.pool];
        let settings = pool.settings;
        let has_notice = !pool.random.random_bool(settings.no_notice_share);
        let is_bulk = pool.random.random_bool(settings.bulk_share);
        let is_zone_wide = is_bulk && pool.random.random_bool(settings.zone_bulk_share);
        // Nothing is drawn where it isn't asked for, so that markets without it are what they were.
        let share = settings.region_bulk_share;
        let is_region_wide = is_zone_wide && share > 0.0 && pool.random.random_bool(share);
        let mut slots = vec![first.slot];
        if is_bulk {
            let others = pool.up(Some(first.slot));
            slots.extend(take(others, settings.bulk_take, &mut pool.random));
            slots.sort_unstable();
        }
        let mut losses = vec![(first.pool, slots)];
        if let Some(zone) = settings.zone.as_deref().filter(|_| is_zone_wide) {
            for (index, pool) in self.pools.iter().enumerate().filter(|(index, _)| *index != first.pool) {
                let Some(other) = pool.settings.zone.as_deref() else { continue };
                let is_reached = other == zone || (is_region_wide && region(other) == region(zone));
                if let Some(random) = self.zones.get_mut(other).filter(|_| is_reached) {
                    losses.push((index, take(pool.up(None), pool.settings.bulk_take, random)));
                }
            }
        }
        for (pool, slots) in losses {
            self.take_down(now_s, pool, &slots, has_notice);
        }
    }

    /// Ends the lives of `slots`, with their notice, and orders their return.
    fn take_down(&mut self, now_s: u64, pool: usize, slots: &[usize], has_notice: bool) {
        if slots.is_empty() {
            return;
        }
        let notice_s = if has_notice { u64::from(self.pools[pool].settings.notice_s) } else { 0 };
        let absence_s = self.absence_s(now_s, pool);
        for slot in slots.iter().copied() {
            let node = self.pools[pool].node_name(slot);
            let up_since_s = self.pools[pool].slots[slot].up_since_s.take().unwrap_or(now_s);
            self.pools[pool].slots[slot].changes += 1;
            let notice_s = notice_s.min(now_s - up_since_s);
            if notice_s > 0 {
                let notice = SimTime::SECOND * notice_s;
                self.push(now_s - notice_s, node.clone(), TraceEventKind::Notice { notice });
            }
            self.push(now_s, node, TraceEventKind::Down);
            let own_factor: f64 = self.pools[pool].random.random_range(0.5..1.5);
            let back_s = now_s + ((absence_s * own_factor).round() as u64).max(SHORTEST_S);
            self.enqueue(back_s, SlotId { pool, slot }, Change::ComesUp);
        }
    }

    /// How long capacity that is lost now stays away.
    fn absence_s(&mut self, now_s: u64, pool: usize) -> f64 {
        let pool = &mut self.pools[pool];
        let settings = pool.settings;
        let median_s = settings.return_median_minutes * 60.0;
        let absence_s = pool.lognormal_s(median_s, settings.return_sigma);
        absence_s * self.day.pace(now_s as f64, settings.day_swing)
    }

    fn enqueue(&mut self, time_s: u64, id: SlotId, change: Change) {
        self.queue.push(Reverse((time_s, self.queued, id, change)));
        self.queued += 1;
    }

    fn push(&mut self, time_s: u64, node: String, kind: TraceEventKind) {
        self.events.push(TraceEvent { time: SimTime::SECOND * time_s, node, kind });
    }
}

/// The median of the lifetimes in pool `index` that end by themselves: long enough that, with all that each of their ends
/// takes along on average, nodes stay up for the mean that was asked for.
fn lifetime_median_s(settings: &GeneratorSettings, index: usize) -> f64 {
    let pool = &settings.pools[index];
    let others_up = pool.availability() * f64::from(pool.nodes - 1);
    let mut taken = (pool.bulk_take * others_up + ROUNDED_UP * others_up.min(1.0)).min(others_up);
    for (other_index, other) in settings.pools.iter().enumerate() {
        let (Some(zone), Some(other_zone)) = (&pool.zone, &other.zone) else { continue };
        let reaches = match other_zone {
            _ if other_index == index => 0.0,
            other_zone if other_zone == zone => pool.zone_bulk_share,
            other_zone if region(other_zone) == region(zone) => pool.zone_bulk_share * pool.region_bulk_share,
            _ => 0.0,
        };
        taken += reaches * other.bulk_take * other.availability() * f64::from(other.nodes);
    }
    let nodes_per_event = 1.0 + pool.bulk_share * taken;
    let mean_s = pool.up_time_mean_hours * 3600.0 * nodes_per_event;
    mean_s / (pool.up_time_sigma.powi(2) / 2.0).exp()
}

/// A random subset of `slots`, at least one of them if there is one, in order. Its share has the mean `mean_share`: an
/// even number between 0 and 1 to the power of `1 / mean_share − 1`.
fn take(mut slots: Vec<usize>, mean_share: f64, random: &mut Pcg64) -> Vec<usize> {
    if slots.is_empty() {
        return slots;
    }
    let share = random.random::<f64>().powf(1.0 / mean_share - 1.0);
    let count = ((share * slots.len() as f64).ceil() as usize).clamp(1, slots.len());
    for chosen in 0..count {
        let other = random.random_range(chosen..slots.len());
        slots.swap(chosen, other);
    }
    slots.truncate(count);
    slots.sort_unstable();
    slots
}

/// The names of a pool's nodes before their numbers: the GPU type and the last part of the zone, such as `a100-40-1a`.
fn plain_name(pool: &PoolSettings) -> String {
    name_of(&pool.gpu_type, pool.zone.as_deref())
}

/// The region of a zone: `us-east-1` of `us-east-1a`, `us-central1` of `us-central1-a`.
fn region(zone: &str) -> &str {
    zone.trim_end_matches(|c: char| c.is_ascii_lowercase()).trim_end_matches('-')
}

/// Names for the nodes of recorded pools, unlike those of all other pools.
pub(super) fn recorded_names(settings: &GeneratorSettings, recorded: &RecordedMarket) -> Vec<String> {
    let mut taken: Vec<String> = Market::new(settings).pools.into_iter().map(|pool| pool.name).collect();
    let described = taken.len();
    for pool in &recorded.pools {
        let plain = name_of(pool.node.gpu_type.as_deref().unwrap_or("node"), pool.node.zone.as_deref());
        let numbered = (2..).map(|number| format!("{plain}.{number}"));
        let name = std::iter::once(plain.clone()).chain(numbered).find(|name| !taken.contains(name));
        taken.push(name.unwrap_or(plain));
    }
    taken.split_off(described)
}

fn name_of(gpu_type: &str, zone: Option<&str>) -> String {
    let zone = zone.and_then(|zone| zone.rsplit('-').find(|part| !part.is_empty()));
    let joined = std::iter::once(gpu_type).chain(zone).collect::<Vec<_>>().join("-");
    joined.chars().map(|c| if c.is_alphanumeric() || c == '.' { c.to_ascii_lowercase() } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use approx::assert_relative_eq;

    #[test]
    fn a_lifetime_runs_faster_in_busy_hours() {
        // From the busiest hour a quarter day on, the pace falls from 1.5 to 1: 21600 s + 0.5 × 86400 / 2π pass.
        let day = Day { busiest_s: 3600.0 };
        let passed = day.passed(3600.0 + 21_600.0, 0.5) - day.passed(3600.0, 0.5);
        assert_relative_eq!(passed, 21_600.0 + 0.5 * 86_400.0 / TAU, max_relative = 1e-12);
        assert_relative_eq!(day.clock_time_s(3600.0, passed, 0.5), 21_600.0, max_relative = 1e-9);
        assert_relative_eq!(day.passed(86_400.0, 0.5), 86_400.0, max_relative = 1e-12);
        assert_relative_eq!(day.pace(3600.0, 0.5), 1.5);
        assert_relative_eq!(day.pace(3600.0 + 43_200.0, 0.5), 0.5);
    }

    #[test]
    fn a_bulk_takes_its_mean_share() {
        let mut random = stream(1, "test");
        for mean_share in [0.25, 0.5, 1.0] {
            let taken: usize = (0..4000).map(|_| take((0..100).collect(), mean_share, &mut random).len()).sum();
            // Rounding up adds half a node of a hundred.
            assert_relative_eq!(taken as f64 / 400_000.0, mean_share, epsilon = 0.02);
        }
        assert_eq!(take(Vec::new(), 0.5, &mut random), Vec::<usize>::new());
        assert_eq!(take(vec![7], 0.01, &mut random), [7]);
    }

    #[test]
    fn names_tell_type_and_zone() {
        let name = |text: &str| plain_name(&PoolSettings::parse(text).unwrap());
        assert_eq!(name("5x8xA100-40@us-east-1a:8.2"), "a100-40-1a");
        assert_eq!(name("1x1xRTX/6000"), "rtx-6000");
    }
}
