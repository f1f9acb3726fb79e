//! Policies: what to do when nodes come and go, as data over one controller.

use super::layer_bitmap::AllowedSources;
use crate::plan::Planner;
use crate::planner;
use crate::planner::autohet::{AutoHet, Engine};

/// One way of living with preemptions.
pub struct Policy {
    /// Name on the command line and in reports.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// Makes its plans.
    pub planner: Box<dyn Planner>,
    /// Where lost state may be read from.
    pub sources: AllowedSources,
    /// Whether new nodes are taken in while training runs.
    pub joins: JoinRule,
    /// Whether a notice makes it leave the node before it is lost.
    pub heeds_notice: bool,
    /// Whether it keeps to the shape of its first plan, and waits whenever that doesn't fit.
    pub fixed_shape: bool,
    /// Whether it checkpoints, standing still, before it changes the plan of its own will.
    pub saves_before_change: bool,
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

/// Names of all policies, the recommended one first.
pub const NAMES: [&str; 3] = ["autohet", "varuna", "restart"];

/// The policy of this name.
pub fn by_name(name: &str) -> Option<Policy> {
    match name {
        "autohet" => Some(autohet()),
        "varuna" => Some(varuna()),
        "restart" => Some(restart()),
        _ => None,
    }
}

/// Plans anew for every set of nodes, takes state from survivors first and from the cloud last, and leaves nodes under
/// notice before they go (AutoHet, arXiv 2512.20953).
fn autohet() -> Policy {
    Policy {
        name: "autohet",
        summary: "re-plans on every change, recovers from survivors first",
        planner: Box::new(AutoHet { engine: Engine::Search }),
        sources: AllowedSources::All,
        joins: JoinRule::WhenItPays,
        heeds_notice: true,
        fixed_shape: false,
        saves_before_change: false,
    }
}

/// How training for real lives with losses: as `autohet`, with this planner. Where it reads from the object store only,
/// it saves before it changes the plan of its own will.
pub fn training(planner: Box<dyn Planner>, sources: AllowedSources) -> Policy {
    Policy { planner, sources, saves_before_change: sources == AllowedSources::ObjectStore, ..autohet() }
}

/// Job morphing (Varuna; Athlur et al. 2022): grids of pipeline depth × replicas without tensor parallelism, every rank
/// reads its state from the object store, so that changes that are known beforehand, by a notice or a join, save first and
/// others roll back.
fn varuna() -> Policy {
    Policy {
        name: "varuna",
        summary: "morphs between P × D grids, recovers from the object store",
        planner: planned_by("varuna"),
        sources: AllowedSources::ObjectStore,
        joins: JoinRule::WhenFaster,
        heeds_notice: true,
        fixed_shape: false,
        saves_before_change: true,
    }
}

/// Checkpoint and restart as most clusters do it: one symmetric plan for the nodes of the start; after a loss it waits
/// until nodes of the same types are there again and goes on from the last checkpoint.
fn restart() -> Policy {
    Policy {
        name: "restart",
        summary: "keeps its first shape, waits for capacity, restarts from the last checkpoint",
        planner: planned_by("megatron"),
        sources: AllowedSources::ObjectStore,
        joins: JoinRule::Never,
        heeds_notice: false,
        fixed_shape: true,
        saves_before_change: false,
    }
}

fn planned_by(name: &str) -> Box<dyn Planner> {
    planner::by_name(name).unwrap_or_else(|| unreachable!("`{name}` is one of our planners"))
}
