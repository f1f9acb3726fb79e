//! Sailor's judge (SOSP'25): the closed form by which its simulator ranks plans, written anew from its description, so that
//! plans can be made and compared on a peer's terms.
//!
//! It knows no contention and no overlap, and takes replicas of unlike shape for slower than they are. An iteration is the
//! slowest pipeline, `(K - 1) · max_p (compute_p + sends_p) + Σ_p (compute_p + sends_p) + update`, and after it the longest
//! all-reduce of a stage's gradients over equal pipelines, and that over pipelines of unlike shape. What a stage takes and
//! holds is what its profiles ([`LayerProfile::blocks`](crate::profile::LayerProfile::blocks)) measured.

mod links;
mod pipelines;
#[cfg(test)]
mod tests;

pub use pipelines::SailorPlan;

use crate::cluster::Cluster;
use crate::cost::{CostError, CostModel};
use crate::model::Precision;
use crate::plan::{Judge, Plan};
use crate::profile::{BlockMemory, MeasuredBlock, ProfileQuery};
use links::{Curve, between, own};
use pipelines::{Pipeline, PipelineStage};

/// Bytes of one number: everything is in fp32.
const NUMBER_BYTES: f64 = 4.0;
/// Weight, gradient and optimizer state of a parameter, as Sailor counts.
const BYTES_PER_PARAMETER: f64 = 24.0;
/// Memory that no tensor gets, on a GPU by itself and in a tensor-parallel group.
const RESERVE_BYTES: (f64, f64) = (2e9, 3e9);
/// Gradients are reduced in buckets of at most so many bytes.
const BUCKET_BYTES: f64 = 5e8;

/// The judge. It needs profiles that were measured block by block, at tensor-parallel size 1 among others.
#[derive(Clone, Copy, Debug, Default)]
pub struct SailorJudge;

impl Judge for SailorJudge {
    /// Seconds of one iteration; infinite for a plan that it takes for too large for its GPUs.
    ///
    /// # Errors
    /// Where a stage's GPU type isn't measured at its degree and the plan's micro-batch size, or its links aren't known.
    fn iteration_s(&self, plan: &Plan, cluster: &Cluster, cost: &CostModel) -> Result<f64, CostError> {
        let whole = cost.profile().and_then(|profile| Some(profile.memory(1, Precision::Fp32)?.collect::<Vec<_>>()));
        let whole = whole.ok_or_else(|| CostError::Judge {
            problem: "Sailor's judge needs memory that was measured at tensor-parallel size `1` in fp32".to_owned(),
            hint: "name the folder of its profiles: `--profile FOLDER`".to_owned(),
        })?;
        let judged = Judged { plan, cluster, cost, whole: &whole };
        let pipelines = SailorPlan::of(plan).pipelines;
        let (mut slowest_s, mut reduce_s) = (0.0_f64, 0.0_f64);
        for pipeline in &pipelines {
            let Some((pipeline_s, longest_s)) = judged.pipeline(pipeline)? else { return Ok(f64::INFINITY) };
            slowest_s = slowest_s.max(pipeline_s);
            reduce_s = reduce_s.max(longest_s);
        }
        Ok(slowest_s + reduce_s + judged.across_s(&pipelines)?)
    }

    fn name(&self) -> &'static str {
        "sailor"
    }

    fn is_closed_form(&self) -> bool {
        true
    }
}

/// A plan with what it is judged by.
struct Judged<'a> {
    plan: &'a Plan,
    cluster: &'a Cluster,
    cost: &'a CostModel,
    /// What one GPU by itself holds of each block.
    whole: &'a [BlockMemory],
}

/// A stage with what was measured of its blocks.
struct Measured<'a> {
    stage: &'a PipelineStage,
    blocks: &'a [MeasuredBlock],
    /// What one GPU by itself holds of the same blocks.
    whole: &'a [BlockMemory],
    update_s: f64,
}

