//! From a setting to the grouping problem of stage 1, and back.

use super::Engine;
use super::grouping::{Grouping, GroupingProblem, UnitClass, search_grouping};
use super::joint::{self, JointPlan, JointReplica};
use super::setting::{Composition, Setting};
use crate::cost::{CostModel, StageShape};

/// Groupings for so many replicas by the engine, none where it has none or finds none that fits.
pub fn groupings(engine: Engine, setting: &Setting, cost: &CostModel, replicas: u32) -> Vec<Vec<Composition>> {
    if engine == Engine::Fast {
        return Vec::new();
    }
    let problem = problem(setting, cost, replicas);
    let searched = search_grouping(&problem);
    let solved = solve(engine, &problem, searched.as_ref());
    let mut found: Vec<Vec<Composition>> = searched.iter().chain(&solved).map(compositions).collect();
    let joint = solve_joint(engine, setting, replicas, joint::search(setting, replicas));
    found.extend(joint.iter().map(joint_compositions));
    found.dedup();
    found
}

/// SCIP's grouping. That it fails is no reason to have no plan: the search's grouping stands.
#[cfg(feature = "scip")]
fn solve(engine: Engine, problem: &GroupingProblem, warm_start: Option<&Grouping>) -> Option<Grouping> {
    use crate::planner::scip::{ScipLimits, solve_grouping};
    if !engine.uses_scip() || problem.replicas as usize * problem.classes.len() > SCIP_MOST_PAIRS {
        return None;
    }
    match solve_grouping(problem, &ScipLimits { nodes: SCIP_NODES, ..ScipLimits::default() }, warm_start) {
        Ok(solved) => solved.grouping,
        Err(error) => {
            debug_assert!(false, "SCIP refused a grouping problem: {error}");
            None
        }
    }
}

#[cfg(not(feature = "scip"))]
fn solve(_: Engine, _: &GroupingProblem, _: Option<&Grouping>) -> Option<Grouping> {
    None
}

/// Branch-and-bound nodes that SCIP may explore for each problem: a limit that gives the same answer on every run.
#[cfg(feature = "scip")]
const SCIP_NODES: u64 = 100;

/// Pairs of a replica and a class up to which SCIP is asked. A linear program of more takes it so long that its limit of
/// time ends the search, so that the plan would depend on the machine.
#[cfg(feature = "scip")]
const SCIP_MOST_PAIRS: usize = 64;

fn problem(setting: &Setting, cost: &CostModel, replicas: u32) -> GroupingProblem {
    let stage = |num_layers, ends, in_flight| {
        let shape = StageShape { num_layers, has_embedding: ends, has_head: ends, in_flight };
        let shards = cost.framework().optimizer_shards(replicas as usize);
        cost.stage_memory(&shape, &setting.execution).with_optimizer_shards(shards)
    };
    let (one, two) = (stage(1, false, 1), stage(2, false, 1));
    let with_ends = stage(1, true, 1);
    let state =
        |memory: &crate::cost::StageMemory| memory.parameters_bytes + memory.gradients_bytes + memory.optimizer_bytes;
    let fastest = setting.classes.iter().min_by(|a, b| a.layer_s.total_cmp(&b.layer_s));
    let classes = setting.classes.iter().map(|class| UnitClass {
        units: class.units,
        layer_rate_per_s: class.layer_rate_per_s(),
        usable_memory_bytes: class.gpu.memory_bytes.saturating_sub(one.reserve_bytes + one.transient_bytes),
    });
    GroupingProblem {
        classes: classes.collect(),
        replicas,
        micro_batches: setting.micro_batches,
        layers: setting.num_layers,
        extra_layers: fastest.map_or(0.0, |class| (class.embedding_s + class.head_s) / class.layer_s),
        layer_state_bytes: state(&two) - state(&one),
        extra_state_bytes: state(&with_ends) - state(&one),
        layer_activation_bytes: two.activations_bytes - one.activations_bytes,
        equal_micro_batches: false,
    }
}

/// SCIP's answer to the joint problem, where it was asked for by name and units are few: else the search's, which is exact
/// where it has one.
#[cfg(feature = "scip")]
fn solve_joint(engine: Engine, setting: &Setting, replicas: u32, searched: Option<JointPlan>) -> Option<JointPlan> {
    use crate::planner::scip::{ScipLimits, solve_joint};
    if engine != Engine::Scip || setting.units() > SCIP_MOST_JOINT_UNITS {
        return searched;
    }
    let limits = ScipLimits { nodes: SCIP_NODES, ..ScipLimits::default() };
    match solve_joint(setting, replicas, &limits, searched.as_ref()) {
        Ok(solved) => solved.plan,
        Err(error) => {
            debug_assert!(false, "SCIP refused a joint problem: {error}");
            searched
        }
    }
}

#[cfg(not(feature = "scip"))]
fn solve_joint(_: Engine, _: &Setting, _: u32, searched: Option<JointPlan>) -> Option<JointPlan> {
    searched
}

/// Units up to which SCIP is given the joint problem.
#[cfg(feature = "scip")]
const SCIP_MOST_JOINT_UNITS: u32 = 8;

fn joint_compositions(plan: &JointPlan) -> Vec<Composition> {
    let composition = |replica: &JointReplica| {
        let mut units = Composition::default();
        for &class in &replica.classes {
            units.0[class] += 1;
        }
        units
    };
    plan.replicas.iter().map(composition).collect()
}

fn compositions(grouping: &Grouping) -> Vec<Composition> {
    let composition = |replica: &super::grouping::GroupedReplica| {
        let mut units = Composition::default();
        for (count, &given) in units.0.iter_mut().zip(&replica.units) {
            *count = given as u16;
        }
        units
    };
    grouping.replicas.iter().map(composition).collect()
}
