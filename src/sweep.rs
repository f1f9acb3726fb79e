//! Many runs of one question: every cluster of a grid planned, every trace of a list replayed, a row each.
//!
//! A [sweep file](SweepFile) says what is varied: any key of a [scenario](crate::scenario), GPU counts by type, settings of
//! a generated market, planners and policies. Its combinations are [`Run`]s, and each is independent of the others: they are
//! done [side by side](in_parallel), one core each, in whatever order, in [shards](Shard) or after an interruption, and the
//! rows are the same.
//!
//! Work that runs share is done once: iterations, plans, traces and cost models are kept in memory, and outcomes
//! on disk too ([`SweepCache`]), by what they depend on.

mod axes;
mod cache;
mod combine;
mod error;
mod file;
mod hash;
mod journal;
mod memory;
mod merge;
mod parallel;
mod plan;
mod replay;
mod results;
mod run;
mod runs;
mod shard;

pub use axes::{Axis, Values};
pub use cache::SweepCache;
pub use combine::SampleSettings;
pub use error::SweepError;
pub use file::{Effort, SweepFile, key_text};
pub use journal::Journal;
pub use memory::Shared;
pub use merge::merge;
pub use parallel::in_parallel;
pub use plan::{PlannedMix, plan_mix};
pub use results::SweepResults;
pub use run::Run;
pub use runs::Runs;
pub use shard::Shard;

/// What results depend on beside their inputs: the program's version and its sources.
pub const PROGRAM: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("AUTOHET_SOURCES"));
