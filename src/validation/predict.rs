//! What the simulator expects of a plan on this machine, or on the devices that are emulated on it.

use crate::cluster::{Cluster, GpuSpec, Link};
use crate::cost::CostModel;
use crate::ids::Rank;
use crate::plan::{Plan, Stage};
use crate::profile::MeasuredLinks;
use crate::program::{LowerOptions, Op, Program, Stream};
use crate::runtime::sim::{PassTime, PricedProgram, SimBackend, SimError};
use crate::runtime::{DriveError, Timeline, drive};
use crate::units::SimTime;
use std::sync::Arc;

/// A predicted iteration.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// The lowered plan.
    pub program: Program,
    /// What is expected to happen when.
    pub timeline: Timeline,
    /// Bytes that each rank sends.
    pub sent_bytes: Vec<u64>,
    /// Bytes of state, activations and gradients on each rank, at their peak.
    pub memory_bytes: Vec<u64>,
}

/// The machine on which all ranks run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Host {
    /// What its transport does between two ranks.
    pub links: MeasuredLinks,
    /// Cores that copy messages: those of the machine where nothing else computes, without bound where each rank has one.
    pub cores: f64,
}

impl Prediction {
    /// The same, with every time multiplied by `factor`.
    #[must_use]
    pub fn in_slow_motion(mut self, factor: f64) -> Self {
        let slower = |time: SimTime| SimTime::from_seconds(time.as_seconds() * factor);
        for span in &mut self.timeline.spans {
            (span.start, span.end) = (slower(span.start), slower(span.end));
        }
        self
    }
}

/// The cluster as it can be at best on a host whose own transport has these links: a message takes the time of its path,
/// or that of the copies and checksums that run beside it, and the host's latency in any case.
#[must_use]
pub fn with_host_links(cluster: &Cluster, host: MeasuredLinks) -> Cluster {
    let mut cluster = cluster.clone();
    for node in &mut cluster.nodes {
        let slower = |link: Link, share: f64| Link {
            bytes_per_s: link.bytes_per_s.min(host.bytes_per_s),
            latency_s: link.latency_s + share * host.latency_s,
        };
        // A path between nodes has the latencies of both interfaces.
        node.nic = slower(node.nic, 0.5);
        node.gpu = Arc::new(GpuSpec { intra_node: slower(node.gpu.intra_node, 1.0), ..(*node.gpu).clone() });
    }
    cluster
}

/// What differs from rank to rank.
#[derive(Clone, Copy, Debug, Default)]
pub struct RankConditions<'a> {
    /// What the time of each rank's passes is multiplied by; empty where that is one.
    pub slowdown: &'a [f64],
    /// Prices of each rank's passes where its stage was measured by itself; empty where one model prices all.
    pub costs: &'a [&'a CostModel],
}

