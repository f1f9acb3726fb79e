//! A run as it goes on: shown, and taken down for the results folder, also where it is interrupted.

use super::args::OutputArgs;
use super::record::{Record, StepRecord, What};
use super::results::Results;
use super::screen::Screen;
use crate::cluster::GpuSpec;
use crate::model::Precision;
use crate::plan::Plan;
use crate::runtime::device::DeviceKind;
use crate::runtime::device::messages::Job;
use crate::training::{Progress, StepReport};
use std::collections::BTreeMap;
use std::time::Instant;

/// What is shown and kept.
pub(super) struct Session {
    job: Job,
    screen: Screen,
    results: Results,
    began: Instant,
    /// When the last step was done, or the run began.
    last: Instant,
    /// How often each step was done.
    attempts: BTreeMap<u64, u32>,
    has_started: bool,
    /// How many times slower than predicted devices are made; nothing where nothing is known of their speed.
    slow_motion: Option<f64>,
    /// Why nothing can be shown any more.
    broken: Option<anyhow::Error>,
}

impl Session {
    pub(super) fn new(job: &Job, args: &OutputArgs, slow_motion: Option<f64>) -> anyhow::Result<Self> {
        let now = Instant::now();
        Ok(Self {
            job: job.clone(),
            screen: Screen::new(args),
            results: Results::new(args.out.as_deref())?,
            began: now,
            last: now,
            attempts: BTreeMap::new(),
            has_started: false,
            slow_motion,
            broken: None,
        })
    }

    /// Says something for people.
    pub(super) fn note(&self, text: &str) {
        self.screen.note(text);
    }

    /// Takes part in what happens.
    pub(super) fn observe(&mut self, progress: &Progress<'_>) -> Result<(), String> {
        let what = match progress {
            Progress::Step(report) => What::Step(self.step(report)),
            other => match What::of(other, !self.has_started) {
                Some(what) => what,
                None => return Ok(()),
            },
        };
        self.has_started |= matches!(what, What::Plan(_));
        let record = Record { time_s: self.began.elapsed().as_secs_f64(), what };
        let shown = self.screen.show(&record);
        self.results.take(record);
        shown.map_err(|error| {
            let message = error.to_string();
            self.broken = Some(error);
            message
        })
    }

    fn step(&mut self, report: &StepReport) -> StepRecord {
        // The first step's time includes starting the processes; its own tokens/s say so.
        let wall_s = std::mem::replace(&mut self.last, Instant::now()).elapsed().as_secs_f64();
        let attempt = self.attempts.entry(report.step).or_default();
        *attempt += 1;
        let step = StepRecord::of(report, &self.job.model, wall_s);
        self.results.take_timeline(report);
        StepRecord {
            attempt: *attempt,
            predicted_iteration_s: self.slow_motion.map(|factor| report.predicted_iteration_s * factor),
            emulated: self.job.conditions.is_emulated(),
            learning_rate: self.job.learning_rate.at(report.step),
            mfu: peak_flops_per_s(&self.job.device, &report.plan).map(|peak| step.flops_per_s_per_rank / peak),
            ..step
        }
    }

    /// Why nothing could be shown any more, if that is so.
    pub(super) fn take_broken(&mut self) -> Option<anyhow::Error> {
        self.broken.take()
    }

    /// Writes what there is.
    pub(super) fn write(&self, outcome: &str) -> anyhow::Result<()> {
        if let Some(folder) = self.results.write(&self.job, outcome)? {
            let first = if self.job.conditions.is_emulated() { "summary.json" } else { "loss.svg" };
            self.note(&format!("details: {} (start with {first})", folder.display()));
        }
        Ok(())
    }
}

/// Mean peak of a plan's devices, where they are what the plan says: what `MFU` is a share of.
fn peak_flops_per_s(kind: &DeviceKind, plan: &Plan) -> Option<f64> {
    if *kind == DeviceKind::Cpu {
        return None;
    }
    let stages = || plan.replicas.iter().flat_map(|replica| &replica.stages);
    let peak = |gpu: &GpuSpec| match plan.precision {
        Precision::Fp32 => Some(gpu.fp32_flops_per_s),
        Precision::Fp16 => Some(gpu.fp16_flops_per_s),
        Precision::Bf16 => gpu.bf16_flops_per_s,
    };
    let peaks = stages().map(|stage| Some(peak(&*GpuSpec::lookup(&stage.gpu_type).ok()?)? * stage.gpus.len() as f64));
    let sum = peaks.sum::<Option<f64>>()?;
    Some(sum / plan.world_size().max(1) as f64)
}
