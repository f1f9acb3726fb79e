//! Makes spot markets that behave like real ones: heterogeneous, lost in bulk, heavy-tailed.
//!
//! In real markets (AWS and GCP traces published with Bamboo, Parcae and the `SkyPilot` project) nodes aren't lost one by
//! one at a steady rate. Many losses take several nodes of a zone at once, most nodes live for minutes and some for many
//! hours, capacity comes back after tens of minutes in the median and an hour and more in the mean, and the day has its
//! busy hours. The model has one mechanism for each:
//!
//! - A **pool** is a number of slots for nodes of one type in one zone. A node that comes up draws its **lifetime** from a
//!   lognormal distribution, and its end is a loss event. In the busy hours lifetimes run faster by `1 + day_swing`, in the
//!   opposite hours slower by `1 − day_swing`, with a cosine between.
//! - With the probability `bulk_share` a loss event is a **bulk** loss and takes a random share of the pool's other nodes
//!   along; with the probability `zone_bulk_share` a bulk loss reaches the other pools of the zone too. Lifetimes are drawn
//!   longer by the mean number of nodes that an event takes, so that a node stays up for about `up_time_mean_hours`
//!   however large its pool is: a larger pool has larger bulks, not more losses per node.
//! - Each pool that lost nodes in one event gets them **back** after one lognormal delay (longer in the busy hours by the
//!   same factor), times a factor from 0.5 to 1.5 of each slot's own. The node that comes back has the slot's name and an
//!   empty disk.
//! - A share `no_notice_share` of the loss events comes **without notice**.
//!
//! At time zero a slot is up with the probability of the long run; the first slot of each pool always is. All times are
//! whole seconds. As any trace, a generated one ends with its last row, at or somewhat before the hours asked for.
//!
//! - A share `region_bulk_share` of the losses that reach a zone reaches the other zones of its region as well, those whose names
//!   differ in the last letters only.
//!
//! Where a real trace is at hand, [`recorded`] takes the market from it, in place of these laws or beside them.
//!
//! Each pool and each zone draws from a stream of its own, so that a pool doesn't change with the pools of other zones.

mod market;
mod notation;
mod prices;
pub mod recorded;
mod settings;
pub(in crate::trace) mod streams;

pub use prices::price_history;
pub use settings::{GeneratorError, GeneratorSettings, PoolSettings};

use super::{Trace, TraceFormat};
use crate::units::SimTime;

/// Makes the trace that `settings` describe; the same settings give the same trace.
///
/// ```
/// use autohet::trace::generator::{GeneratorSettings, PoolSettings, generate};
/// let pools = vec![PoolSettings::parse("4x8xA100-40@us-east-1a:8.2").unwrap()];
/// let settings = GeneratorSettings { seed: 7, hours: 12.0, pools, ..GeneratorSettings::default() };
/// assert_eq!(generate(&settings).unwrap(), generate(&settings).unwrap());
/// ```
///
/// # Errors
///
/// [`GeneratorError::Setting`] names the first setting that is out of its range.
pub fn generate(settings: &GeneratorSettings) -> Result<Trace, GeneratorError> {
    settings.validate()?;
    let mut events = market::Market::new(settings).run();
    let mut span = events.iter().map(|event| event.time).max().unwrap_or(SimTime::ZERO);
    if let Some(recorded) = &settings.recorded {
        // A recorded market may be quiet at its end, and that is part of it.
        span = SimTime::SECOND * (settings.hours * 3600.0).floor() as u64;
        let names = market::recorded_names(settings, recorded);
        events.extend(recorded::replay(recorded, settings.seed, span, names));
    }
    Ok(Trace::assemble(TraceFormat::Canonical, "seconds", events, span, Vec::new()))
}

#[cfg(test)]
mod tests;
