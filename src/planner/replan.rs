//! Warm re-planning: from a plan that runs, and the nodes that are left or have come, to one that goes on soonest.
//!
//! What a change of plan costs is time in which nothing is trained: a pause that any change takes, and the time in which
//! state moves. State that is where the new plan wants it stays. So a plan is worth the iterations that it is expected to
//! do until the next change, `(horizon - pause - moving) / T`, and repairs of the old plan, which move little, compete with
//! plans that were searched for.
//!
//! Repairs leave replicas alone that lost nothing. Others go, go on with fewer stages, or get GPUs in place of those that
//! are gone, from idle nodes or from each other. What is left makes further replicas of the commonest shape. From the best
//! of these the search of [`autohet`](super::autohet) goes on over counts of units, as the old plan is executed and at other
//! micro-batch sizes and recompute settings, and what it finds is put where most state can stay. That takes milliseconds. Where the request sets no deadline and allows more work than [`LOCAL_WORK`], it
//! is searched from nothing, too.

mod movement;
mod relabel;
mod repair;
#[cfg(test)]
mod tests;

pub use movement::{Movement, NodeMovement, movement};

use super::autohet::{AutoHet, Engine, Regrouped, Regrouping};
use super::estimate;
use crate::plan::{Plan, PlanError, PlanRequest, Planner};
use rayon::prelude::*;

/// Plans that are executed.
const MAX_JUDGED: usize = 2;
/// Plans of other micro-batch sizes and recompute settings that are put on nodes.
const MAX_EXECUTED_OTHERWISE: usize = 2;
/// Plans of a search from nothing that are looked at.
const MAX_SEARCHED: usize = 4;
/// Counted work up to which it is searched from the incumbent only.
pub const LOCAL_WORK: u64 = 1_000_000;

/// The plan that runs, and what is known of changing it.
#[derive(Clone, Copy, Debug)]
pub struct Incumbent<'a> {
    /// The plan; it may name nodes that are gone.
    pub plan: &'a Plan,
    /// Expected seconds until the plan is changed again.
    pub horizon_s: f64,
    /// Seconds that any change takes beside moving state.
    pub pause_s: f64,
    /// Rate at which one node reads state that no node has any more.
    pub store_bytes_per_s: f64,
}

/// A plan to change to.
#[derive(Clone, Debug, PartialEq)]
pub struct Replanned {
    /// The plan.
    pub plan: Plan,
    /// Seconds of one iteration, by the judge; by the closed form where a deadline left no time to ask it.
    pub iteration_s: f64,
    /// What moves.
    pub movement: Movement,
    /// Iterations that it is expected to do until the next change.
    pub expected_iterations: f64,
}

impl Incumbent<'_> {
    /// Iterations until the next change; where there is no time for any, how much is missing, below zero.
    fn worth(&self, iteration_s: f64, movement: &Movement) -> f64 {
        let left_s = self.horizon_s - self.pause_s - movement.seconds;
        if left_s > 0.0 { left_s / iteration_s } else { left_s - iteration_s }
    }
}

/// The plan for the request's cluster that is expected to have done most iterations by the next change.
///
/// Pure, as all planning: the same request and incumbent give the same plan, but for a limit of time. Once that is over, the
/// best plan so far is returned, a repair at worst.
///
/// # Errors
/// As of [`Planner::plan`], which it falls back to where the incumbent can't be repaired.
pub fn replan(request: &PlanRequest, incumbent: &Incumbent) -> Result<Replanned, PlanError> {
    let PlanRequest { cluster, cost, judge, .. } = *request;
    if cluster.nodes.iter().all(|node| node.gpu_count == 0) {
        return Err(PlanError::EmptyCluster);
    }
    let is_over = || request.limits.out_of_time.is_some_and(|is_over| is_over());
    let regrouping = Regrouping::new(request, incumbent.plan)?;
    let mut ranked = Ranked { request, incumbent, plans: Vec::new() };
    ranked.add(repair::repairs(request, incumbent.plan, regrouping.as_ref()))?;
    ranked.sort();
    if let Some(regrouping) = regrouping.as_ref().filter(|_| !is_over()) {
        let starts = ranked.starts();
        let found = starts.par_iter().filter_map(|from| regrouping.improved(from));
        ranked.add_relabelled(&found.flat_map_iter(Regrouped::plans).collect::<Vec<_>>())?;
        ranked.sort();
    }
    if !ranked.plans.is_empty() && !is_over() {
        ranked.add_executed_otherwise()?;
    }
    let has_time = request.limits.work > LOCAL_WORK && request.limits.out_of_time.is_none();
    if has_time && !ranked.plans.is_empty() {
        let searched = AutoHet { engine: Engine::Fast }.unjudged(request)?;
        ranked.add_relabelled(&searched[..searched.len().min(MAX_SEARCHED)])?;
    }
    if ranked.plans.is_empty() {
        let planned = AutoHet { engine: Engine::Fast }.plan(&request.without_proof())?;
        ranked.add_relabelled(&[planned.plan])?;
    }
    ranked.sort();
    ranked.plans.truncate(MAX_JUDGED);
    if is_over() {
        return Ok(ranked.plans.swap_remove(0));
    }
    let judged = ranked.plans.par_iter().map(|known| judge.iteration_s(&known.plan, cluster, cost));
    let judged = judged.collect::<Result<Vec<f64>, _>>()?;
    for (known, iteration_s) in ranked.plans.iter_mut().zip(judged) {
        known.iteration_s = iteration_s;
        known.expected_iterations = incumbent.worth(iteration_s, &known.movement);
    }
    ranked.sort();
    let best = ranked.plans.into_iter().next().expect("a plan was added, or the planner has failed");
    debug_assert_eq!(best.plan.validate(cluster, cost), Ok(()));
    Ok(best)
}

