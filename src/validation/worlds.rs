//! The same trace in both worlds: replayed by the simulator, and injected into processes that train.

use super::Judged;
use crate::elastic::Cause;
use crate::plan::Plan;
use crate::replay::PolicyOutcome;
use crate::runtime::device::messages::BytesRead;
use crate::training::{Progress, RecoveryReport};
use crate::units::SimTime;
use serde::Serialize;
use std::fmt::Write as _;
use std::sync::Arc;

/// What came of a trace in one world.
#[derive(Clone, Debug, Default)]
pub struct Lived {
    /// Tokens of the iterations that count, for each second of the trace.
    pub goodput_tokens_per_s: f64,
    /// Iterations that count: done and not rolled back.
    pub iterations: u64,
    /// Iterations that were done and rolled back.
    pub iterations_lost: u64,
    /// Changes of plan, the start excepted.
    pub recoveries: Vec<Recovered>,
    /// Bytes of state that they read.
    pub read: BytesRead,
    /// The plans that were in force, from the start.
    pub plans: Vec<Arc<Plan>>,
}

/// One change of plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recovered {
    /// When training went on, in seconds since the trace began.
    pub end_s: f64,
    /// From the stop of training to there.
    pub time_s: f64,
    /// Why.
    pub cause: Cause,
    /// Iterations that it rolled back.
    pub lost_iterations: u64,
    /// The plan that it led to, in a line.
    pub plan: String,
}

/// Takes down what happens to a run.
#[derive(Debug, Default)]
pub struct Witness {
    start: Option<u64>,
    step: u64,
    lost: u64,
    /// Lost while waiting for nodes.
    lost_waiting: u64,
    lived: Lived,
}

impl Witness {
    /// Steps that count so far.
    pub fn steps(&self) -> u64 {
        self.step.saturating_sub(self.start.unwrap_or(self.step))
    }

    /// Takes part in what happens, `at_s` seconds after the trace began.
    pub fn observe(&mut self, progress: &Progress<'_>, at_s: f64) {
        match progress {
            Progress::Step(report) => self.step = report.step,
            Progress::Waiting { resume_step, .. } => self.lost_waiting += self.go_back_to(*resume_step),
            Progress::Reconfigured(report) => self.reconfigured(report, at_s),
            _ => {}
        }
    }

    fn reconfigured(&mut self, report: &RecoveryReport, end_s: f64) {
        self.lived.plans.push(Arc::clone(&report.plan));
        if self.start.is_none() {
            self.start = Some(report.resume_step);
            self.step = report.resume_step;
            return;
        }
        let lost_iterations = self.go_back_to(report.resume_step) + std::mem::take(&mut self.lost_waiting);
        self.lived.read.add(&report.read);
        self.lived.recoveries.push(Recovered {
            end_s,
            time_s: report.total.as_secs_f64(),
            cause: report.cause,
            lost_iterations,
            plan: in_a_line(&report.plan),
        });
    }

    fn go_back_to(&mut self, step: u64) -> u64 {
        let lost = self.step.saturating_sub(step);
        self.step = step;
        self.lost += lost;
        lost
    }

    /// What came of it in `span_s` seconds of steps of so many tokens.
    pub fn close(self, tokens_per_step: u64, span_s: f64) -> Lived {
        let iterations = self.steps();
        let goodput_tokens_per_s = (iterations * tokens_per_step) as f64 / span_s;
        Lived { goodput_tokens_per_s, iterations, iterations_lost: self.lost, ..self.lived }
    }
}

impl Lived {
    /// What came of a replay of `span`, all of whose times are `time_scale` times shorter than those of the run.
    pub fn of_replay(outcome: &PolicyOutcome, span: SimTime, time_scale: f64) -> Self {
        let mut read = BytesRead::default();
        let mut plans: Vec<Arc<Plan>> =
            outcome.plans.first().map(|first| Arc::new(first.plan.clone())).into_iter().collect();
        for recovery in &outcome.recoveries {
            let fetched = &recovery.fetched;
            read.add(&BytesRead {
                own: fetched.own_memory,
                memory: fetched.peers,
                copies: 0,
                disk: fetched.own_disk,
                object_store: fetched.object_store,
            });
            plans.push(Arc::clone(&recovery.plan));
        }
        let recoveries = outcome.recoveries.iter().map(|recovery| Recovered {
            end_s: recovery.end.as_seconds() * time_scale,
            time_s: (recovery.end - recovery.start).as_seconds() * time_scale,
            cause: recovery.cause,
            lost_iterations: recovery.lost_iterations,
            plan: in_a_line(&recovery.plan),
        });
        Self {
            goodput_tokens_per_s: outcome.tokens as f64 / (span.as_seconds() * time_scale),
            iterations: outcome.iterations,
            iterations_lost: outcome.iterations_rolled_back,
            recoveries: recoveries.collect(),
            read,
            plans,
        }
    }

    fn mean_recovery_s(&self) -> Option<f64> {
        let sum: f64 = self.recoveries.iter().map(|recovery| recovery.time_s).sum();
        (!self.recoveries.is_empty()).then(|| sum / self.recoveries.len() as f64)
    }

    fn max_recovery_s(&self) -> Option<f64> {
        self.recoveries.iter().map(|recovery| recovery.time_s).reduce(f64::max)
    }
}

