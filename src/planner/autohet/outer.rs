//! The outer enumeration: settings times numbers of replicas, best bound first.
//!
//! Settings of one tensor-parallel degree are enumerated. From the best groupings found there the search goes on where each
//! stage may have a degree of its own ([`several_degrees`]), and the best plans are tried under the other schedule too.

mod several_degrees;

use super::Engine;
use super::bounds::{self, column_bound_s, lower_bound_s, memory_bound_s, most_replicas};
use super::candidates::{Candidate, GroupingSearch, Kind, kinds_of};
use super::effort::Effort;
use super::mapping::{Job, Neighbours, realise};
use super::setting::{Setting, executions};
use super::shortage::one_replica_that_fits;
use super::stage_one;
use crate::cost::CostError;
use crate::model::Execution;
use crate::plan::{JudgedPlan, LowerBound, Plan, PlanError, PlanRequest, ScheduleKind};
use crate::planner::ranking;
use ordered_float::OrderedFloat;
use rayon::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// GPUs up to which all of the work for the bound is spent.
const MOST_GPUS_BOUNDED: u64 = 256;
/// Points of the enumeration whose groupings are improved.
const MAX_IMPROVED: usize = 8;
/// Points that are put on nodes.
const MAX_REALISED: usize = 32;
/// Of these, with the same setting.
const MAX_REALISED_PER_SETTING: usize = 5;
/// Replicas up to which stage 1 is solved for each of them; of more, kinds are all that a search can tell apart.
const MAX_SOLVED_REPLICAS: u32 = 64;
/// How much slower than the best a construction may be to be looked at: what improving it and real links may change.
pub(super) const WORTH_A_LOOK: f64 = 1.12;

/// All settings of a request, and their points by bound.
pub struct Outer<'a> {
    request: &'a PlanRequest<'a>,
    planner: &'static str,
    settings: Vec<Setting>,
    /// The same where stages may differ in degree; none where there is only one.
    of_several_degrees: Vec<Setting>,
    points: Vec<Point>,
    /// How many of [`NEIGHBOURS`] are tried, and whether under either schedule.
    mappings: (usize, bool),
}

/// A setting with a number of replicas.
#[derive(Clone, Copy, Debug)]
struct Point {
    setting: usize,
    replicas: u32,
    bound_s: f64,
}

/// Which stages may share nodes, from all of one replica to all replicas' equal ones; the first two are always tried.
const NEIGHBOURS: [Neighbours; 4] =
    [Neighbours::Stages, Neighbours::ALL_REPLICAS, Neighbours::Replicas(2), Neighbours::Replicas(4)];
/// GPUs up to which all of these are, and either schedule with each.
const MOST_GPUS_IN_PARTS: u32 = 256;

/// Work of one improvement at most.
const MAX_IMPROVING: u64 = 400_000;
/// Work of putting a GPU on a node, twice.
const REALISING: u64 = 100;
/// Plans that are tried under the other schedule.
const MAX_RESCHEDULED: usize = 4;

/// Every number of replicas with every setting, best bound first.
fn points(settings: &[Setting]) -> Vec<Point> {
    let of_setting = |(index, setting): (usize, &Setting)| -> Vec<Point> {
        let point = |replicas| Point { setting: index, replicas, bound_s: lower_bound_s(setting, replicas) };
        (1..=most_replicas(setting)).map(point).collect()
    };
    let mut points: Vec<Point> = settings.par_iter().enumerate().flat_map_iter(of_setting).collect();
    points.sort_by(|a, b| a.bound_s.total_cmp(&b.bound_s));
    points
}

/// The least bound of all points, or `least_s` where none is below it.
///
/// The point of the least bound so far is looked at more closely, until there is no closer look. So what is tightest, and
/// dearest, is worked out for few of them, as long as there is work left.
fn least_bound_s(settings: &[Setting], points: &[Point], mut least_s: f64, work: &mut u64) -> f64 {
    let mut looked_at: BinaryHeap<Reverse<(OrderedFloat<f64>, usize)>> = BinaryHeap::new();
    let mut fresh = 0;
    loop {
        let closer = looked_at.peek().map_or(f64::INFINITY, |Reverse((bound_s, _))| bound_s.0);
        let next = points.get(fresh).filter(|point| point.bound_s <= closer);
        if next.map_or(closer, |point| point.bound_s) >= least_s {
            return least_s;
        }
        if let Some(point) = next {
            let bound_s = memory_bound_s(&settings[point.setting], point.replicas);
            looked_at.push(Reverse((OrderedFloat(bound_s), fresh)));
            fresh += 1;
        } else if let Some(Reverse((bound_s, index))) = looked_at.pop() {
            let Point { setting, replicas, .. } = points[index];
            least_s = column_bound_s(&settings[setting], replicas, (bound_s.0, least_s), work);
        }
    }
}

