//! What a replay cost: GPUs by type, zone and price over time, and beside them what checkpoints keep in the object store and what
//! crosses between zones.
//!
//! What nodes cost depends on the policy only in which nodes it has, so it is worked out from the trace after the replay. Prices
//! are whole millionths of a dollar an hour and time is whole nanoseconds, so sums are exact. Policies choose by throughput and
//! look at no price.

use super::{PolicyOutcome, Replay, ReplayError};
use crate::cluster::{Cluster, Node};
use crate::cost::CostModel;
use crate::elastic::StateLayout;
use crate::elastic::policies::Capacity;
use crate::metrics::{Expense, GpuTime, cross_zone_bytes};
use crate::model::Precision;
use crate::program::{LowerOptions, Program};
use crate::runtime::sim::PricedProgram;
use crate::trace::prices::{NoQuote, Quotes};
use crate::trace::{NodeEvent, NodeEventKind};
use crate::units::SimTime;
use std::collections::{BTreeMap, BTreeSet};

/// Where a node's price is from if no history has it: the trace, or the catalog.
pub const OF_TRACE: &str = "trace";
/// Hours of a month, as clouds count them.
const MONTH_H: f64 = 730.0;
const GIGABYTE: f64 = 1e9;

/// What else than GPUs costs how much; nothing by default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tariff {
    /// A gigabyte kept in the object store for a month of 730 h.
    pub storage_usd_per_gb_month: f64,
    /// Whole checkpoints that are kept there.
    pub checkpoints_kept: u32,
    /// A gigabyte read from the object store.
    pub egress_usd_per_gb: f64,
    /// A gigabyte that training sends from one zone to another.
    pub cross_zone_usd_per_gb: f64,
}

impl Default for Tariff {
    fn default() -> Self {
        Self { storage_usd_per_gb_month: 0.0, checkpoints_kept: 1, egress_usd_per_gb: 0.0, cross_zone_usd_per_gb: 0.0 }
    }
}

/// What the nodes of one GPU type in one zone cost, while they had one price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spending {
    /// GPU type.
    pub gpu_type: String,
    /// Zone.
    pub zone: String,
    /// Whose price it is: the instance type of a history's, or [`OF_TRACE`].
    pub source: String,
    /// From when on.
    pub from: SimTime,
    /// Until when.
    pub to: SimTime,
    /// GPU time paid.
    pub time: GpuTime,
    /// Price of it.
    pub expense: Expense,
    /// What as much time would have cost on demand, by the catalog.
    pub on_demand: Expense,
}

/// A quantity, and what it cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Metered {
    /// How much: gigabytes, or gigabytes kept for a month.
    pub quantity: f64,
    /// The price.
    pub usd: f64,
}

/// What was paid for beside GPUs; nothing of what has no price.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OtherCosts {
    /// Checkpoints in the object store, by gigabyte and month.
    pub storage: Metered,
    /// What was read from it, by gigabyte.
    pub egress: Metered,
    /// What training sent between zones, by gigabyte.
    pub cross_zone: Metered,
}

impl OtherCosts {
    /// All of it.
    pub fn usd(&self) -> f64 {
        self.storage.usd + self.egress.usd + self.cross_zone.usd
    }
}

/// Why a replay can't be priced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccountError {
    /// The history has no price for any node.
    #[error(
        "the history of prices has none for any node of the trace, as for {gpus} × {gpu_type} in the zone `{zone}`; it has {kinds}\n\
         hint: name the zone of a trace with `--trace FILE:@ZONE`, and one of several instance types with `--price-instance`"
    )]
    NothingPriced {
        /// GPUs of a node.
        gpus: u32,
        /// Their type.
        gpu_type: String,
        /// Its zone.
        zone: String,
        /// What the history has.
        kinds: String,
    },
    /// A plan can't be simulated.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// By GPU type, zone, source, begin and end of a price.
type Key<'a> = (&'a str, &'a str, &'a str, SimTime, SimTime);

/// Node time without a price in the history, by what it was of and why.
type Unpriced<'a> = BTreeMap<(&'a str, u32, &'a str, &'static str), SimTime>;

#[derive(Default)]
struct Bill<'a> {
    rows: BTreeMap<Key<'a>, (GpuTime, Expense, Expense)>,
    unpriced: Unpriced<'a>,
}

impl<'a> Bill<'a> {
    /// Pays a node from `since` to `until`.
    fn pay(&mut self, node: &'a Node, (since, until): (SimTime, SimTime), quotes: Option<&'a Quotes>, span: SimTime) {
        let of_trace = Expense::micro_usd(node.price_usd_per_hour);
        let quote = match quotes.map(|quotes| quotes.of(node)) {
            Some(Ok(quote)) => quote,
            other => {
                self.add(node, (OF_TRACE, SimTime::ZERO, span), until - since, of_trace);
                if let Some(Err(reason)) = other {
                    self.note_unpriced(node, why(reason), until - since);
                }
                return;
            }
        };
        let mut now = since;
        let mut next = quote.changes.partition_point(|(time, _)| *time <= since);
        while now < until {
            let to = quote.changes.get(next).map_or(span, |(time, _)| *time);
            let end = to.min(until);
            let current = next.checked_sub(1).map(|place| quote.changes[place]);
            match current {
                Some((from, Some(price))) => {
                    let price = quote.scaled(price, node.gpu_count);
                    self.add(node, (quote.instance, from, to.min(span)), end - now, price);
                }
                without => {
                    let why = if without.is_some() { "while it wasn't offered" } else { "before its first price" };
                    self.add(node, (OF_TRACE, SimTime::ZERO, span), end - now, of_trace);
                    self.note_unpriced(node, why, end - now);
                }
            }
            now = end;
            next += 1;
        }
    }

