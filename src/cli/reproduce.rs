//! `autohet-sim reproduce`: comparisons with what others have published.

mod sailor;

pub(super) use sailor::{SailorArgs, run_sailor};
