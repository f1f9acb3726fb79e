//! The simulated world of a spot cluster: feeds the [controller](crate::elastic::Controller) from a trace, carries out
//! its actions on the simulated clock, and books every GPU-second.

mod accounts;
mod books;
mod boot;
mod iterations;
mod on_demand;
mod oracle;
mod outcome;
mod world;

pub use accounts::{AccountError, Metered, OF_TRACE, OtherCosts, Spending, Tariff};
pub use iterations::IterationMemory;
pub use outcome::{CapacityPoint, FetchedBytes, Phase, PolicyOutcome, RecoveryRecord, Replay, Segment};

use crate::elastic::checkpoint::CheckpointSettings;
use crate::elastic::policies::Capacity;
use crate::elastic::{Controller, ControllerSettings, MembershipChange, Policy, ReconfigurationSettings};
use crate::plan::{PlanError, PlanLimits, PlanRequest, TrainingSettings};
use crate::runtime::sim::{SimError, Simulator};
use crate::trace::{NodeEvent, NodeEventKind};
use crate::units::SimTime;
use crate::{cluster::Cluster, cost::CostModel};
use iterations::RememberingJudge;
use rayon::prelude::*;
use std::collections::BTreeMap;
use world::{Ran, World};

/// What a replay needs beside the trace.
///
/// ```
/// use autohet::cost::{CostModel, CostSettings};
/// use autohet::elastic::checkpoint::CheckpointSettings;
/// use autohet::elastic::{ReconfigurationSettings, policies};
/// use autohet::model::ModelSpec;
/// use autohet::plan::TrainingSettings;
/// use autohet::replay::{ReplaySettings, replay};
/// use autohet::trace::{OfferDefaults, parse};
///
/// let text = "time_s,event,node,gpu_type,gpu_count\n0,up,a,T4,2\n0,up,b,T4,2\n1800,down,b,,\n3600,end,,,\n";
/// let trace = parse(text, "mine.csv")?;
/// let events = trace.cluster_events(&OfferDefaults::default())?;
/// let cost = CostModel::new(ModelSpec::preset("opt-350m")?, CostSettings::default(), None);
/// let settings = ReplaySettings {
///     cost: &cost,
///     training: &TrainingSettings { global_batch_size: 16, ..TrainingSettings::default() },
///     checkpoint: &CheckpointSettings::default(),
///     reconfiguration: &ReconfigurationSettings::default(),
/// };
/// let policies = [policies::by_name("autohet").unwrap()];
/// let outcome = &replay(&events, trace.span, &policies, settings, &|_| ())?.policies[0];
/// assert_eq!((outcome.recoveries.len(), outcome.ledger.total()), (1, outcome.paid));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct ReplaySettings<'a> {
    /// Prices the model.
    pub cost: &'a CostModel,
    /// The training job.
    pub training: &'a TrainingSettings,
    /// Checkpoints and storage.
    pub checkpoint: &'a CheckpointSettings,
    /// What a change of plan costs.
    pub reconfiguration: &'a ReconfigurationSettings,
}

/// Why a replay can't go on. That nothing fits is not among the reasons: then the policy waits.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The job can't be planned on any cluster.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A plan can't be simulated.
    #[error(transparent)]
    Sim(#[from] SimError),
}

/// Replays `events`, which end at `span`, under each policy, side by side on all cores; those that know the trace come last,
/// with the plans of all others. `progress` is told how much
/// simulated time has passed, by any policy, since it was last told.
pub fn replay(
    events: &[NodeEvent],
    span: SimTime,
    policies: &[Policy],
    settings: ReplaySettings<'_>,
    progress: &(dyn Fn(SimTime) + Sync),
) -> Result<Replay, ReplayError> {
    replay_with(events, span, policies, settings, &IterationMemory::default(), progress)
}

