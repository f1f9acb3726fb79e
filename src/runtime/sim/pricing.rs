//! A program with times: what each instruction costs on the devices that the plan gives it.

use super::SimError;
use super::network::Network;
use super::reduction::price_group;
use super::topology::Topology;
use crate::cluster::{Cluster, GpuSpec, Link};
use crate::cost::communication::ring_all_gather_s;
use crate::cost::{BlockCost, CostModel, PassCost};
use crate::ids::{ChunkId, Rank};
use crate::model::Block;
use crate::plan::{Plan, Replica};
use crate::program::{Gradients, Part, Program};
use crate::units::SimTime;
use std::sync::Arc;

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
    /// Forward pass of the layers that it could stand in for.
    pub redundant_forward: PassTime,
    /// Optimizer step, also of those layers.
    pub optimizer: SimTime,
}

/// What reducing a group's gradient takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupPrice {
    /// Bytes that each link of its route carries: `2 (n - 1) / n` of the gradient by a ring, half of that where every
    /// member gets its share only.
    pub ring_bytes: f64,
    /// Route over all links, of the ring for example.
    pub route: u32,
    /// What follows, one after the other, where it is done in several phases: routes and bytes.
    pub then: Vec<(u32, f64)>,
    /// Bytes of each link where the weights are gathered, over the same route.
    pub gathered_bytes: f64,
}

/// A program, what its instructions take, and the network that they share.
#[derive(Clone, Debug)]
pub struct PricedProgram {
    /// Prices of each rank's passes; most share theirs with others.
    pub ranks: Vec<Arc<RankPrice>>,
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
        let mut topology = Topology::new(plan, cluster)?;
        let ranks = rank_prices(plan, cluster, cost, &topology)?;
        // Of one rank: the whole activation.
        let boundary_bytes = cost.boundary_bytes(&plan.execution_at(1));
        let channel_bytes: Vec<u64> =
            program.channels().iter().map(|channel| channel.share.bytes(boundary_bytes)).collect();
        let route_channel = |(channel, &bytes): (&crate::program::Channel, &u64)| {
            topology.message(channel.from, channel.to, bytes as f64)
        };
        let channel_routes = program.channels().iter().zip(&channel_bytes).map(route_channel).collect();
        let groups = program.groups().iter().map(|group| price_group(plan, group, cost, &mut topology)).collect();
        Ok(Self { ranks, channel_bytes, channel_routes, groups, network: topology.network })
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

fn rank_prices(
    plan: &Plan,
    cluster: &Cluster,
    cost: &CostModel,
    topology: &Topology<'_>,
) -> Result<Vec<Arc<RankPrice>>, SimError> {
    let mut prices = Vec::with_capacity(plan.world_size());
    // Most stages are like one before.
    let mut known: Vec<(&Arc<GpuSpec>, &Replica, usize, Arc<RankPrice>)> = Vec::new();
    for replica in &plan.replicas {
        for (p, stage) in replica.stages.iter().enumerate() {
            let node = cluster.node(topology.node(Rank::from(prices.len())));
            let is_like = |(gpu, other, place, _): &&(&Arc<GpuSpec>, &Replica, usize, Arc<RankPrice>)| {
                Arc::ptr_eq(gpu, &node.gpu) && is_priced_alike(other, *place, replica, p)
            };
            let price = if let Some((_, _, _, price)) = known.iter().find(is_like) {
                Arc::clone(price)
            } else {
                let mut price = stage_price(plan, replica, p, &node.gpu, cost)?;
                if cost.framework().partitioned_boundaries {
                    price.gather_boundaries(plan, replica, p, node.gpu.intra_node, cost);
                }
                let price = Arc::new(price);
                known.push((&node.gpu, replica, p, Arc::clone(&price)));
                price
            };
            prices.extend(std::iter::repeat_n(price, stage.gpus.len()));
        }
    }
    Ok(prices)
}

/// Whether two stages on GPUs of one type hold the same.
fn is_priced_alike(a: &Replica, at_a: usize, b: &Replica, at_b: usize) -> bool {
    let (one, other) = (&a.stages[at_a], &b.stages[at_b]);
    let is_last = |replica: &Replica, at: usize| at + 1 == replica.stages.len();
    one.gpus.len() == other.gpus.len()
        && one.chunks().eq(other.chunks())
        && (at_a == 0, is_last(a, at_a)) == (at_b == 0, is_last(b, at_b))
}

/// The stage's passes are sums of its blocks' rounded times, so that a backward pass takes the same time whole, cut into
/// blocks, and in two halves.
fn stage_price(
    plan: &Plan,
    replica: &Replica,
    place: usize,
    gpu: &GpuSpec,
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
    let mut redundant_forward = PassTime::default();
    if let Some(neighbour) = plan.stands_in_for(replica, place) {
        let [has_embedding, has_head] = replica.chunk_ends(neighbour, ChunkId(0));
        let layers = u64::from(replica.stages[neighbour].num_layers);
        let ends = [(embedding, Block::Embedding, has_embedding), (head, Block::Head, has_head)];
        let ends = ends.map(|(price, block, is_held)| (price, block, u64::from(is_held)));
        for (price, block, times) in [ends[0], (layer, layer_block, layers), ends[1]] {
            redundant_forward = redundant_forward.plus(price.forward, times);
            held += parameters(block) * times;
        }
    }
    let shards = cost.framework().optimizer_shards(plan.replicas.len());
    let slower = cost.last_backward_factor(gpu, plan.precision);
    Ok(RankPrice {
        chunks,
        block_backward: [embedding, layer, head].map(|price| price.backward.longer(slower)),
        redundant_forward,
        optimizer: SimTime::from_seconds(cost.optimizer_step_s(gpu, held.div_ceil(shards), plan.precision)),
    })
}

impl RankPrice {
    /// Adds what it takes to put together an activation of which each rank has received its part, and a gradient. Under
    /// sequence parallelism nobody needs the whole.
    fn gather_boundaries(&mut self, plan: &Plan, replica: &Replica, place: usize, link: Link, cost: &CostModel) {
        let stage = &replica.stages[place];
        let ranks = stage.tensor_parallel_size();
        if plan.sequence_parallel || ranks < 2 {
            return;
        }
        let bytes = cost.boundary_bytes(&plan.execution_at(1));
        let gathering = SimTime::from_seconds(ring_all_gather_s(ranks, bytes, link));
        let gathering = PassTime { total: gathering, recompute: SimTime::ZERO, tensor_parallel: gathering };
        for (index, chunk) in self.chunks.iter_mut().enumerate() {
            let [has_embedding, has_head] = replica.chunk_ends(place, ChunkId::from(index));
            if !has_embedding {
                chunk.forward = chunk.forward.plus(gathering, 1);
            }
            if !has_head {
                chunk.backward.all = chunk.backward.all.plus(gathering, 1);
            }
        }
        let [_, has_head] = replica.chunk_ends(place, ChunkId::from(stage.chunk_count() - 1));
        if !has_head {
            // Where it is cut into blocks, each layer has its part of it.
            let part = SimTime(gathering.total.0 / u64::from(stage.num_layers.max(1)));
            let part = PassTime { total: part, tensor_parallel: part, ..gathering };
            self.block_backward[1].all = self.block_backward[1].all.plus(part, 1);
        }
    }
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
