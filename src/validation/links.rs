//! Measures what the transport between two processes does, by runs in which two ranks exchange messages of unlike sizes.

use super::ValidationError;
use super::statistics::median;
use crate::cluster::Link;
use crate::ids::{LayerId, Rank};
use crate::model::{Block, ModelSpec, Precision, Recompute};
use crate::plan::{Plan, Replica, SCHEMA_VERSION, ScheduleKind, Stage};
use crate::profile::MeasuredLinks;
use crate::program::{Op, Program, Stream};
use crate::runtime::device::messages::Job;
use crate::runtime::device::{Conditions, DeviceKind};
use crate::runtime::{Span, Timeline};
use crate::training::{StepReport, WorkerCommand, host_cluster, program, train_plan};

/// Steps that are measured, after one that isn't.
const STEPS: u32 = 10;
/// Micro-batch sizes whose messages are compared, where the model isn't much larger than those for CPUs.
const SIZES: [u32; 2] = [1, 8];

/// Between which ranks links are measured.
#[derive(Clone, Debug)]
pub struct Linked {
    /// The model whose messages they exchange.
    pub model: ModelSpec,
    /// What computes: from there messages come.
    pub device: DeviceKind,
    /// Number format.
    pub precision: Precision,
}

impl Linked {
    /// The ranks of a job.
    pub fn of_job(job: &Job) -> Self {
        Self { model: job.model.clone(), device: job.device.clone(), precision: job.plan.precision }
    }
}

/// Conditions under which links aren't throttled and nothing else is.
pub fn unhindered(_: &Plan) -> Conditions {
    Conditions::default()
}

/// Measures the links between two ranks of a model cut to two layers. `conditions` says under which, for each plan that is
/// run for it.
///
/// # Errors
/// Where the runs fail.
pub fn measure_links(
    linked: &Linked,
    command: &WorkerCommand,
    conditions: &dyn Fn(&Plan) -> Conditions,
) -> Result<MeasuredLinks, ValidationError> {
    let model = &linked.model;
    if model.num_layers < 2 {
        return Err(ValidationError::TooFewLayers { model: model.name.clone(), layers: model.num_layers });
    }
    let model = ModelSpec { num_layers: 2, ..model.clone() };
    let linked = &Linked { model: model.clone(), ..linked.clone() };
    let mut dispatches = Vec::new();
    let mut hops = Vec::new();
    for size in SIZES {
        let plan = plan(&model, size, &[(1, &[1, 1])]);
        let bytes = model.boundary_bytes(&plan.execution_at(1)) as f64;
        let (job, steps) = run(linked, plan, command, conditions)?;
        let program = program(&job, &job.plan);
        dispatches.extend(steps.iter().flat_map(|step| dispatches_s(&program, &step.timeline)));
        let gaps = steps.iter().flat_map(|step| hops_s(&program, &step.timeline));
        hops.push((bytes, median(gaps.collect()).unwrap_or_default()));
    }
    let dispatch_s = median(dispatches).unwrap_or_default();
    let hop = line(hops[0], hops[1]);
    let plan = plan(&model, SIZES[0], &[(2, &[2]), (2, &[2])]);
    let (job, steps) = run(linked, plan, command, conditions)?;
    let reduction = |block: Block| {
        let seconds = spans_s(&job, &steps, &|op| matches!(op, Op::AllReduce { block: found, .. } if found == block));
        (model.block_parameters(block) as f64 * 4.0, seconds)
    };
    let mut reductions = [Block::Embedding, Block::Layer(LayerId(0))].map(reduction);
    reductions.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Two members: each link carries all bytes once, in two steps.
    let ring = line(reductions[0], reductions[1]);
    Ok(MeasuredLinks {
        dispatch_s,
        latency_s: (hop.latency_s - dispatch_s).max(0.0),
        bytes_per_s: hop.bytes_per_s,
        all_reduce_latency_s: ring.latency_s / 2.0,
        all_reduce_bytes_per_s: ring.bytes_per_s,
    })
}

/// The link on which messages of so many bytes take so many seconds, each given as both.
fn line((small, short_s): (f64, f64), (large, long_s): (f64, f64)) -> Link {
    let bytes_per_s = rate(large - small, long_s - short_s);
    Link { bytes_per_s, latency_s: (short_s - small / bytes_per_s).max(0.0) }
}

/// Times between one pass and the next on the same rank where nothing had to come first.
fn dispatches_s(program: &Program, timeline: &Timeline) -> Vec<f64> {
    let mut gaps = Vec::new();
    for rank in (0..program.ranks().len()).map(Rank::from) {
        let passes = passes(program, timeline, rank);
        let waits_for_nothing = |pass: &Span| program.instruction(rank, pass.id).after.is_none();
        let pairs = passes.windows(2).filter(|pair| waits_for_nothing(&pair[1]));
        gaps.extend(pairs.map(|pair| pair[1].start.saturating_sub(pair[0].end).as_seconds()));
    }
    gaps
}