/// The same, with iterations that other replays of the same job have simulated.
pub fn replay_with(
    events: &[NodeEvent],
    span: SimTime,
    policies: &[Policy],
    settings: ReplaySettings<'_>,
    memory: &IterationMemory,
    progress: &(dyn Fn(SimTime) + Sync),
) -> Result<Replay, ReplayError> {
    let changes = changes_by_time(events);
    let nothing = Cluster::default();
    let request = PlanRequest {
        cluster: &nothing,
        cost: settings.cost,
        training: settings.training,
        judge: &Simulator,
        limits: PlanLimits::default(),
    };
    let run = |policy: &Policy| {
        let judge = RememberingJudge::new(memory);
        let request = PlanRequest { judge: &judge, ..request };
        let rented = match policy.capacity {
            Capacity::Spot => None,
            Capacity::OnDemand => Some(on_demand::rented(on_demand::on_demand(events), policy, request)?),
        };
        let own_changes = rented.as_deref().map(changes_by_time);
        let changes = own_changes.as_deref().unwrap_or(&changes);
        let boot = SimTime::from_seconds(settings.reconfiguration.boot_s);
        let booted =
            (boot > SimTime::ZERO).then(|| changes_by_time(&boot::booted(rented.as_deref().unwrap_or(events), boot)));
        let seen = booted.as_deref().unwrap_or(changes);
        let controller_settings =
            ControllerSettings { checkpoint: settings.checkpoint, reconfiguration: settings.reconfiguration };
        let controller = Controller::new(policy, request, controller_settings);
        let mut ran = World::new(controller, settings, &judge, (changes, seen), span).run(policy, progress)?;
        ran.outcome.rented = rented;
        if policy.capacity != Capacity::Spot {
            // The bound is one of what the trace's nodes can do.
            ran.known.clear();
        }
        Ok(ran)
    };
    let followed: Vec<&Policy> = policies.iter().filter(|policy| !policy.foresight).collect();
    let ran = followed.par_iter().map(|policy| run(policy)).collect::<Result<Vec<Ran>, ReplayError>>()?;
    let outcome = |policy: &Policy| {
        if let Some(index) = followed.iter().position(|followed| std::ptr::eq(*followed, policy)) {
            return Ok(ran[index].outcome.clone());
        }
        let judge = RememberingJudge::new(memory);
        let request = PlanRequest { judge: &judge, ..request };
        let bound = oracle::bound(policy, request, (settings, &judge), &changes, span, &ran);
        progress(span);
        bound
    };
    let mut policies = policies.iter().map(outcome).collect::<Result<Vec<_>, _>>()?;
    for outcome in &mut policies {
        accounts::charge(outcome, events, span);
    }
    let (gpu_types, capacity) = capacity(events);
    let losses = changes.iter().filter(|(_, change)| !change.lost.is_empty());
    let losses = losses.map(|(time, change)| (*time, change.lost.len() as u32)).collect();
    Ok(Replay { span, gpu_types, capacity, losses, policies })
}

/// Events of one time together: nodes that go at once are lost at once.
pub(crate) fn changes_by_time(events: &[NodeEvent]) -> Vec<(SimTime, MembershipChange)> {
    let mut changes: Vec<(SimTime, MembershipChange)> = Vec::new();
    for event in events {
        if changes.last().is_none_or(|(time, _)| *time != event.time) {
            changes.push((event.time, MembershipChange::default()));
        }
        let (_, change) = changes.last_mut().expect("one was just pushed");
        match &event.kind {
            NodeEventKind::Up(node) => change.joined.push(node.clone()),
            NodeEventKind::Notice { node, notice } => {
                change.noticed.push(node.clone());
                let loss = event.time.saturating_add(*notice);
                change.losses_at = Some(change.losses_at.map_or(loss, |first| first.min(loss)));
            }
            NodeEventKind::Cancelled(name) if change.noticed.contains(name) => {
                change.noticed.retain(|noticed| noticed != name);
            }
            NodeEventKind::Cancelled(name) => change.spared.push(name.clone()),
            // A node that comes and goes at one time was never there: losses are applied before joins.
            NodeEventKind::Down(name) if change.joined.iter().any(|node| node.name == *name) => {
                change.joined.retain(|node| node.name != *name);
                change.noticed.retain(|noticed| noticed != name);
            }
            NodeEventKind::Down(name) => change.lost.push(name.clone()),
        }
    }
    changes
}

/// GPUs up by type, from each change on.
fn capacity(events: &[NodeEvent]) -> (Vec<String>, Vec<CapacityPoint>) {
    let mut types: Vec<String> = Vec::new();
    let mut up: BTreeMap<&str, (usize, u32)> = BTreeMap::new();
    let mut points: Vec<CapacityPoint> = Vec::new();
    let mut gpus: Vec<u32> = Vec::new();
    for event in events {
        match &event.kind {
            NodeEventKind::Up(node) => {
                let known = types.iter().position(|name| *name == node.gpu.name);
                let index = known.unwrap_or_else(|| {
                    types.push(node.gpu.name.clone());
                    gpus.push(0);
                    types.len() - 1
                });
                gpus[index] += node.gpu_count;
                up.insert(&node.name, (index, node.gpu_count));
            }
            NodeEventKind::Down(name) => {
                if let Some((index, count)) = up.remove(name.as_str()) {
                    gpus[index] -= count;
                }
            }
            NodeEventKind::Notice { .. } | NodeEventKind::Cancelled(_) => continue,
        }
        if points.last().is_some_and(|point| point.time == event.time) {
            points.pop();
        }
        points.push(CapacityPoint { time: event.time, gpus: gpus.clone() });
    }
    for point in &mut points {
        point.gpus.resize(types.len(), 0);
    }
    (types, points)
}
