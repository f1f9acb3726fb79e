//! A program with times: what each instruction costs on the devices that the plan gives it.

use super::SimError;
use super::network::{LinkIndex, Network, Route};
use crate::cluster::Cluster;
use crate::cost::{BlockCost, CostModel, PassCost};
use crate::ids::{ChunkId, NodeId, Rank};
use crate::model::Block;
use crate::plan::{Plan, Replica};
use crate::program::{Gradients, Part, Program};
use crate::units::SimTime;
use std::collections::{BTreeMap, HashMap};

/// Time of one pass, by what it is spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassTime {
    /// Everything below included.
    pub total: SimTime,
    /// Forward arithmetic done again for the backward pass.
    pub recompute: SimTime,
    /// Tensor-parallel collectives within the pass.
    pub tensor_parallel: SimTime,
}

/// Time of one backward pass, and of its half for the weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackwardTime {
    /// All of it.
    pub all: PassTime,
    /// The gradients of the weights: neither recomputation nor collectives are in them.
    pub weights: SimTime,
}

/// What the passes through one chunk take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkPrice {
    /// Forward pass.
    pub forward: PassTime,
    /// Backward pass.
    pub backward: BackwardTime,
}

/// What the instructions of one stage's ranks take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankPrice {
    /// Passes of each chunk.
    pub chunks: Vec<ChunkPrice>,
    /// Backward pass of the embedding, one layer, and the head, where a pass is cut.
    pub block_backward: [BackwardTime; 3],
    /// Optimizer step.
    pub optimizer: SimTime,
}

/// What reducing a group's gradient takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupPrice {
    /// Bytes that each ring link carries: `2 (n - 1) / n` of the gradient.
    pub ring_bytes: f64,
    /// Route over all links of the ring.
    pub route: u32,
}

/// A program, what its instructions take, and the network that they share.
#[derive(Clone, Debug)]
pub struct PricedProgram {
    /// Prices of each rank's passes.
    pub ranks: Vec<RankPrice>,
    /// Bytes that a send on each channel carries.
    pub channel_bytes: Vec<u64>,
    /// Route of each channel.
    pub channel_routes: Vec<u32>,
    /// Prices of the reduction groups.
    pub groups: Vec<GroupPrice>,
    /// The links.
    pub network: Network<super::backend::Meeting>,
}

impl PricedProgram {
    /// Prices a plan's program on the cluster that the plan was made for.
    pub fn new(plan: &Plan, program: &Program, cluster: &Cluster, cost: &CostModel) -> Result<Self, SimError> {
        let mut devices = Devices::new(plan, cluster)?;
        let ranks = rank_prices(plan, cluster, cost, &devices)?;
        let route_between = |devices: &mut Devices, from: Rank, to: Rank| devices.ring_route(cluster, &[(from, to)], 1);
        // Of one rank: the whole activation.
        let boundary_bytes = cost.boundary_bytes(&plan.execution_at(1));
        let channel_bytes: Vec<u64> =
            program.channels().iter().map(|channel| channel.share.bytes(boundary_bytes)).collect();
        let route_channel = |(channel, &bytes): (&crate::program::Channel, &u64)| {
            let route = route_between(&mut devices, channel.from, channel.to);
            devices.limit_flow(cluster, route, &[(channel.from, channel.to)], bytes as f64);
            route
        };
        let channel_routes = program.channels().iter().zip(&channel_bytes).map(route_channel).collect();
        let price_group = |group: &crate::program::Group| {
            let members = group.ranks.len();
            let edges: Vec<_> = (0..members).map(|i| (group.ranks[i], group.ranks[(i + 1) % members])).collect();
            let ring = 2.0 * (members as f64 - 1.0);
            let slice_bytes = cost.gradient_bytes(group.block, &plan.execution_at(group.share.of));
            let route = devices.ring_route(cluster, &edges, 2 * (members - 1));
            devices.limit_flow(cluster, route, &edges, slice_bytes as f64 / members as f64);
            GroupPrice { ring_bytes: ring / members as f64 * slice_bytes as f64, route }
        };
        let groups = program.groups().iter().map(price_group).collect();
        Ok(Self { ranks, channel_bytes, channel_routes, groups, network: devices.network })
    }

    /// Time of a forward pass.
    pub fn forward(&self, rank: Rank, chunk: ChunkId) -> PassTime {
        self.ranks[rank.index()].chunks[chunk.index()].forward
    }