/// No plan of the whole enumeration is faster under any schedule. Memory isn't asked, which takes much of the time that
/// settings take.
pub fn conserved_bound_s(request: &PlanRequest) -> Result<f64, PlanError> {
    let priced = |execution: Execution, degrees: &[u32]| {
        Setting::priced(request.cluster, request.cost, request.training.global_batch_size, execution, degrees)
    };
    let settings = all_settings(request, |execution| priced(execution, &[execution.tensor_parallel_size]))?;
    let of_several = several_degrees::settings(&settings, priced)?;
    Ok(settings.iter().chain(&of_several).map(bounds::conserved_bound_s).fold(f64::INFINITY, f64::min))
}

/// The settings of one degree. An error where none can be priced at all.
fn all_settings(
    request: &PlanRequest,
    make: impl Fn(Execution) -> Result<Option<Setting>, CostError> + Send + Sync,
) -> Result<Vec<Setting>, PlanError> {
    let made = executions(request.cost, request.training)?.into_par_iter().map(make).collect::<Vec<_>>();
    let (mut settings, mut refused) = (Vec::new(), None);
    for made in made {
        match made {
            Ok(setting) => settings.extend(setting),
            Err(error) => refused = Some(error),
        }
    }
    match refused {
        Some(error) if settings.is_empty() => Err(error.into()),
        _ => Ok(settings),
    }
}

fn push_new(plans: &mut Vec<(f64, Plan)>, time_s: f64, plan: Plan) {
    if !plans.iter().any(|(_, known)| *known == plan) {
        plans.push((time_s, plan));
    }
}

/// Few plans are executed, so those of one kind shouldn't crowd out the others: the best of each kind come first.
fn best_of_each_kind_first(plans: Vec<(f64, Plan)>) -> Vec<Plan> {
    let kind = |plan: &Plan| {
        let degrees = plan.tensor_parallel_sizes();
        (degrees, plan.micro_batch_size, plan.recompute, plan.schedule, plan.replicas.len())
    };
    let mut kinds = Vec::new();
    let (mut firsts, mut others) = (Vec::new(), Vec::new());
    for (_, plan) in plans {
        if kinds.contains(&kind(&plan)) {
            others.push(plan);
        } else {
            kinds.push(kind(&plan));
            firsts.push(plan);
        }
    }
    firsts.append(&mut others);
    firsts
}

/// Every number of replicas up to 8, then about eight to each doubling.
fn is_tried(replicas: u32) -> bool {
    let step = replicas.next_power_of_two() / 16;
    step <= 1 || replicas.is_multiple_of(step)
}

/// A grouping of a point with its plan, and that plan's seconds by the closed form.
type Improved = (f64, Point, Candidate, Plan);

/// A point that has been searched.
struct Searched<'a> {
    point: Point,
    search: GroupingSearch<'a>,
    best: Candidate,
    estimate_s: f64,
}

impl<'a> Outer<'a> {
    /// Works out the settings. An error where no setting can be priced at all.
    pub fn new(request: &'a PlanRequest<'a>, planner: &'static str) -> Result<Self, PlanError> {
        let under = |setting: Setting| setting.under(request.judge.schedule(), request.cost);
        let made = |execution: Execution, degrees: &[u32]| {
            let batch = request.training.global_batch_size;
            Ok(Setting::of_degrees(request.cluster, request.cost, batch, execution, degrees)?.map(under))
        };
        let settings = all_settings(request, |execution| made(execution, &[execution.tensor_parallel_size]))?;
        let of_several_degrees = several_degrees::settings(&settings, made)?;
        let points = points(&settings);
        Ok(Self { request, planner, settings, of_several_degrees, points, mappings: (2, false) })
    }

    /// What no plan of the enumeration is faster than, of which some are known: the fastest first, one at least.
    pub fn lower_bound(&self, known: &[JudgedPlan]) -> LowerBound {
        let is_of_one = |judged: &&JudgedPlan| judged.plan.tensor_parallel_sizes().len() == 1;
        let fastest = &known[0];
        let of_one = known.iter().find(is_of_one).unwrap_or(fastest);
        let mut work = self.bound_work();
        let one_degree_s = least_bound_s(&self.settings, &self.points, of_one.predicted_iteration_s, &mut work);
        let of_several_s = |known_s: f64| self.bound_of_several_s(known_s, &mut work);
        let known_s = fastest.predicted_iteration_s.min(one_degree_s);
        let any_degrees_s = (!is_of_one(&fastest)).then_some(known_s).map(of_several_s);
        LowerBound { one_degree_s, any_degrees_s }
    }

