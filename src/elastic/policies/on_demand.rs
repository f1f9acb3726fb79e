//! Training without spot nodes.

use super::{Capacity, Policy};

/// As `autohet`, on a cluster that nobody takes away: of each kind of node as many as the trace has up at most, less those that
/// its plan leaves idle, from the trace's begin to its end, at the catalog's on-demand prices. What the trace pays for a node has no part in it.
///
/// Simplified: on-demand capacity is taken for granted, which for large GPUs it isn't.
pub(super) fn policy() -> Policy {
    Policy {
        name: "on-demand",
        summary: "rents the most nodes of each type that are ever up, as far as its plan uses them, all the time, at on-demand prices",
        capacity: Capacity::OnDemand,
        ..super::autohet::policy()
    }
}
