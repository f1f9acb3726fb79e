//! What runs share: each is worked out once, whichever run needs it first.

use super::SweepCache;
use super::hash::hash;
use crate::cluster::Cluster;
use crate::cost::{CostError, CostModel};
use crate::plan::{Judge, Plan, PlanError, PlanRequest, PlannedIteration, Planner};
use crate::report::{SweepOutcome, SweepStatus};
use crate::runtime::sim::Simulator;
use crate::scenario::{JobError, Scenario};
use crate::trace::Trace;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A map that many runs look into. Two that miss the same entry both work it out: the same, so either is kept.
struct Memo<K, V>(Mutex<BTreeMap<K, V>>);

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord, V: Clone> Memo<K, V> {
    fn get(&self, key: &K) -> Option<V> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn put(&self, key: K, value: V) -> V {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_insert(value).clone()
    }

    fn try_get<E>(&self, key: K, work: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
        match self.get(&key) {
            Some(known) => Ok(known),
            None => Ok(self.put(key, work()?)),
        }
    }
}

/// A plan, or why nothing fits and what would help.
type Planned = Result<Arc<PlannedIteration>, (String, String)>;

/// A cost model with a number that stands for all that it was made of.
#[derive(Clone)]
pub(super) struct SharedCost {
    pub(super) model: Arc<CostModel>,
    id: u128,
}

/// What the runs of a sweep share.
#[derive(Default)]
pub struct Shared {
    costs: Memo<u128, SharedCost>,
    traces: Memo<String, Arc<Trace>>,
    contents: Memo<PathBuf, u128>,
    iterations: Memo<u128, f64>,
    plans: Memo<u128, Planned>,
    outcomes: Memo<u128, SweepOutcome>,
    disk: Option<SweepCache>,
    from_disk: AtomicUsize,
}

impl Shared {
    /// Nothing yet, with outcomes kept on disk too where a cache is given.
    pub fn new(disk: Option<SweepCache>) -> Self {
        Self { disk, ..Self::default() }
    }

    /// Outcomes that were found on disk.
    pub fn found_on_disk(&self) -> usize {
        self.from_disk.load(Ordering::Relaxed)
    }

    pub(super) fn known(&self, key: u128, content: &str) -> Option<SweepOutcome> {
        if let Some(known) = self.outcomes.get(&key) {
            return Some(known);
        }
        let found = self.disk.as_ref()?.get(key, content)?;
        self.from_disk.fetch_add(1, Ordering::Relaxed);
        Some(self.outcomes.put(key, found))
    }

    pub(super) fn keep(&self, key: u128, content: &str, outcome: &SweepOutcome) {
        // What failed may go well next time: a file may be there by then.
        if outcome.status == SweepStatus::Error {
            return;
        }
        self.outcomes.put(key, outcome.clone());
        if let Some(disk) = &self.disk {
            disk.put(key, content, outcome);
        }
    }

    /// A number that stands for what is in a file, or in all files of a folder.
    pub(super) fn content_of(&self, path: &Path) -> u128 {
        let read = || -> Result<u128, ()> {
            let mut paths = vec![path.to_owned()];
            if path.is_dir() {
                paths = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
                paths.sort();
            }
            let texts: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).unwrap_or_default()).collect();
            Ok(hash(&texts.iter().map(Vec::as_slice).collect::<Vec<_>>()))
        };
        self.contents.try_get(path.to_owned(), read).unwrap_or_default()
    }

    pub(super) fn cost(&self, scenario: &Scenario) -> Result<SharedCost, JobError> {
        let Scenario { profile, cost, framework, .. } = scenario;
        let model = scenario.model_spec()?;
        let contents: Vec<u128> = profile.iter().map(|path| self.content_of(path)).collect();
        let id = hash(&[format!("{model:?} {profile:?} {contents:?} {cost:?} {framework:?}").as_bytes()]);
        self.costs.try_get(id, || Ok(SharedCost { model: Arc::new(scenario.cost_model_of(model)?), id }))
    }

    /// The cost model of a scenario.
    pub fn cost_model(&self, scenario: &Scenario) -> Result<Arc<CostModel>, JobError> {
        Ok(self.cost(scenario)?.model)
    }

    pub(super) fn trace<E>(&self, key: String, read: impl FnOnce() -> Result<Trace, E>) -> Result<Arc<Trace>, E> {
        self.traces.try_get(key, || read().map(Arc::new))
    }

    /// The simulator, which executes no plan twice.
    pub(super) fn judge<'a>(&'a self, cost: &SharedCost) -> RememberingJudge<'a> {
        RememberingJudge { shared: self, cost: cost.id }
    }
}

/// The simulator with a memory.
pub(super) struct RememberingJudge<'a> {
    shared: &'a Shared,
    cost: u128,
}

impl Judge for RememberingJudge<'_> {
    fn iteration_s(&self, plan: &Plan, cluster: &Cluster, cost: &CostModel) -> Result<f64, CostError> {
        // Who planned it makes it no slower, nor do nodes that it leaves alone.
        let nameless = Plan { planner: String::new(), ..plan.clone() };
        let plan_text = serde_json::to_vec(&nameless).unwrap_or_default();
        let is_used = |name: &str| plan.stages().any(|(_, stage)| stage.node == name);
        let nodes: Vec<_> = cluster.nodes.iter().filter(|node| is_used(&node.name)).collect();
        let key = hash(&[&self.cost.to_le_bytes(), &plan_text, format!("{nodes:?}").as_bytes()]);
        self.shared.iterations.try_get(key, || Simulator.iteration_s(plan, cluster, cost))
    }
}

/// A planner that plans for no cluster twice: replays come back to the same mixes again and again.
pub(super) struct RememberingPlanner {
    pub(super) inner: Box<dyn Planner>,
    pub(super) shared: Arc<Shared>,
    /// What tells it from other planners, and the cost model from others.
    pub(super) name: String,
    pub(super) cost: u128,
}

impl SharedCost {
    pub(super) fn id(&self) -> u128 {
        self.id
    }
}

impl Planner for RememberingPlanner {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn plan(&self, request: &PlanRequest) -> Result<PlannedIteration, PlanError> {
        let PlanRequest { cluster, training, limits, .. } = *request;
        let asked = format!("{} {} {} {training:?} {cluster:?}", self.name, limits.work, limits.bound_work);
        let key = hash(&[&self.cost.to_le_bytes(), asked.as_bytes()]);
        let planned = self.shared.plans.try_get(key, || match self.inner.plan(request) {
            Ok(planned) => Ok(Ok(Arc::new(PlannedIteration { alternatives: Vec::new(), ..planned }))),
            Err(PlanError::DoesNotFit { reason, hint }) => Ok(Err((reason, hint))),
            Err(error) => Err(error),
        })?;
        match planned {
            Ok(planned) => Ok((*planned).clone()),
            Err((reason, hint)) => Err(PlanError::DoesNotFit { reason, hint }),
        }
    }
}
