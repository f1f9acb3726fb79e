//! Measures layer times with the very ranks that train: one stage that holds both ends of a model cut to a few layers.

use super::ValidationError;
use super::links::{Linked, measure_links, plan, unhindered};
use super::statistics::median;
use crate::model::{Block, ModelSpec, Precision};
use crate::plan::{Plan, ScheduleKind};
use crate::profile::{Measured, MeasuredLinks, ProfileEntry, ProfileFile, SCHEMA_VERSION};
use crate::program::Op;
use crate::runtime::device::messages::Job;
use crate::runtime::device::{DeviceKind, Pass};
use crate::training::{StepReport, WorkerCommand, host_cluster, program, train_plan};

/// Micro batches of a replica in each step, at least.
const MICRO_BATCHES: u32 = 4;

/// What of a stage its passes' times depend on beside the blocks themselves: how much memory is touched between two passes
/// through one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StageKind {
    /// Layers of the stage.
    pub num_layers: u32,
    /// Micro batches whose activations it holds at once.
    pub in_flight: u32,
}

impl StageKind {
    /// What is measured where no plan is known.
    pub const SMALL: Self = Self { num_layers: 2, in_flight: 1 };

    /// That of each rank of a plan.
    pub fn of_ranks(plan: &Plan) -> Vec<Self> {
        let mut kinds = Vec::with_capacity(plan.world_size());
        for replica in &plan.replicas {
            for (place, stage) in replica.stages.iter().enumerate() {
                let in_flight = plan.schedule.in_flight(replica.position(place));
                kinds.extend(stage.gpus.iter().map(|_| Self { num_layers: stage.layer_count(), in_flight }));
            }
        }
        kinds
    }
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct ProfileRequest {
    /// The model.
    pub model: ModelSpec,
    /// Tensor-parallel degrees.
    pub tensor_parallel_sizes: Vec<u32>,
    /// Samples per micro batch.
    pub micro_batch_sizes: Vec<u32>,
    /// The stage that is measured; its layers are as many as the model has, at most.
    pub stage: StageKind,
    /// Ranks that compute at the same time, as they do in the run that is to be predicted.
    pub concurrency: u32,
    /// What computes.
    pub device: DeviceKind,
    /// Number format.
    pub precision: Precision,
    /// What the device is called in the profile.
    pub gpu_type: String,
    /// Steps that are measured at each point, after one that isn't.
    pub steps: u32,
}

impl ProfileRequest {
    fn linked(&self) -> Linked {
        Linked { model: self.model.clone(), device: self.device.clone(), precision: self.precision }
    }

    /// What is trained to be measured, point by point: a model cut to the stage's layers, and a plan of it.
    pub fn points(&self) -> impl Iterator<Item = (ModelSpec, Plan)> {
        let num_layers = self.model.num_layers.min(self.stage.num_layers);
        let model = ModelSpec { num_layers, ..self.model.clone() };
        let sizes = self.tensor_parallel_sizes.iter();
        let sizes = sizes.flat_map(|&size| self.micro_batch_sizes.iter().map(move |&samples| (size, samples)));
        sizes.map(move |(size, samples)| (model.clone(), cut_plan(&model, size, samples, self)))
    }

