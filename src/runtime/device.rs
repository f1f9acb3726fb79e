//! Training for real: the same program, executed by one process per rank.
//!
//! [`run_worker`] is one device's process: it drives its own rank of the program over a [`Backend`](super::Backend) whose
//! passes are tensor operations and whose transfers go through sockets, for one plan after the other. Workers are
//! processes because the autodiff library holds one lock per process over all graphs while it goes backward. Who starts
//! them and tells them what to do says it in [`messages`].
//!
//! Nothing outside this room names the tensor library. It is also the one place beside the command line that reads a
//! clock: what it reports are measurements.

mod all_reduce;
mod backend;
mod ballot;
mod check;
mod clock;
mod compute;
mod conditions;
mod control;
mod copies;
mod data;
mod devices;
mod emulated;
mod error;
mod holding;
mod interrupt;
mod mailbox;
mod mesh;
pub mod messages;
mod model;
mod numbers;
mod optimizer;
mod peers;
mod secret;
mod stage;
mod store;
mod tensor_parallel;
mod tied;
mod transport;
mod worker;

pub use super::MAX_RANKS;
pub use check::check_job;
pub use clock::{Clock, since_epoch};
pub use compute::{BlockState, BlockTime, Pass};
pub use conditions::{Conditions, EmulatedBlock, EmulatedRank, EmulationError};
pub use data::{Corpus, DataOrigin, DataSet, TokenFormat};
pub use devices::DeviceKind;
pub use error::DeviceError;
pub use messages::Job;
pub use optimizer::{AdamW, LearningRate};
pub use secret::{SECRET_VARIABLE, Secret};
pub use store::{
    CheckpointStore, Limited, LocalDirectory, Manifest, NewestWhole, Object, ObjectStore, Pace, RunIdentity, Scrutiny,
    ShardEntry, ShardWriter, SharedPace, StoreError, StorePace, StoredStep, VaultPlaces, Vaults, WallPace, pace_file,
};
pub use transport::throttle::Interface;
pub use transport::{LOOPBACK, SILENCE, TcpTransport, Transport, TransportError, accept, listen};
pub use worker::run_worker;