/// Replicas with the layers of each stage: `l4-0:3>t4-0:1 + l4-1:4`.
fn in_a_line(plan: &Plan) -> String {
    let mut text = String::new();
    for (number, replica) in plan.replicas.iter().enumerate() {
        text += if number == 0 { "" } else { " + " };
        for (place, stage) in replica.stages.iter().enumerate() {
            let before = if place == 0 { "" } else { ">" };
            write!(text, "{before}{}:{}", stage.node, stage.layer_count()).unwrap_or_default();
        }
    }
    text
}

/// What is compared of two worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorldQuantity {
    /// Tokens of the iterations that count, for each second.
    GoodputTokensPerS,
    /// Iterations that count.
    Iterations,
    /// Iterations that were rolled back.
    IterationsLost,
    /// Changes of plan.
    Recoveries,
    /// Seconds from the stop of training until it goes on, in the mean over changes of plan.
    MeanRecoveryS,
    /// The longest.
    MaxRecoveryS,
    /// Bytes of state that nodes had in their own memory.
    OwnMemoryBytes,
    /// Bytes that they read from others, from copies or from disks.
    PeerBytes,
    /// Bytes that they read from the object store.
    ObjectStoreBytes,
}

/// One quantity of two worlds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WorldRow {
    /// Which.
    pub quantity: WorldQuantity,
    /// In the replay; nothing where there is none.
    pub predicted: Option<f64>,
    /// In the run; nothing where there is none.
    pub measured: Option<f64>,
    /// `predicted / measured - 1`.
    pub relative_error: Option<f64>,
    /// Whether it decides.
    pub judged: Judged,
}

/// Compares what came of a trace in a replay and in a run. Goodput and the mean recovery time decide.
pub fn compare_worlds(replayed: &Lived, run: &Lived, tolerance: f64) -> Vec<WorldRow> {
    use WorldQuantity as Q;
    let row = |quantity, predicted: Option<f64>, measured: Option<f64>| {
        let relative_error =
            predicted.zip(measured).filter(|(_, measured)| *measured > 0.0).map(|(p, measured)| p / measured - 1.0);
        let decides = matches!(quantity, Q::GoodputTokensPerS | Q::MeanRecoveryS);
        let judged = match relative_error {
            _ if !decides || predicted == measured => Judged::No,
            Some(error) if error.abs() <= tolerance => Judged::Holds,
            _ => Judged::Fails,
        };
        WorldRow { quantity, predicted, measured, relative_error, judged }
    };
    let of = |quantity, figure: fn(&Lived) -> f64| row(quantity, Some(figure(replayed)), Some(figure(run)));
    vec![
        of(Q::GoodputTokensPerS, |lived| lived.goodput_tokens_per_s),
        of(Q::Iterations, |lived| lived.iterations as f64),
        of(Q::IterationsLost, |lived| lived.iterations_lost as f64),
        of(Q::Recoveries, |lived| lived.recoveries.len() as f64),
        row(Q::MeanRecoveryS, replayed.mean_recovery_s(), run.mean_recovery_s()),
        row(Q::MaxRecoveryS, replayed.max_recovery_s(), run.max_recovery_s()),
        of(Q::OwnMemoryBytes, |lived| lived.read.own as f64),
        of(Q::PeerBytes, |lived| (lived.read.memory + lived.read.copies + lived.read.disk) as f64),
        of(Q::ObjectStoreBytes, |lived| lived.read.object_store as f64),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lived(goodput_tokens_per_s: f64, times_s: &[f64]) -> Lived {
        let recovered = |&time_s: &f64| Recovered {
            end_s: 10.0,
            time_s,
            cause: Cause::Loss,
            lost_iterations: 0,
            plan: String::new(),
        };
        Lived { goodput_tokens_per_s, recoveries: times_s.iter().map(recovered).collect(), ..Lived::default() }
    }

    #[test]
    fn goodput_and_mean_recovery_time_decide() {
        let rows = compare_worlds(&lived(110.0, &[1.0, 3.0]), &lived(100.0, &[1.0, 1.0]), 0.2);
        let row = |quantity| *rows.iter().find(|row| row.quantity == quantity).unwrap();
        let goodput = row(WorldQuantity::GoodputTokensPerS);
        approx::assert_relative_eq!(goodput.relative_error.unwrap(), 0.1, max_relative = 1e-9);
        assert_eq!(goodput.judged, Judged::Holds);
        let mean = row(WorldQuantity::MeanRecoveryS);
        assert_eq!((mean.relative_error, mean.judged), (Some(1.0), Judged::Fails));
        assert_eq!(row(WorldQuantity::MaxRecoveryS).judged, Judged::No);
    }

    #[test]
    fn a_recovery_in_one_world_only_fails_and_none_in_both_does_not_decide() {
        let judged = |replayed: &[f64], run: &[f64]| {
            let rows = compare_worlds(&lived(1.0, replayed), &lived(1.0, run), 0.5);
            rows.into_iter().find(|row| row.quantity == WorldQuantity::MeanRecoveryS).unwrap().judged
        };
        assert_eq!(judged(&[1.0], &[]), Judged::Fails);
        assert_eq!(judged(&[], &[1.0]), Judged::Fails);
        assert_eq!(judged(&[], &[]), Judged::No);
    }
}
