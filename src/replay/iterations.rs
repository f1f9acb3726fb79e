//! Simulated iterations that several replays share.

use crate::cluster::Cluster;
use crate::cost::CostModel;
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

/// The nodes with what uploads leave of their interfaces: an upload shares an interface evenly with what training sends, and
/// takes no more than it can use.
pub(super) fn left_by_uploads(cluster: &Cluster, upload_bytes_per_s: f64) -> Cluster {
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
