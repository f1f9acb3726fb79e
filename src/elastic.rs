//! What happens when nodes come and go: the [`Controller`], where copies of the training state are, how a new plan gets
//! the state that it lacks, and when checkpoints are due.
//!
//! No I/O and no clock. The state is cut into [`Shard`]s from which any plan can be put together.

pub mod checkpoint;
mod composition;
mod controller;
mod coordinator;
mod events;
mod exposure;
mod fetch;
#[cfg(test)]
mod fixtures;
mod layer_bitmap;
mod layout;
mod membership;
mod node_sets;
mod peer_copies;
mod placement;
mod plan_cache;
pub mod policies;
mod reconfiguration;
mod recovery;
mod remembered;
mod stand_in;
mod storage;
#[cfg(test)]
mod tests;

pub use composition::nameless;
pub use controller::{Controller, ControllerSettings};
pub use events::{Action, CheckpointPlace, Event, LostCopies, MembershipChange, Snapshot};
pub use fetch::{copy_time, fetch_time};
pub use layer_bitmap::{AllowedSources, CHECKPOINTS_KEPT, LayerBitmap};
pub use layout::{SHARDS_PER_BLOCK, Shard, ShardIndex, StateLayout, rank_slices};
pub use peer_copies::{PeerCopies, PeerCopy};
pub use placement::NodeClass;
pub use plan_cache::PlacedPlan;
pub(crate) use plan_cache::without_names;
pub use policies::Policy;
pub use reconfiguration::{Cause, Reconfiguration, ReconfigurationSettings, ReconfigurationTime, Spared};
pub use recovery::{Origin, RecoveryOptions, RecoveryPlan, ShardCopy, ShardTransfer, Source, Tier, plan_recovery};
pub use remembered::PlanMemory;
pub use storage::{StorageBandwidths, StorageError};
