//! Pipeline templates (Oobleck; Jang et al., SOSP 2023).

use super::{JoinRule, Policy};
use crate::elastic::layer_bitmap::AllowedSources;
use crate::planner::baselines::Oobleck;

/// Pipelines of templates that were worked out before training began, one for each number of nodes; whatever is left after a
/// loss is covered by a mix of them, at least two pipelines where two fit, and layers that a node lacks come from a peer that
/// has them. Without a copy left it goes back to the last checkpoint.
///
/// Nobody waits for a plan, since templates are there. It follows the paper in that all pipelines pause for a loss, because
/// all get new shares of the batch. Simplified: it doesn't know notices and takes in new nodes when that pays, by the rule of
/// `autohet`; the paper takes them in at once.
pub(super) fn policy() -> Policy {
    Policy {
        name: "oobleck",
        summary: "covers what is there with pipeline templates, recovers from peers",
        planner: Box::new(Oobleck),
        sources: AllowedSources::MemoryAndObjectStore,
        joins: JoinRule::WhenItPays,
        heeds_notice: false,
        plans_ahead: true,
        connects_ahead: false,
        avoids_zones: false,
        ..super::autohet::policy()
    }
}
