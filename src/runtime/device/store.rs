//! Checkpoints on disk: the training state, a file a shard, under a manifest that is written last.
//!
//! Many processes write shards of one step at once, each through a [`ShardWriter`]; one, the coordinator, then commits
//! what they report through a [`CheckpointStore`]. A step without its manifest doesn't exist. Both work on any
//! [`ObjectStore`]: a [`LocalDirectory`], or one that is [`Limited`] to the pace of something slower. `docs/formats.md`
//! describes the files.

mod checkpoints;
mod error;
mod limited;
mod local;
mod manifest;
mod names;
mod object_store;
mod shard_file;
mod stored_step;
mod turn;
mod vaults;
mod writer;

pub use checkpoints::{CheckpointStore, NewestWhole};
pub use error::StoreError;
pub use limited::{Limited, Pace, SharedPace, WallPace};
pub use local::LocalDirectory;
pub use manifest::{Manifest, RunIdentity, ShardEntry};
pub use object_store::{Object, ObjectStore};
pub use stored_step::{Scrutiny, StoredStep};
pub use vaults::{StorePace, VaultPlaces, Vaults, pace_file};
pub use writer::ShardWriter;

#[cfg(test)]
mod tests;
