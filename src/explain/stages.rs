//! What an executed iteration says of its stages and its links.

use crate::cluster::Cluster;
use crate::cost::communication::transfer_s;
use crate::ids::LayerId;
use crate::metrics::{Activity, IterationBreakdown};
use crate::model::Block;
use crate::plan::{Plan, PlanRequest, Replica, Stage, StagePlace};
use crate::program::Op;
use crate::runtime::sim::{ChunkPrice, SimulatedIteration};
use crate::units::SimTime;
use serde::Serialize;

/// Shares of the GPU time of an iteration; they add up to one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TimeShares {
    /// Passes and optimizer steps.
    pub useful: f64,
    /// Forward passes done again.
    pub recomputation: f64,
    /// Waiting for a transfer or a collective under way.
    pub exposed_communication: f64,
    /// Waiting for other stages or replicas.
    pub bubble: f64,
}

/// What is known of a stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageFacts {
    /// Node of its GPUs.
    pub node: String,
    /// Type of its GPUs.
    pub gpu_type: String,
    /// Its tensor-parallel degree.
    pub gpus: u32,
    /// Layers.
    pub num_layers: u32,
    /// Seconds of one micro batch, forward and backward.
    pub period_s: f64,
    /// Share of the iteration in which it computes.
    pub busy_share: f64,
    /// Seconds that one layer more would add to the period.
    pub layer_s: f64,
    /// Memory of one GPU at its peak.
    pub peak_memory_bytes: u64,
    /// Memory that the GPU has.
    pub memory_capacity_bytes: u64,
    /// Memory that one layer more would bring it to.
    pub one_more_layer_bytes: u64,
}

impl StageFacts {
    /// Whether its memory has room for one layer more.
    pub fn has_room(&self) -> bool {
        self.one_more_layer_bytes <= self.memory_capacity_bytes
    }
}

/// The stage that sets the pace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bottleneck {
    /// Its replica.
    pub replica: usize,
    /// Its place in it.
    pub stage: usize,
    /// Why no layer is taken from it.
    pub binding: Binding,
}

/// What keeps a bottleneck from being relieved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Binding {
    /// The stage is the only one of its replica.
    OneStage,
    /// Every other stage would be slower than it is with one layer more: a layer is the least that can be moved.
    Granularity,
    /// A stage that would still be faster has no memory for one layer more.
    Memory {
        /// The stages without room.
        stages: Vec<usize>,
    },
    /// A stage has time and memory for one layer more: what keeps it where it is are its transfers, its gradient
    /// synchronisation, or the balance with other replicas.
    Communication {
        /// The stages with room.
        stages: Vec<usize>,
    },
}

/// What transfers take.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Links {
    /// Seconds from the last backward pass of a stage to its optimizer step, the longest: gradient synchronisation that
    /// nothing hides, and waiting for those who take part in it.
    pub exposed_gradient_sync_s: f64,
    /// The boundary between stages that takes longest; `None` without one.
    pub slowest_boundary: Option<SlowestLink>,
}

/// A boundary between two stages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SlowestLink {
    /// The replica.
    pub replica: usize,
    /// The stage that sends.
    pub stage: usize,
    /// Node that sends.
    pub from: String,
    /// Node that receives.
    pub to: String,
    /// Seconds of one micro batch in one direction, with the link to itself.
    pub transfer_s: f64,
    /// Bandwidth of the path.
    pub bytes_per_s: f64,
}

pub(super) fn time_shares(iteration: &SimulatedIteration) -> TimeShares {
    let breakdown = IterationBreakdown::of(iteration);
    let total = breakdown.ledger.total().as_gpu_seconds();
    let share = |activity| breakdown.ledger.get(activity).as_gpu_seconds() / total;
    TimeShares {
        useful: share(Activity::Useful),
        recomputation: share(Activity::Recomputation),
        exposed_communication: share(Activity::ExposedCommunication),
        bubble: share(Activity::Bubble),
    }
}

