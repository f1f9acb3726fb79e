//! A plan without its places: what kind of GPU and how many of them each stage has, and which replicas are equal.

use crate::cluster::{Cluster, GpuSpec, Link, Node};
use crate::ids::LayerId;
use crate::model::{Block, Execution, Recompute};
use crate::plan::{Plan, PlanRequest, ScheduleKind};
use crate::planner::room::{Ends, Place, Room};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A plan without its places.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shape {
    pub(super) micro_batch_size: u32,
    pub(super) recompute: Recompute,
    pub(super) groups: Vec<Group>,
}

/// Equal replicas.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    pub(super) replicas: u32,
    pub(super) stages: Vec<StageKind>,
}

/// A stage without its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StageKind {
    /// Index into [`World::kinds`].
    pub(super) kind: usize,
    /// GPUs.
    pub(super) degree: u32,
    pub(super) layers: u32,
}

/// Nodes with GPUs of one type behind one kind of interface.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    gpu: Arc<GpuSpec>,
    nic: Link,
    /// Indices into the cluster's nodes.
    pub(super) nodes: Vec<usize>,
    pub(super) gpus: u32,
}

/// What shapes are made of.
pub(super) struct World<'a> {
    pub(super) request: &'a PlanRequest<'a>,
    pub(super) kinds: Vec<Kind>,
    /// Tensor-parallel degrees, ascending.
    pub(super) degrees: Vec<u32>,
    /// Micro-batch sizes, ascending.
    pub(super) micro_batch_sizes: Vec<u32>,
    /// By kind, degree, micro-batch size and recomputation; what can't be priced isn't in it.
    costs: BTreeMap<(usize, u32, u32, Recompute), StageCosts>,
}

/// What stages of a kind take at one degree, micro-batch size and recomputation.
pub(super) struct StageCosts {
    /// Seconds of a layer, forward and backward.
    pub(super) layer_s: f64,
    embedding_s: f64,
    head_s: f64,
    room: Room,
}

impl StageCosts {
    /// Seconds that the embedding and the head add to a stage's layers.
    pub(super) fn ends_s(&self, ends: Ends) -> f64 {
        (if ends.embedding { self.embedding_s } else { 0.0 }) + (if ends.head { self.head_s } else { 0.0 })
    }

    /// Most layers of a stage at this place.
    pub(super) fn most_layers(&self, place: Place) -> u32 {
        self.room.layers(place)
    }
}

impl<'a> World<'a> {
    pub(super) fn new(request: &'a PlanRequest<'a>) -> Self {
        let PlanRequest { cluster, cost, training, .. } = *request;
        let kinds = kinds_of(cluster);
        let divides = |size: &u32| *size > 0 && training.global_batch_size.is_multiple_of(*size);
        let sorted = |mut sizes: Vec<u32>| {
            sizes.sort_unstable();
            sizes.dedup();
            sizes
        };
        let micro_batch_sizes = sorted(training.micro_batch_sizes.iter().copied().filter(divides).collect());
        let supported = |degree: &u32| cost.model().supports_tensor_parallel(*degree);
        let degrees = sorted(training.tensor_parallel_sizes.iter().copied().filter(supported).collect());
        let mut world = Self { request, kinds, degrees, micro_batch_sizes, costs: BTreeMap::new() };
        let mut costs = BTreeMap::new();
        for (kind, held) in world.kinds.iter().enumerate() {
            for &degree in world.degrees.iter().filter(|degree| held.holds(**degree, cluster)) {
                for &size in &world.micro_batch_sizes {
                    for &recompute in &training.recompute {
                        let execution = world.execution(degree, size, recompute);
                        let priced = price(request, &held.gpu, &execution);
                        costs.extend(priced.map(|priced| ((kind, degree, size, recompute), priced)));
                    }
                }
            }
        }
        world.costs = costs;
        world
    }

    pub(super) fn execution(&self, degree: u32, micro_batch_size: u32, recompute: Recompute) -> Execution {
        Execution {
            tensor_parallel_size: degree,
            micro_batch_size,
            recompute,
            sequence_parallel: degree > 1,
            precision: self.request.training.precision,
        }
    }

