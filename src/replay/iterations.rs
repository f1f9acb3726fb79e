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
    /// One iteration of a plan on its nodes. `shape` is the same plan over nodes named by what they are.
    pub(super) fn measure(
        &self,
        shape: &Plan,
        plan: &Plan,
        cluster: &Cluster,
        cost: &CostModel,
    ) -> Result<Measured, SimError> {
        let key = shape.to_json();
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&key) {
            return Ok(known.clone());
        }
        let iteration = simulate(plan, cluster, cost)?;
        let measured = (Arc::new(IterationBreakdown::of(&iteration)), interface_use(&iteration, plan).into());
        lock().insert(key, Measured::clone(&measured));
        Ok(measured)
    }
}
