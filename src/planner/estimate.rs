//! The closed form: what an iteration of a plan takes, without executing it. It ranks candidates; the runtime judges the
//! best of them.

use super::autohet::balance::{Pace, steady_period_s};
use crate::cluster::{Cluster, FlowCurve, GpuSpec, Link};
use crate::cost::communication::{ring_all_reduce_s, transfer_s};
use crate::cost::{BlockCost, CostError, CostModel};
use crate::ids::{LayerId, NodeId};
use crate::model::Block;
use crate::plan::{Plan, Replica, ScheduleKind, Stage};
use std::collections::HashMap;
use std::sync::Arc;

/// Times of one replica.
struct ReplicaTimes {
    /// Node of each stage.
    nodes: Vec<NodeId>,
    /// First layer of each stage.
    first_layers: Vec<u32>,
    /// Backward seconds of one layer, by stage.
    layer_backward_s: Vec<f64>,
    /// Seconds that the backward pass of the last micro batch still needs after each stage is done with it.
    after_stage_s: Vec<f64>,
    /// Optimizer step of each stage.
    optimizer_s: Vec<f64>,
    /// All micro batches.
    total_s: f64,
}

/// Seconds of one iteration by the closed form.
///
/// A replica takes `fill + (K - 1) · period` ([`Pace`], [`steady_period_s`]), transfers included. Then each layer's
/// gradient is reduced over the replicas in a ring, last layer first, as soon as all its holders have it, are done with
/// the previous one, and the network interfaces that the ring passes are free; what isn't hidden behind the backward
/// passes of earlier layers delays the optimizer step.
///
/// # Panics
/// If the plan isn't valid for the cluster.
pub fn iteration_s(plan: &Plan, cluster: &Cluster, cost: &CostModel) -> Result<f64, CostError> {
    let mut prices = Prices::new(plan, cluster, cost);
    let traffic = Traffic::new(plan, &prices);
    let replicas: Vec<ReplicaTimes> =
        plan.replicas.iter().map(|replica| replica_times(replica, &traffic, &mut prices)).collect::<Result<_, _>>()?;
    let reduced_s = reduce_gradients(plan, cluster, cost, &replicas);
    let step = |(times, reduced_s): (&ReplicaTimes, &Vec<f64>)| {
        times.optimizer_s.iter().zip(reduced_s).map(|(step_s, reduced_s)| step_s + reduced_s).fold(0.0, f64::max)
    };
    Ok(replicas.iter().zip(&reduced_s).map(step).fold(0.0, f64::max))
}

/// When each stage of each replica has reduced its last gradient.
fn reduce_gradients(plan: &Plan, cluster: &Cluster, cost: &CostModel, replicas: &[ReplicaTimes]) -> Vec<Vec<f64>> {
    let ranks = replicas.len() as u32;
    let mut stage_free_s: Vec<Vec<f64>> = replicas.iter().map(|times| vec![0.0; times.nodes.len()]).collect();
    let mut nic_free_s = vec![0.0_f64; cluster.nodes.len()];
    let mut stage_of: Vec<usize> = replicas.iter().map(|times| times.nodes.len() - 1).collect();
    let slice_bytes = |block, slices| cost.gradient_bytes(block, &plan.execution_at(slices));
    let mut ring: Option<Ring> = None;
    for layer in (0..cost.model().num_layers).rev() {
        let mut start_s = 0.0_f64;
        let mut moved = false;
        for ((stage, times), free_s) in stage_of.iter_mut().zip(replicas).zip(&stage_free_s) {
            while times.first_layers[*stage] > layer {
                *stage -= 1;
                moved = true;
            }
            let below = f64::from(layer - times.first_layers[*stage]);
            let ready_s = times.total_s - times.after_stage_s[*stage] - below * times.layer_backward_s[*stage];
            start_s = start_s.max(ready_s).max(free_s[*stage]);
        }
        if moved || ring.is_none() {
            let holders = replicas.iter().zip(&stage_of).map(|(times, &stage)| times.nodes[stage]).collect();
            let degrees = plan.replicas.iter().zip(&stage_of);
            let degrees = degrees.map(|(replica, &stage)| replica.stages[stage].tensor_parallel_size()).collect();
            ring = Some(Ring::new(cluster, holders, degrees));
        }
        let Some(ring) = &ring else { unreachable!("made above") };
        let embedding_bytes = if layer == 0 { slice_bytes(Block::Embedding, ring.slices) } else { 0 };
        let bytes = slice_bytes(Block::Layer(LayerId(0)), ring.slices) + embedding_bytes;
        for &(node, _) in &ring.crossings {
            start_s = start_s.max(nic_free_s[node.index()]);
        }
        let end_s = start_s + ring_all_reduce_s(ranks, bytes, ring.slowest(bytes as f64 / f64::from(ranks)));
        for &(node, share) in &ring.crossings {
            nic_free_s[node.index()] = start_s + ring_all_reduce_s(ranks, bytes, share);
        }
        for (free_s, &stage) in stage_free_s.iter_mut().zip(&stage_of) {
            free_s[stage] = end_s;
        }
    }
    stage_free_s
}