    /// What such a stage takes, if it can be priced.
    pub(super) fn costs(&self, shape: &Shape, stage: StageKind) -> Option<&StageCosts> {
        self.costs.get(&(stage.kind, stage.degree, shape.micro_batch_size, shape.recompute))
    }

    /// Micro batches that each replica of a shape is to have room for: all that may be in flight, but where the schedule
    /// holds all that a replica has.
    pub(super) fn most_micro_batches(&self, shape: &Shape) -> u32 {
        let schedule = self.request.judge.schedule();
        let holds_all = schedule.is_some_and(|choice| choice.kind() == ScheduleKind::GPipe);
        if holds_all { self.micro_batches(shape).div_ceil(shape.replicas().max(1)) } else { u32::MAX }
    }

    /// Micro batches of an iteration over all replicas.
    pub(super) fn micro_batches(&self, shape: &Shape) -> u32 {
        self.request.training.global_batch_size / shape.micro_batch_size
    }

    /// The shape of a plan for this cluster.
    pub(super) fn shape_of(&self, plan: &Plan) -> Option<Shape> {
        let cluster = self.request.cluster;
        let kind_of: BTreeMap<&str, usize> = cluster
            .nodes
            .iter()
            .filter_map(|node| Some((node.name.as_str(), self.kinds.iter().position(|kind| kind.is_of(node))?)))
            .collect();
        let mut groups: Vec<Group> = Vec::new();
        for replica in &plan.replicas {
            let stage = |stage: &crate::plan::Stage| {
                let kind = *kind_of.get(stage.node.as_str())?;
                Some(StageKind { kind, degree: stage.gpus.len() as u32, layers: stage.layer_count() })
            };
            let stages = replica.stages.iter().map(stage).collect::<Option<Vec<_>>>()?;
            match groups.iter_mut().find(|group| group.stages == stages) {
                Some(group) => group.replicas += 1,
                None => groups.push(Group { replicas: 1, stages }),
            }
        }
        Some(Shape { micro_batch_size: plan.micro_batch_size, recompute: plan.recompute, groups })
    }
}

impl Shape {
    /// Replicas of all groups.
    pub(super) fn replicas(&self) -> u32 {
        self.groups.iter().map(|group| group.replicas).sum()
    }
}

impl Kind {
    fn is_of(&self, node: &Node) -> bool {
        super::super::setting::same_class(&self.gpu, self.nic, node)
    }

    /// Whether a node of it has so many GPUs.
    fn holds(&self, degree: u32, cluster: &Cluster) -> bool {
        self.nodes.iter().any(|&node| cluster.nodes[node].gpu_count >= degree)
    }
}

impl Group {
    /// GPUs of a kind that one replica takes.
    pub(super) fn gpus_of(&self, kind: usize) -> u32 {
        self.stages.iter().filter(|stage| stage.kind == kind).map(|stage| stage.degree).sum()
    }
}

fn kinds_of(cluster: &Cluster) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = Vec::new();
    for (index, node) in cluster.nodes.iter().enumerate() {
        match kinds.iter_mut().find(|kind| kind.is_of(node)) {
            Some(kind) => {
                kind.nodes.push(index);
                kind.gpus += node.gpu_count;
            }
            None => kinds.push(Kind { gpu: node.gpu.clone(), nic: node.nic, nodes: vec![index], gpus: node.gpu_count }),
        }
    }
    kinds
}

fn price(request: &PlanRequest, gpu: &GpuSpec, execution: &Execution) -> Option<StageCosts> {
    let PlanRequest { cost, judge, .. } = *request;
    let seconds = |block| cost.block_cost(block, gpu, execution).ok().map(|cost| cost.total_s());
    Some(StageCosts {
        layer_s: seconds(Block::Layer(LayerId(0)))?,
        embedding_s: seconds(Block::Embedding)?,
        head_s: seconds(Block::Head)?,
        // No more micro batches are in flight than there are stages.
        room: Room::new(cost, gpu, execution, (cost.model().num_layers, judge.schedule())),
    })
}
