//! Whether a plan can run: on these nodes, for this model, within each GPU's memory.

use super::violation::MOST_SAMPLES;
use super::{Held, Plan, PlanViolation, Replica, SCHEMA_VERSION, ScheduleKind, Stage, StagePlace};
use crate::cluster::{Cluster, Node};
use crate::cost::{CostModel, HeldChunk, StageMemory, StageShape};
use crate::ids::ChunkId;
use crate::model::ModelSpec;
use std::collections::{BTreeMap, BTreeSet};

impl Plan {
    /// Checks everything that must hold before the plan can run.
    ///
    /// # Errors
    /// Every violation found, in the order of the plan, never an empty list.
    pub fn validate(&self, cluster: &Cluster, cost: &CostModel) -> Result<(), Vec<PlanViolation>> {
        let mut found = Vec::new();
        self.check_job(cost.model(), &mut found);
        self.check_degrees(cost.model(), &mut found);
        self.check_placement(cluster, &mut found);
        self.check_all_layers(cost.model(), &mut found);
        // Memory is a function of the shape, and has no meaning while that is wrong.
        if found.is_empty() {
            self.check_memory(cluster, cost, &mut found);
        }
        if found.is_empty() { Ok(()) } else { Err(found) }
    }

    /// Checks what must hold on any machine: that micro batches, layers and tensor-parallel groups add up.
    ///
    /// # Errors
    /// As of [`validate`](Self::validate).
    pub fn validate_shape(&self, model: &ModelSpec) -> Result<(), Vec<PlanViolation>> {
        let mut found = Vec::new();
        self.check_job(model, &mut found);
        self.check_degrees(model, &mut found);
        self.check_all_layers(model, &mut found);
        if found.is_empty() { Ok(()) } else { Err(found) }
    }

    /// Memory of one GPU of a stage at its peak.
    ///
    /// # Panics
    /// If the plan has no such stage.
    pub fn stage_memory(&self, place: StagePlace, cost: &CostModel) -> StageMemory {
        self.memory_in(&self.replicas[place.replica], place.stage, cost)
    }

    /// Memory of one GPU of a stage at its peak, in a replica that needn't be one of the plan's: the fullest of the moments
    /// that the schedule names.
    pub fn memory_in(&self, replica: &Replica, stage: usize, cost: &CostModel) -> StageMemory {
        let moments = self.schedule.fullest(replica.position(stage));
        let memories = moments.iter().map(|held| self.memory_while(replica, stage, held, cost));
        memories.max_by_key(StageMemory::total_bytes).unwrap_or_default()
    }

    /// Memory of one GPU of a replica's stage while it holds so many micro batches.
    pub fn memory_while(&self, replica: &Replica, stage: usize, held: &Held, cost: &CostModel) -> StageMemory {
        let chunk = |(index, layers): (usize, super::LayerRange)| {
            let [has_embedding, has_head] = replica.chunk_ends(stage, ChunkId::from(index));
            let (num_layers, in_flight) = (layers.num_layers, held.whole[index]);
            HeldChunk {
                shape: StageShape { num_layers, has_embedding, has_head, in_flight },
                awaiting_weights: held.awaiting_weights[index],
                is_running: held.running == Some(index),
            }
        };
        let shards = cost.framework().optimizer_shards(self.replicas.len());
        let chunks: Vec<HeldChunk> = replica.stages[stage].chunks().enumerate().map(chunk).collect();
        let execution = self.execution(&replica.stages[stage]);
        let mut memory = cost.held_memory(&chunks, &execution);
        if let Some(neighbour) = self.stands_in_for(replica, stage) {
            // Its activations are put aside in host memory, and its gradients are made only when it's lost.
            let [has_embedding, has_head] = replica.chunk_ends(neighbour, ChunkId(0));
            let num_layers = replica.stages[neighbour].num_layers;
            let copy = cost.stage_memory(&StageShape { num_layers, has_embedding, has_head, in_flight: 0 }, &execution);
            memory.parameters_bytes += copy.parameters_bytes;
            memory.optimizer_bytes += copy.optimizer_bytes;
        }
        memory.with_optimizer_shards(shards)
    }

    /// Every stage with its place, replica by replica.
    pub fn stages(&self) -> impl Iterator<Item = (StagePlace, &Stage)> {
        self.replicas.iter().enumerate().flat_map(|(replica, held)| {
            held.stages.iter().enumerate().map(move |(stage, what)| (StagePlace { replica, stage }, what))
        })
    }

    fn check_job(&self, model: &ModelSpec, found: &mut Vec<PlanViolation>) {
        if self.schema_version != SCHEMA_VERSION {
            found.push(PlanViolation::SchemaVersion { found: self.schema_version });
        }
        if !self.model.is(model) {
            found.push(PlanViolation::Model { expected: model.name.clone(), found: self.model.to_string() });
        }
        if self.replicas.is_empty() {
            found.push(PlanViolation::NoReplicas);
        }
        if self.global_batch_size > MOST_SAMPLES {
            found.push(PlanViolation::TooManySamples { found: self.global_batch_size });
        }
        let micro_batches = self.replicas.iter().map(|replica| u64::from(replica.micro_batches)).sum::<u64>();
        if micro_batches * u64::from(self.micro_batch_size) != u64::from(self.global_batch_size) {
            let (micro_batch_size, global_batch_size) = (self.micro_batch_size, self.global_batch_size);
            found.push(PlanViolation::GlobalBatch { micro_batches, micro_batch_size, global_batch_size });
        }
        for (replica, held) in self.replicas.iter().enumerate() {
            if held.micro_batches == 0 {
                found.push(PlanViolation::NoMicroBatches { replica });
            }
            if held.stages.is_empty() {
                found.push(PlanViolation::NoStages { replica });
            }
        }
    }

