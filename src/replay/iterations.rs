//! Simulated iterations that several replays share.

use super::ReplaySettings;
use crate::cluster::Cluster;
use crate::cost::{CostError, CostModel};
use crate::elastic::checkpoint::{PersistTimes, persist_times};
use crate::elastic::without_names;
use crate::metrics::{IterationBreakdown, interface_use};
use crate::plan::{Judge, Plan};
use crate::runtime::sim::{SimError, SimulatedIteration, simulate};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What an iteration of a plan goes into, and by stage the share of it in which its node's interface is in use.
pub(super) type Measured = (Arc<IterationBreakdown>, Arc<[f64]>);

/// A plan with its nodes named by what they are, and what uploads take of their interfaces: 128 bits of it.
type Key = (u64, u64);

/// Iterations by plan over nodes without names. To be shared by replays of one job on nodes with one network.
#[derive(Debug, Default)]
pub struct IterationMemory {
    known: Mutex<HashMap<Key, Measured>>,
    /// Seconds of those that planners had executed.
    judged: Mutex<HashMap<Key, f64>>,
}

impl IterationMemory {
    /// One iteration of a plan on its nodes, while each of them sends `upload_bytes_per_s` to the object store.
    pub(super) fn measure(
        &self,
        plan: &Plan,
        cluster: &Cluster,
        cost: &CostModel,
        upload_bytes_per_s: f64,
    ) -> Result<Measured, SimError> {
        let key = key(plan, cluster, upload_bytes_per_s);
        if let Some(known) = lock(&self.known).get(&key) {
            return Ok(known.clone());
        }
        let iteration = if upload_bytes_per_s > 0.0 {
            simulate(plan, &left_by_uploads(cluster, upload_bytes_per_s), cost)?
        } else {
            simulate(plan, cluster, cost)?
        };
        Ok(self.note(key, &iteration, plan))
    }

    fn note(&self, key: Key, iteration: &SimulatedIteration, plan: &Plan) -> Measured {
        let measured = (Arc::new(IterationBreakdown::of(iteration)), interface_use(iteration, plan).into());
        lock(&self.known).insert(key, Measured::clone(&measured));
        measured
    }
}

/// The plan, whoever made it, on whatever nodes of these kinds.
fn key(plan: &Plan, cluster: &Cluster, upload_bytes_per_s: f64) -> Key {
    let shape = Plan { planner: String::new(), ..without_names(plan, cluster) };
    let mut hashed = Hashed([DefaultHasher::new(), DefaultHasher::new()]);
    for (salt, hasher) in hashed.0.iter_mut().enumerate() {
        (salt, upload_bytes_per_s.to_bits()).hash(hasher);
    }
    serde_json::to_writer(&mut hashed, &shape).expect("a plan has string keys and finite numbers only");
    let [one, other] = hashed.0;
    (one.finish(), other.finish())
}

/// Hashes what is written to it, twice.
struct Hashed([DefaultHasher; 2]);

impl std::io::Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.iter_mut().for_each(|hasher| hasher.write(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The simulator as the judge of one policy's planner, which executes no plan twice. Of the plans for one cluster it keeps the
/// fastest one's iteration, since that is what will be run.
pub(super) struct RememberingJudge<'a> {
    memory: &'a IterationMemory,
    fastest: Mutex<Option<Fastest>>,
}

struct Fastest {
    cluster: Cluster,
    key: Key,
    seconds: f64,
    plan: Plan,
    iteration: SimulatedIteration,
}

impl<'a> RememberingJudge<'a> {
    pub(super) fn new(memory: &'a IterationMemory) -> Self {
        Self { memory, fastest: Mutex::new(None) }
    }

    /// As [`IterationMemory::measure`], from what was executed when the plan was made, if that is at hand.
    pub(super) fn measure(
        &self,
        plan: &Plan,
        cluster: &Cluster,
        cost: &CostModel,
        upload_bytes_per_s: f64,
    ) -> Result<Measured, SimError> {
        let key = key(plan, cluster, upload_bytes_per_s);
        if let Some(Fastest { plan, iteration, .. }) = lock(&self.fastest).take_if(|fastest| fastest.key == key) {
            let known = lock(&self.memory.known).get(&key).cloned();
            return Ok(known.unwrap_or_else(|| self.memory.note(key, &iteration, &plan)));
        }
        self.memory.measure(plan, cluster, cost, upload_bytes_per_s)
    }

    fn keep(&self, key: Key, seconds: f64, (plan, cluster): (&Plan, &Cluster), iteration: SimulatedIteration) {
        let mut fastest = lock(&self.fastest);
        if fastest.as_ref().is_none_or(|known| known.seconds > seconds || known.cluster != *cluster) {
            *fastest = Some(Fastest { cluster: cluster.clone(), key, seconds, plan: plan.clone(), iteration });
        }
    }
}

impl Judge for RememberingJudge<'_> {
    fn iteration_s(&self, plan: &Plan, cluster: &Cluster, cost: &CostModel) -> Result<f64, CostError> {
        let key = key(plan, cluster, 0.0);
        if let Some(seconds) = lock(&self.memory.judged).get(&key) {
            return Ok(*seconds);
        }
        let iteration = match simulate(plan, cluster, cost) {
            Ok(iteration) => iteration,
            Err(SimError::Cost(error)) => return Err(error),
            Err(SimError::UnknownNode(node)) => unreachable!("a planner uses nodes of its cluster, not `{node}`"),
        };
        let seconds = iteration.timeline.makespan().as_seconds();
        lock(&self.memory.judged).insert(key, seconds);
        self.keep(key, seconds, (plan, cluster), iteration);
        Ok(seconds)
    }
}

/// How long checkpoints of the last plan that took one are on their way: most are of the same plan as the one before.
#[derive(Debug, Default)]
pub(super) struct LastPersisted(Option<(Arc<Plan>, bool, PersistTimes)>);

impl LastPersisted {
    /// How long a checkpoint of the plan is on its way, with the interfaces to itself if `alone`, else with half of them.
    pub(super) fn times(
        &mut self,
        plan: &Arc<Plan>,
        alone: bool,
        cluster: &Cluster,
        settings: ReplaySettings<'_>,
    ) -> PersistTimes {
        let is_same = |(last, were_alone, _): &&(Arc<Plan>, bool, _)| Arc::ptr_eq(last, plan) && *were_alone == alone;
        if let Some((.., times)) = self.0.as_ref().filter(is_same) {
            return *times;
        }
        let left = if alone { cluster.clone() } else { left_by_uploads(cluster, f64::INFINITY) };
        let times = persist_times(plan, settings.cost, &left, settings.checkpoint);
        self.0 = Some((Arc::clone(plan), alone, times));
        times
    }
}

/// The nodes with what uploads leave of their interfaces: an upload shares an interface evenly with what training sends, and
/// takes no more than it can use.
fn left_by_uploads(cluster: &Cluster, upload_bytes_per_s: f64) -> Cluster {
    let mut left = cluster.clone();
    for node in &mut left.nodes {
        node.nic.bytes_per_s -= upload_bytes_per_s.min(node.nic.bytes_per_s / 2.0);
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::NodeDefaults;

    #[test]
    fn an_upload_takes_what_it_can_use_and_no_more_than_half() {
        let cluster = Cluster::parse_mix("1x1xT4", &NodeDefaults::default()).unwrap();
        // 100 Gbit/s.
        let left = |upload| left_by_uploads(&cluster, upload).nodes[0].nic.bytes_per_s;
        assert_eq!((left(0.0), left(1e9), left(1e12)), (12.5e9, 11.5e9, 6.25e9));
    }
}
