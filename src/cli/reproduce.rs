//! `autohet-sim reproduce`: comparisons with what others have published.

mod paper;
mod recovery;
mod sailor;

pub(super) use paper::run_paper;
pub(super) use recovery::{RecoveryArgs, run_recovery};
pub(super) use sailor::{SailorArgs, run_sailor};
