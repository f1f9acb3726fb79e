//! What was passed over: the best plans with one choice made otherwise, and the next best that were executed.

use crate::cluster::Cluster;
use crate::model::Recompute;
use crate::plan::{Plan, PlanError, PlanRequest, PlannedIteration, Planner, Stage, TrainingSettings};
use crate::planner::baselines::{Megatron, Whale};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeSet;

/// Plans of a kind that are told of, at most.
const MAX_NEXT_BEST: usize = 5;

/// What was chosen otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "choice", content = "option")]
pub enum Choice {
    /// This tensor-parallel degree in all stages.
    TensorParallelSize(u32),
    /// This micro-batch size.
    MicroBatchSize(u32),
    /// This recompute setting.
    Recompute(Recompute),
    /// No GPU of this type.
    Without(String),
    /// Megatron-LM's symmetric grid.
    SymmetricGrid,
    /// Whale's grid of loads in proportion to power.
    ProportionalGrid,
}

/// The best plan with one choice made otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alternative {
    /// The choice.
    #[serde(flatten)]
    pub choice: Choice,
    /// Seconds of one iteration; `None` where nothing fits.
    pub predicted_iteration_s: Option<f64>,
    /// By how much it is slower than the plan, as a share: negative where it is faster.
    pub slower_by: Option<f64>,
    /// Why nothing fits.
    pub reason: Option<String>,
    /// Its shape, as in [`NextBest::shape`].
    pub shape: Option<String>,
}

/// A plan that was executed and passed over.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NextBest {
    /// Its shape in a line.
    pub shape: String,
    /// Seconds of one iteration.
    pub predicted_iteration_s: f64,
    /// By how much it is slower than the plan, as a share.
    pub slower_by: f64,
}

/// Plans anew for each choice that could have been another.
pub(super) fn planned_otherwise(
    request: &PlanRequest,
    planner: &dyn Planner,
    planned: &PlannedIteration,
) -> Result<Vec<Alternative>, PlanError> {
    let choices = choices(request, &planned.plan);
    let request = &request.without_proof();
    let answers = choices.into_par_iter().map(|choice| {
        let answer = match &choice {
            Choice::SymmetricGrid => Megatron.plan(request),
            Choice::ProportionalGrid => Whale.plan(request),
            Choice::Without(gpu_type) => {
                let nodes = request.cluster.nodes.iter().filter(|node| node.gpu.name != *gpu_type);
                let cluster = Cluster { nodes: nodes.cloned().collect() };
                planner.plan(&PlanRequest { cluster: &cluster, ..*request })
            }
            narrower => planner.plan(&PlanRequest { training: &only(request.training, narrower), ..*request }),
        };
        alternative(choice, answer, planned.predicted_iteration_s)
    });
    answers.collect()
}

fn alternative(
    choice: Choice,
    answer: Result<PlannedIteration, PlanError>,
    chosen_s: f64,
) -> Result<Alternative, PlanError> {
    let nothing = |reason| Alternative {
        choice: choice.clone(),
        predicted_iteration_s: None,
        slower_by: None,
        reason: Some(reason),
        shape: None,
    };
    match answer {
        Ok(other) => Ok(Alternative {
            choice,
            predicted_iteration_s: Some(other.predicted_iteration_s),
            slower_by: Some(other.predicted_iteration_s / chosen_s - 1.0),
            reason: None,
            shape: Some(shape(&other.plan)),
        }),
        Err(PlanError::DoesNotFit { reason, .. }) => Ok(nothing(reason)),
        // As where the model's layers can't be shared by so many, or the GPUs lack the number format.
        Err(PlanError::Cost(error)) => Ok(nothing(error.to_string().lines().next().unwrap_or_default().to_owned())),
        Err(error) => Err(error),
    }
}

