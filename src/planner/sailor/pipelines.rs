//! A plan as Sailor writes it: equal replicas are one pipeline.

use crate::plan::{Plan, Replica};
use serde::Serialize;

/// A plan in Sailor's terms, as JSON that other tools read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SailorPlan {
    global_batch_size: u32,
    micro_batch_size: u32,
    pub(super) pipelines: Vec<Pipeline>,
}

/// Replicas of equal shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Pipeline {
    /// How many there are.
    pub(super) replicas: u32,
    /// Micro batches of the one that has most.
    pub(super) micro_batches: u32,
    pub(super) stages: Vec<PipelineStage>,
}

/// A stage: the embedding and the head count as layers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct PipelineStage {
    pub(super) gpu: String,
    pub(super) tp: u32,
    pub(super) layers: u32,
}

impl SailorPlan {
    /// The plan's replicas, equal ones together, in the order in which their shapes first occur.
    pub fn of(plan: &Plan) -> Self {
        let mut pipelines: Vec<Pipeline> = Vec::new();
        for replica in &plan.replicas {
            let is_same = |pipeline: &&mut Pipeline| is_shape(&pipeline.stages, replica);
            if let Some(pipeline) = pipelines.iter_mut().find(is_same) {
                pipeline.replicas += 1;
                pipeline.micro_batches = pipeline.micro_batches.max(replica.micro_batches);
            } else {
                let (micro_batches, stages) = (replica.micro_batches, stages(replica));
                pipelines.push(Pipeline { replicas: 1, micro_batches, stages });
            }
        }
        let Plan { global_batch_size, micro_batch_size, .. } = *plan;
        Self { global_batch_size, micro_batch_size, pipelines }
    }

    /// The plan as indented JSON, with a newline at the end.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a plan has string keys and whole numbers only") + "\n"
    }
}

fn stages(replica: &Replica) -> Vec<PipelineStage> {
    (0..replica.stages.len()).map(|index| stage(replica, index)).collect()
}

fn stage(replica: &Replica, index: usize) -> PipelineStage {
    let stage = &replica.stages[index];
    let ends = u32::from(index == 0) + u32::from(index + 1 == replica.stages.len());
    PipelineStage { gpu: stage.gpu_type.clone(), tp: stage.gpus.len() as u32, layers: stage.layer_count() + ends }
}

fn is_shape(stages: &[PipelineStage], replica: &Replica) -> bool {
    let is_same = |(index, known): (usize, &PipelineStage)| {
        let stage = &replica.stages[index];
        known.gpu == stage.gpu_type && known.tp == stage.gpus.len() as u32
    };
    // The types first: they need no copies.
    stages.len() == replica.stages.len()
        && stages.iter().enumerate().all(is_same)
        && stages.iter().enumerate().all(|(index, known)| *known == stage(replica, index))
}
