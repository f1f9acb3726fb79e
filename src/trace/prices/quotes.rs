//! A history of prices on the clock of a trace.

use super::PriceHistory;
use crate::cluster::Node;
use crate::trace::calendar::Zero;
use crate::trace::error::TraceError;
use crate::units::{SimTime, format_seconds};
use std::collections::BTreeMap;

/// Prices by GPU type, zone and time since the zero of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Quotes {
    series: Vec<Quote>,
    /// What there is to say of the times that the history doesn't cover.
    pub notes: Vec<String>,
}

/// What nodes of one kind cost over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Quote {
    /// The instance type whose price it is.
    pub instance: &'static str,
    gpu_type: String,
    gpu_count: u32,
    zone: String,
    /// From when on which price of the instance holds, millionths of a dollar an hour; before the first, and where there is
    /// none, the history doesn't tell.
    pub changes: Vec<(SimTime, Option<u64>)>,
}

/// Why a history has no price for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoQuote {
    /// It has no instances with such GPUs.
    GpuType,
    /// It has none of them in the node's zone.
    Zone,
    /// It has several that fit.
    Several,
}

impl PriceHistory {
    /// The prices on the clock of a trace of this length whose zero stands for `zero`.
    ///
    /// # Errors
    ///
    /// [`TraceError::OtherTimes`] where the history has no row before the trace ends, or none after it begins.
    pub fn on_clock(&self, zero: Option<Zero>, span: SimTime) -> Result<Quotes, TraceError> {
        let (first, last) = self.covers();
        let fault =
            |problem: String| TraceError::OtherTimes { problem, first: first.to_string(), last: last.to_string() };
        let zero = match zero {
            Some(zero) if zero.has_zone() => zero,
            Some(zero) => return Err(fault(format!("the trace begins at {zero}, in no zone"))),
            None => return Err(fault("the trace has no calendar times".to_owned())),
        };
        let after_first_s = first.since(zero);
        if after_first_s > span {
            return Err(fault(format!("the trace begins at {zero} and ends after {span}, before the first price")));
        }
        if last < zero {
            return Err(fault(format!("the trace begins at {zero}, after the last price")));
        }
        let mut notes = vec![format!("zero of the trace stands for {zero}")];
        let covered = last.since(zero);
        if covered < span {
            let held = format_seconds((span - covered).as_seconds());
            notes.push(format!(
                "its last row is {covered} after zero: the last prices are taken to hold for the {held} that are left"
            ));
        }
        let series = self.series.iter().map(|series| {
            let mut changes: Vec<(SimTime, Option<u64>)> = Vec::new();
            for &(time, price) in &series.changes {
                let at = Zero::new(time, true).since(zero);
                // Of the changes before zero the last one holds then.
                if changes.last().is_some_and(|(earlier, _)| *earlier == at && at == SimTime::ZERO) {
                    changes.pop();
                }
                changes.push((at, price));
            }
            Quote {
                instance: series.instance.name,
                gpu_type: series.instance.gpu.name.clone(),
                gpu_count: series.instance.gpu_count,
                zone: series.zone.clone(),
                changes,
            }
        });
        Ok(Quotes { series: series.collect(), notes })
    }
}

impl Quotes {
    /// The price of a node: that of the instance type with as many of its GPUs in its zone, or else of the only one with such
    /// GPUs, by the GPU.
    pub fn of(&self, node: &Node) -> Result<&Quote, NoQuote> {
        let of_type: Vec<&Quote> = self.series.iter().filter(|quote| quote.gpu_type == node.gpu.name).collect();
        if of_type.is_empty() {
            return Err(NoQuote::GpuType);
        }
        let here: Vec<&Quote> = of_type.into_iter().filter(|quote| quote.zone == node.zone).collect();
        if here.is_empty() {
            return Err(NoQuote::Zone);
        }
        let alike: Vec<&Quote> = here.iter().copied().filter(|quote| quote.gpu_count == node.gpu_count).collect();
        match (&alike[..], &here[..]) {
            ([only], _) | ([], [only]) => Ok(only),
            _ => Err(NoQuote::Several),
        }
    }

    /// All types and zones that it has, for messages.
    pub fn kinds(&self) -> String {
        let mut zones: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for quote in &self.series {
            zones.entry(quote.instance).or_default().push(&quote.zone);
        }
        zones
            .iter()
            .map(|(instance, zones)| format!("{instance} in {}", zones.join(", ")))
            .collect::<Vec<_>>()
            .join("; ")
    }
}

impl Quote {
    /// What a node of so many GPUs costs where the instance costs `micro_usd_per_hour`, rounded to a millionth of a dollar.
    pub fn scaled(&self, micro_usd_per_hour: u64, gpu_count: u32) -> u64 {
        let product = u128::from(micro_usd_per_hour) * u128::from(gpu_count);
        let count = u128::from(self.gpu_count);
        u64::try_from((product + count / 2) / count).unwrap_or(u64::MAX)
    }
}
