//! Checkpoint and restart, as most clusters do it.

use super::{JoinRule, Policy, planned_by};
use crate::elastic::layer_bitmap::AllowedSources;

/// One symmetric plan for the nodes of the start; after a loss it waits until nodes of the same types are there again and
/// goes on from the last checkpoint.
pub(super) fn policy() -> Policy {
    Policy {
        name: "restart",
        summary: "keeps its first shape, waits for capacity, restarts from the last checkpoint",
        planner: planned_by("megatron"),
        sources: AllowedSources::ObjectStore,
        joins: JoinRule::Never,
        heeds_notice: false,
        fixed_shape: true,
        connects_ahead: false,
        avoids_zones: false,
        ..super::autohet::policy()
    }
}
