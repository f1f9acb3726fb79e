//! What `autohet-run` prints and writes.

use crate::report::{ResultsFolder, perfetto_json};
use crate::runtime::Timeline;
use crate::runtime::device::{Job, StepReport, program};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Metrics of the steps so far.
pub(super) struct Results {
    out: Option<PathBuf>,
    steps: Vec<Step>,
    last: Timeline,
}

struct Step {
    loss: f64,
    tokens: u64,
    iteration_s: f64,
    wall_s: f64,
}

/// One line of the table.
pub(super) fn row(report: &StepReport, wall_s: f64) -> String {
    let tokens_per_s = report.tokens as f64 / wall_s;
    format!("{:>7}  {:>8.4}  {:>10.0}  {:>7.1} ms", report.step, report.loss, tokens_per_s, report.iteration_s() * 1e3)
}

impl Results {
    /// Checks that the folder can be written, before the work is done.
    pub(super) fn new(out: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(out) = out {
            drop(ResultsFolder::create(out)?);
        }
        Ok(Self { out: out.map(Path::to_owned), steps: Vec::new(), last: Timeline::default() })
    }

    /// Takes down a step that took so long, all in all.
    pub(super) fn take(&mut self, report: &StepReport, wall_s: f64) {
        let (loss, tokens, iteration_s) = (report.loss, report.tokens, report.iteration_s());
        self.steps.push(Step { loss, tokens, iteration_s, wall_s });
        self.last.clone_from(&report.timeline);
    }

    /// Writes the folder, if one was asked for, and says where it is.
    pub(super) fn write(&self, job: &Job) -> anyhow::Result<Option<PathBuf>> {
        let Some(out) = &self.out else { return Ok(None) };
        let folder = ResultsFolder::create(out)?;
        folder.write("metrics.csv", self.metrics_csv()?)?;
        folder.write("timeline.perfetto.json", perfetto_json(&job.plan, &program(job), &self.last))?;
        folder.write("summary.json", serde_json::to_string_pretty(&self.summary(job))? + "\n")?;
        Ok(Some(folder.commit()?))
    }

    fn metrics_csv(&self) -> anyhow::Result<Vec<u8>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(["step", "loss", "tokens", "iteration_s", "wall_s"])?;
        for (index, step) in self.steps.iter().enumerate() {
            let numbers = [step.loss, step.iteration_s, step.wall_s].map(|value| value.to_string());
            let [loss, iteration_s, wall_s] = numbers;
            writer.write_record([(index + 1).to_string(), loss, step.tokens.to_string(), iteration_s, wall_s])?;
        }
        Ok(writer.into_inner()?)
    }

    fn summary(&self, job: &Job) -> serde_json::Value {
        // The first step pays for starting up, unless it's the only one.
        let counted = if self.steps.len() > 1 { &self.steps[1..] } else { &self.steps[..] };
        let tokens: u64 = counted.iter().map(|step| step.tokens).sum();
        let wall_s: f64 = counted.iter().map(|step| step.wall_s).sum();
        let mut iterations: Vec<f64> = counted.iter().map(|step| step.iteration_s).collect();
        iterations.sort_by(f64::total_cmp);
        json!({
            "command": "autohet-run",
            "model": job.model.name,
            "world_size": job.plan.world_size(),
            "steps": job.steps,
            "seed": job.seed,
            "learning_rate": job.optimizer.learning_rate,
            "first_loss": self.steps.first().map(|step| step.loss),
            "last_loss": self.steps.last().map(|step| step.loss),
            "tokens_per_s": tokens as f64 / wall_s,
            "median_iteration_s": iterations.get(iterations.len() / 2),
        })
    }
}