    fn check_placement(&self, cluster: &Cluster, found: &mut Vec<PlanViolation>) {
        let nodes: BTreeMap<&str, &Node> = cluster.nodes.iter().map(|node| (node.name.as_str(), node)).collect();
        let mut used = BTreeSet::new();
        for (place, stage) in self.stages() {
            match nodes.get(stage.node.as_str()) {
                None => found.push(PlanViolation::UnknownNode { place, node: stage.node.clone() }),
                Some(node) => check_stage_on_node(place, stage, node, found),
            }
            for &gpu in &stage.gpus {
                if !used.insert((stage.node.as_str(), gpu)) {
                    found.push(PlanViolation::GpuUsedTwice { place, node: stage.node.clone(), gpu });
                }
            }
        }
    }

    fn check_degrees(&self, model: &ModelSpec, found: &mut Vec<PlanViolation>) {
        let ModelSpec { num_attention_heads, ffn_hidden_size, .. } = *model;
        for (place, stage) in self.stages() {
            let tensor_parallel_size = stage.tensor_parallel_size();
            if !model.supports_tensor_parallel(tensor_parallel_size) {
                found.push(PlanViolation::TensorParallel {
                    place,
                    tensor_parallel_size,
                    num_attention_heads,
                    ffn_hidden_size,
                });
            }
        }
    }

    fn check_all_layers(&self, model: &ModelSpec, found: &mut Vec<PlanViolation>) {
        for (index, replica) in self.replicas.iter().enumerate() {
            check_chunks(index, replica, self.schedule, found);
            check_layers(index, replica, model.num_layers, found);
        }
    }

    fn check_memory(&self, cluster: &Cluster, cost: &CostModel, found: &mut Vec<PlanViolation>) {
        let nodes: BTreeMap<&str, &Node> = cluster.nodes.iter().map(|node| (node.name.as_str(), node)).collect();
        for (place, stage) in self.stages() {
            let needed_bytes = self.stage_memory(place, cost).total_bytes();
            let available_bytes = nodes[stage.node.as_str()].gpu.memory_bytes;
            if needed_bytes > available_bytes {
                let gpu_type = stage.gpu_type.clone();
                found.push(PlanViolation::Memory { place, gpu_type, needed_bytes, available_bytes });
            }
        }
    }
}

fn check_stage_on_node(place: StagePlace, stage: &Stage, node: &Node, found: &mut Vec<PlanViolation>) {
    if stage.gpu_type != node.gpu.name {
        found.push(PlanViolation::GpuType {
            place,
            node: node.name.clone(),
            expected: stage.gpu_type.clone(),
            found: node.gpu.name.clone(),
        });
    }
    for &gpu in stage.gpus.iter().filter(|&&gpu| gpu >= node.gpu_count) {
        let gpu_count = node.gpu_count;
        found.push(PlanViolation::GpuOutOfRange { place, node: node.name.clone(), gpu, gpu_count });
    }
}

/// As many chunks on every stage: one, but under the interleaved schedule in pipelines of several stages, whose micro
/// batches go through their chunks in groups of `P` (Narayanan et al. 2021, section 2.2).
fn check_chunks(replica: usize, held: &Replica, schedule: ScheduleKind, found: &mut Vec<PlanViolation>) {
    let (depth, micro_batches) = (held.stages.len(), held.micro_batches);
    let may_be_several = schedule == ScheduleKind::Interleaved && depth > 1;
    let expected = if may_be_several { held.chunk_count() } else { 1 };
    for (stage, what) in held.stages.iter().enumerate() {
        let (place, chunks) = (StagePlace { replica, stage }, what.chunk_count());
        if chunks != expected {
            found.push(PlanViolation::Chunks { place, expected, found: chunks });
        }
    }
    if expected > 1 && !(micro_batches as usize).is_multiple_of(depth) {
        found.push(PlanViolation::InterleavedMicroBatches { replica, micro_batches, depth });
    }
}

/// The first chunks of all stages, then the second ones, and so on: one follows the other, and together they are the model.
fn check_layers(replica: usize, held: &Replica, num_layers: u32, found: &mut Vec<PlanViolation>) {
    let mut next = 0_u64;
    for chunk in 0..held.stages.iter().map(Stage::chunk_count).max().unwrap_or(0) {
        for (stage, what) in held.stages.iter().enumerate() {
            let place = StagePlace { replica, stage };
            let Some(layers) = what.chunks().nth(chunk) else { continue };
            if layers.num_layers == 0 {
                found.push(PlanViolation::NoLayers { place });
            }
            if u64::from(layers.first_layer) != next {
                found.push(PlanViolation::LayersNotContiguous { place, expected: next, found: layers.first_layer });
            }
            next = u64::from(layers.first_layer) + u64::from(layers.num_layers);
        }
    }
    if !held.stages.is_empty() && next != u64::from(num_layers) {
        found.push(PlanViolation::LayersNotCovered { replica, expected: num_layers, found: next });
    }
}
