//! A change of plan: where it leads, how state gets there, and how long it takes.

use super::fetch::fetch_time;
use super::plan_cache::PlacedPlan;
use super::recovery::{RecoveryPlan, Source};
use super::storage::StorageBandwidths;
use crate::cluster::Cluster;
use crate::plan::Plan;
use crate::units::SimTime;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A change from whatever was to a plan.
#[derive(Clone, Debug)]
pub struct Reconfiguration {
    /// The plan, on nodes.
    pub placed: PlacedPlan,
    /// Which state comes from where, and from which step training goes on.
    pub recovery: RecoveryPlan,
    /// Why.
    pub cause: Cause,
    /// How long it takes if nothing comes between.
    pub time: ReconfigurationTime,
}

/// Why a plan is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A node of the plan was lost.
    Loss,
    /// A node of the plan is about to be lost.
    Notice,
    /// Nodes came.
    Join,
    /// Nodes came while nothing was running.
    Resume,
}

/// The parts of a change of plan, one after the other. State moves before communicators are made anew, so that nodes that
/// are about to go are needed no longer than that takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReconfigurationTime {
    /// Until a loss is noticed and there is a coordinator to act on it; nothing for changes that are known beforehand.
    pub detect: SimTime,
    /// Planning.
    pub plan: SimTime,
    /// Rendezvous and communicators.
    pub connect: SimTime,
    /// Until the last rank has its state.
    pub fetch: SimTime,
}

/// What a change of plan does without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spared {
    /// The plan was there before it was needed.
    pub planning: bool,
    /// What of the rendezvous and of making communicators was done beside training, before it stopped, or isn't needed.
    pub connected: SimTime,
}

/// What a change of plan costs beside moving state. Constants, not measured while running, so that a replay gives the
/// same bytes on every machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ReconfigurationSettings {
    /// Until a loss without notice is noticed: a heartbeat's time-out. Assumed.
    pub detection_s: f64,
    /// Planning. Above what this program's planner takes for the clusters it was measured on.
    pub planning_s: f64,
    /// Rendezvous of the ranks; 6.6 s as measured by others for elastic training.
    pub rendezvous_s: f64,
    /// Rebuilding the communicators of one node; 29 s as measured by others on 10 Gbit/s.
    pub communicators_s: f64,
    /// More of it for each further node: they measured 43 s with 16 nodes.
    pub communicators_per_node_s: f64,
    /// Until another node has taken the coordinator's part over, from the loss of the node that it ran on: the lease of
    /// Kubernetes' leader election by default.
    pub coordinator_s: f64,
    /// Time that a new node is paid for before it is there for training: booting, pulling the image. None by default: rows
    /// of a trace stand for nodes that are ready.
    pub boot_s: f64,
    /// Time that a new node has to be up before training takes it in, unless nothing fits without it: many are lost within
    /// minutes. None by default.
    pub min_up_s: f64,
    /// Rate at which all ranks together take in what isn't in their own memory. No limit where each rank has cores of its
    /// own; not a setting of scenarios.
    #[serde(skip)]
    pub transfer_bytes_per_s: f64,
    /// Whether changes take the times that are foreseen, so that it is known at any moment what has arrived; not a setting of
    /// scenarios.
    #[serde(skip)]
    pub is_as_foreseen: bool,
}

impl Default for ReconfigurationSettings {
    fn default() -> Self {
        Self {
            detection_s: 10.0,
            planning_s: 2.0,
            rendezvous_s: 6.6,
            communicators_s: 29.0,
            communicators_per_node_s: 14.0 / 15.0,
            coordinator_s: 15.0,
            boot_s: 0.0,
            min_up_s: 0.0,
            transfer_bytes_per_s: f64::INFINITY,
            is_as_foreseen: true,
        }
    }
}

impl ReconfigurationSettings {
    /// For workers that are processes of one machine, which notice a closed socket at once.
    ///
    /// Measured on two cores that other programs shared: `planning_s`, `gather_s` and `total_s` of 24 changes of plan of
    /// `autohet-run` with gpt-tiny on emulated `2x1xT4+2x1xL4`, whose nodes were killed at chosen steps. After a loss it
    /// took 14 to 181 ms, 86 in the median of the later half, until the survivors had let go of the iteration, beyond the pass that they were
    /// in; before a join, 3 ms. Planning took 0.2 to 4.9 ms. Connecting took 30 to 79 ms, 44 in the median, also where
    /// ranks had all their state in their own memory; each rank that read its 12 MB from others took 70 ms more.
    pub fn one_machine() -> Self {
        Self {
            detection_s: 0.086,
            planning_s: 0.001,
            rendezvous_s: 0.044,
            communicators_s: 0.0,
            communicators_per_node_s: 0.0,
            // It is the process that starts the workers.
            coordinator_s: 0.0,
            boot_s: 0.0,
            min_up_s: 0.0,
            transfer_bytes_per_s: 180e6,
            is_as_foreseen: false,
        }
    }

    /// Rendezvous and communicators of the plan's nodes, in seconds.
    pub fn connect_s(&self, plan: &Plan) -> f64 {
        let stages = plan.replicas.iter().flat_map(|replica| &replica.stages);
        let nodes: BTreeSet<&str> = stages.map(|stage| stage.node.as_str()).collect();
        let further_nodes = nodes.len().saturating_sub(1) as f64;
        self.rendezvous_s + self.communicators_s + self.communicators_per_node_s * further_nodes
    }

    /// How long a change to `plan` takes; `present` are the nodes that state can be read from.
    pub fn time(
        &self,
        cause: Cause,
        plan: &Plan,
        recovery: &RecoveryPlan,
        present: &Cluster,
        bandwidths: &StorageBandwidths,
        spared: Spared,
    ) -> ReconfigurationTime {
        let transferred = recovery.bytes_from(|source| *source != Source::OwnMemory);
        let transfer_s = transferred as f64 / self.transfer_bytes_per_s;
        ReconfigurationTime {
            detect: SimTime::from_seconds(if cause == Cause::Loss { self.detection_s } else { 0.0 }),
            plan: SimTime::from_seconds(if spared.planning { 0.0 } else { self.planning_s }),
            connect: SimTime::from_seconds(self.connect_s(plan)).saturating_sub(spared.connected),
            fetch: fetch_time(recovery, present, bandwidths).max(SimTime::from_seconds(transfer_s)),
        }
    }
}

impl ReconfigurationTime {
    /// All parts together.
    pub fn total(&self) -> SimTime {
        self.detect + self.plan + self.connect + self.fetch
    }
}
