//! The results folder: what was measured, up to wherever the run came.

use super::record::{Record, StepRecord, What};
use crate::plan::Plan;
use crate::report::{LossMark, LossPoint, MarkKind, ResultsFolder, loss_svg, perfetto_json};
use crate::runtime::Timeline;
use crate::runtime::device::DeviceKind;
use crate::runtime::device::messages::Job;
use crate::training::{StepReport, program};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Columns of metrics.csv.
const COLUMNS: [&str; 12] = [
    "step",
    "loss",
    "gradient_norm",
    "learning_rate",
    "tokens",
    "iteration_s",
    "predicted_iteration_s",
    "wall_s",
    "time_s",
    "tokens_per_s",
    "memory_bytes",
    "attempt",
];

/// What has happened so far.
pub(super) struct Results {
    out: Option<PathBuf>,
    records: Vec<Record>,
    last: Option<(Arc<Plan>, Timeline)>,
}

impl Results {
    /// Checks that the folder can be written, before the work is done.
    pub(super) fn new(out: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(out) = out {
            ResultsFolder::check(out)?;
        }
        Ok(Self { out: out.map(Path::to_owned), records: Vec::new(), last: None })
    }

    /// Takes down what happened.
    pub(super) fn take(&mut self, record: Record) {
        self.records.push(record);
    }

    /// Remembers what each rank did in the last step.
    pub(super) fn take_timeline(&mut self, report: &StepReport) {
        self.last = Some((Arc::clone(&report.plan), report.timeline.clone()));
    }

    /// Writes the folder, if one was asked for and there is something to write, and says where it is. `outcome` says how
    /// the run ended.
    pub(super) fn write(&self, job: &Job, outcome: &str) -> anyhow::Result<Option<PathBuf>> {
        let is_something = |record: &Record| !matches!(record.what, What::NothingLeft { .. });
        let has_something = self.records.iter().any(is_something);
        let Some(out) = self.out.as_deref().filter(|_| has_something) else { return Ok(None) };
        let folder = ResultsFolder::create(out)?;
        folder.write("metrics.csv", self.metrics_csv()?)?;
        folder.write("events.jsonl", self.events_jsonl()?)?;
        if !job.conditions.is_emulated() {
            folder.write("loss.svg", self.loss_svg(&job.model.name))?;
        }
        if let Some((plan, timeline)) = &self.last {
            folder.write("timeline.perfetto.json", perfetto_json(plan, &program(job, plan), timeline, None))?;
        }
        folder.write("summary.json", serde_json::to_string_pretty(&self.summary(job, outcome))? + "\n")?;
        Ok(Some(folder.commit()?))
    }

    fn steps(&self) -> impl Iterator<Item = (&StepRecord, f64)> + Clone {
        self.records.iter().filter_map(|record| match &record.what {
            What::Step(step) => Some((step, record.time_s)),
            _ => None,
        })
    }

    fn metrics_csv(&self) -> anyhow::Result<Vec<u8>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(COLUMNS)?;
        for (step, time_s) in self.steps() {
            writer.write_record([
                step.step.to_string(),
                step.loss.to_string(),
                step.gradient_norm.to_string(),
                step.learning_rate.to_string(),
                step.tokens.to_string(),
                step.iteration_s.to_string(),
                step.predicted_iteration_s.map_or_else(String::new, |seconds| seconds.to_string()),
                step.wall_s.to_string(),
                time_s.to_string(),
                step.tokens_per_s.to_string(),
                step.memory_bytes.map(|bytes| bytes.to_string()).unwrap_or_default(),
                step.attempt.to_string(),
            ])?;
        }
        Ok(writer.into_inner()?)
    }

    /// Everything but steps, an object a line.
    fn events_jsonl(&self) -> anyhow::Result<String> {
        let mut text = String::new();
        for record in self.records.iter().filter(|record| !matches!(record.what, What::Step(_))) {
            text += &serde_json::to_string(record)?;
            text.push('\n');
        }
        Ok(text)
    }

    fn loss_svg(&self, model: &str) -> String {
        let points: Vec<LossPoint> = self
            .steps()
            .map(|(step, _)| LossPoint { step: step.step, attempt: step.attempt, loss: step.loss })
            .collect();
        let mark = |record: &Record| match &record.what {
            What::Plan(plan) if plan.cause.is_some() => {
                Some(LossMark { step: plan.resume_step, kind: MarkKind::Recovery })
            }
            What::Checkpoint { step, place: "object_store" } => {
                Some(LossMark { step: *step, kind: MarkKind::Checkpoint })
            }
            _ => None,
        };
        let marks: Vec<LossMark> = self.records.iter().filter_map(mark).collect();
        loss_svg(&format!("{model}: loss before each step (nats a token)"), &points, &marks)
    }

    fn summary(&self, job: &Job, outcome: &str) -> Value {
        // The first step pays for starting up, unless it's the only one.
        let all: Vec<&StepRecord> = self.steps().map(|(step, _)| step).collect();
        let counted = if all.len() > 1 { &all[1..] } else { &all[..] };
        let tokens: u64 = counted.iter().map(|step| step.tokens).sum();
        let wall_s: f64 = counted.iter().map(|step| step.wall_s).sum();
        let median = |of: fn(&StepRecord) -> Option<f64>| {
            let mut values: Vec<f64> = counted.iter().filter_map(|step| of(step)).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied()
        };
        let count = |is_so: fn(&What) -> bool| self.records.iter().filter(|record| is_so(&record.what)).count();
        json!({
            "schema_version": 1,
            "command": "autohet-run",
            "outcome": outcome,
            "backend": backend_name(job),
            "model": job.model.name,
            "world_size": job.plan.world_size(),
            "steps": job.steps,
            "steps_done": all.last().map_or(0, |step| step.step),
            "steps_repeated": all.iter().filter(|step| step.attempt > 1).count(),
            "seed": job.seed,
            "learning_rate": shortest(job.learning_rate.peak),
            "first_loss": all.first().map(|step| step.loss),
            "last_loss": all.last().map(|step| step.loss),
            "tokens_per_s": tokens as f64 / wall_s,
            "median_iteration_s": median(|step| Some(step.iteration_s)),
            "median_predicted_iteration_s": median(|step| step.predicted_iteration_s),
            "median_flops_per_s_per_rank": median(|step| Some(step.flops_per_s_per_rank)),
            "peak_memory_bytes": all.iter().filter_map(|step| step.memory_bytes).max(),
            "nodes_lost": count(|what| matches!(what, What::Lost { .. })),
            "recoveries": count(|what| matches!(what, What::Plan(plan) if plan.cause.is_some())),
            "checkpoints": count(|what| matches!(what, What::Checkpoint { place: "object_store", .. })),
        })
    }
}

/// The number of fewest digits that is this one in single precision: `0.001`, where doubling the precision makes
/// `0.0010000000474974513`.
fn shortest(value: f32) -> f64 {
    value.to_string().parse().unwrap_or_else(|_| f64::from(value))
}

fn backend_name(job: &Job) -> &'static str {
    match job.device {
        _ if job.conditions.is_emulated() => "emulated",
        DeviceKind::Cpu => "cpu",
        DeviceKind::Cuda { .. } => "cuda",
    }
}
