//! Proactive training (Parcae; Duan et al., NSDI 2024).

use super::{JoinRule, PlanChoice, Policy, planned_by};
use crate::elastic::layer_bitmap::AllowedSources;

/// Symmetric grids, of which it takes that of the highest liveput for the losses to be expected ([`liveput`](super::liveput)):
/// a few more replicas of fewer stages, or spare nodes, where losses are frequent. State moves between nodes (live migration),
/// nodes under notice are left beforehand.
///
/// Simplified: losses are expected at the rate observed so far, where the paper forecasts availability (ARIMA); it chooses
/// among the grids that its planner has executed; and a migration is a change of plan like any other.
pub(super) fn policy() -> Policy {
    Policy {
        name: "parcae",
        summary: "takes grids by the throughput expected over losses, migrates state between nodes",
        planner: planned_by("amp"),
        choice: PlanChoice::Liveput,
        sources: AllowedSources::MemoryAndObjectStore,
        joins: JoinRule::WhenItPays,
        connects_ahead: false,
        avoids_zones: false,
        ..super::autohet::policy()
    }
}
