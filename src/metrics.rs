//! What a run was worth: functions of the [`Timeline`](crate::runtime::Timeline), and the goodput ledger that they fill.

mod iteration;
mod ledger;

pub use iteration::IterationBreakdown;
pub use ledger::{Activity, GpuTime, Ledger};