    fn add(&mut self, node: &'a Node, (source, from, to): (&'a str, SimTime, SimTime), time: SimTime, price: u64) {
        let row = self.rows.entry((&node.gpu.name, &node.zone, source, from, to)).or_default();
        let on_demand = Expense::micro_usd(node.gpu.on_demand_usd_per_hour * f64::from(node.gpu_count));
        row.0 += GpuTime::of(node.gpu_count, time);
        row.1 += Expense::of(price, time);
        row.2 += Expense::of(on_demand, time);
    }

    fn note_unpriced(&mut self, node: &'a Node, why: &'static str, time: SimTime) {
        let sum = self.unpriced.entry((&node.gpu.name, node.gpu_count, &node.zone, why)).or_default();
        *sum = sum.saturating_add(time);
    }

    /// All nodes of a trace, each from its arrival to its loss.
    fn of(events: &'a [NodeEvent], span: SimTime, quotes: Option<&'a Quotes>) -> Self {
        let mut bill = Self::default();
        let mut up: BTreeMap<&str, (SimTime, &Node)> = BTreeMap::new();
        for event in events.iter().take_while(|event| event.time <= span) {
            match &event.kind {
                NodeEventKind::Up(node) => drop(up.insert(&node.name, (event.time, node))),
                NodeEventKind::Down(name) => {
                    if let Some((since, node)) = up.remove(name.as_str()) {
                        bill.pay(node, (since, event.time), quotes, span);
                    }
                }
                NodeEventKind::Notice { .. } | NodeEventKind::Cancelled(_) => {}
            }
        }
        for (since, node) in up.into_values() {
            bill.pay(node, (since, span), quotes, span);
        }
        bill
    }

    fn rows(&self) -> Vec<Spending> {
        let row = |(key, paid): (&Key, &(GpuTime, Expense, Expense))| {
            let (&(gpu_type, zone, source, from, to), &(time, expense, on_demand)) = (key, paid);
            let [gpu_type, zone, source] = [gpu_type, zone, source].map(str::to_owned);
            Spending { gpu_type, zone, source, from, to, time, expense, on_demand }
        };
        self.rows.iter().map(row).collect()
    }

    /// Notes on what the history didn't price; an error where that is everything.
    fn notes(&self, quotes: &Quotes) -> Result<Vec<String>, AccountError> {
        let is_priced = self.rows.keys().any(|(_, _, source, _, _)| *source != OF_TRACE);
        if let (false, Some((gpu_type, gpus, zone, _))) = (is_priced, self.unpriced.keys().next().copied()) {
            let [gpu_type, zone] = [gpu_type, zone].map(str::to_owned);
            return Err(AccountError::NothingPriced { gpus, gpu_type, zone, kinds: quotes.kinds() });
        }
        let note = |((gpu_type, gpus, zone, why), time): (&(&str, u32, &str, &str), &SimTime)| {
            format!(
                "{time} of nodes of {gpus} × {gpu_type} in the zone `{zone}` {why}: they have the trace's price, or the catalog's"
            )
        };
        Ok(self.unpriced.iter().filter(|(_, time)| **time > SimTime::ZERO).map(note).collect())
    }
}

fn why(reason: NoQuote) -> &'static str {
    match reason {
        NoQuote::GpuType => "aren't in the history",
        NoQuote::Zone => "aren't in the history for this zone",
        NoQuote::Several => "fit several instance types (`--price-instance` names one)",
    }
}

/// What the nodes cost that a policy of such a capacity has, by the trace's prices.
pub(super) fn charge(outcome: &mut PolicyOutcome, events: &[NodeEvent], span: SimTime) {
    let rows = Bill::of(outcome.rented.as_deref().unwrap_or(events), span, None).rows();
    outcome.bill(rows);
}

impl PolicyOutcome {
    fn bill(&mut self, rows: Vec<Spending>) {
        let paid = rows.iter().fold(GpuTime::default(), |sum, row| sum + row.time);
        assert_eq!(paid, self.paid, "the rows of costs must add up to the GPU time paid for");
        self.usd = rows.iter().map(|row| row.expense).sum::<Expense>().as_usd();
        self.spending = rows;
    }
}