    /// Time of a backward pass.
    pub fn backward(&self, rank: Rank, chunk: ChunkId, part: Part, gradients: Gradients) -> PassTime {
        let price = &self.ranks[rank.index()];
        let time = match part {
            Part::Chunk => price.chunks[chunk.index()].backward,
            Part::Block(Block::Embedding) => price.block_backward[0],
            Part::Block(Block::Layer(_)) => price.block_backward[1],
            Part::Block(Block::Head) => price.block_backward[2],
        };
        time.of(gradients)
    }
}

/// Where each rank sits, and the links of the network around them.
struct Devices {
    /// Node and local GPU of each rank.
    ranks: Vec<(NodeId, u32)>,
    network: Network<super::backend::Meeting>,
    /// Per node in use, its interface's outgoing and incoming link.
    nics: BTreeMap<NodeId, (LinkIndex, LinkIndex)>,
    /// Per GPU in use, its port to the other GPUs of the node, out and in.
    ports: BTreeMap<(NodeId, u32), (LinkIndex, LinkIndex)>,
}

impl Devices {
    fn new(plan: &Plan, cluster: &Cluster) -> Result<Self, SimError> {
        let by_name: HashMap<&str, NodeId> =
            cluster.nodes.iter().enumerate().map(|(index, node)| (node.name.as_str(), NodeId::from(index))).collect();
        let mut devices =
            Self { ranks: Vec::new(), network: Network::new(), nics: BTreeMap::new(), ports: BTreeMap::new() };
        for stage in plan.replicas.iter().flat_map(|replica| &replica.stages) {
            let id = *by_name.get(stage.node.as_str()).ok_or_else(|| SimError::UnknownNode(stage.node.clone()))?;
            let node = &cluster.nodes[id.index()];
            let network = &mut devices.network;
            let mut pair = |bytes_per_s| (network.add_link(bytes_per_s), network.add_link(bytes_per_s));
            devices.nics.entry(id).or_insert_with(|| pair(node.nic.bytes_per_s));
            for &gpu in &stage.gpus {
                devices.ports.entry((id, gpu)).or_insert_with(|| pair(node.gpu.intra_node.bytes_per_s));
                devices.ranks.push((id, gpu));
            }
        }
        Ok(devices)
    }

    /// A route over all `edges` at once; the slowest edge's latency counts `hops` times.
    fn ring_route(&mut self, cluster: &Cluster, edges: &[(Rank, Rank)], hops: usize) -> u32 {
        let mut crossings: BTreeMap<LinkIndex, f64> = BTreeMap::new();
        let mut latency_s: f64 = 0.0;
        for &(from, to) in edges {
            let (from, to) = (self.ranks[from.index()], self.ranks[to.index()]);
            let (out, into) = if from.0 == to.0 {
                (self.ports[&from].0, self.ports[&to].1)
            } else {
                (self.nics[&from.0].0, self.nics[&to.0].1)
            };
            *crossings.entry(out).or_default() += 1.0;
            *crossings.entry(into).or_default() += 1.0;
            latency_s = latency_s.max(cluster.path(from.0, to.0).latency_s);
        }
        let latency = SimTime::from_seconds(latency_s * hops as f64);
        self.network.add_route(Route { links: crossings.into_iter().collect(), latency })
    }

    /// Has a route take no more than a single flow of such messages reaches on the slowest of its edges. The route's links
    /// are shared with others as before; this limit is its own.
    fn limit_flow(&mut self, cluster: &Cluster, route: u32, edges: &[(Rank, Rank)], message_bytes: f64) {
        let node = |rank: Rank| self.ranks[rank.index()].0;
        let flows = edges.iter().map(|&(from, to)| cluster.flow_bytes_per_s(node(from), node(to), message_bytes));
        let least = flows.fold(f64::INFINITY, f64::min);
        if least.is_finite() {
            let limit = self.network.add_link(least);
            self.network.extend_route(route, limit, 1.0, SimTime::ZERO);
        }
    }

    fn node(&self, rank: usize) -> NodeId {
        self.ranks[rank].0
    }
}

fn rank_prices(
    plan: &Plan,
    cluster: &Cluster,
    cost: &CostModel,
    devices: &Devices,
) -> Result<Vec<RankPrice>, SimError> {
    let mut prices = Vec::with_capacity(plan.world_size());
    for replica in &plan.replicas {
        for (p, stage) in replica.stages.iter().enumerate() {
            let node = &cluster.nodes[devices.node(prices.len()).index()];
            let price = stage_price(plan, replica, p, &node.gpu, cost)?;
            prices.extend(std::iter::repeat_n(price, stage.gpus.len()));
        }
    }
    Ok(prices)
}