/// Every option of the request that the plan doesn't have by itself, the GPU types that could be left out, and the grids.
fn choices(request: &PlanRequest, plan: &Plan) -> Vec<Choice> {
    let TrainingSettings { tensor_parallel_sizes, micro_batch_sizes, recompute, global_batch_size, .. } =
        request.training;
    let widest = request.cluster.nodes.iter().map(|node| node.gpu_count).max().unwrap_or(0);
    let degrees: BTreeSet<u32> = stages(plan).map(|stage| stage.gpus.len() as u32).collect();
    let is_all = |degree: u32| degrees.len() == 1 && degrees.contains(&degree);
    let model = request.cost.model();
    let sizes: BTreeSet<u32> = tensor_parallel_sizes.iter().copied().collect();
    let possible = |t: &u32| *t > 0 && *t <= widest && model.supports_tensor_parallel(*t);
    let mut all: Vec<Choice> =
        sizes.into_iter().filter(possible).filter(|&t| !is_all(t)).map(Choice::TensorParallelSize).collect();
    let sizes: BTreeSet<u32> =
        micro_batch_sizes.iter().copied().filter(|&b| b > 0 && global_batch_size.is_multiple_of(b)).collect();
    all.extend(sizes.into_iter().filter(|&b| b != plan.micro_batch_size).map(Choice::MicroBatchSize));
    let settings: BTreeSet<Recompute> = recompute.iter().copied().collect();
    all.extend(settings.into_iter().filter(|&setting| setting != plan.recompute).map(Choice::Recompute));
    let mut types: Vec<&str> = Vec::new();
    for node in &request.cluster.nodes {
        if !types.contains(&node.gpu.name.as_str()) {
            types.push(&node.gpu.name);
        }
    }
    if types.len() > 1 {
        all.extend(types.into_iter().map(|gpu_type| Choice::Without(gpu_type.to_owned())));
    }
    all.extend([Choice::SymmetricGrid, Choice::ProportionalGrid]);
    all
}

fn stages(plan: &Plan) -> impl Iterator<Item = &Stage> {
    plan.replicas.iter().flat_map(|replica| &replica.stages)
}

/// The settings with one of them narrowed to a choice.
fn only(training: &TrainingSettings, choice: &Choice) -> TrainingSettings {
    let mut training = training.clone();
    match choice {
        Choice::TensorParallelSize(size) => training.tensor_parallel_sizes = vec![*size],
        Choice::MicroBatchSize(size) => training.micro_batch_sizes = vec![*size],
        Choice::Recompute(setting) => training.recompute = vec![*setting],
        Choice::Without(_) | Choice::SymmetricGrid | Choice::ProportionalGrid => {}
    }
    training
}

/// The next best plans that were executed, one of each shape, but for those that `alternatives` tell of.
pub(super) fn next_best(planned: &PlannedIteration, alternatives: &[Alternative]) -> Vec<NextBest> {
    let mut seen: Vec<String> = alternatives.iter().filter_map(|other| other.shape.clone()).collect();
    seen.push(shape(&planned.plan));
    let mut found = Vec::new();
    for other in &planned.alternatives {
        let shape = shape(&other.plan);
        if found.len() < MAX_NEXT_BEST && !seen.contains(&shape) {
            seen.push(shape.clone());
            let slower_by = other.predicted_iteration_s / planned.predicted_iteration_s - 1.0;
            found.push(NextBest { shape, predicted_iteration_s: other.predicted_iteration_s, slower_by });
        }
    }
    found
}

/// A plan in a line: replicas of one shape counted, each as the GPU types and the layers of its stages, with the degree
/// where it's above one: `2 x (A100-80:20 > H20/t2:12), micro batch size 1, no recomputation`.
pub fn shape(plan: &Plan) -> String {
    let mut replicas: Vec<(String, usize)> = Vec::new();
    for replica in &plan.replicas {
        let stage = |stage: &Stage| match stage.gpus.len() {
            1 => format!("{}:{}", stage.gpu_type, stage.layer_count()),
            degree => format!("{}/t{degree}:{}", stage.gpu_type, stage.layer_count()),
        };
        let stages: Vec<String> = replica.stages.iter().map(stage).collect();
        let write = |run: &[String]| match run {
            [one, _, _, ..] => format!("{}*{one}", run.len()),
            few => few.join(" > "),
        };
        let text = stages.chunk_by(|a, b| a == b).map(write).collect::<Vec<_>>().join(" > ");
        match replicas.iter_mut().find(|(known, _)| *known == text) {
            Some((_, times)) => *times += 1,
            None => replicas.push((text, 1)),
        }
    }
    let write = |(text, times): &(String, usize)| match times {
        1 => format!("({text})"),
        times => format!("{times} x ({text})"),
    };
    let replicas = replicas.iter().map(write).collect::<Vec<_>>().join(" + ");
    let recompute = match plan.recompute {
        Recompute::None => "no recomputation".to_owned(),
        recompute => format!("{recompute} recomputation"),
    };
    format!("{replicas}, micro batch size {}, {recompute}", plan.micro_batch_size)
}