impl Replay {
    /// Prices the replay of `events` by a history, and by what else costs. What the history doesn't cover has the trace's
    /// prices, and so has what is rented on demand; the notes say how much of what that is.
    pub fn settle(
        &mut self,
        events: &[NodeEvent],
        quotes: Option<&Quotes>,
        tariff: &Tariff,
        (cost, precision): (&CostModel, Precision),
    ) -> Result<Vec<String>, AccountError> {
        let mut notes = Vec::new();
        if let Some(quotes) = quotes {
            let bill = Bill::of(events, self.span, Some(quotes));
            notes = bill.notes(quotes)?;
            for outcome in self.policies.iter_mut().filter(|outcome| outcome.capacity == Capacity::Spot) {
                outcome.bill(bill.rows());
            }
        }
        let checkpoint_bytes = StateLayout::new(cost, precision).total_bytes();
        for outcome in &mut self.policies {
            outcome.other.storage = storage(&outcome.stored, tariff, checkpoint_bytes, self.span);
            let read: u64 = outcome.recoveries.iter().map(|recovery| recovery.fetched.object_store).sum();
            outcome.other.egress = metered(read as f64 / GIGABYTE, tariff.egress_usd_per_gb);
            if tariff.cross_zone_usd_per_gb > 0.0 {
                let Some(bytes) = between_zones(outcome, events, cost)? else {
                    notes.push(format!(
                        "{} isn't charged for traffic between zones: its plans are on no nodes of the trace",
                        outcome.policy
                    ));
                    continue;
                };
                outcome.other.cross_zone = metered(bytes / GIGABYTE, tariff.cross_zone_usd_per_gb);
            }
        }
        Ok(notes)
    }
}

/// A quantity at a price; nothing where there is no price.
fn metered(quantity: f64, usd: f64) -> Metered {
    if usd > 0.0 { Metered { quantity, usd: quantity * usd } } else { Metered::default() }
}

/// Each checkpoint is kept from when it is whole until as many newer ones are.
fn storage(stored: &[SimTime], tariff: &Tariff, bytes: u64, span: SimTime) -> Metered {
    let kept = tariff.checkpoints_kept.max(1) as usize;
    let ends = stored.iter().skip(kept).copied().chain(std::iter::repeat(span));
    let kept_ns: u128 = stored.iter().zip(ends).map(|(from, to)| u128::from(to.saturating_sub(*from).0)).sum();
    let months = (kept_ns as f64 / 3600e9) / MONTH_H;
    metered(bytes as f64 / GIGABYTE * months, tariff.storage_usd_per_gb_month)
}

/// Bytes that all iterations, also those rolled back, sent between zones; nothing for plans on other nodes than the trace's, as
/// the bound's are.
fn between_zones(outcome: &PolicyOutcome, events: &[NodeEvent], cost: &CostModel) -> Result<Option<f64>, ReplayError> {
    let mut iterations = vec![0_u64; outcome.plans.len()];
    for segment in &outcome.segments {
        if let Some(plan) = segment.plan {
            iterations[plan] += segment.iterations;
        }
    }
    let events = outcome.rented.as_deref().unwrap_or(events);
    let mut bytes = 0.0;
    for (number, planned) in outcome.plans.iter().enumerate().filter(|(number, _)| iterations[*number] > 0) {
        let first = outcome.segments.iter().find(|segment| segment.plan == Some(number)).map(|segment| segment.start);
        let cluster =
            nodes_of(planned.plan.stages().map(|(_, stage)| stage.node.as_str()), events, first.unwrap_or_default());
        if planned.plan.stages().any(|(_, stage)| cluster.nodes.iter().all(|node| node.name != stage.node)) {
            return Ok(None);
        }
        let zones: BTreeSet<&str> = cluster.nodes.iter().map(|node| node.zone.as_str()).collect();
        if zones.len() < 2 {
            continue;
        }
        let program = Program::lower(&planned.plan, LowerOptions::of(cost));
        let priced = PricedProgram::new(&planned.plan, &program, &cluster, cost)?;
        let zone = |rank: crate::ids::Rank| {
            let place = &program.ranks()[rank.index()];
            let node = &planned.plan.replicas[place.replica.index()].stages[place.stage.index()].node;
            let zone = cluster.nodes.iter().find(|other| other.name == *node).map(|node| node.zone.as_str());
            zones.iter().position(|other| Some(*other) == zone).unwrap_or_default()
        };
        bytes += cross_zone_bytes(&program, &priced, zone) * iterations[number] as f64;
    }
    Ok(Some(bytes))
}

/// The nodes of these names as they were at a time.
fn nodes_of<'a>(names: impl Iterator<Item = &'a str>, events: &[NodeEvent], time: SimTime) -> Cluster {
    let names: BTreeSet<&str> = names.collect();
    let mut nodes: BTreeMap<&str, &Node> = BTreeMap::new();
    for event in events.iter().take_while(|event| event.time <= time) {
        if let NodeEventKind::Up(node) = &event.kind {
            nodes.insert(&node.name, node);
        }
    }
    Cluster { nodes: nodes.into_values().filter(|node| names.contains(node.name.as_str())).cloned().collect() }
}

#[cfg(test)]
mod tests;
