//! The last step: a local search over whole plans that asks the judge itself.
//!
//! The stages before it rank by compute and a closed form of their own. What a judge counts beside that, the polish finds
//! out by trying: it gives a stage another degree or kind of GPU, splits, merges and swaps stages, changes the number of
//! replicas, micro-batch size and recomputation, deals the layers anew, and moves them one by one. Where the judge is a
//! closed form it ranks all of these itself; of those that the simulator would execute, the closed form of
//! [`estimate`](crate::planner::estimate) picks the few that are worth it.
//!
//! It has no clock: its work is counted ([`Judge::work`](crate::plan::Judge::work)), so that the same request gives the
//! same plan.

mod deal;
mod moves;
mod place;
mod shape;
#[cfg(test)]
mod tests;

use crate::plan::{JudgedPlan, Plan, PlanRequest, ScheduleKind};
use crate::planner::ranking;
use place::Neighbours;
use rayon::prelude::*;
use shape::{Shape, World};
use std::collections::BTreeSet;

/// Starts that are followed up, simple ones included.
const MAX_STARTS: usize = 8;
/// Of the shapes of another structure, those whose layers are moved one by one.
const MAX_DESCENDED: usize = 8;
/// Of these, those that are executed where the judge isn't a closed form.
const MAX_EXECUTED: usize = 3;
/// Which stages may share nodes.
const NEIGHBOURS: [Neighbours; 4] =
    [Neighbours::Stages, Neighbours::Replicas(2), Neighbours::Replicas(4), Neighbours::Replicas(usize::MAX)];
/// Most steps from one start.
const MAX_STEPS: usize = 40;
/// What is gained at least by a step that is taken: less is rounding.
const LEAST_GAIN: f64 = 1e-9;

/// How much a search may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolishBudget {
    /// Work of the judge ([`Judge::work`](crate::plan::Judge::work)), over all starts.
    pub work: u64,
    /// Plans that are ranked, over all starts, times the GPUs of the cluster.
    pub ranked_gpus: u64,
}

/// Plans at least as good as the best of `starts` by the request's judge, the best first; the starts are among them.
///
/// Pure: the work is counted, ties are broken by the order of shapes.
pub fn polish(request: &PlanRequest, starts: Vec<JudgedPlan>, budget: PolishBudget) -> Vec<JudgedPlan> {
    let world = World::new(request);
    let planner = starts.first().map_or("autohet", |start| start.plan.planner.as_str()).to_owned();
    let mut search = Search { world: &world, planner: &planner, budget, seen: BTreeSet::new() };
    let mut begin: Vec<Found> = starts.iter().filter_map(|start| search.start(start)).collect();
    begin.sort_by(|a, b| a.rank_s.total_cmp(&b.rank_s));
    let mut begin = best_of_each_kind(begin);
    if request.judge.is_closed_form() {
        // Simple ones begin elsewhere, so that they have places of their own.
        begin.truncate(MAX_STARTS / 2);
        let simple = search.rank_dealt(|| world.simple());
        begin.extend(simple.into_iter().filter(|found| search.can_run(found)));
        begin = best_of_each_kind(begin);
    }
    let mut found = starts;
    for start in begin {
        let Some(start) = search.judged_all(vec![start]).pop() else { continue };
        let end = search.climb(start);
        if !found.iter().any(|known| known.plan == end.plan) {
            found.push(end);
        }
    }
    found.sort_by(|a, b| a.predicted_iteration_s.total_cmp(&b.predicted_iteration_s));
    found
}

/// A shape as a plan, with what it is ranked by.
#[derive(Clone)]
struct Found {
    shape: Shape,
    plan: Plan,
    rank_s: f64,
    /// By the judge, once that was asked.
    judged_s: Option<f64>,
}

/// The best of each order of kinds and degrees, as many as are followed up: starts of one kind end in one place.
fn best_of_each_kind(begin: Vec<Found>) -> Vec<Found> {
    let mut kinds = BTreeSet::new();
    let kind = |found: &Found| {
        let stages = found.shape.groups.iter().flat_map(|group| &group.stages);
        let mut kinds: Vec<usize> = stages.map(|stage| stage.kind).collect();
        kinds.dedup();
        (found.shape.micro_batch_size, kinds)
    };
    begin.into_iter().filter(|found| kinds.insert(kind(found))).take(MAX_STARTS).collect()
}

struct Search<'a> {
    world: &'a World<'a>,
    planner: &'a str,
    budget: PolishBudget,
    /// Shapes that were ranked.
    seen: BTreeSet<Shape>,
}

