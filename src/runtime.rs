//! How a [`Program`](crate::program::Program) is executed: one interpreter, [`drive`], over any [`Backend`].
//!
//! The simulator hosts all ranks in one call and makes time; a real process hosts its own rank and measures it. Neither
//! the driver nor the timeline knows which.

mod backend;
#[cfg(feature = "burn-cpu")]
pub mod device;
mod drive;
pub mod sim;
mod timeline;

pub use backend::{Backend, Completion};
pub use drive::{DriveError, Waiting, drive};
pub use timeline::{RankTime, Span, Timeline};

/// Most processes that one machine is asked to run.
pub const MAX_RANKS: usize = 64;
