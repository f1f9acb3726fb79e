//! What a run was worth: functions of the [`Timeline`](crate::runtime::Timeline), and the goodput ledger that they fill.

mod expense;
mod iteration;
mod ledger;
mod memory;
mod network;
mod zones;

pub use expense::Expense;
pub use iteration::{IterationBreakdown, RankShares};
pub use ledger::{Activity, GpuTime, Ledger};
pub use memory::{MemoryChange, RankMemory, memory_over_time};
pub use network::interface_use;
pub use zones::cross_zone_bytes;
