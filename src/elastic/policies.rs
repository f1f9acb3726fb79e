//! Policies: what to do when nodes come and go, as data over one controller.

mod autohet;
mod bamboo;
mod liveput;
mod neighbours;
mod on_demand;
mod oobleck;
mod oracle;
mod parcae;
mod restart;
mod varuna;

pub use bamboo::Redundant;
pub use liveput::{Outlook, liveput, liveput_share};

use super::layer_bitmap::AllowedSources;
use crate::plan::Planner;
use crate::planner;

/// One way of living with preemptions.
#[expect(
    clippy::struct_excessive_bools,
    reason = "a policy is a row of answers to questions that don't depend on each other"
)]
pub struct Policy {
    /// Name on the command line and in reports.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// Makes its plans.
    pub planner: Box<dyn Planner>,
    /// What makes it take one of a planner's plans.
    pub choice: PlanChoice,
    /// Where lost state may be read from.
    pub sources: AllowedSources,
    /// Whether new nodes are taken in while training runs.
    pub joins: JoinRule,
    /// Whether a notice makes it leave the node before it is lost.
    pub heeds_notice: bool,
    /// Whether ranks meet and make communicators for a change that is known beforehand while training goes on, which then stands
    /// still for state that moves.
    pub connects_ahead: bool,
    /// Whether it plans without the nodes of zones in which losses cost more than those nodes add, if others suffice.
    pub avoids_zones: bool,
    /// Whether it keeps to the shape of its first plan, and waits whenever that doesn't fit.
    pub fixed_shape: bool,
    /// Whether it checkpoints, standing still, before it changes the plan of its own will.
    pub saves_before_change: bool,
    /// Whether its plans are made before they are needed, so that nobody waits for one.
    pub plans_ahead: bool,
    /// Whether stages that hold a second copy of a lost one go on in its place, without a new plan.
    pub stands_in: bool,
    /// Which nodes it has.
    pub capacity: Capacity,
    /// Whether it knows what the trace will bring, so that nothing of what it does is lost: a bound on what any policy can
    /// reach, not a policy that could be followed.
    pub foresight: bool,
}

/// When new nodes are taken in while training runs. After a wait they always are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinRule {
    /// Never.
    Never,
    /// Whenever the plan with them is faster.
    WhenFaster,
    /// When the iterations gained by the next expected change outweigh the pause.
    WhenItPays,
}

/// What makes a policy take one of the plans that its planner has executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanChoice {
    /// The shortest iteration.
    Fastest,
    /// The highest [`liveput`]: throughput over the losses to be expected.
    Liveput,
}

/// Which nodes a policy has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// Those of the trace, when they are there.
    Spot,
    /// Of each kind as many as the trace has at most and the plan for them uses, from its begin to its end, at on-demand prices.
    OnDemand,
}

/// Names of all policies, the recommended one first.
pub const NAMES: [&str; 8] = ["autohet", "varuna", "restart", "bamboo", "oobleck", "parcae", "on-demand", "oracle"];

/// Those that are replayed where none are named.
pub const DEFAULTS: [&str; 3] = ["autohet", "varuna", "restart"];

/// Stands for all of [`NAMES`].
pub const ALL: &str = "all";

/// The policy of this name.
///
/// ```
/// use autohet::elastic::policies;
/// for name in policies::NAMES {
///     assert_eq!(policies::by_name(name).unwrap().name, name);
/// }
/// assert!(policies::by_name("all").is_none());
/// ```
pub fn by_name(name: &str) -> Option<Policy> {
    match name {
        "autohet" => Some(autohet::policy()),
        "varuna" => Some(varuna::policy()),
        "restart" => Some(restart::policy()),
        "bamboo" => Some(bamboo::policy()),
        "oobleck" => Some(oobleck::policy()),
        "parcae" => Some(parcae::policy()),
        "on-demand" => Some(on_demand::policy()),
        "oracle" => Some(oracle::policy()),
        _ => None,
    }
}

/// How training for real lives with losses: as `autohet`, with this planner. Where it reads from the object store only,
/// it saves before it changes the plan of its own will. Workers connect when they stand still.
pub fn training(planner: Box<dyn Planner>, sources: AllowedSources) -> Policy {
    let saves_before_change = sources == AllowedSources::ObjectStore;
    Policy { planner, sources, saves_before_change, connects_ahead: false, ..autohet::policy() }
}

fn planned_by(name: &str) -> Box<dyn Planner> {
    planner::by_name(name).unwrap_or_else(|| unreachable!("`{name}` is one of our planners"))
}
