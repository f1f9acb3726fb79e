//! A prediction beside its measurement.

use super::statistics::median_of;
use super::{Machine, Prediction};
use crate::ids::Rank;
use crate::program::{Op, Program};
use crate::runtime::{RankTime, Timeline};
use crate::training::StepReport;
use serde::Serialize;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Seconds from the first instruction's start to the last one's end.
    IterationS,
    /// Seconds of passes and the optimizer step on one rank.
    BusyS,
    /// Seconds in which ranks waited for others, in the mean over ranks.
    BubbleS,
    /// Seconds of communication while nothing computed, in the mean over ranks.
    ExposedCommunicationS,
    /// Bytes sent by one rank.
    SentBytes,
    /// Bytes of one rank's memory: predicted what state, gradients and activations take, measured the largest memory of
    /// the process.
    MemoryBytes,
}

/// Whether a row decides, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    /// Within the tolerance.
    Holds,
    /// Beyond it.
    Fails,
    /// Reported only.
    No,
}

/// One quantity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Which.
    pub quantity: Quantity,
    /// Of which rank; of all where there is none.
    pub rank: Option<u32>,
    /// As the simulator has it.
    pub predicted: f64,
    /// Median over the measured steps; nothing where it couldn't be measured.
    pub measured: Option<f64>,
    /// `predicted / measured - 1`.
    pub relative_error: Option<f64>,
    /// Whether it decides.
    pub judged: Judged,
}

/// Where a rank's time went, by kind of instruction: sums over an iteration, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OperationRow {
    /// The rank.
    pub rank: u32,
    /// Kind of instruction.
    pub operation: &'static str,
    /// How many an iteration has.
    pub count: usize,
    /// As the simulator has it.
    pub predicted_s: f64,
    /// Median over the measured steps.
    pub measured_s: f64,
}

/// All of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    /// Version of this report's JSON.
    pub schema_version: u32,
    /// `cpu`, or `emulated` where devices slept instead of computing.
    pub backend: &'static str,
    /// Where it was measured.
    pub machine: Machine,
    /// The model.
    pub model: String,
    /// Ranks.
    pub world_size: usize,
    /// Measured steps.
    pub steps: usize,
    /// How many times slower emulated devices and links were than those they stand for.
    pub time_scale: f64,
    /// Slowdown of each rank; empty without.
    pub slowdown: Vec<f64>,
    /// Largest relative error of a judged row.
    pub tolerance: f64,
    /// Whether all judged rows hold.
    pub holds: bool,
    /// The quantities.
    pub rows: Vec<Row>,
    /// Where each rank's time went.
    pub operations: Vec<OperationRow>,
}

/// Compares measured steps, warm-up left out, with a prediction; its memory with the largest of each rank's process.
pub fn compare(
    prediction: &Prediction,
    steps: &[StepReport],
    peak_memory_bytes: &[Option<u64>],
    tolerance: f64,
) -> (Vec<Row>, Vec<OperationRow>) {
    let program = &prediction.program;
    let ranks = program.ranks().len();
    let predicted_times = prediction.timeline.rank_times(program);
    let mean = |total: f64| total / ranks as f64;
    let row = |quantity, rank, predicted: f64, measured: Option<f64>| {
        let relative_error = measured.filter(|measured| *measured > 0.0).map(|measured| predicted / measured - 1.0);
        Row { quantity, rank, predicted, measured, relative_error, judged: judge(quantity, relative_error, tolerance) }
    };
    let makespan_s = prediction.timeline.makespan().as_seconds();
    let mut rows = vec![row(Quantity::IterationS, None, makespan_s, Some(median_of(steps, StepReport::iteration_s)))];
    for (rank, predicted) in predicted_times.iter().enumerate() {
        let busy_s = |step: &StepReport| step.timeline.rank_times(program)[rank].busy.as_seconds();
        let predicted_s = predicted.busy.as_seconds();
        rows.push(row(Quantity::BusyS, Some(rank as u32), predicted_s, Some(median_of(steps, busy_s))));
    }
    let parts: [(_, PartOf); 2] = [
        (Quantity::BubbleS, |time| time.bubble.as_seconds()),
        (Quantity::ExposedCommunicationS, |time| time.exposed_communication.as_seconds()),
    ];
    for (quantity, part) in parts {
        let of = |timeline: &Timeline| mean(timeline.rank_times(program).iter().map(part).sum());
        let measured = median_of(steps, |step| of(&step.timeline));
        rows.push(row(quantity, None, of(&prediction.timeline), Some(measured)));
    }
    for (rank, &predicted) in prediction.sent_bytes.iter().enumerate() {
        let measured = median_of(steps, |step| step.ranks[rank].sent_bytes as f64);
        rows.push(row(Quantity::SentBytes, Some(rank as u32), predicted as f64, Some(measured)));
    }
    for (rank, (&predicted, peak)) in prediction.memory_bytes.iter().zip(peak_memory_bytes).enumerate() {
        rows.push(row(Quantity::MemoryBytes, Some(rank as u32), predicted as f64, peak.map(|bytes| bytes as f64)));
    }
    (rows, operations(prediction, steps))
}

/// A part of a rank's time, in seconds.
type PartOf = fn(&RankTime) -> f64;

/// The iteration's time and what ranks are busy with decide.
fn judge(quantity: Quantity, relative_error: Option<f64>, tolerance: f64) -> Judged {
    match (quantity, relative_error) {
        (Quantity::IterationS | Quantity::BusyS, Some(error)) if error.abs() <= tolerance => Judged::Holds,
        (Quantity::IterationS | Quantity::BusyS, _) => Judged::Fails,
        _ => Judged::No,
    }
}

const OPERATIONS: [&str; 6] = ["forward", "backward", "send", "receive", "all_reduce", "optimizer"];

fn operation(op: Op) -> usize {
    match op {
        Op::Forward { .. } | Op::RedundantForward { .. } => 0,
        Op::Backward { .. } => 1,
        Op::Send { .. } => 2,
        Op::Receive { .. } => 3,
        Op::AllReduce { .. } | Op::ReduceScatter { .. } | Op::AllGather { .. } => 4,
        Op::OptimizerStep => 5,
    }
}

fn operations(prediction: &Prediction, steps: &[StepReport]) -> Vec<OperationRow> {
    let program = &prediction.program;
    let predicted = sums_s(&prediction.timeline, program);
    let measured: Vec<_> = steps.iter().map(|step| sums_s(&step.timeline, program)).collect();
    let mut rows = Vec::new();
    for (index, rank) in program.ranks().iter().enumerate() {
        for (kind, name) in OPERATIONS.into_iter().enumerate() {
            let count = rank.instructions.iter().filter(|instruction| operation(instruction.op) == kind).count();
            if count == 0 {
                continue;
            }
            let of_steps = measured.iter().map(|sums| sums[index][kind]).collect();
            let measured_s = super::statistics::median(of_steps).unwrap_or_default();
            let predicted_s = predicted[index][kind];
            rows.push(OperationRow { rank: Rank::from(index).0, operation: name, count, predicted_s, measured_s });
        }
    }
    rows
}

/// By rank and kind.
fn sums_s(timeline: &Timeline, program: &Program) -> Vec<[f64; OPERATIONS.len()]> {
    let mut sums = vec![[0.0; OPERATIONS.len()]; program.ranks().len()];
    for span in &timeline.spans {
        let kind = operation(program.instruction(span.rank, span.id).op);
        sums[span.rank.index()][kind] += (span.end - span.start).as_seconds();
    }
    sums
}

#[cfg(test)]
mod tests;