/// The stage's passes are sums of its blocks' rounded times, so that a backward pass takes the same time whole, cut into
/// blocks, and in two halves.
fn stage_price(
    plan: &Plan,
    replica: &Replica,
    place: usize,
    gpu: &crate::cluster::GpuSpec,
    cost: &CostModel,
) -> Result<RankPrice, SimError> {
    let stage = &replica.stages[place];
    let execution = plan.execution(stage);
    let price = |block| -> Result<ChunkPrice, SimError> {
        let costs = cost.block_cost(block, gpu, &execution)?;
        let BlockCost { forward, backward } = costs;
        let weights = SimTime::from_seconds(cost.weight_gradients_s(block, gpu, &execution, &costs));
        Ok(ChunkPrice { forward: pass_time(&forward), backward: BackwardTime { all: pass_time(&backward), weights } })
    };
    let layer_block = Block::Layer(crate::ids::LayerId(stage.first_layer));
    let (embedding, layer, head) = (price(Block::Embedding)?, price(layer_block)?, price(Block::Head)?);
    let parameters = |block| cost.parameters_per_gpu(block, &execution);
    let mut held = parameters(layer_block) * u64::from(stage.layer_count());
    let mut chunks = Vec::with_capacity(stage.chunk_count());
    for (chunk, layers) in stage.chunks().enumerate() {
        let [has_embedding, has_head] = replica.chunk_ends(place, ChunkId::from(chunk));
        let ends = [(embedding, u64::from(has_embedding)), (head, u64::from(has_head))];
        let counted = [ends[0], (layer, u64::from(layers.num_layers)), ends[1]];
        chunks.push(counted.into_iter().fold(ChunkPrice::default(), |sum, (price, times)| sum.plus(price, times)));
        held += parameters(Block::Embedding) * ends[0].1 + parameters(Block::Head) * ends[1].1;
    }
    let slower = cost.last_backward_factor(gpu, plan.precision);
    Ok(RankPrice {
        chunks,
        block_backward: [embedding, layer, head].map(|price| price.backward.longer(slower)),
        optimizer: SimTime::from_seconds(cost.optimizer_step_s(gpu, held, plan.precision)),
    })
}

impl ChunkPrice {
    fn plus(self, other: Self, times: u64) -> Self {
        Self {
            forward: self.forward.plus(other.forward, times),
            backward: BackwardTime {
                all: self.backward.all.plus(other.backward.all, times),
                weights: self.backward.weights + other.backward.weights * times,
            },
        }
    }

    /// Forward and backward pass of one micro batch.
    pub fn total(&self) -> SimTime {
        self.forward.total + self.backward.all.total
    }
}

impl BackwardTime {
    /// Time of one half, or of both.
    pub fn of(&self, gradients: Gradients) -> PassTime {
        let weights = PassTime { total: self.weights, ..PassTime::default() };
        match gradients {
            Gradients::All => self.all,
            Gradients::Inputs => PassTime { total: self.all.total.saturating_sub(self.weights), ..self.all },
            Gradients::Weights => weights,
        }
    }

    fn longer(self, factor: f64) -> Self {
        let weights = PassTime { total: self.weights, ..PassTime::default() }.longer(factor).total;
        Self { all: self.all.longer(factor), weights }
    }
}

fn pass_time(cost: &PassCost) -> PassTime {
    PassTime {
        total: SimTime::from_seconds(cost.total_s()),
        recompute: SimTime::from_seconds(cost.recompute_s),
        tensor_parallel: SimTime::from_seconds(cost.tensor_parallel_s),
    }
}

impl PassTime {
    fn longer(self, factor: f64) -> Self {
        if factor.total_cmp(&1.0).is_eq() {
            return self;
        }
        let longer = |time: SimTime| SimTime::from_seconds(time.as_seconds() * factor);
        let Self { total, recompute, tensor_parallel } = self;
        Self { total: longer(total), recompute: longer(recompute), tensor_parallel: longer(tensor_parallel) }
    }

    fn plus(self, other: Self, times: u64) -> Self {
        Self {
            total: self.total + other.total * times,
            recompute: self.recompute + other.recompute * times,
            tensor_parallel: self.tensor_parallel + other.tensor_parallel * times,
        }
    }
}
