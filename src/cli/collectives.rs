//! `autohet-sim show collectives`: how long GPUs of a cluster take to communicate where nothing else is going on.

use super::args::{JobArgs, ShowCollectivesArgs};
use super::{Verdict, job, print_as};
use crate::cluster::Cluster;
use crate::ids::NodeId;
use crate::report::{Records, Screen, rounded};
use crate::runtime::sim::Communication;
use crate::scenario::Scenario;
use crate::units::{SimTime, format_bytes, format_seconds};
use anyhow::anyhow;
use serde_json::Value;

/// Some GPUs of the cluster, and what they are called.
struct Group {
    name: String,
    gpus: Vec<(NodeId, u32)>,
    /// Whether the first one sends to the last one: elsewhere that would say the same again.
    sends: bool,
}

pub(super) fn run(args: &ShowCollectivesArgs) -> anyhow::Result<Verdict> {
    let cluster = cluster(args)?;
    let groups = groups(&cluster);
    if groups.is_empty() {
        return Err(anyhow!("`{}` has one GPU, which has nobody to speak to\nhint: name two or more", args.cluster));
    }
    let (long, wide) = records(&cluster, &groups, &args.sizes)?;
    print_as(args.format, || wide.table(Screen::of_stdout()), &long.json(), &long)?;
    Ok(Verdict::Good)
}

/// A row for each size, and a table with the sizes side by side.
fn records(cluster: &Cluster, groups: &[Group], sizes: &[u64]) -> anyhow::Result<(Records, Records)> {
    let mut long = Records::new(&[
        ("gpus", "GPUs"),
        ("ranks", "ranks"),
        ("operation", "operation"),
        ("algorithm", "algorithm"),
        ("bytes", "bytes"),
        ("seconds", "seconds"),
        ("bus_gb_per_s", "bus, GB/s"),
    ]);
    let of_sizes: Vec<String> = sizes.iter().map(|bytes| format_bytes(*bytes)).collect();
    let headings = ["GPUs", "operation", "algorithm"].into_iter().chain(of_sizes.iter().map(String::as_str));
    let mut wide = Records::new(&headings.map(|heading| (heading, heading)).collect::<Vec<_>>());
    for group in groups {
        for what in Communication::ALL {
            let Some(times) = times(what, cluster, group, sizes)? else { continue };
            let (operation, algorithm) = what.name();
            let ranks = if what == Communication::Send { 2 } else { group.gpus.len() };
            for (&bytes, &seconds) in sizes.iter().zip(&times) {
                let bus = what.least_share_sent(ranks) * bytes as f64 / seconds * 1e-9;
                let name = group.name.as_str().into();
                let figures = [bytes.into(), seconds.into(), rounded(bus)];
                long.push(
                    [name, ranks.into(), operation.into(), algorithm.into()].into_iter().chain(figures).collect(),
                );
            }
            let named: [Value; 3] = [group.name.as_str().into(), operation.into(), algorithm.into()];
            wide.push(named.into_iter().chain(times.iter().map(|&s| format_seconds(s).into())).collect());
        }
    }
    Ok((long, wide))
}

/// Seconds for buffers of these sizes; none where the group doesn't do it that way.
fn times(what: Communication, cluster: &Cluster, group: &Group, sizes: &[u64]) -> anyhow::Result<Option<Vec<f64>>> {
    if what == Communication::Send && !group.sends {
        return Ok(None);
    }
    let times = sizes.iter().map(|&bytes| what.time(cluster, &group.gpus, bytes));
    let times: Option<Vec<SimTime>> = times.collect::<Result<_, _>>()?;
    Ok(times.map(|times| times.into_iter().map(SimTime::as_seconds).collect()))
}

/// The nodes, with the network that the arguments name where a file doesn't.
fn cluster(args: &ShowCollectivesArgs) -> anyhow::Result<Cluster> {
    let mut scenario = Scenario { cluster: Some(args.cluster.clone()), ..Scenario::default() };
    let given = JobArgs {
        nic_gbit_per_s: args.nic_gbit_per_s,
        nic_latency_us: args.nic_latency_us,
        nics_per_node: args.nics_per_node,
        ..JobArgs::default()
    };
    job::apply(&given, &mut scenario);
    scenario.check()?;
    Ok(Cluster::from_argument(&args.cluster, &job::node_defaults(&scenario.network))?)
}

/// Of each kind of node two GPUs and all of them; of the cluster one GPU of each node, and all.
fn groups(cluster: &Cluster) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut seen: Vec<(&str, u32)> = Vec::new();
    for (index, node) in cluster.nodes.iter().enumerate() {
        let kind = (node.gpu.name.as_str(), node.gpu_count);
        if seen.contains(&kind) {
            continue;
        }
        seen.push(kind);
        let first = |count: u32| (0..count).map(|gpu| (NodeId::from(index), gpu)).collect::<Vec<_>>();
        let mut add = |count: u32| {
            groups.push(Group { name: format!("{count} of {}", node.name), gpus: first(count), sends: count == 2 });
        };
        if node.gpu_count > 1 {
            add(2);
        }
        if node.gpu_count > 2 {
            add(node.gpu_count);
        }
    }
    let nodes = cluster.nodes.len();
    if nodes > 1 {
        let one_each = (0..nodes).map(|node| (NodeId::from(node), 0)).collect();
        groups.push(Group { name: format!("one a node ({nodes})"), gpus: one_each, sends: true });
        if cluster.nodes.iter().any(|node| node.gpu_count > 1) {
            let of_node = |(index, node): (usize, &crate::cluster::Node)| {
                (0..node.gpu_count).map(move |gpu| (NodeId::from(index), gpu)).collect::<Vec<_>>()
            };
            let gpus: Vec<_> = cluster.nodes.iter().enumerate().flat_map(of_node).collect();
            groups.push(Group { name: format!("all {} GPUs", gpus.len()), gpus, sends: false });
        }
    }
    groups
}
