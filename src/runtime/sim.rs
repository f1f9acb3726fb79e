//! The simulated world: a discrete-event simulator behind the [`Backend`](super::Backend) trait.

mod backend;
mod collectives;
pub mod network;
mod pricing;
pub mod queue;
mod reduction;
mod simulate;
#[cfg(test)]
mod tests;
mod topology;
mod variance;

pub use backend::{SimBackend, SimError};
pub use collectives::{Communication, group_shape};
pub use pricing::{BackwardTime, ChunkPrice, GroupPrice, PassTime, PricedProgram, RankPrice};
pub use simulate::{SimulatedIteration, Simulator, simulate};
pub use variance::{Jitter, Repetitions, Stragglers, repeat};
