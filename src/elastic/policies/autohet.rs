//! AutoHet (arXiv 2512.20953).

use super::{Capacity, JoinRule, PlanChoice, Policy};
use crate::elastic::layer_bitmap::AllowedSources;
use crate::planner::autohet::{AutoHet, Engine};

/// Plans anew for every set of nodes, takes state from survivors first and from the cloud last, and leaves nodes under
/// notice before they go.
///
/// Beyond the paper, as far as it is known: for what is known beforehand, a notice or new nodes, the plan is made and ranks
/// meet and connect while the old plan trains on, so that training stands still for state that moves only (make before break); and
/// nodes of zones whose losses cost more than they add are left idle. Simplified: connecting slows training down by nothing, and
/// there is memory for two sets of communicators.
pub(super) fn policy() -> Policy {
    Policy {
        name: "autohet",
        summary: "re-plans on every change, recovers from survivors first",
        planner: Box::new(AutoHet { engine: Engine::Search }),
        choice: PlanChoice::Fastest,
        sources: AllowedSources::All,
        joins: JoinRule::WhenItPays,
        heeds_notice: true,
        connects_ahead: true,
        avoids_zones: true,
        fixed_shape: false,
        saves_before_change: false,
        plans_ahead: false,
        stands_in: false,
        capacity: Capacity::Spot,
        foresight: false,
    }
}
