//! What a replay leaves behind: everything that reports are made from.

use super::ReplaySettings;
use super::accounts::{OtherCosts, Spending};
use super::books::Closed;
use crate::elastic::policies::Capacity;
use crate::elastic::{Cause, Policy, ReconfigurationTime, RecoveryPlan, Source};
use crate::metrics::{GpuTime, Ledger};
use crate::plan::{Plan, PlannedIteration};
use crate::trace::NodeEvent;
use crate::units::SimTime;
use serde::Serialize;
use std::sync::Arc;

/// A trace replayed under one or more policies.
#[derive(Clone, Debug)]
pub struct Replay {
    /// Length of the trace.
    pub span: SimTime,
    /// GPU types that appear in it, in the order of [`CapacityPoint::gpus`].
    pub gpu_types: Vec<String>,
    /// GPUs that are up, from each change on. The same for every policy.
    pub capacity: Vec<CapacityPoint>,
    /// Times at which nodes were lost, and how many.
    pub losses: Vec<(SimTime, u32)>,
    /// One outcome per policy, in the order asked for.
    pub policies: Vec<PolicyOutcome>,
}

/// GPUs up from a point in time on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityPoint {
    /// When it changed.
    pub time: SimTime,
    /// GPUs by type.
    pub gpus: Vec<u32>,
}

/// What one policy made of the trace.
#[derive(Clone, Debug)]
pub struct PolicyOutcome {
    /// Name of the policy.
    pub policy: &'static str,
    /// Which nodes it had.
    pub capacity: Capacity,
    /// What it rents on demand, where it doesn't live on the trace's nodes.
    pub rented: Option<Vec<NodeEvent>>,
    /// Where the GPU time went. Adds up to `paid`.
    pub ledger: Ledger,
    /// GPU time from each node's start to its end.
    pub paid: GpuTime,
    /// Price of it.
    pub usd: f64,
    /// The same by GPU type, zone and price over time, in the order of their names.
    pub spending: Vec<Spending>,
    /// What else was paid for.
    pub other: OtherCosts,
    /// When checkpoints were whole in the object store.
    pub stored: Vec<SimTime>,
    /// Iterations that count: done and not rolled back.
    pub iterations: u64,
    /// Iterations that were done and then rolled back.
    pub iterations_rolled_back: u64,
    /// Samples of the iterations that count.
    pub samples: u64,
    /// Tokens of those.
    pub tokens: u64,
    /// What happened in each stretch of time, without gaps, from zero to the span.
    pub segments: Vec<Segment>,
    /// Changes of plan under way, the first start excepted.
    pub recoveries: Vec<RecoveryRecord>,
    /// Plans in the order in which they were first used, on the nodes of their first use.
    pub plans: Vec<Arc<PlannedIteration>>,
    /// Why nothing fitted, the last time that nothing did; `None` if there was no node to fit anything on.
    pub refusal: Option<String>,
}

impl PolicyOutcome {
    /// What was paid for in all.
    pub fn total_usd(&self) -> f64 {
        self.usd + self.other.usd()
    }

    /// An outcome from its closed books, not yet priced.
    pub(super) fn new(
        policy: &Policy,
        closed: Closed,
        settings: ReplaySettings<'_>,
        plans: Vec<Arc<PlannedIteration>>,
        refusal: Option<String>,
    ) -> Self {
        let samples = closed.iterations * u64::from(settings.training.global_batch_size);
        Self {
            policy: policy.name,
            capacity: policy.capacity,
            rented: None,
            ledger: closed.ledger,
            paid: closed.paid,
            usd: 0.0,
            spending: Vec::new(),
            other: OtherCosts::default(),
            stored: Vec::new(),
            iterations: closed.iterations,
            iterations_rolled_back: closed.rolled_back,
            samples,
            tokens: samples * u64::from(settings.cost.model().seq_length),
            segments: closed.segments,
            recoveries: Vec::new(),
            plans,
            refusal,
        }
    }
}

/// A stretch of time in which a policy did one thing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// Its start.
    pub start: SimTime,
    /// Its end.
    pub end: SimTime,
    /// What went on.
    pub phase: Phase,
    /// Index into [`PolicyOutcome::plans`], where there is a plan.
    pub plan: Option<usize>,
    /// Iterations finished in it, also those rolled back later.
    pub iterations: u64,
    /// Iterations rolled back at its start.
    pub rolled_back: u64,
}

/// What a policy can be doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Iterations run.
    Training,
    /// Everything stands still for a snapshot.
    Checkpointing,
    /// A change of plan is under way.
    Recovering,
    /// No plan fits what is there.
    Waiting,
}

/// One change of plan, from the stop of training to its start.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecoveryRecord {
    /// When training stopped.
    pub start: SimTime,
    /// When it went on.
    pub end: SimTime,
    /// Why.
    pub cause: Cause,
    /// Finished iterations that were rolled back.
    pub lost_iterations: u64,
    /// Changes that were begun and overtaken by another loss before this one succeeded.
    pub attempts_overtaken: u32,
    /// How long its parts took.
    pub time: ReconfigurationTime,
    /// Bytes of state fetched, by where they came from.
    pub fetched: FetchedBytes,
    /// The plan that it led to, on its nodes.
    #[serde(skip)]
    pub plan: Arc<Plan>,
}

/// Bytes of state by source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FetchedBytes {
    /// Already in the memory of the node that needs them: of its GPUs, or of its host as a copy.
    pub own_memory: u64,
    /// On the node's own disk.
    pub own_disk: u64,
    /// From a surviving node's memory, a copy in its host memory, or its disk.
    pub peers: u64,
    /// From the object store.
    pub object_store: u64,
}

impl FetchedBytes {
    /// Of a recovery.
    pub(super) fn of(recovery: &RecoveryPlan) -> Self {
        Self {
            own_memory: recovery.bytes_from(|source| matches!(source, Source::OwnMemory | Source::OwnHost)),
            own_disk: recovery.bytes_from(|source| matches!(source, Source::OwnDisk)),
            peers: recovery.bytes_from(|source| matches!(source, Source::Peer { .. })),
            object_store: recovery.bytes_from(|source| matches!(source, Source::ObjectStore)),
        }
    }
}
