//! The upper bound: what could be trained on a trace if nothing were ever lost.
//!
//! Between two changes of the trace the nodes are the same. In each such stretch the bound runs the fastest plan that is known
//! for them: its own planner's, or any that a policy beside it has run and whose nodes are there in kind and number. Changes
//! take no time, and an iteration that is under way goes on under the next plan.
//!
//! No policy counts more iterations. An iteration that counts has run from its begin to its end on nodes that were all there, of
//! a plan that is known here; so in each stretch it got no farther than its time there over the shortest iteration of that
//! stretch, and these parts, which add up to one for each iteration, add up to no more than the bound. Parts are counted in
//! units of 2^-64, rounded up. Policies that have other nodes than the trace's are not bounded by it.

use super::books::Books;
use super::iterations::RememberingJudge;
use super::outcome::{Phase, PolicyOutcome};
use super::world::Ran;
use super::{ReplayError, ReplaySettings};
use crate::cluster::Cluster;
use crate::elastic::{MembershipChange, NodeClass, Policy, nameless};
use crate::metrics::IterationBreakdown;
use crate::plan::{Plan, PlanError, PlanRequest, PlannedIteration};
use crate::units::SimTime;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A whole iteration.
const WHOLE: u32 = 64;

/// Nodes by kind.
pub(super) type Mix = BTreeMap<NodeClass, usize>;

/// The fastest plan of some nodes, with what an iteration of it goes into.
type Best = (Arc<IterationBreakdown>, Arc<PlannedIteration>);

/// A plan that is known, and the nodes that it needs.
pub(super) struct Known {
    pub(super) planned: Arc<PlannedIteration>,
    pub(super) breakdown: Arc<IterationBreakdown>,
    needs: Mix,
}

impl Known {
    /// A plan on nodes of this cluster.
    pub(super) fn new(planned: Arc<PlannedIteration>, breakdown: Arc<IterationBreakdown>, cluster: &Cluster) -> Self {
        let needs = needs(&planned.plan, cluster);
        Self { planned, breakdown, needs }
    }

    fn fits(&self, mix: &Mix) -> bool {
        self.needs.iter().all(|(class, count)| mix.get(class).is_some_and(|there| there >= count))
    }
}

/// Runs the bound beside what others have `ran`.
pub(super) fn bound(
    policy: &Policy,
    request: PlanRequest<'_>,
    (settings, judge): (ReplaySettings<'_>, &RememberingJudge<'_>),
    changes: &[(SimTime, MembershipChange)],
    span: SimTime,
    ran: &[Ran],
) -> Result<PolicyOutcome, ReplayError> {
    let mut oracle = Oracle {
        policy,
        request,
        judge,
        known: Vec::new(),
        others: ran.iter().flat_map(|ran| &ran.known).collect(),
        by_mix: BTreeMap::new(),
        used: Vec::new(),
        numbers: BTreeMap::new(),
        refusal: None,
    };
    let mut books = Books::new();
    let mut parts = 0_u128;
    let ends = changes.iter().skip(1).map(|(time, _)| *time).chain([span]);
    for ((time, change), end) in changes.iter().filter(|(time, _)| *time <= span).zip(ends) {
        books.advance_waiting(*time);
        change.lost.iter().for_each(|name| books.node_down(*time, name));
        change.joined.iter().for_each(|node| books.node_up(*time, node.clone()));
        let cluster = Cluster { nodes: books.nodes().cloned().collect() };
        let end = end.min(span);
        match oracle.best(&cluster)? {
            Some((breakdown, number)) => {
                books.enter(*time, Phase::Training, Some(number));
                let passed = u128::from((end - *time).0);
                let before = parts >> WHOLE;
                parts += (passed << WHOLE).div_ceil(u128::from(breakdown.makespan.max(SimTime(1)).0));
                books.advance_ideal(end, &breakdown, ((parts >> WHOLE) - before) as u64);
            }
            None => books.enter(*time, Phase::Waiting, None),
        }
    }
    books.advance_waiting(span);
    let closed = books.close(span);
    Ok(PolicyOutcome::new(policy, closed, settings, oracle.used, oracle.refusal))
}

struct Oracle<'a> {
    policy: &'a Policy,
    request: PlanRequest<'a>,
    judge: &'a RememberingJudge<'a>,
    /// Plans of its own planner.
    known: Vec<Known>,
    others: Vec<&'a Known>,
    /// The best by mix: of its own, or of the others'.
    by_mix: BTreeMap<Mix, Option<Best>>,
    used: Vec<Arc<PlannedIteration>>,
    /// Places in `used` by address: a plan is used again and again.
    numbers: BTreeMap<usize, usize>,
    refusal: Option<String>,
}

impl Oracle<'_> {
    /// The fastest plan for these nodes with its place among those used; `None` where nothing fits.
    fn best(&mut self, cluster: &Cluster) -> Result<Option<(Arc<IterationBreakdown>, usize)>, ReplayError> {
        let mix = mix(cluster);
        if !self.by_mix.contains_key(&mix) {
            self.plan(cluster)?;
            let fitting = self.others.iter().copied().chain(&self.known).filter(|known| known.fits(&mix));
            let best = fitting.min_by_key(|known| known.breakdown.makespan);
            let best = best.map(|known| (Arc::clone(&known.breakdown), Arc::clone(&known.planned)));
            self.by_mix.insert(mix.clone(), best);
        }
        let Some((breakdown, planned)) = self.by_mix[&mix].clone() else { return Ok(None) };
        let used = &mut self.used;
        let number = *self.numbers.entry(Arc::as_ptr(&planned).addr()).or_insert_with(|| {
            used.push(planned);
            used.len() - 1
        });
        Ok(Some((breakdown, number)))
    }

    fn plan(&mut self, cluster: &Cluster) -> Result<(), ReplayError> {
        if cluster.nodes.is_empty() {
            return Ok(());
        }
        // As everybody is asked, so that who has planned for the same kind of cluster has the plan already.
        let cluster = &nameless(cluster);
        match self.policy.planner.plan(&PlanRequest { cluster, ..self.request }.without_proof()) {
            Ok(planned) => {
                let (breakdown, _) = self.judge.measure(&planned.plan, cluster, self.request.cost, 0.0)?;
                let planned = PlannedIteration { alternatives: Vec::new(), ..planned };
                self.known.push(Known::new(Arc::new(planned), breakdown, cluster));
                Ok(())
            }
            Err(refusal @ PlanError::DoesNotFit { .. }) => {
                self.refusal = Some(refusal.to_string());
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn mix(cluster: &Cluster) -> Mix {
    let mut mix = Mix::new();
    for node in &cluster.nodes {
        *mix.entry(NodeClass::of(node)).or_default() += 1;
    }
    mix
}

/// The nodes that a plan uses, by kind.
pub(super) fn needs(plan: &Plan, cluster: &Cluster) -> Mix {
    let used: std::collections::BTreeSet<&str> = plan.stages().map(|(_, stage)| stage.node.as_str()).collect();
    let nodes = cluster.nodes.iter().filter(|node| used.contains(node.name.as_str())).cloned().collect();
    mix(&Cluster { nodes })
}
