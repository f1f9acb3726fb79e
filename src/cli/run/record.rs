//! What happens in a run, as it is printed and written.

use crate::elastic::{Cause, CheckpointPlace};
use crate::model::ModelSpec;
use crate::plan::Plan;
use crate::runtime::device::messages::BytesRead;
use crate::training::{Progress, RecoveryReport, StepReport};
use crate::units::{format_bytes, format_seconds};
use serde::Serialize;
use std::fmt;
use std::net::SocketAddr;

/// Something that happened.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Record {
    /// Seconds since the run began.
    pub(super) time_s: f64,
    #[serde(flatten)]
    pub(super) what: What,
}

/// What happened.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum What {
    /// An optimizer step was done.
    Step(StepRecord),
    /// Workers that somebody else starts can join.
    Listening { address: SocketAddr },
    /// A worker that somebody else has started wasn't let in.
    TurnedAway { message: String },
    /// A setting that the run from whose checkpoint training goes on didn't have.
    OtherSetting { message: String },
    /// All steps were done by an earlier run.
    NothingLeft { step: u64 },
    /// Nodes that were to be killed at a moment that never came.
    NotKilled { nodes: Vec<String> },
    /// Nodes joined.
    Joined { nodes: Vec<String> },
    /// Nodes are about to be lost.
    Notice { nodes: Vec<String> },
    /// A node was lost.
    Lost { node: String, how: String },
    /// Nothing fits on the nodes that are there.
    Waiting { reason: String },
    /// Training starts, or goes on, with a plan.
    Plan(PlanRecord),
    /// A checkpoint is whole.
    Checkpoint { step: u64, place: &'static str },
    /// A checkpoint can't be written or read.
    CheckpointFailed { step: u64, who: String, message: String },
}

/// One optimizer step.
#[derive(Clone, Debug, Serialize)]
pub(super) struct StepRecord {
    /// Its number, from one.
    pub(super) step: u64,
    /// How often it has been done, with this time; above one after training went back.
    pub(super) attempt: u32,
    /// Whether devices are emulated: then there is no loss and no gradient.
    pub(super) emulated: bool,
    pub(super) loss: f64,
    pub(super) gradient_norm: f64,
    pub(super) learning_rate: f32,
    pub(super) tokens: u64,
    /// From the first instruction's start to the last one's end.
    pub(super) iteration_s: f64,
    pub(super) predicted_iteration_s: Option<f64>,
    /// Since the step before, or since the run began.
    pub(super) wall_s: f64,
    pub(super) tokens_per_s: f64,
    /// FLOPs that the model needs, without recomputation, for each second of wall-clock time and rank.
    pub(super) flops_per_s_per_rank: f64,
    /// Share of the devices' peak; absent where that isn't known.
    pub(super) mfu: Option<f64>,
    /// Resident set of the largest process; absent where the system doesn't say.
    pub(super) memory_bytes: Option<u64>,
}

/// A plan that training starts or goes on with.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PlanRecord {
    /// Why the plan is another one; nothing at the start.
    pub(super) cause: Option<Cause>,
    /// Steps done.
    pub(super) resume_step: u64,
    /// Steps that have to be done again.
    pub(super) lost_steps: u64,
    /// From the stop of training until all ranks were ready.
    pub(super) total_s: f64,
    /// Of that, for planning.
    pub(super) planning_s: f64,
    /// Of that, for state and connections.
    pub(super) gather_s: f64,
    pub(super) read_bytes: BytesRead,
    pub(super) ranks: usize,
    /// Stages of each replica.
    pub(super) stages: Vec<usize>,
}

impl What {
    /// All but steps, which take what was measured elsewhere.
    pub(super) fn of(progress: &Progress<'_>, is_start: bool) -> Option<Self> {
        Some(match progress {
            Progress::Step(_) => return None,
            Progress::Listening { address } => Self::Listening { address: *address },
            Progress::TurnedAway { message } => Self::TurnedAway { message: (*message).to_owned() },
            Progress::OtherSetting { message } => Self::OtherSetting { message: (*message).to_owned() },
            Progress::NothingLeft { step } => Self::NothingLeft { step: *step },
            Progress::NotKilled { nodes } => Self::NotKilled { nodes: nodes.to_vec() },
            Progress::Joined { nodes } => Self::Joined { nodes: nodes.to_vec() },
            Progress::Noticed { nodes } => Self::Notice { nodes: nodes.to_vec() },
            Progress::Lost { node, how } => Self::Lost { node: (*node).to_owned(), how: (*how).to_owned() },
            Progress::Waiting { reason, .. } => Self::Waiting { reason: (*reason).to_owned() },
            Progress::Reconfigured(report) => Self::Plan(PlanRecord::of(report, is_start)),
            Progress::CheckpointFailed { step, who, message } => {
                Self::CheckpointFailed { step: *step, who: (*who).to_owned(), message: (*message).to_owned() }
            }
            Progress::Checkpoint { step, place } => {
                let place = match place {
                    CheckpointPlace::Host => "host_memory",
                    CheckpointPlace::Disk => "disks",
                    CheckpointPlace::ObjectStore => "object_store",
                };
                Self::Checkpoint { step: *step, place }
            }
        })
    }
}

