//! Plans for other goals than the most throughput of all nodes: which nodes to rent, and which to give back.
//!
//! Whatever the goal, the best plan of a mix of nodes is its fastest. So mixes are tried, numbers of nodes of each kind, and
//! the planner is asked for each; the best one is then improved node by node. Prices are those of nodes as they are rented,
//! whole ([`PricedPlan`]).

use super::autohet::{AutoHet, Engine};
use crate::cluster::{Cluster, Node};
use crate::plan::{JudgedPlan, Objective, PlanError, PlanRequest, PlannedIteration, Planner, PricedPlan};
use std::collections::BTreeMap;

/// Most mixes that are tried before the best is improved.
const MAX_MIXES: usize = 80;
/// Most steps from the best of them, each of one node more or fewer.
const MAX_STEPS: usize = 24;

/// What a search for an objective found.
#[derive(Clone, Debug)]
pub struct Rented {
    /// The best plan, with the bound of the nodes that were kept for it.
    pub planned: PlannedIteration,
    /// Everything that was judged on the way, the best plan first and the others in no order that means anything.
    pub plans: Vec<PricedPlan>,
}

/// The best plan for an objective by `planner`. The plan is one for the request's cluster, of which it may leave nodes idle.
///
/// # Errors
/// As of the planner; [`PlanError::NoPrice`] where prices decide and a node has none; [`PlanError::Unmet`] where plans fit
/// but none keeps within the objective's limits.
pub fn plan(request: &PlanRequest, planner: &dyn Planner, objective: &Objective) -> Result<Rented, PlanError> {
    if objective.needs_prices() {
        Objective::check_prices(request.cluster)?;
    }
    let mut search = Search::new(request, objective);
    let whole = planner.plan(request)?;
    search.keep(&whole);
    if !objective.needs_prices() {
        return search.end(whole);
    }
    let all: Vec<u32> = search.kinds.iter().map(|nodes| nodes.len() as u32).collect();
    search.tried.insert(all.clone(), search.score(&whole));
    let quick = AutoHet { engine: Engine::Fast };
    for mix in mixes(&all) {
        search.try_mix(&mix, quick)?;
    }
    search.climb(quick)?;
    // The mixes that look best are planned with all care.
    let mut best = whole;
    for mix in search.best_mixes(2) {
        let cluster = search.cluster_of(&mix);
        let Ok(planned) = planner.plan(&PlanRequest { cluster: &cluster, ..*request }) else { continue };
        search.keep(&planned);
        if search.score(&planned) < search.score(&best) {
            best = planned;
        }
    }
    search.end(best)
}

/// Every plan worth knowing of: those for all mixes, for a front of throughput and cost.
pub fn survey(request: &PlanRequest, planner: &dyn Planner) -> Result<Vec<PricedPlan>, PlanError> {
    let objective = Objective { goal: crate::plan::Goal::UsdPerToken, ..Objective::default() };
    Ok(plan(request, planner, &objective)?.plans)
}

struct Search<'a> {
    request: &'a PlanRequest<'a>,
    objective: &'a Objective,
    /// Indices of equal nodes.
    kinds: Vec<Vec<usize>>,
    plans: Vec<PricedPlan>,
    /// Scores of mixes; infinite where nothing fits or a limit isn't kept.
    tried: BTreeMap<Vec<u32>, f64>,
}

