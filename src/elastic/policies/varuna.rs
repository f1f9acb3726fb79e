//! Job morphing (Varuna; Athlur et al. 2022).

use super::{JoinRule, Policy, planned_by};
use crate::elastic::layer_bitmap::AllowedSources;

/// Grids of pipeline depth × replicas without tensor parallelism. Every rank reads its state from the object store, so that
/// changes that are known beforehand, by a notice or a join, save first and others roll back.
pub(super) fn policy() -> Policy {
    Policy {
        name: "varuna",
        summary: "morphs between P × D grids, recovers from the object store",
        planner: planned_by("varuna"),
        sources: AllowedSources::ObjectStore,
        joins: JoinRule::WhenFaster,
        saves_before_change: true,
        connects_ahead: false,
        avoids_zones: false,
        ..super::autohet::policy()
    }
}