    /// No plan of one degree is faster than the first, and none at all than the second; at most `known_s`, the time of one.
    pub fn lower_bounds_s(&self, known_s: f64) -> (f64, f64) {
        let mut work = self.bound_work();
        let of_one_s = least_bound_s(&self.settings, &self.points, known_s, &mut work);
        (of_one_s, self.bound_of_several_s(of_one_s, &mut work))
    }

    fn bound_of_several_s(&self, known_s: f64, work: &mut u64) -> f64 {
        least_bound_s(&self.of_several_degrees, &points(&self.of_several_degrees), known_s, work)
    }

    /// What is proven of thousands of GPUs in the same time is little: it isn't waited for.
    fn bound_work(&self) -> u64 {
        let share = (u64::from(self.request.cluster.gpu_count()) / MOST_GPUS_BOUNDED).max(1);
        self.request.limits.bound_work / share.pow(2)
    }

    /// Plans, the best by the closed form first; none where nothing fits.
    pub fn best_plans(&mut self, engine: Engine) -> Result<Vec<Plan>, PlanError> {
        let PlanRequest { cluster, judge, .. } = *self.request;
        if engine.tries_grids() && cluster.gpu_count() <= MOST_GPUS_IN_PARTS {
            self.mappings = (NEIGHBOURS.len(), judge.schedule().is_none());
        }
        self.searched_plans(engine)
    }

    fn searched_plans(&self, engine: Engine) -> Result<Vec<Plan>, PlanError> {
        let mut effort = Effort::new(&self.request.limits);
        let mut searched = self.construct(&mut effort);
        if searched.is_empty() {
            searched.extend(self.fallback());
        }
        let mut promising = self.most_promising(searched, &mut effort)?;
        // On all cores, each with a part of the work that doesn't depend on what the others find.
        let part = effort.at_most(MAX_IMPROVING.min(effort.left() / (2 * promising.len().max(1) as u64)));
        let of_each = promising.par_iter_mut().map(|found| self.improved(engine, found, part));
        let mut plans: Vec<(f64, Plan)> = Vec::new();
        let mut improved = Vec::new();
        for (found, work) in of_each.collect::<Result<Vec<_>, PlanError>>()? {
            effort.spend(work);
            for (time_s, point, candidate, plan) in found {
                improved.push((time_s, point, candidate));
                push_new(&mut plans, time_s, plan);
            }
        }
        improved.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (time_s, plan) in self.with_several_degrees(&improved, &mut effort)? {
            push_new(&mut plans, time_s, plan);
        }
        plans.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.add_other_schedule(&mut plans)?;
        Ok(best_of_each_kind_first(plans))
    }

    /// The best plans under GPipe, where its activations fit: its transfers wait for none in the other direction.
    fn add_other_schedule(&self, plans: &mut Vec<(f64, Plan)>) -> Result<(), PlanError> {
        let PlanRequest { cluster, cost, judge, .. } = *self.request;
        let tried = if judge.schedule().is_some() { 0 } else { MAX_RESCHEDULED };
        for index in 0..plans.len().min(tried) {
            let plan = Plan { schedule: ScheduleKind::GPipe, ..plans[index].1.clone() };
            if plan.validate(cluster, cost).is_ok() {
                plans.push((ranking::rank_s(&plan, self.request)?, plan));
            }
        }
        plans.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(())
    }

    /// The plans of a point's groupings, and the work that they took.
    fn improved(&self, engine: Engine, found: &mut Searched, part: Effort) -> Result<(Vec<Improved>, u64), PlanError> {
        let mut left = part;
        let mut plans = Vec::new();
        for candidate in self.candidates(engine, found, &mut left) {
            if let Some((time_s, plan)) = self.realise(&mut found.search, &candidate)? {
                plans.push((time_s, found.point, candidate, plan));
            }
        }
        Ok((plans, part.left() - left.left()))
    }

    /// Groupings of a point: the best construction and those of stage 1, each improved, and the construction as it is.
    fn candidates(&self, engine: Engine, found: &mut Searched, effort: &mut Effort) -> Vec<Candidate> {
        let setting = &self.settings[found.point.setting];
        let mut starts = vec![found.best.clone()];
        let solved = if found.point.replicas <= MAX_SOLVED_REPLICAS {
            stage_one::groupings(engine, setting, self.request.cost, found.point.replicas)
        } else {
            Vec::new()
        };
        starts.extend(solved.into_iter().filter_map(|replicas| found.search.evaluate(kinds_of(&replicas))));
        let mut all: Vec<Candidate> = starts.into_iter().map(|start| found.search.improve(start, effort)).collect();
        all.push(found.best.clone());
        all.dedup();
        all
    }