/// Times from one rank's pass to the other's, of a micro batch that goes there and back alone.
fn hops_s(program: &Program, timeline: &Timeline) -> Vec<f64> {
    let [first, second] = [Rank(0), Rank(1)].map(|rank| passes(program, timeline, rank));
    let is_forward = |rank: Rank, pass: &&Span| matches!(program.instruction(rank, pass.id).op, Op::Forward { .. });
    let is_backward = |rank: Rank, pass: &&Span| matches!(program.instruction(rank, pass.id).op, Op::Backward { .. });
    let there =
        (first.iter().find(|pass| is_forward(Rank(0), pass)), second.iter().find(|pass| is_forward(Rank(1), pass)));
    let back =
        (second.iter().rfind(|pass| is_backward(Rank(1), pass)), first.iter().find(|pass| is_backward(Rank(0), pass)));
    let gap = |(from, to): (Option<&Span>, Option<&Span>)| Some(to?.start.saturating_sub(from?.end).as_seconds());
    [there, back].into_iter().filter_map(gap).collect()
}

/// The passes of a rank, in their order.
fn passes(program: &Program, timeline: &Timeline, rank: Rank) -> Vec<Span> {
    let is_pass = |span: &&Span| span.rank == rank && program.instruction(rank, span.id).stream() == Stream::Compute;
    let mut passes: Vec<Span> = timeline.spans.iter().filter(is_pass).copied().collect();
    passes.sort_by_key(|pass| pass.start);
    passes
}

/// Bytes a second; where the clock saw no difference, faster than anything.
fn rate(bytes: f64, seconds: f64) -> f64 {
    (bytes / seconds.max(bytes / 1e12)).max(1.0)
}

/// The median time of some instructions.
fn spans_s(job: &Job, steps: &[StepReport], is_meant: &dyn Fn(Op) -> bool) -> f64 {
    let program = program(job, &job.plan);
    let spans = steps.iter().flat_map(|step| &step.timeline.spans);
    let meant = spans.filter(|span| is_meant(program.instruction(span.rank, span.id).op));
    median(meant.map(|span| (span.end - span.start).as_seconds()).collect()).unwrap_or_default()
}

fn run(
    linked: &Linked,
    plan: Plan,
    command: &WorkerCommand,
    conditions: &dyn Fn(&Plan) -> Conditions,
) -> Result<(Job, Vec<StepReport>), ValidationError> {
    let conditions = conditions(&plan);
    let plan = Plan { precision: linked.precision, ..plan };
    let device = linked.device.clone();
    let job = Job { device, conditions, ..Job::new(plan, linked.model.clone(), STEPS + 1) };
    let mut steps = Vec::new();
    train_plan(&job, host_cluster(&job.plan, "links"), command, &mut |report| {
        steps.push(report.clone());
        Ok(())
    })?;
    steps.remove(0);
    Ok((job, steps))
}

/// A plan in fp32 without tensor parallelism: of each replica its micro batches and the layers of its stages, each in a
/// node of its own.
pub(super) fn plan(model: &ModelSpec, micro_batch_size: u32, replicas: &[(u32, &[u32])]) -> Plan {
    let mut node = 0;
    let mut replica = |&(micro_batches, layers): &(u32, &[u32])| {
        let mut first_layer = 0;
        let mut stage = |&num_layers: &u32| {
            let name = format!("n{node}");
            node += 1;
            let stage = Stage {
                node: name,
                gpus: vec![0],
                gpu_type: String::new(),
                first_layer,
                num_layers,
                later_chunks: Vec::new(),
            };
            first_layer += num_layers;
            stage
        };
        Replica { micro_batches, stages: layers.iter().map(&mut stage).collect() }
    };
    let replicas: Vec<Replica> = replicas.iter().map(&mut replica).collect();
    let micro_batches: u32 = replicas.iter().map(|replica| replica.micro_batches).sum();
    Plan {
        schema_version: SCHEMA_VERSION,
        planner: "measurement".to_owned(),
        model: model.into(),
        global_batch_size: micro_batches * micro_batch_size,
        micro_batch_size,
        sequence_parallel: false,
        recompute: Recompute::None,
        precision: Precision::Fp32,
        schedule: ScheduleKind::OneForwardOneBackward,
        replicas,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sizes_make_a_line() {
        // 1 ms, and a megabyte a second.
        let link = line((1000.0, 0.002), (5000.0, 0.006));
        assert!((link.latency_s - 1e-3).abs() < 1e-9 && (link.bytes_per_s - 1e6).abs() < 1e-3, "{link:?}");
        // Noise: the larger message was no slower.
        let noise = line((1000.0, 0.002), (5000.0, 0.002));
        assert!(noise.bytes_per_s > 1e9 && (noise.latency_s - 0.002).abs() < 1e-6, "{noise:?}");
    }
}