pub(super) fn facts(plan: &Plan, request: &PlanRequest, iteration: &SimulatedIteration) -> Vec<Vec<StageFacts>> {
    let makespan_s = iteration.timeline.makespan().as_seconds();
    let rank_times = iteration.timeline.rank_times(&iteration.program);
    let mut next_rank = 0;
    let mut of_stage = |replica: &Replica, index: usize| {
        let stage = &replica.stages[index];
        let rank = next_rank;
        next_rank += stage.gpus.len();
        let price = &iteration.priced.ranks[rank];
        StageFacts {
            node: stage.node.clone(),
            gpu_type: stage.gpu_type.clone(),
            gpus: stage.gpus.len() as u32,
            num_layers: stage.layer_count(),
            period_s: price.chunks.iter().map(ChunkPrice::total).sum::<SimTime>().as_seconds(),
            busy_share: rank_times[rank].busy.as_seconds() / makespan_s,
            ..memory_facts(plan, request, replica, index)
        }
    };
    let of_replica = |replica: &Replica| (0..replica.stages.len()).map(|index| of_stage(replica, index)).collect();
    plan.replicas.iter().map(of_replica).collect()
}

/// Memory now and with a layer more, and that layer's time; the rest is filled in by the caller.
fn memory_facts(plan: &Plan, request: &PlanRequest, replica: &Replica, index: usize) -> StageFacts {
    let stage = &replica.stages[index];
    let execution = plan.execution(stage);
    let mut larger = replica.clone();
    larger.stages[index].num_layers += 1;
    let in_replica = |replica| plan.memory_in(replica, index, request.cost).total_bytes();
    let node = request.cluster.find(&stage.node).map(|id| request.cluster.node(id));
    let layer = node.and_then(|node| request.cost.block_cost(Block::Layer(LayerId(0)), &node.gpu, &execution).ok());
    StageFacts {
        node: String::new(),
        gpu_type: String::new(),
        gpus: 0,
        num_layers: 0,
        period_s: 0.0,
        busy_share: 0.0,
        layer_s: layer.map_or(0.0, |layer| layer.total_s()),
        peak_memory_bytes: in_replica(replica),
        memory_capacity_bytes: node.map_or(0, |node| node.gpu.memory_bytes),
        one_more_layer_bytes: in_replica(&larger),
    }
}

/// The slowest stage of the replica that computes longest.
pub(super) fn bottleneck(plan: &Plan, stages: &[Vec<StageFacts>]) -> Bottleneck {
    let slowest = |stages: &[StageFacts]| {
        let order = |&a: &usize, &b: &usize| stages[a].period_s.total_cmp(&stages[b].period_s).then(b.cmp(&a));
        (0..stages.len()).max_by(order).unwrap_or(0)
    };
    let total_s = |replica: usize| {
        let (of_replica, micro_batches) = (&stages[replica], plan.replicas[replica].micro_batches);
        let fill_s: f64 = of_replica.iter().map(|stage| stage.period_s).sum();
        fill_s + f64::from(micro_batches.saturating_sub(1)) * of_replica[slowest(of_replica)].period_s
    };
    let replicas = 0..plan.replicas.len();
    let replica = replicas.max_by(|&a, &b| total_s(a).total_cmp(&total_s(b)).then(b.cmp(&a))).unwrap_or(0);
    let stage = slowest(&stages[replica]);
    Bottleneck { replica, stage, binding: binding(&stages[replica], stage) }
}

/// Why no stage of the replica takes a layer from `slowest`.
fn binding(stages: &[StageFacts], slowest: usize) -> Binding {
    if stages.len() == 1 {
        return Binding::OneStage;
    }
    let faster = |&(index, stage): &(usize, &StageFacts)| {
        index != slowest && stage.period_s + stage.layer_s < stages[slowest].period_s * (1.0 - 1e-9)
    };
    let (with, without): (Vec<_>, Vec<_>) =
        stages.iter().enumerate().filter(faster).partition(|(_, stage)| stage.has_room());
    let places = |stages: Vec<(usize, &StageFacts)>| stages.into_iter().map(|(index, _)| index).collect();
    if !with.is_empty() {
        Binding::Communication { stages: places(with) }
    } else if !without.is_empty() {
        Binding::Memory { stages: places(without) }
    } else {
        Binding::Granularity
    }
}

