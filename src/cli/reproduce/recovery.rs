//! `autohet-sim reproduce recovery`: how AutoHet's policy and Varuna's recover from the same losses.

use crate::cli::args::Format;
use crate::cli::{Verdict, job, print};
use crate::cluster::{Cluster, Node};
use crate::cost::CostModel;
use crate::elastic::checkpoint::CheckpointInterval;
use crate::elastic::policies;
use crate::plan::Plan;
use crate::replay::{PolicyOutcome, ReplaySettings, replay};
use crate::report::{
    LostState, Recovered, RecoveryCase, RecoveryComparison, ResultsFolder, Screen, recovery_csv, recovery_markdown,
    recovery_svg, recovery_table,
};
use crate::scenario::Scenario;
use crate::trace::{NodeEvent, NodeEventKind};
use crate::units::SimTime;
use anyhow::anyhow;
use clap::Args;
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Example:
  autohet-sim reproduce recovery";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct RecoveryArgs {
    /// Folder for the results
    #[arg(long, value_name = "FOLDER", default_value = "results/recovery")]
    out: PathBuf,
    /// What to print on stdout
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// Models of the sizes that the paper speaks of, each on equal and on mixed nodes; two or more replicas fit each.
const CLUSTERS: [(&str, &str); 8] = [
    ("gpt3-2.7b", "8x1xV100-32"),
    ("gpt3-2.7b", "4x1xA100-40+4x1xV100-32"),
    ("gpt3-6.7b", "8x1xA100-80"),
    ("gpt3-6.7b", "6x1xA100-80+2x1xH800"),
    ("gpt3-13b", "8x2xA100-80"),
    ("gpt3-13b", "4x2xA100-80+4x2xH20"),
    ("gpt3-30b", "8x4xA100-80"),
    ("gpt3-30b", "4x4xA100-80+4x4xH800"),
];
/// Of the nodes' interfaces: as AWS has them with V100s, with A100s, and with H100s for 8 GPUs (of which nodes have less here).
const NIC_GBIT_PER_S: [f64; 3] = [25.0, 100.0, 400.0];
/// One checkpoint, ten minutes after training began; the loss is when it is in the object store whatever the model.
const CHECKPOINT_S: f64 = 600.0;
const LOSS_S: u64 = 1000;
const END_S: u64 = 5000;

pub(in crate::cli) fn run_recovery(args: &RecoveryArgs) -> anyhow::Result<Verdict> {
    ResultsFolder::check(&args.out)?;
    let settings: Vec<(LostState, &str, &str, f64)> = LostState::ALL
        .into_iter()
        .flat_map(|lost| CLUSTERS.into_iter().map(move |(model, mix)| (lost, model, mix)))
        .flat_map(|(lost, model, mix)| NIC_GBIT_PER_S.into_iter().map(move |nic| (lost, model, mix, nic)))
        .collect();
    let cases = settings.par_iter().map(|&(lost, model, mix, nic)| case(lost, model, mix, nic));
    let comparison = RecoveryComparison { cases: cases.collect::<anyhow::Result<_>>()? };
    let json = serde_json::to_string_pretty(&comparison)? + "\n";
    let folder = ResultsFolder::create(&args.out)?;
    folder.write("summary.json", &json)?;
    folder.write("recovery.csv", recovery_csv(&comparison))?;
    folder.write("recovery.svg", recovery_svg(&comparison))?;
    folder.write("README.md", recovery_markdown(&comparison))?;
    let written = folder.commit()?;
    match args.format {
        Format::Json => print(&json)?,
        Format::Csv => print(&recovery_csv(&comparison))?,
        Format::Markdown => print(&recovery_markdown(&comparison))?,
        Format::Table => {
            let table = recovery_table(&comparison, Screen::of_stdout());
            print(&format!("{table}details: {} (start with README.md)\n", written.display()))?;
        }
    }
    Ok(Verdict::Good)
}

