//! Simulated iterations that several replays share.

use super::ReplaySettings;
use crate::cluster::Cluster;
use crate::cost::CostModel;
use crate::elastic::checkpoint::{PersistTimes, persist_times};
use crate::metrics::{IterationBreakdown, interface_use};
use crate::plan::Plan;
use crate::runtime::sim::{SimError, simulate};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What an iteration of a plan goes into, and by stage the share of it in which its node's interface is in use.
pub(super) type Measured = (Arc<IterationBreakdown>, Arc<[f64]>);

/// Iterations by plan over nodes without names. To be shared by replays of one job on nodes with one network.
#[derive(Debug, Default)]
pub struct IterationMemory {
    known: Mutex<HashMap<String, Measured>>,
}

impl IterationMemory {
    /// One iteration of a plan on its nodes, while each of them sends `upload_bytes_per_s` to the object store. `shape` is the
    /// same plan over nodes named by what they are.
    pub(super) fn measure(
        &self,
        (shape, plan): (&Plan, &Plan),
        cluster: &Cluster,
        cost: &CostModel,
        upload_bytes_per_s: f64,
    ) -> Result<Measured, SimError> {
        let key = format!("{upload_bytes_per_s} {}", shape.to_json());
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&key) {
            return Ok(known.clone());
        }
        let iteration = if upload_bytes_per_s > 0.0 {
            simulate(plan, &left_by_uploads(cluster, upload_bytes_per_s), cost)?
        } else {
            simulate(plan, cluster, cost)?
        };
        let measured = (Arc::new(IterationBreakdown::of(&iteration)), interface_use(&iteration, plan).into());
        lock().insert(key, Measured::clone(&measured));
        Ok(measured)
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
