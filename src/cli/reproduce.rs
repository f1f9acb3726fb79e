//! `autohet-sim reproduce`: comparisons with what others have published.

mod paper;
mod sailor;

pub(super) use paper::run_paper;
pub(super) use sailor::{SailorArgs, run_sailor};