/// A ring through the holders of a layer, node by node, as NCCL builds it: each node is left once.
struct Ring {
    /// Its slowest edge, flows as fast as can be.
    slowest: Link,
    /// What flows over its edges between nodes reach, each curve once.
    flows: Vec<FlowCurve>,
    /// Nodes whose network interface it leaves by, and what each edge gets of that.
    crossings: Vec<(NodeId, Link)>,
    /// Slices that are reduced at once, each in a ring of its own.
    slices: u32,
}

impl Ring {
    /// All slices are reduced at once: they share network interfaces, while each rank has its own link within a node,
    /// which its slices share where it has several.
    fn new(cluster: &Cluster, mut holders: Vec<NodeId>, degrees: Vec<u32>) -> Self {
        let slices = degrees.iter().copied().max().unwrap_or(1);
        let turns = f64::from(degrees.into_iter().map(|degree| slices / degree.max(1)).max().unwrap_or(1));
        holders.sort_unstable();
        let edges = || (0..holders.len()).map(|index| (holders[index], holders[(index + 1) % holders.len()]));
        let mut slowest = Link { bytes_per_s: f64::INFINITY, latency_s: 0.0 };
        let mut crossings: Vec<(NodeId, Link)> = Vec::new();
        let mut flows: Vec<FlowCurve> = Vec::new();
        for (from, to) in edges() {
            let mut link = cluster.shared_path(from, to, slices);
            if from == to {
                link.bytes_per_s /= turns;
            } else {
                crossings.push((from, link));
                for flow in [from, to].into_iter().filter_map(|node| cluster.node(node).flow) {
                    if !flows.contains(&flow) {
                        flows.push(flow);
                    }
                }
            }
            link.latency_s *= turns;
            slowest.bytes_per_s = slowest.bytes_per_s.min(link.bytes_per_s);
            slowest.latency_s = slowest.latency_s.max(link.latency_s);
        }
        Self { slowest, flows, crossings, slices }
    }

    /// Its slowest edge with messages of so many bytes.
    fn slowest(&self, bytes: f64) -> Link {
        let flows = self.flows.iter().map(|flow| flow.bytes_per_s(bytes));
        Link { bytes_per_s: flows.fold(self.slowest.bytes_per_s, f64::min), ..self.slowest }
    }
}

/// Prices of blocks by GPU type and tensor-parallel degree, each asked for once.
struct Prices<'a> {
    plan: &'a Plan,
    cluster: &'a Cluster,
    cost: &'a CostModel,
    node_of: HashMap<&'a str, NodeId>,
    known: Vec<(&'a Arc<GpuSpec>, u32, [BlockCost; 3])>,
}

impl<'a> Prices<'a> {
    fn new(plan: &'a Plan, cluster: &'a Cluster, cost: &'a CostModel) -> Self {
        let node_of =
            cluster.nodes.iter().enumerate().map(|(id, node)| (node.name.as_str(), NodeId::from(id))).collect();
        Self { plan, cluster, cost, node_of, known: Vec::new() }
    }

