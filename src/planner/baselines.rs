//! Published planners to compare with, each at its best over its own grid of plans.
//!
//! All lay out grids of equal replicas, `P` stages by `D` replicas. Every point of the grid that fits is priced for the
//! real devices, the best few are executed, and the best of those is returned. So that none loses by a GPU that is of
//! no use to it, each may also leave out whole GPU types, as its user would.

mod grid;
mod megatron;
mod varuna;
mod whale;

pub use megatron::Megatron;
pub use varuna::Varuna;
pub use whale::Whale;

#[cfg(test)]
mod tests;