    /// Steps that [`measure_profile`] reports, over all points; links aren't among them.
    pub fn all_steps(&self) -> u64 {
        let points = self.tensor_parallel_sizes.len() * self.micro_batch_sizes.len();
        points as u64 * u64::from(self.steps + 1)
    }
}

/// Measures a profile; `step_done` is called after each step.
///
/// # Errors
/// Where something can't be trained, or a run fails.
pub fn measure_profile(
    request: &ProfileRequest,
    command: &WorkerCommand,
    step_done: &dyn Fn(),
) -> Result<ProfileFile, ValidationError> {
    let mut entries = Vec::new();
    for (model, plan) in request.points() {
        entries.push(measure_point(request, model, plan, command, step_done)?);
    }
    let links =
        if request.model.num_layers > 1 { Some(measure_links(&request.linked(), command, &unhindered)?) } else { None };
    Ok(ProfileFile { schema_version: SCHEMA_VERSION, model: request.model.name.clone(), entries, links })
}

/// One profile of several that measure the same points: the median of each figure.
pub fn median_profile(files: &[ProfileFile]) -> Option<ProfileFile> {
    let mut merged = files.first()?.clone();
    for (index, entry) in merged.entries.iter_mut().enumerate() {
        let same: Vec<&ProfileEntry> = files.iter().filter_map(|file| file.entries.get(index)).collect();
        let block = |of: &dyn Fn(&ProfileEntry) -> Option<Measured>| {
            let pass =
                |time: &dyn Fn(Measured) -> f64| median(same.iter().filter_map(|entry| of(entry)).map(time).collect());
            Some(Measured { forward_s: pass(&|block| block.forward_s)?, backward_s: pass(&|block| block.backward_s)? })
        };
        entry.layer = block(&|entry| Some(entry.layer)).unwrap_or(entry.layer);
        entry.embedding = block(&|entry| entry.embedding);
        entry.head = block(&|entry| entry.head);
        let steps = same.iter().filter_map(|entry| entry.optimizer_s_per_parameter);
        entry.optimizer_s_per_parameter = median(steps.collect());
        let factors = same.iter().filter_map(|entry| entry.last_backward_factor);
        entry.last_backward_factor = median(factors.collect());
    }
    let link = |of: fn(&MeasuredLinks) -> f64| {
        median(files.iter().filter_map(|file| Some(of(file.links.as_ref()?))).collect())
    };
    merged.links = merged.links.and_then(|_| {
        Some(MeasuredLinks {
            dispatch_s: link(|links| links.dispatch_s)?,
            latency_s: link(|links| links.latency_s)?,
            bytes_per_s: link(|links| links.bytes_per_s)?,
            all_reduce_latency_s: link(|links| links.all_reduce_latency_s)?,
            all_reduce_bytes_per_s: link(|links| links.all_reduce_bytes_per_s)?,
        })
    });
    Some(merged)
}

fn measure_point(
    request: &ProfileRequest,
    model: ModelSpec,
    plan: Plan,
    command: &WorkerCommand,
    step_done: &dyn Fn(),
) -> Result<ProfileEntry, ValidationError> {
    let micro_batch_size = plan.micro_batch_size;
    let tensor_parallel_size = plan.tensor_parallel_sizes().last().copied().unwrap_or(1);
    let held: u64 =
        held_blocks(&model).map(|block| model.block_parameters(block).div_ceil(tensor_parallel_size.into())).sum();
    let job = Job { device: request.device.clone(), ..Job::new(plan, model, request.steps + 1) };
    let mut steps = Vec::new();
    train_plan(&job, host_cluster(&job.plan, &request.gpu_type), command, &mut |report| {
        steps.push(report.clone());
        step_done();
        Ok(())
    })?;
    steps.remove(0);
    let layer = |block| matches!(block, Block::Layer(_));
    Ok(ProfileEntry {
        gpu: request.gpu_type.clone(),
        tensor_parallel_size,
        micro_batch_size,
        precision: request.precision,
        layer: measured(&steps, layer).unwrap_or(Measured { forward_s: 0.0, backward_s: 0.0 }),
        embedding: measured(&steps, |block| block == Block::Embedding),
        head: measured(&steps, |block| block == Block::Head),
        optimizer_s_per_parameter: optimizer_step_s(&job, &steps).map(|seconds| seconds / held as f64),
        last_backward_factor: last_backward_factor(&steps, layer),
        optimizer_step_s: None,
        blocks: Vec::new(),
    })
}

fn held_blocks(model: &ModelSpec) -> impl Iterator<Item = Block> {
    let layers = (0..model.num_layers).map(|layer| Block::Layer(crate::ids::LayerId(layer)));
    [Block::Embedding].into_iter().chain(layers).chain([Block::Head])
}

/// As many replicas of one stage as keep so many ranks busy.
fn cut_plan(model: &ModelSpec, tensor_parallel_size: u32, micro_batch_size: u32, request: &ProfileRequest) -> Plan {
    let ProfileRequest { concurrency, precision, stage, .. } = *request;
    let layers = [model.num_layers];
    // A stage alone has one micro batch in flight, or under GPipe all of them.
    let (schedule, micro_batches) = match stage.in_flight {
        0 | 1 => (ScheduleKind::OneForwardOneBackward, MICRO_BATCHES),
        several => (ScheduleKind::GPipe, several),
    };
    let replicas = vec![(micro_batches, layers.as_slice()); (concurrency / tensor_parallel_size).max(1) as usize];
    let mut plan = plan(model, micro_batch_size, &replicas);
    plan.schedule = schedule;
    plan.precision = precision;
    for stage in plan.replicas.iter_mut().flat_map(|replica| &mut replica.stages) {
        stage.gpus = (0..tensor_parallel_size).collect();
    }
    plan
}

/// Median passes of one kind of block, over all ranks and steps.
fn measured(steps: &[StepReport], is_meant: impl Fn(Block) -> bool) -> Option<Measured> {
    let pass_s = |pass| median_pass_s(steps, &is_meant, pass);
    // With a single micro batch there is only the last one.
    let backward_s = pass_s(Pass::Backward).or_else(|| pass_s(Pass::LastBackward));
    Some(Measured { forward_s: pass_s(Pass::Forward)?, backward_s: backward_s? })
}

/// How many times as long layers' backward passes took in the last micro batch.
fn last_backward_factor(steps: &[StepReport], is_layer: impl Fn(Block) -> bool) -> Option<f64> {
    let pass_s = |pass| median_pass_s(steps, &is_layer, pass);
    Some(pass_s(Pass::LastBackward)? / pass_s(Pass::Backward)?)
}

fn median_pass_s(steps: &[StepReport], is_meant: impl Fn(Block) -> bool, pass: Pass) -> Option<f64> {
    let times = steps.iter().flat_map(|step| &step.ranks).flat_map(|rank| &rank.block_times);
    let meant = times.filter(|time| time.pass == pass && is_meant(time.block));
    median(meant.map(|time| time.seconds).collect())
}

fn optimizer_step_s(job: &Job, steps: &[StepReport]) -> Option<f64> {
    let program = program(job, &job.plan);
    let spans = steps.iter().flat_map(|step| &step.timeline.spans);
    let steps = spans.filter(|span| program.instruction(span.rank, span.id).op == Op::OptimizerStep);
    median(steps.map(|span| (span.end - span.start).as_seconds()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_profile_takes_each_figure_by_itself() {
        let file = |forward_s, backward_s, latency_s| ProfileFile {
            schema_version: SCHEMA_VERSION,
            model: "m".to_owned(),
            entries: vec![ProfileEntry {
                gpu: "cpu".to_owned(),
                tensor_parallel_size: 1,
                micro_batch_size: 1,
                precision: Precision::Fp32,
                layer: Measured { forward_s, backward_s },
                embedding: None,
                head: Some(Measured { forward_s: backward_s, backward_s: forward_s }),
                optimizer_s_per_parameter: Some(latency_s),
                last_backward_factor: Some(1.0 + latency_s),
                optimizer_step_s: None,
                blocks: Vec::new(),
            }],
            links: Some(MeasuredLinks {
                dispatch_s: 0.0,
                latency_s,
                bytes_per_s: 1e9,
                all_reduce_latency_s: 0.0,
                all_reduce_bytes_per_s: 1e9,
            }),
        };
        let merged = median_profile(&[file(1.0, 6.0, 0.1), file(2.0, 5.0, 0.3), file(3.0, 4.0, 0.2)]).unwrap();
        assert_eq!(merged, file(2.0, 5.0, 0.2));
        assert_eq!(median_profile(&[]), None);
    }
}