impl StepRecord {
    /// A step as measured, to which the numbers that take more than the report are added.
    pub(super) fn of(report: &StepReport, model: &ModelSpec, wall_s: f64) -> Self {
        let ranks = report.plan.world_size().max(1) as f64;
        let flops = model.model_flops_per_iteration(report.plan.global_batch_size);
        Self {
            step: report.step,
            attempt: 1,
            emulated: false,
            loss: report.loss,
            gradient_norm: report.gradient_norm,
            learning_rate: 0.0,
            tokens: report.tokens,
            iteration_s: report.iteration_s(),
            predicted_iteration_s: None,
            wall_s,
            tokens_per_s: report.tokens as f64 / wall_s,
            flops_per_s_per_rank: flops / wall_s / ranks,
            mfu: None,
            memory_bytes: report.memory_bytes.iter().flatten().copied().max(),
        }
    }
}

impl PlanRecord {
    fn of(report: &RecoveryReport, is_start: bool) -> Self {
        Self {
            cause: (!is_start).then_some(report.cause),
            resume_step: report.resume_step,
            lost_steps: report.lost_steps,
            total_s: report.total.as_secs_f64(),
            planning_s: report.planning.as_secs_f64(),
            gather_s: report.gather.as_secs_f64(),
            read_bytes: report.read,
            ranks: report.plan.world_size(),
            stages: stages(&report.plan),
        }
    }
}

fn stages(plan: &Plan) -> Vec<usize> {
    plan.replicas.iter().map(|replica| replica.stages.len()).collect()
}

/// One line for people.
impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step(step) => write!(f, "step {}: loss {:.4}", step.step, step.loss),
            Self::Listening { address } => write!(f, "listening on {address} for the workers of other hosts"),
            Self::TurnedAway { message } => write!(f, "turned away: {}", first_line(message)),
            Self::OtherSetting { message } => write!(f, "goes on with another setting than before: {message}"),
            Self::NothingLeft { step } => {
                write!(
                    f,
                    "nothing left to do: the checkpoint of step {step} is there, and `--steps` counts from the first"
                )
            }
            Self::NotKilled { nodes } => write!(f, "never came to the moment of `--kill`: {}", names(nodes)),
            Self::Joined { nodes } => write!(f, "joined: {}", names(nodes)),
            Self::Notice { nodes } => write!(f, "notice: {} will be taken away", names(nodes)),
            Self::Lost { node, how } => write!(f, "lost: `{node}` {how}"),
            Self::Waiting { reason } => write!(f, "waiting for nodes: {}", first_line(reason)),
            Self::Plan(plan) => plan.fmt(f),
            Self::Checkpoint { step, place } => {
                let place = match *place {
                    "host_memory" => "in the memory of those that keep copies",
                    "disks" => "on the disks",
                    _ => "in the object store",
                };
                write!(f, "checkpoint of step {step} is {place}")
            }
            Self::CheckpointFailed { step, who, message } => {
                write!(f, "checkpoint of step {step} failed: {who}: {}", first_line(message))
            }
        }
    }
}

impl fmt::Display for PlanRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let took = format_seconds(self.total_s);
        match self.cause {
            None if self.resume_step == 0 => write!(f, "started")?,
            None => write!(f, "went on from the checkpoint of step {}", self.resume_step)?,
            Some(cause) => {
                let why = match cause {
                    Cause::Loss => "after the loss",
                    Cause::Notice => "ahead of the loss",
                    Cause::Join => "with the new nodes",
                    Cause::Resume => "now that nodes are there",
                };
                write!(f, "goes on {why} from step {}", self.resume_step)?;
                match self.lost_steps {
                    0 => write!(f, ", nothing to do again")?,
                    1 => write!(f, ", 1 step to do again")?,
                    steps => write!(f, ", {steps} steps to do again")?,
                }
            }
        }
        let replicas = self.stages.len();
        let depths = self.stages.iter().map(ToString::to_string).collect::<Vec<_>>().join("+");
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        write!(
            f,
            " in {took}: {} rank{}, {replicas} replica{} of {depths} stage{}, state from {}",
            self.ranks,
            plural(self.ranks),
            plural(replicas),
            if depths == "1" { "" } else { "s" },
            origins(&self.read_bytes)
        )
    }
}

/// Where state came from.
fn origins(read: &BytesRead) -> String {
    let parts = [
        (read.own, "own memory"),
        (read.memory, "peers' memory"),
        (read.copies, "copies in memory"),
        (read.disk, "disks"),
        (read.object_store, "the object store"),
    ];
    let parts = parts.iter().filter(|(bytes, _)| *bytes > 0);
    let parts: Vec<String> = parts.map(|(bytes, place)| format!("{place} ({})", format_bytes(*bytes))).collect();
    if parts.is_empty() { "the seed".to_owned() } else { parts.join(", ") }
}

fn names(nodes: &[String]) -> String {
    nodes.iter().map(|node| format!("`{node}`")).collect::<Vec<_>>().join(", ")
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_is_told_in_one_line() {
        let record = PlanRecord {
            cause: Some(Cause::Loss),
            resume_step: 12,
            lost_steps: 0,
            total_s: 0.25,
            planning_s: 0.05,
            gather_s: 0.1,
            read_bytes: BytesRead { own: 1_500_000, memory: 500_000, ..BytesRead::default() },
            ranks: 3,
            stages: vec![2, 1],
        };
        assert_eq!(
            What::Plan(record).to_string(),
            "goes on after the loss from step 12, nothing to do again in 250.0 ms: 3 ranks, 2 replicas of 2+1 stages, state \
             from own memory (1.5 MB), peers' memory (500.0 kB)"
        );
    }

    #[test]
    fn an_event_is_one_flat_object() {
        let record = Record { time_s: 1.5, what: What::Lost { node: "a".into(), how: "ended".into() } };
        let json = serde_json::to_value(&record).unwrap();
        assert_eq!(json, serde_json::json!({ "time_s": 1.5, "event": "lost", "node": "a", "how": "ended" }));
    }
}