/// Simulates one iteration. `host` says what this machine adds.
///
/// # Errors
/// Where a node isn't in the cluster or a block has no price.
pub fn predict(
    plan: &Plan,
    cluster: &Cluster,
    cost: &CostModel,
    ranks: RankConditions<'_>,
    host: Host,
) -> Result<Prediction, SimError> {
    let options = LowerOptions { tie_word_embeddings: cost.model().tie_word_embeddings, ..LowerOptions::default() };
    let program = Program::lower(plan, options);
    let mut priced = PricedProgram::new(plan, &program, cluster, cost)?;
    for (rank, cost) in ranks.costs.iter().enumerate() {
        priced.ranks[rank] = PricedProgram::new(plan, &program, cluster, cost)?.ranks.swap_remove(rank);
    }
    let sent_bytes = sent_bytes(&program, &priced);
    let places: Vec<_> = plan.replicas.iter().flat_map(|replica| &replica.stages).flat_map(node_of_each_gpu).collect();
    // A link that all messages cross, as all of them are copied by the same cores.
    let host_link = priced.network.add_link(host.cores * host.links.all_reduce_bytes_per_s);
    for &route in &priced.channel_routes {
        let times = host.links.all_reduce_bytes_per_s / host.links.bytes_per_s;
        priced.network.extend_route(route, host_link, times, SimTime::ZERO);
    }
    for (group, price) in program.groups().iter().zip(&mut priced.groups) {
        let bandwidth = ring_bytes_per_s(&group.ranks, &places, cluster);
        price.ring_bytes *= (bandwidth / host.links.all_reduce_bytes_per_s).max(1.0);
        // Its edges carry its bytes at the same time.
        let times = group.ranks.len() as f64 * (host.links.all_reduce_bytes_per_s / bandwidth).min(1.0);
        let steps = 2.0 * (group.ranks.len() as f64 - 1.0);
        let longer = SimTime::from_seconds(steps * (host.links.all_reduce_latency_s - host.links.latency_s));
        priced.network.extend_route(price.route, host_link, times, longer);
    }
    let dispatch = SimTime::from_seconds(host.links.dispatch_s);
    let factors = ranks.slowdown.iter().copied().chain(std::iter::repeat(1.0));
    for (price, factor) in priced.ranks.iter_mut().map(Arc::make_mut).zip(factors) {
        let slower = |time: SimTime| SimTime::from_seconds(time.as_seconds() * factor);
        let chunks = price.chunks.iter_mut().flat_map(|chunk| [&mut chunk.forward, &mut chunk.backward.all]);
        let passes = chunks.chain(price.block_backward.iter_mut().map(|pass| &mut pass.all));
        for pass in passes {
            let PassTime { total, recompute, tensor_parallel } = *pass;
            *pass = PassTime {
                total: slower(total) + dispatch,
                recompute: slower(recompute),
                tensor_parallel: slower(tensor_parallel),
            };
        }
        price.optimizer = slower(price.optimizer) + dispatch;
    }
    let ranks: Vec<Rank> = (0..program.ranks().len()).map(Rank::from).collect();
    let mut timeline = match drive(&program, &ranks, &mut SimBackend::new(&program, &priced)) {
        Ok(timeline) => timeline,
        Err(DriveError::Backend(error)) => return Err(error),
        Err(DriveError::Deadlock(waiting)) => unreachable!("a lowered program can't deadlock: {waiting:?}"),
    };
    // A pass was issued when the simulator has it start, and begins when it has been dispatched.
    for span in &mut timeline.spans {
        if program.instruction(span.rank, span.id).stream() == Stream::Compute {
            span.start = span.end.min(span.start + dispatch);
        }
    }
    let memory_bytes = memory_bytes(plan, cost);
    Ok(Prediction { program, timeline, sent_bytes, memory_bytes })
}

fn node_of_each_gpu(stage: &Stage) -> impl Iterator<Item = &str> {
    stage.gpus.iter().map(|_| stage.node.as_str())
}

/// The rate of a ring's slowest link.
fn ring_bytes_per_s(ranks: &[Rank], places: &[&str], cluster: &Cluster) -> f64 {
    let next = ranks.iter().cycle().skip(1);
    let rate = |(from, to): (&Rank, &Rank)| {
        let path = (cluster.find(places[from.index()])?, cluster.find(places[to.index()])?);
        Some(cluster.path(path.0, path.1).bytes_per_s)
    };
    ranks.iter().zip(next).filter_map(rate).fold(f64::INFINITY, f64::min)
}

/// What the instructions of each rank carry away.
fn sent_bytes(program: &Program, priced: &PricedProgram) -> Vec<u64> {
    let sent = |op: Op| match op {
        Op::Send { channel, .. } => priced.channel_bytes[channel as usize] as f64,
        Op::AllReduce { group, .. } => priced.groups[group as usize].ring_bytes,
        _ => 0.0,
    };
    let of_rank = |rank: &crate::program::RankProgram| {
        rank.instructions.iter().map(|instruction| sent(instruction.op)).sum::<f64>().round() as u64
    };
    program.ranks().iter().map(of_rank).collect()
}

fn memory_bytes(plan: &Plan, cost: &CostModel) -> Vec<u64> {
    let mut bytes = Vec::with_capacity(plan.world_size());
    for replica in &plan.replicas {
        for (place, stage) in replica.stages.iter().enumerate() {
            let memory = plan.memory_in(replica, place, cost);
            let held = memory.total_bytes() - memory.reserve_bytes;
            bytes.extend(stage.gpus.iter().map(|_| held));
        }
    }
    bytes
}

#[cfg(test)]
mod tests;