    /// Costs of a layer, the embedding and the head on so many GPUs of this node.
    fn of(&mut self, node: NodeId, degree: u32) -> Result<[BlockCost; 3], CostError> {
        let gpu = &self.cluster.node(node).gpu;
        let is_same = |(known, at, _): &&(&Arc<GpuSpec>, u32, _)| *at == degree && Arc::ptr_eq(known, gpu);
        if let Some((_, _, prices)) = self.known.iter().find(is_same) {
            return Ok(*prices);
        }
        let price = |block| self.cost.block_cost(block, gpu, &self.plan.execution_at(degree));
        let prices = [price(Block::Layer(LayerId(0)))?, price(Block::Embedding)?, price(Block::Head)?];
        self.known.push((gpu, degree, prices));
        Ok(prices)
    }
}

/// What goes over a stage boundary in one direction for one micro batch.
struct Messages {
    /// How many.
    count: u32,
    /// Bytes of each.
    bytes: u64,
    /// How many of them a rank at either end takes, one after the other.
    turns: u32,
}

impl Messages {
    /// Where boundaries aren't partitioned each receiver gets the whole tensor, else each part goes once to who needs it.
    fn new(plan: &Plan, cost: &CostModel, from: &Stage, to: &Stage) -> Self {
        let (from, to) = (from.tensor_parallel_size(), to.tensor_parallel_size());
        let partitioned = plan.sequence_parallel || cost.framework().partitioned_boundaries;
        let count = if partitioned { from.max(to) } else { to };
        let bytes = cost.boundary_bytes(&plan.execution_at(count));
        Self { count, bytes, turns: count.div_ceil(from).max(count.div_ceil(to)) }
    }

    fn all_bytes(&self) -> u64 {
        self.bytes * u64::from(self.count)
    }
}

/// Messages over boundaries of pipelines that cross each node's network interface.
struct Traffic {
    /// Activations that leave and enter the node.
    activations: [Vec<u32>; 2],
    /// Gradients that leave and enter it.
    gradients: [Vec<u32>; 2],
    /// Bytes that leave the node in each period: activations forward and gradients back.
    leaving_bytes: Vec<u64>,
}

impl Traffic {
    fn new(plan: &Plan, prices: &Prices) -> Self {
        let nodes = prices.cluster.nodes.len();
        let none = || [vec![0; nodes], vec![0; nodes]];
        let mut traffic = Self { activations: none(), gradients: none(), leaving_bytes: vec![0; nodes] };
        for pair in plan.replicas.iter().flat_map(|replica| replica.stages.windows(2)) {
            let (from, to) = (prices.node_of[pair[0].node.as_str()], prices.node_of[pair[1].node.as_str()]);
            if from == to {
                continue;
            }
            let there = Messages::new(plan, prices.cost, &pair[0], &pair[1]);
            let back = Messages::new(plan, prices.cost, &pair[1], &pair[0]);
            traffic.activations[0][from.index()] += there.count;
            traffic.activations[1][to.index()] += there.count;
            traffic.gradients[0][to.index()] += back.count;
            traffic.gradients[1][from.index()] += back.count;
            traffic.leaving_bytes[from.index()] += there.all_bytes();
            traffic.leaving_bytes[to.index()] += back.all_bytes();
        }
        traffic
    }
}

/// Messages that share an interface with those between two nodes: like replicas run in step, so that what crosses the same
/// interface in the same direction does so at the same time.
fn sharing([leaving, entering]: &[Vec<u32>; 2], from: NodeId, to: NodeId) -> u32 {
    leaving[from.index()].max(entering[to.index()])
}