impl Judged<'_> {
    /// Seconds of a pipeline and of the longest all-reduce over its replicas; `None` where a stage doesn't fit.
    fn pipeline(&self, pipeline: &Pipeline) -> Result<Option<(f64, f64)>, CostError> {
        let mut stages = Vec::with_capacity(pipeline.stages.len());
        let mut first = 0;
        for stage in &pipeline.stages {
            stages.push(self.measured(stage, first)?);
            first += stage.layers as usize;
        }
        let depth = stages.len();
        let fits = |(index, stage): (usize, &Measured)| self.fits(stage, depth - index);
        if !stages.iter().enumerate().all(fits) {
            return Ok(None);
        }
        let sends_s = self.sends_s(&stages)?;
        let compute_s: Vec<f64> = stages.iter().map(Measured::compute_s).collect();
        let straggler_s = compute_s.iter().zip(&sends_s).map(|(compute, sends)| compute + sends).fold(0.0, f64::max);
        let update_s = stages.iter().map(|stage| stage.update_s).fold(0.0, f64::max);
        let steady_s = f64::from(pipeline.micro_batches - 1) * straggler_s;
        let pipeline_s = steady_s + sends_s.iter().sum::<f64>() + compute_s.iter().sum::<f64>() + update_s;
        let mut longest_s = 0.0_f64;
        for stage in &stages {
            let bytes = weight_bytes(stage.whole) / f64::from(stage.stage.tp.min(4));
            longest_s = longest_s.max(ring_s(bytes, pipeline.replicas, own(&stage.stage.gpu, 1)?));
        }
        Ok(Some((pipeline_s, longest_s)))
    }

    fn measured<'a>(&'a self, stage: &'a PipelineStage, first: usize) -> Result<Measured<'a>, CostError> {
        let query = ProfileQuery {
            gpu: &stage.gpu,
            precision: Precision::Fp32,
            tensor_parallel_size: stage.tp,
            micro_batch_size: self.plan.micro_batch_size,
        };
        let found = self.cost.profile().and_then(|profile| profile.blocks(query));
        let (blocks, update_s) = found.ok_or_else(|| CostError::Judge {
            problem: format!(
                "Sailor's judge has no profile of `{}` at tensor-parallel size `{}` and micro-batch size `{}`",
                stage.gpu, stage.tp, self.plan.micro_batch_size
            ),
            hint: "leave the point out of the plan, or name a profile that measures it: `--profile FILE`".to_owned(),
        })?;
        let held = first..first + stage.layers as usize;
        let (Some(blocks), Some(whole)) = (blocks.get(held.clone()), self.whole.get(held)) else {
            unreachable!("a profile has the blocks of its model, and a valid plan no others")
        };
        Ok(Measured { stage, blocks, whole, update_s })
    }

    /// Whether a stage with so many micro batches in flight fits its GPUs.
    fn fits(&self, measured: &Measured, in_flight: usize) -> bool {
        let (mut parameters, mut stored) = (0, 0);
        for memory in measured.blocks.iter().filter_map(|block| block.memory) {
            parameters += memory.parameters;
            stored += memory.stored_activations;
        }
        let micro_batches = f64::from(self.plan.micro_batch_size) * in_flight as f64;
        let reserve_bytes = if measured.stage.tp == 1 { RESERVE_BYTES.0 } else { RESERVE_BYTES.1 };
        let needed_bytes =
            BYTES_PER_PARAMETER * parameters as f64 + NUMBER_BYTES * stored as f64 * micro_batches + reserve_bytes;
        let node = self.cluster.nodes.iter().find(|node| node.gpu.name == measured.stage.gpu);
        node.is_some_and(|node| needed_bytes <= node.gpu.memory_bytes as f64)
    }

    /// What each stage waits for its sends and receives for every micro batch.
    fn sends_s(&self, stages: &[Measured]) -> Result<Vec<f64>, CostError> {
        let depth = stages.len();
        let bytes = |block: &BlockMemory| {
            NUMBER_BYTES * block.output_activations as f64 * f64::from(self.plan.micro_batch_size)
        };
        let over = |bytes: f64, from: &Measured, to: &Measured| -> Result<f64, CostError> {
            Ok(between(&from.stage.gpu, from.stage.tp, &to.stage.gpu, to.stage.tp)?.seconds(bytes))
        };
        let mut all = Vec::with_capacity(depth);
        for (index, stage) in stages.iter().enumerate() {
            let [first, last] = stage.ends();
            let activation_s = match stages.get(index + 1) {
                Some(next) => over(bytes(last), stage, next)?,
                None => 0.0,
            };
            let gradient_s = if index > 0 { over(bytes(first), stage, &stages[index - 1])? } else { 0.0 };
            all.push(if index > 0 && index + 1 < depth {
                activation_s + gradient_s
            } else if index > 0 {
                2.0 * gradient_s
            } else if depth <= 3 {
                activation_s
            } else {
                2.0 * activation_s
            });
        }
        Ok(all)
    }

    /// The all-reduce over pipelines of unlike shape, whose stages are those of the deepest.
    fn across_s(&self, pipelines: &[Pipeline]) -> Result<f64, CostError> {
        // The first of the deepest.
        let deepest = pipelines.iter().rev().max_by_key(|pipeline| pipeline.stages.len());
        let (Some(deepest), true) = (deepest, pipelines.len() > 1) else { return Ok(0.0) };
        let (mut first, mut longest_s) = (0, 0.0_f64);
        for stage in &deepest.stages {
            let held = &self.whole[first..first + stage.layers as usize];
            first += stage.layers as usize;
            longest_s = longest_s.max(ring_s(weight_bytes(held), pipelines.len() as u32, own(&stage.gpu, 1)?));
        }
        Ok(longest_s)
    }
}

impl Measured<'_> {
    fn compute_s(&self) -> f64 {
        self.blocks.iter().map(|block| block.forward_s + block.backward_s).sum()
    }

    /// What the first and the last block hold, on a GPU by itself.
    fn ends(&self) -> [&BlockMemory; 2] {
        [&self.whole[0], &self.whole[self.whole.len() - 1]]
    }
}

fn weight_bytes(blocks: &[BlockMemory]) -> f64 {
    NUMBER_BYTES * blocks.iter().map(|block| block.parameters).sum::<u64>() as f64
}

/// A ring all-reduce, bucket by bucket.
fn ring_s(bytes: f64, ranks: u32, curve: Curve) -> f64 {
    if ranks < 2 {
        return 0.0;
    }
    let ranks = f64::from(ranks);
    let whole = (bytes / BUCKET_BYTES).floor();
    let bucket_s = |bytes: f64| 2.0 * (ranks - 1.0) * curve.seconds(bytes / ranks);
    whole * bucket_s(BUCKET_BYTES) + bucket_s(bytes - whole * BUCKET_BYTES)
}