pub(super) fn links(plan: &Plan, request: &PlanRequest, iteration: &SimulatedIteration) -> Links {
    let boundaries = plan.replicas.iter().enumerate().flat_map(|(replica, held)| {
        let pairs = held.stages.windows(2).enumerate();
        pairs.filter_map(move |(stage, pair)| boundary(plan, request, StagePlace { replica, stage }, pair))
    });
    let slowest_boundary = boundaries.max_by(|a, b| a.transfer_s.total_cmp(&b.transfer_s));
    Links { exposed_gradient_sync_s: exposed_gradient_sync(iteration).as_seconds(), slowest_boundary }
}

fn boundary(plan: &Plan, request: &PlanRequest, place: StagePlace, pair: &[Stage]) -> Option<SlowestLink> {
    let cluster: &Cluster = request.cluster;
    let (from, to) = (cluster.find(&pair[0].node)?, cluster.find(&pair[1].node)?);
    let path = cluster.path(from, to);
    let execution = plan.execution(&pair[0]);
    let bytes = request.cost.boundary_bytes(&execution);
    // Between nodes the ranks of a stage share the interface; within one each has its own link.
    let shared = if from == to { 1 } else { u64::from(execution.tensor_parallel_size) };
    Some(SlowestLink {
        replica: place.replica,
        stage: place.stage,
        from: pair[0].node.clone(),
        to: pair[1].node.clone(),
        transfer_s: transfer_s(bytes * shared, path),
        bytes_per_s: path.bytes_per_s,
    })
}

/// The longest wait of a rank between its last backward pass and its optimizer step.
fn exposed_gradient_sync(iteration: &SimulatedIteration) -> SimTime {
    let ranks = iteration.program.ranks().len();
    let (mut computed, mut stepped) = (vec![SimTime::ZERO; ranks], vec![SimTime::ZERO; ranks]);
    for span in &iteration.timeline.spans {
        let rank = span.rank.index();
        match iteration.program.instruction(span.rank, span.id).op {
            Op::Backward { .. } => computed[rank] = computed[rank].max(span.end),
            Op::OptimizerStep => stepped[rank] = span.start,
            _ => {}
        }
    }
    computed
        .into_iter()
        .zip(stepped)
        .map(|(computed, stepped)| stepped.saturating_sub(computed))
        .max()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(period_s: f64, layer_s: f64, has_room: bool) -> StageFacts {
        StageFacts {
            node: "a".to_owned(),
            gpu_type: "T4".to_owned(),
            gpus: 1,
            num_layers: 4,
            period_s,
            busy_share: 1.0,
            layer_s,
            peak_memory_bytes: 10,
            memory_capacity_bytes: 16,
            one_more_layer_bytes: if has_room { 16 } else { 17 },
        }
    }

    #[test]
    fn what_binds_is_what_keeps_a_layer_from_moving() {
        assert_eq!(binding(&[stage(4.0, 1.0, true)], 0), Binding::OneStage);
        assert_eq!(binding(&[stage(4.0, 1.0, true), stage(3.5, 1.0, false)], 0), Binding::Granularity);
        let full = [stage(4.0, 1.0, true), stage(2.0, 1.0, false), stage(3.5, 1.0, true)];
        assert_eq!(binding(&full, 0), Binding::Memory { stages: vec![1] });
        let open = [stage(2.0, 1.0, false), stage(4.0, 1.0, true), stage(2.5, 1.0, true)];
        assert_eq!(binding(&open, 1), Binding::Communication { stages: vec![2] });
    }
}