impl Search<'_> {
    fn start(&self, start: &JudgedPlan) -> Option<Found> {
        let shape = self.world.shape_of(&start.plan)?;
        let rank_s = self.rank_s(&start.plan);
        Some(Found { shape, plan: start.plan.clone(), rank_s, judged_s: Some(start.predicted_iteration_s) })
    }

    /// Goes on to better plans until there is none, or the work is done.
    fn climb(&mut self, start: Found) -> JudgedPlan {
        let mut best = start;
        for _ in 0..MAX_STEPS {
            let least_s = best.judged_s.unwrap_or(f64::INFINITY);
            let world = self.world;
            let ranked = self.rank_dealt(|| world.structures(&best.shape));
            let mut next = vec![best.clone()];
            next.extend(ranked.into_iter().filter(|found| self.can_run(found)).take(MAX_DESCENDED));
            let mut ends: Vec<Found> = next.into_iter().map(|found| self.descend(found)).collect();
            ends.sort_by(|a, b| a.rank_s.total_cmp(&b.rank_s));
            if !self.world.request.judge.is_closed_form() {
                ends.truncate(MAX_EXECUTED);
            }
            let judged_s = |found: &Found| found.judged_s.unwrap_or(f64::INFINITY);
            let end = self.judged_all(ends).into_iter().min_by(|a, b| judged_s(a).total_cmp(&judged_s(b)));
            match end.filter(|end| judged_s(end) < least_s * (1.0 - LEAST_GAIN)) {
                Some(end) => best = end,
                None => break,
            }
        }
        JudgedPlan { predicted_iteration_s: best.judged_s.unwrap_or(f64::INFINITY), plan: best.plan }
    }

    /// Moves layers one by one as long as that ranks better.
    fn descend(&mut self, start: Found) -> Found {
        let mut best = start;
        loop {
            if self.affordable() == 0 {
                return best;
            }
            let enough_s = best.rank_s * (1.0 - LEAST_GAIN);
            let ranked = self.rank(World::layer_moves(&best.shape));
            match ranked.into_iter().take_while(|next| next.rank_s < enough_s).find(|next| self.can_run(next)) {
                Some(next) => best = next,
                None => return best,
            }
        }
    }

    /// The shapes with their layers dealt, ranked: where they are more than there is work for, some of all kinds. They
    /// aren't made where there is no work left.
    fn rank_dealt(&mut self, shapes: impl FnOnce() -> Vec<Shape>) -> Vec<Found> {
        if self.affordable() == 0 {
            return Vec::new();
        }
        let shapes = shapes();
        let step = shapes.len().div_ceil(self.affordable().max(1)).max(1);
        let some: Vec<Shape> = shapes.into_iter().step_by(step).collect();
        let mut dealt: Vec<Shape> = some.into_par_iter().filter_map(|shape| self.world.dealt(shape)).collect();
        dealt.sort();
        dealt.dedup();
        self.rank(dealt)
    }

    /// How many shapes there is work left for.
    fn affordable(&self) -> usize {
        let gpus = u64::from(self.world.request.cluster.gpu_count()).max(1);
        usize::try_from(self.budget.ranked_gpus / gpus).unwrap_or(usize::MAX)
    }

    /// The shapes that weren't ranked before, as plans for which the nodes are enough, the best first.
    fn rank(&mut self, shapes: Vec<Shape>) -> Vec<Found> {
        let mut fresh: Vec<Shape> = shapes.into_iter().filter(|shape| !self.seen.contains(shape)).collect();
        fresh.truncate(self.affordable());
        self.budget.ranked_gpus -= fresh.len() as u64 * u64::from(self.world.request.cluster.gpu_count());
        self.seen.extend(fresh.iter().cloned());
        let mut ranked: Vec<Found> = fresh.into_par_iter().filter_map(|shape| self.found(shape)).collect();
        ranked.sort_by(|a, b| a.rank_s.total_cmp(&b.rank_s));
        ranked
    }

    fn found(&self, shape: Shape) -> Option<Found> {
        let PlanRequest { cluster, cost, judge, .. } = *self.world.request;
        let ways: &[Neighbours] = if judge.is_closed_form() { &[Neighbours::Stages] } else { &NEIGHBOURS };
        let plans = ways.iter().filter_map(|&way| self.world.plan_of(&shape, self.planner, way));
        let is_free = !judge.is_closed_form() && judge.schedule().is_none();
        let plans = plans.flat_map(|plan| {
            let gpipe = is_free.then(|| Plan { schedule: ScheduleKind::GPipe, ..plan.clone() });
            [Some(plan), gpipe.filter(|plan| plan.validate(cluster, cost).is_ok())]
        });
        let plans = plans.flatten();
        let ranked = plans.map(|plan| (self.rank_s(&plan), plan)).filter(|(rank_s, _)| rank_s.is_finite());
        let (rank_s, plan) = ranked.min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(Found { shape, plan, rank_s, judged_s: None })
    }

    fn can_run(&self, found: &Found) -> bool {
        let PlanRequest { cluster, cost, .. } = *self.world.request;
        found.plan.validate(cluster, cost).is_ok()
    }

    /// What a plan is ranked by; infinite where it has no price.
    fn rank_s(&self, plan: &Plan) -> f64 {
        let request = self.world.request;
        ranking::rank_s(plan, request).unwrap_or(f64::INFINITY)
    }

    /// The plans with the judge's word on them, on all cores; those for which no work is left aren't among them.
    fn judged_all(&mut self, found: Vec<Found>) -> Vec<Found> {
        let PlanRequest { cluster, cost, judge, .. } = *self.world.request;
        let mut affordable = Vec::with_capacity(found.len());
        for found in found {
            let work = if found.judged_s.is_some() || judge.is_closed_form() { 0 } else { judge.work(&found.plan) };
            if let Some(left) = self.budget.work.checked_sub(work) {
                self.budget.work = left;
                affordable.push(found);
            }
        }
        let judged = affordable.into_par_iter().filter_map(|found| {
            let judged_s = match found.judged_s {
                None if judge.is_closed_form() => found.rank_s,
                None => judge.iteration_s(&found.plan, cluster, cost).ok()?,
                Some(judged_s) => judged_s,
            };
            Some(Found { judged_s: Some(judged_s), ..found })
        });
        judged.collect()
    }
}