/// Seconds of an activation over the boundary between two stages, and of its gradient back.
fn boundary_s(stages: &[Stage], nodes: &[NodeId], traffic: &Traffic, prices: &Prices) -> [f64; 2] {
    let one_way_s = |(from, to): (usize, usize), at_once: &[Vec<u32>; 2]| {
        let messages = Messages::new(prices.plan, prices.cost, &stages[from], &stages[to]);
        let is_inside = nodes[from] == nodes[to];
        let flows = if is_inside { 1 } else { sharing(at_once, nodes[from], nodes[to]) };
        let mut link = prices.cluster.shared_path(nodes[from], nodes[to], flows);
        let turns = if is_inside { messages.turns } else { 1 };
        let flow_bytes_per_s = prices.cluster.flow_bytes_per_s(nodes[from], nodes[to], messages.bytes as f64);
        link.bytes_per_s = (link.bytes_per_s / f64::from(turns)).min(flow_bytes_per_s);
        link.latency_s *= f64::from(messages.turns);
        transfer_s(messages.bytes, link)
    };
    [one_way_s((0, 1), &traffic.activations), one_way_s((1, 0), &traffic.gradients)]
}

/// The pace of 1F1B: see [`steady_period_s`]. `boundaries_s` are there and back.
fn one_forward_one_backward(stage_s: &[f64], boundaries_s: &[[f64; 2]], busiest_interface_s: f64) -> Pace {
    let round_trips_s: Vec<f64> = boundaries_s.iter().map(|[there_s, back_s]| there_s + back_s).collect();
    let floor_s = boundaries_s.iter().flatten().copied().fold(busiest_interface_s, f64::max);
    Pace {
        fill_s: stage_s.iter().sum::<f64>() + round_trips_s.iter().sum::<f64>(),
        period_s: steady_period_s(stage_s, &round_trips_s).max(floor_s),
    }
}

/// The pace of GPipe: all micro batches go forward at the pace of the slowest forward pass or transfer, then backward at
/// that of the slowest on the way back. No transfer waits for one in the other direction.
fn gpipe(stage_s: &[f64], backward_s: &[f64], boundaries_s: &[[f64; 2]], busiest_interface_s: f64) -> Pace {
    let slowest = |passes: &mut dyn Iterator<Item = f64>| passes.fold(0.0, f64::max);
    let forward_s = slowest(&mut stage_s.iter().zip(backward_s).map(|(both_s, back_s)| both_s - back_s));
    let there_s = slowest(&mut boundaries_s.iter().map(|[there_s, _]| *there_s));
    let back_s = slowest(&mut boundaries_s.iter().map(|[_, back_s]| *back_s));
    let period_s = forward_s.max(there_s) + slowest(&mut backward_s.iter().copied()).max(back_s);
    Pace {
        fill_s: stage_s.iter().sum::<f64>() + boundaries_s.iter().flatten().sum::<f64>(),
        period_s: period_s.max(busiest_interface_s),
    }
}

/// The pace of ZB-H1: that of 1F1B, but a stage that waits at the beginning or at the end fills as much time with gradients
/// of weights as one micro batch has of them at either (Qi et al. 2023: a bubble of `(P - 1) (F + B - W)`).
fn zero_bubble(stage_s: &[f64], weights_s: &[f64], boundaries_s: &[[f64; 2]], busiest_interface_s: f64) -> Pace {
    let pace = one_forward_one_backward(stage_s, boundaries_s, busiest_interface_s);
    let filled_s: f64 = 2.0 * (weights_s.iter().sum::<f64>() - weights_s.iter().copied().fold(0.0, f64::max));
    Pace { fill_s: (pace.fill_s - filled_s).max(pace.period_s), ..pace }
}

/// The pace of interleaved 1F1B: a bubble `v` times shorter than that of 1F1B, for `v` times the transfers (Narayanan et al.
/// 2021, section 2.2).
fn interleaved(stage_s: &[f64], chunks: usize, boundaries_s: &[[f64; 2]], busiest_interface_s: f64) -> Pace {
    let chunks = chunks as f64;
    let slowest_s = stage_s.iter().copied().fold(0.0, f64::max);
    let floor_s = boundaries_s.iter().flatten().copied().fold(busiest_interface_s, f64::max);
    let bubble_s = (stage_s.iter().sum::<f64>() - slowest_s) / chunks;
    Pace {
        fill_s: slowest_s + bubble_s + boundaries_s.iter().flatten().sum::<f64>(),
        period_s: slowest_s.max(chunks * floor_s),
    }
}