    /// The points whose plans are best with gradient synchronisation and real links counted in. `searched` is sorted by
    /// the slowest replica's time; so of each setting the few best of those are looked at.
    fn most_promising<'s>(
        &'s self,
        searched: Vec<Searched<'s>>,
        effort: &mut Effort,
    ) -> Result<Vec<Searched<'s>>, PlanError> {
        let mut seen = vec![0_usize; self.settings.len()];
        let mut realised: Vec<Searched> = Vec::new();
        let mut least_s = f64::INFINITY;
        for mut found in searched {
            if effort.is_spent() && !realised.is_empty() {
                break;
            }
            let of_setting = &mut seen[found.point.setting];
            if *of_setting >= MAX_REALISED_PER_SETTING || realised.len() >= MAX_REALISED || found.best.time_s >= least_s
            {
                continue;
            }
            *of_setting += 1;
            if let Some((estimate_s, _)) = self.realise(&mut found.search, &found.best)? {
                effort.spend(REALISING * u64::from(self.request.cluster.gpu_count()));
                least_s = least_s.min(estimate_s);
                found.estimate_s = estimate_s;
                realised.push(found);
            }
        }
        realised.sort_by(|a, b| a.estimate_s.total_cmp(&b.estimate_s));
        realised.truncate(MAX_IMPROVED);
        Ok(realised)
    }

    /// The best mapping and schedule of a candidate, by the closed form.
    fn realise(&self, search: &mut GroupingSearch, candidate: &Candidate) -> Result<Option<(f64, Plan)>, PlanError> {
        let PlanRequest { cluster, cost, training, .. } = *self.request;
        let job = Job {
            cluster,
            planner: self.planner,
            model: cost.planned_model(),
            global_batch_size: training.global_batch_size,
        };
        let (neighbours, is_free) = self.mappings;
        let mut best: Option<(f64, Plan)> = None;
        for &neighbours in &NEIGHBOURS[..neighbours] {
            let Some(plan) = realise(&job, search, &candidate.kinds, neighbours) else { continue };
            let gpipe = is_free.then(|| Plan { schedule: ScheduleKind::GPipe, ..plan.clone() });
            for plan in [Some(plan), gpipe].into_iter().flatten() {
                let time_s = ranking::rank_s(&plan, self.request)?;
                let is_better = best.as_ref().is_none_or(|(least_s, _)| time_s < *least_s);
                let has_room = || plan.schedule != ScheduleKind::GPipe || plan.validate(cluster, cost).is_ok();
                if is_better && has_room() {
                    best = Some((time_s, plan));
                }
            }
        }
        Ok(best)
    }

    /// Constructs groupings point by point, as long as a further point can come near the best; best first.
    fn construct(&self, effort: &mut Effort) -> Vec<Searched<'_>> {
        let mut searched: Vec<Searched> = Vec::new();
        let mut worth_s = f64::INFINITY;
        for &point in self.points.iter().filter(|point| is_tried(point.replicas)) {
            if point.bound_s >= worth_s || (effort.is_spent() && !searched.is_empty()) {
                break;
            }
            let setting = &self.settings[point.setting];
            let mut search = GroupingSearch::new(setting, point.replicas);
            let best = search.construct(worth_s);
            effort.spend(search.work());
            let Some(best) = best else { continue };
            worth_s = worth_s.min(best.time_s * WORTH_A_LOOK);
            if best.time_s < worth_s {
                searched.push(Searched { point, search, best, estimate_s: f64::INFINITY });
            }
        }
        searched.retain(|found| found.best.time_s < worth_s);
        searched.sort_by(|a, b| a.best.time_s.total_cmp(&b.best.time_s).then(a.point.replicas.cmp(&b.point.replicas)));
        searched
    }

    /// Any plan that fits, where the constructions found none.
    fn fallback(&self) -> Option<Searched<'_>> {
        self.settings.iter().enumerate().find_map(|(index, setting)| {
            let units = one_replica_that_fits(setting)?;
            let mut search = GroupingSearch::new(setting, 1);
            let best = search.evaluate(vec![Kind { units, replicas: 1 }])?;
            let point = Point { setting: index, replicas: 1, bound_s: lower_bound_s(setting, 1) };
            Some(Searched { point, search, best, estimate_s: f64::INFINITY })
        })
    }
}