impl<'a> Search<'a> {
    fn new(request: &'a PlanRequest<'a>, objective: &'a Objective) -> Self {
        let nodes = &request.cluster.nodes;
        let mut kinds: Vec<Vec<usize>> = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            match kinds.iter_mut().find(|kind| is_alike(&nodes[kind[0]], node)) {
                Some(kind) => kind.push(index),
                None => kinds.push(vec![index]),
            }
        }
        Self { request, objective, kinds, plans: Vec::new(), tried: BTreeMap::new() }
    }

    fn priced(&self, judged: &JudgedPlan) -> PricedPlan {
        PricedPlan::new(judged, self.request.cluster, self.request.cost.model().seq_length)
    }

    /// Remembers a plan and those that were passed over for it.
    fn keep(&mut self, planned: &PlannedIteration) {
        for judged in std::iter::once(&judged(planned)).chain(&planned.alternatives) {
            if !self.plans.iter().any(|known| known.plan == judged.plan) {
                self.plans.push(self.priced(judged));
            }
        }
    }

    /// What the objective makes of a plan; infinite where it doesn't allow it.
    fn score(&self, planned: &PlannedIteration) -> f64 {
        let priced = self.priced(&judged(planned));
        if self.objective.allows(&priced) { self.objective.score(&priced) } else { f64::INFINITY }
    }

    /// The first so many nodes of each kind.
    fn cluster_of(&self, mix: &[u32]) -> Cluster {
        let kept = self.kinds.iter().zip(mix).flat_map(|(nodes, &count)| &nodes[..count as usize]);
        let mut kept: Vec<usize> = kept.copied().collect();
        kept.sort_unstable();
        Cluster { nodes: kept.into_iter().map(|node| self.request.cluster.nodes[node].clone()).collect() }
    }

    fn try_mix(&mut self, mix: &[u32], quick: AutoHet) -> Result<(), PlanError> {
        if self.tried.contains_key(mix) || mix.iter().all(|count| *count == 0) {
            return Ok(());
        }
        let cluster = self.cluster_of(mix);
        let score = match quick.plan(&PlanRequest { cluster: &cluster, ..*self.request }.without_proof()) {
            Ok(planned) => {
                self.keep(&planned);
                self.score(&planned)
            }
            // Too few nodes for the model, or none that the profile measures.
            Err(PlanError::DoesNotFit { .. } | PlanError::Cost(_)) => f64::INFINITY,
            Err(error) => return Err(error),
        };
        self.tried.insert(mix.to_vec(), score);
        Ok(())
    }

    fn best_mixes(&self, most: usize) -> Vec<Vec<u32>> {
        let mut mixes: Vec<(&f64, &Vec<u32>)> = self.tried.iter().map(|(mix, score)| (score, mix)).collect();
        mixes.sort_by(|a, b| a.0.total_cmp(b.0).then_with(|| a.1.cmp(b.1)));
        mixes.into_iter().take(most).filter(|(score, _)| score.is_finite()).map(|(_, mix)| mix.clone()).collect()
    }

    /// Goes from the best mix to better ones, one node more or fewer at a time.
    fn climb(&mut self, quick: AutoHet) -> Result<(), PlanError> {
        for _ in 0..MAX_STEPS {
            let Some(best) = self.best_mixes(1).pop() else { return Ok(()) };
            for kind in 0..best.len() {
                for count in [best[kind].wrapping_sub(1), best[kind] + 1] {
                    if count as usize <= self.kinds[kind].len() {
                        let mut mix = best.clone();
                        mix[kind] = count;
                        self.try_mix(&mix, quick)?;
                    }
                }
            }
            if self.best_mixes(1).pop() == Some(best) {
                break;
            }
        }
        Ok(())
    }

    fn end(self, planned: PlannedIteration) -> Result<Rented, PlanError> {
        let allowed = self.plans.iter().filter(|plan| self.objective.allows(plan));
        let best = allowed.min_by(|a, b| self.objective.score(a).total_cmp(&self.objective.score(b)));
        let Some(best) = best.cloned() else { return Err(self.unmet()) };
        // A plan that was passed over for throughput may be the better one here.
        let planned = if planned.plan == best.plan { planned } else { self.proven(&best)? };
        let mut plans = vec![best];
        plans.extend(self.plans.into_iter().filter(|plan| plan.plan != plans[0].plan).collect::<Vec<_>>());
        Ok(Rented { planned, plans })
    }

    /// A plan with the bound of its own nodes: that of others says nothing of it.
    fn proven(&self, best: &PricedPlan) -> Result<PlannedIteration, PlanError> {
        let is_used = |node: &&Node| best.plan.stages().any(|(_, stage)| stage.node == node.name);
        let cluster = Cluster { nodes: self.request.cluster.nodes.iter().filter(is_used).cloned().collect() };
        let request = PlanRequest { cluster: &cluster, ..*self.request };
        let best = unpriced(best);
        let bound = AutoHet::lower_bound(&request, std::slice::from_ref(&best))?;
        let others = self.plans.iter().filter(|plan| plan.plan != best.plan).map(unpriced).collect();
        Ok(PlannedIteration::new(best, bound, others))
    }

    fn unmet(&self) -> PlanError {
        let fastest = self.plans.iter().map(|plan| plan.tokens_per_s).fold(0.0, f64::max);
        let cheapest = self.plans.iter().map(|plan| plan.usd_per_hour).fold(f64::INFINITY, f64::min);
        let mut reasons = Vec::new();
        if let Some(least) = self.objective.min_tokens_per_s {
            reasons.push(format!("at least {least} tokens/s are wanted, the fastest plan has {fastest:.0}"));
        }
        if let Some(most) = self.objective.max_usd_per_hour {
            reasons.push(format!("at most {most} USD/h are wanted, the cheapest plan found takes {cheapest:.2}"));
        }
        PlanError::Unmet { reason: reasons.join("; ") }
    }
}

fn judged(planned: &PlannedIteration) -> JudgedPlan {
    JudgedPlan { plan: planned.plan.clone(), predicted_iteration_s: planned.predicted_iteration_s }
}

fn unpriced(plan: &PricedPlan) -> JudgedPlan {
    JudgedPlan { plan: plan.plan.clone(), predicted_iteration_s: plan.predicted_iteration_s }
}

/// Whether it doesn't matter which of two nodes is rented.
fn is_alike(a: &Node, b: &Node) -> bool {
    Node { name: String::new(), ..a.clone() } == Node { name: String::new(), ..b.clone() }
}

/// Mixes to begin with: every combination of a few numbers of nodes of each kind, none and all among them.
fn mixes(all: &[u32]) -> Vec<Vec<u32>> {
    let mut numbers: Vec<Vec<u32>> = all.iter().map(|&count| few_numbers(count)).collect();
    while numbers.iter().map(Vec::len).product::<usize>() > MAX_MIXES {
        let Some(longest) = numbers.iter_mut().max_by_key(|numbers| numbers.len()) else { break };
        let [first, inner @ .., last] = longest.as_slice() else { break };
        if inner.is_empty() {
            break;
        }
        let kept = inner.iter().skip(1).step_by(2);
        *longest = std::iter::once(first).chain(kept).chain([last]).copied().collect();
    }
    let mut mixes: Vec<Vec<u32>> = vec![Vec::new()];
    for numbers in numbers {
        let longer =
            |mix: &Vec<u32>| numbers.iter().map(|number| [mix.as_slice(), &[*number]].concat()).collect::<Vec<_>>();
        mixes = mixes.iter().flat_map(longer).collect();
        mixes.truncate(4 * MAX_MIXES);
    }
    mixes
}

/// None, each up to 4, then two to each doubling, and all.
fn few_numbers(all: u32) -> Vec<u32> {
    let is_few = |&count: &u32| {
        count <= 4 || count == all || count.is_power_of_two() || (count / 3).is_power_of_two() && count % 3 == 0
    };
    (0..=all).filter(is_few).collect()
}

#[cfg(test)]
mod tests;