fn replica_times(replica: &Replica, traffic: &Traffic, prices: &mut Prices) -> Result<ReplicaTimes, CostError> {
    let (plan, cluster, cost) = (prices.plan, prices.cluster, prices.cost);
    let depth = replica.stages.len();
    let nodes: Vec<NodeId> = replica.stages.iter().map(|stage| prices.node_of[stage.node.as_str()]).collect();
    let boundaries_s: Vec<[f64; 2]> = (1..depth)
        .map(|stage| boundary_s(&replica.stages[stage - 1..=stage], &nodes[stage - 1..=stage], traffic, prices))
        .collect();
    let interface_s = |node: &NodeId| traffic.leaving_bytes[node.index()] as f64 / cluster.node(*node).nic.bytes_per_s;
    let busiest_interface_s = nodes.iter().map(interface_s).fold(0.0, f64::max);
    let (mut stage_s, mut backward_s) = (Vec::with_capacity(depth), Vec::with_capacity(depth));
    let (mut layer_backward_s, mut optimizer_s) = (Vec::with_capacity(depth), Vec::with_capacity(depth));
    let mut weights_s = Vec::with_capacity(depth);
    for (index, (stage, &node)) in replica.stages.iter().zip(&nodes).enumerate() {
        let [layer, embedding, head] = prices.of(node, stage.tensor_parallel_size())?;
        let ends = [(index == 0, embedding, Block::Embedding), (index + 1 == depth, head, Block::Head)];
        let count = f64::from(stage.layer_count());
        let (mut total, mut backward) = (count * layer.total_s(), count * layer.backward.total_s());
        let mut parameters = u64::from(stage.layer_count()) * cost.model().block_parameters(Block::Layer(LayerId(0)));
        for (_, end, block) in ends.into_iter().filter(|(held, _, _)| *held) {
            total += end.total_s();
            backward += end.backward.total_s();
            parameters += cost.model().block_parameters(block);
        }
        stage_s.push(total);
        backward_s.push(backward);
        layer_backward_s.push(layer.backward.total_s());
        if plan.schedule == ScheduleKind::ZeroBubbleH1 {
            let (gpu, execution) = (&cluster.node(node).gpu, plan.execution(stage));
            weights_s.push(count * cost.weight_gradients_s(Block::Layer(LayerId(0)), gpu, &execution, &layer));
        }
        let per_gpu = parameters / u64::from(stage.tensor_parallel_size());
        optimizer_s.push(cost.optimizer_step_s(&cluster.node(node).gpu, per_gpu, plan.precision));
    }
    let pace = match plan.schedule {
        ScheduleKind::OneForwardOneBackward | ScheduleKind::Redundant => {
            one_forward_one_backward(&stage_s, &boundaries_s, busiest_interface_s)
        }
        ScheduleKind::GPipe => gpipe(&stage_s, &backward_s, &boundaries_s, busiest_interface_s),
        ScheduleKind::ZeroBubbleH1 => zero_bubble(&stage_s, &weights_s, &boundaries_s, busiest_interface_s),
        ScheduleKind::Interleaved => interleaved(&stage_s, replica.chunk_count(), &boundaries_s, busiest_interface_s),
    };
    let mut after_stage_s = vec![0.0; depth];
    for stage in 1..depth {
        after_stage_s[stage] = after_stage_s[stage - 1] + backward_s[stage - 1] + boundaries_s[stage - 1][1];
    }
    let first_layers = replica.stages.iter().map(|stage| stage.first_layer).collect();
    let total_s = pace.time_s(replica.micro_batches);
    Ok(ReplicaTimes { nodes, first_layers, layer_backward_s, after_stage_s, optimizer_s, total_s })
}