/// Plans by what they are worth.
struct Ranked<'a> {
    request: &'a PlanRequest<'a>,
    incumbent: &'a Incumbent<'a>,
    plans: Vec<Replanned>,
}

impl Ranked<'_> {
    /// Adds those plans that are new and can run.
    fn add(&mut self, plans: Vec<Plan>) -> Result<(), PlanError> {
        let mut fresh: Vec<Plan> = Vec::new();
        for plan in plans {
            if !fresh.contains(&plan) && !self.plans.iter().any(|known| known.plan == plan) {
                fresh.push(plan);
            }
        }
        let weighed = fresh.into_par_iter().map(|plan| self.weighed(plan)).collect::<Result<Vec<_>, _>>()?;
        self.plans.extend(weighed.into_iter().flatten());
        Ok(())
    }

    /// What a plan is worth; `None` if it can't run.
    fn weighed(&self, plan: Plan) -> Result<Option<Replanned>, PlanError> {
        let PlanRequest { cluster, cost, .. } = *self.request;
        if plan.validate(cluster, cost).is_err() {
            return Ok(None);
        }
        let iteration_s = estimate::iteration_s(&plan, cluster, cost)?;
        let movement = movement(self.incumbent.plan, &plan, cluster, cost, self.incumbent.store_bytes_per_s);
        let expected_iterations = self.incumbent.worth(iteration_s, &movement);
        Ok(Some(Replanned { plan, iteration_s, movement, expected_iterations }))
    }

    /// Adds plans on those nodes on which most state can stay.
    fn add_relabelled(&mut self, plans: &[Plan]) -> Result<(), PlanError> {
        let PlanRequest { cluster, cost, .. } = *self.request;
        let on_nodes = plans.par_iter().map(|plan| relabel::relabelled(plan, self.incumbent.plan, cluster, cost));
        let on_nodes: Vec<Plan> = on_nodes.collect();
        self.add(on_nodes)
    }

    /// Adds plans of other micro-batch sizes and recompute settings, those that look best.
    fn add_executed_otherwise(&mut self) -> Result<(), PlanError> {
        let others = Regrouping::others(self.request, self.incumbent.plan)?;
        let starts = self.starts();
        let pairs = others.par_iter().flat_map_iter(|other| starts.iter().map(move |from| (other, from)));
        let mut found: Vec<Regrouped> = pairs.filter_map(|(other, from)| other.improved(from)).collect();
        found.sort_by(|a, b| a.time_s().total_cmp(&b.time_s()));
        found.truncate(MAX_EXECUTED_OTHERWISE);
        let plans: Vec<Plan> = found.into_par_iter().flat_map_iter(Regrouped::plans).collect();
        self.add_relabelled(&plans)
    }

    /// Where to search on from: the best repair, and the one of most replicas.
    fn starts(&self) -> Vec<Plan> {
        let best = self.plans.first();
        let most = self.plans.iter().max_by_key(|known| known.plan.replicas.len());
        let mut starts: Vec<Plan> = best.into_iter().chain(most).map(|known| known.plan.clone()).collect();
        starts.dedup();
        starts
    }

    fn sort(&mut self) {
        self.plans.sort_by(|a, b| b.expected_iterations.total_cmp(&a.expected_iterations));
    }
}
