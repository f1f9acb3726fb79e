//! A run that replays a trace under one policy.

use super::memory::{RememberingPlanner, Shared, SharedCost};
use super::run::Point;
use crate::cluster::GpuSpec;
use crate::elastic::{Policy, policies};
use crate::metrics::Activity;
use crate::replay::{PolicyOutcome, ReplaySettings, replay};
use crate::report::{PolicySummary, SweepOutcome, SweepStatus, rounded};
use crate::scenario::Scenario;
use crate::trace::generator::generate;
use crate::trace::{self, NodeEvent, OfferDefaults, Trace};
use serde_json::{Map, Value};
use std::sync::Arc;

pub(super) fn run(point: &Point, policy: &str, shared: &Arc<Shared>) -> SweepOutcome {
    match replayed(point, policy, shared) {
        Ok(outcome) => outcome,
        Err(reason) => SweepOutcome::without_figures(SweepStatus::Error, reason),
    }
}

/// The trace of a file, or of a market.
fn trace_of(point: &Point, shared: &Shared) -> Result<Arc<Trace>, String> {
    let Scenario { trace: settings, .. } = &point.scenario;
    if let Some(market) = &point.market {
        return shared.trace(format!("{market:?}"), || generate(market)).map_err(|error| error.to_string());
    }
    let options = settings.read_options();
    let read = || trace::read_all(&point.sources, &options);
    shared.trace(format!("{:?} {options:?}", point.sources), read).map_err(|error| error.to_string())
}

/// Reads what runs of these settings read: what is wrong with it, with its hint.
pub(super) fn check(point: &Point, shared: &Shared) -> Result<(), String> {
    events_of(point, trace_of(point, shared)?.as_ref()).map(drop)
}

/// The events of a trace on the nodes that the settings describe.
fn events_of(point: &Point, trace: &Trace) -> Result<Vec<NodeEvent>, String> {
    let scenario = &point.scenario;
    let gpu = scenario.trace.gpu_type.as_deref().map(GpuSpec::lookup).transpose().map_err(|error| error.to_string())?;
    let node = scenario.network.node_defaults();
    let defaults = OfferDefaults { gpu, gpus_per_node: scenario.trace.gpus_per_node, node };
    trace.cluster_events(&defaults).map_err(|error| error.to_string())
}

fn replayed(point: &Point, policy: &str, shared: &Arc<Shared>) -> Result<SweepOutcome, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let scenario = &point.scenario;
    let trace = trace_of(point, shared)?;
    let cost = shared.cost(scenario).map_err(|error| text(&error))?;
    let events = events_of(point, &trace)?;
    let policy = policies::by_name(policy).ok_or_else(|| format!("unknown policy `{policy}`"))?;
    let settings = ReplaySettings {
        cost: &cost.model,
        training: &scenario.training,
        checkpoint: &scenario.checkpoint,
        reconfiguration: &scenario.reconfiguration,
    };
    let policy = remembering(policy, &cost, shared);
    let quotes = scenario.prices.quotes(&trace).map_err(|error| text(&error))?;
    let mut replay = replay(&events, trace.span, &[policy], settings, &|_| ()).map_err(|error| text(&error))?;
    let job = (&*cost.model, scenario.training.precision);
    replay.settle(&events, quotes.as_ref(), &scenario.prices.tariff(), job).map_err(|error| text(&error))?;
    let outcome = replay.policies.first().ok_or("no policy was replayed")?;
    if outcome.iterations == 0 {
        let reason = outcome.refusal.clone();
        let reason = reason.unwrap_or_else(|| "no iteration was finished that counts".to_owned());
        return Ok(SweepOutcome::without_figures(SweepStatus::Infeasible, reason));
    }
    let figures = figures(outcome, replay.span.as_seconds());
    Ok(SweepOutcome { status: SweepStatus::Ok, reason: None, figures })
}

/// The policy with a planner that other runs have worked for too.
fn remembering(policy: Policy, cost: &SharedCost, shared: &Arc<Shared>) -> Policy {
    let planner = RememberingPlanner {
        inner: policy.planner,
        shared: Arc::clone(shared),
        name: policy.name.into(),
        cost: cost.id(),
    };
    Policy { planner: Box::new(planner), ..policy }
}

fn figures(outcome: &PolicyOutcome, span_s: f64) -> Map<String, Value> {
    let summary = PolicySummary::new(outcome, span_s);
    let number = |value: Option<f64>| value.map_or(Value::Null, rounded);
    let total = outcome.ledger.total().as_gpu_seconds();
    let share = |activity: Activity| rounded(outcome.ledger.get(activity).as_gpu_seconds() / total);
    let mut figures = Map::new();
    let mut put = |name: &str, value: Value| drop(figures.insert(name.to_owned(), value));
    put("tokens_per_s", number(summary.tokens_per_s));
    put("goodput_share", number(summary.goodput_share));
    put("iterations", outcome.iterations.into());
    put("iterations_rolled_back", outcome.iterations_rolled_back.into());
    put("recoveries", summary.recoveries.into());
    put("recovery_s_mean", number(summary.recovery_s_mean));
    put("lost_work_share", share(Activity::LostWork));
    put("waiting_share", share(Activity::Waiting));
    put("gpu_hours", rounded(summary.paid_gpu_s / 3600.0));
    put("usd", rounded(outcome.total_usd()));
    put("usd_per_million_tokens", number(summary.usd_per_million_tokens));
    put("plans", outcome.plans.len().into());
    figures
}