fn case(lost_state: LostState, model: &str, mix: &str, nic_gbit_per_s: f64) -> anyhow::Result<RecoveryCase> {
    let mut scenario = Scenario { model: model.to_owned(), ..Scenario::default() };
    scenario.network.nic_gbit_per_s = nic_gbit_per_s;
    scenario.checkpoint.interval = CheckpointInterval::Fixed { seconds: CHECKPOINT_S };
    let cost = job::cost_model(&scenario)?;
    let cluster = Cluster::parse_mix(mix, &job::node_defaults(&scenario.network))?;
    let first_plan = |policy| -> anyhow::Result<Plan> {
        let undisturbed = outcome(policy, &scenario, &cost, &up(&cluster))?;
        let first = undisturbed.plans.first().ok_or_else(|| anyhow!("`{model}` doesn't fit `{mix}`"))?;
        Ok(first.plan.clone())
    };
    let lost = lost_nodes(lost_state, &first_plan("autohet")?, &first_plan("varuna")?, &cluster);
    let nodes_lost = lost.len();
    let events = with_losses(&cluster, &lost);
    let recover = |policy| Ok::<_, anyhow::Error>(recovered(&outcome(policy, &scenario, &cost, &events)?));
    let nothing = || anyhow!("`{model}` on `{mix}` didn't recover within the replay");
    Ok(RecoveryCase {
        model: model.to_owned(),
        cluster: mix.to_owned(),
        nic_gbit_per_s,
        lost_state,
        nodes_lost,
        autohet: recover("autohet")?.ok_or_else(nothing)?,
        varuna: recover("varuna")?.ok_or_else(nothing)?,
    })
}

fn outcome(policy: &str, scenario: &Scenario, cost: &CostModel, events: &[NodeEvent]) -> anyhow::Result<PolicyOutcome> {
    let policy = policies::by_name(policy).ok_or_else(|| anyhow!("`{policy}` is one of ours"))?;
    let settings = ReplaySettings {
        cost,
        training: &scenario.training,
        checkpoint: &scenario.checkpoint,
        reconfiguration: &scenario.reconfiguration,
    };
    let mut replayed = replay(events, SimTime::SECOND * END_S, &[policy], settings, &|_| {})?;
    Ok(replayed.policies.remove(0))
}

fn up(cluster: &Cluster) -> Vec<NodeEvent> {
    let event = |node: &Node| NodeEvent { time: SimTime::ZERO, kind: NodeEventKind::Up(node.clone()) };
    cluster.nodes.iter().map(event).collect()
}

/// The nodes up from the begin on, and those lost replaced by equal, empty ones at the same moment.
fn with_losses(cluster: &Cluster, lost: &BTreeSet<&str>) -> Vec<NodeEvent> {
    let time = SimTime::SECOND * LOSS_S;
    let mut events = up(cluster);
    let is_lost = |node: &&Node| lost.contains(node.name.as_str());
    for node in cluster.nodes.iter().filter(is_lost) {
        events.push(NodeEvent { time, kind: NodeEventKind::Down(node.name.clone()) });
    }
    for node in cluster.nodes.iter().filter(is_lost) {
        let node = Node { name: format!("{}-new", node.name), ..node.clone() };
        events.push(NodeEvent { time, kind: NodeEventKind::Up(node) });
    }
    events
}

/// What is lost hits both plans: a planner may leave nodes idle.
fn lost_nodes<'a>(lost_state: LostState, plan: &Plan, rival: &Plan, cluster: &'a Cluster) -> BTreeSet<&'a str> {
    let nodes = |plan: &Plan| plan.stages().map(|(_, stage)| stage.node.clone()).collect::<BTreeSet<_>>();
    let last = |replica: &crate::plan::Replica| replica.stages.last().map(|stage| stage.node.clone());
    let lasts: BTreeSet<String> = plan.replicas.iter().filter_map(last).collect();
    let (ours, theirs) = (nodes(plan), nodes(rival));
    let both = || lasts.intersection(&theirs).chain(ours.intersection(&theirs)).chain(&theirs).next();
    let is_lost = |name: &str| match lost_state {
        LostState::AllLocal => both().is_some_and(|first| first == name),
        LostState::SomeLocal => lasts.contains(name) || both().is_some_and(|first| first == name),
        LostState::NoneLocal => true,
    };
    cluster.nodes.iter().map(|node| node.name.as_str()).filter(|name| is_lost(name)).collect()
}

/// The recovery from the loss; `None` if it didn't end.
fn recovered(outcome: &PolicyOutcome) -> Option<Recovered> {
    let recovery = outcome.recoveries.iter().find(|recovery| recovery.start == SimTime::SECOND * LOSS_S)?;
    let after = outcome.segments.iter().find(|segment| segment.start == recovery.end)?;
    let time = recovery.time;
    Some(Recovered {
        detect_s: time.detect.as_seconds(),
        plan_s: time.plan.as_seconds(),
        connect_s: time.connect.as_seconds(),
        fetch_s: time.fetch.as_seconds(),
        lost_iterations: recovery.lost_iterations,
        iteration_s: outcome.plans.get(after.plan?)?.predicted_iteration_s,
        own_bytes: recovery.fetched.own_memory + recovery.fetched.own_disk,
        peer_bytes: recovery.fetched.peers,
        object_store_bytes: recovery.fetched.object_store,
    })
}
