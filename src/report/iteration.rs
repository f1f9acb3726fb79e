//! One simulated iteration of a plan: what its GPUs do, and what fills their memory.

use super::figures;
use super::plan_report::StageFootprint;
use crate::cost::StageMemory;
use crate::metrics::{Activity, IterationBreakdown, MemoryChange, RankMemory, RankShares};
use crate::plan::Plan;
use crate::runtime::sim::SimulatedIteration;
use crate::units::SimTime;
use serde_json::{Value, json};

/// An iteration and everything that is said about it.
pub struct IterationReport<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// What was executed.
    pub iteration: &'a SimulatedIteration,
    /// What each rank held when.
    pub memory: &'a [RankMemory],
    /// What the plan's check says of each stage's memory.
    pub footprints: Vec<Vec<StageFootprint>>,
    /// Tokens per sample.
    pub seq_length: u32,
}

/// One stage of one replica; its tensor-parallel ranks do the same.
pub(super) struct StageRow {
    pub replica: usize,
    pub stage: usize,
    pub shares: RankShares,
    pub peak: MemoryChange,
    pub capacity_bytes: u64,
}

impl IterationReport<'_> {
    /// Time of the iteration.
    pub fn makespan(&self) -> SimTime {
        self.iteration.timeline.makespan()
    }

    /// Waiting for others, as a share of the GPUs' time; `None` for an iteration that takes none.
    pub fn bubble_fraction(&self) -> Option<f64> {
        let idle: f64 = RankShares::of(self.iteration).iter().map(|shares| shares.idle.as_seconds()).sum();
        figures::ratio(idle, self.makespan().as_seconds() * self.plan.world_size() as f64)
    }

    /// Tokens that it trains on, a second.
    pub fn tokens_per_s(&self) -> Option<f64> {
        let tokens = f64::from(self.plan.global_batch_size) * f64::from(self.seq_length);
        figures::ratio(tokens, self.makespan().as_seconds())
    }

    /// The stages, by the first of their ranks.
    pub(super) fn rows(&self) -> Vec<StageRow> {
        let shares = RankShares::of(self.iteration);
        let ranks = self.iteration.program.ranks().iter().enumerate().filter(|(_, rank)| rank.tensor_rank == 0);
        let row = |(index, rank): (usize, &crate::program::RankProgram)| {
            let (replica, stage) = (rank.replica.index(), rank.stage.index());
            StageRow {
                replica,
                stage,
                shares: shares[index],
                peak: self.memory[index].peak(),
                capacity_bytes: self.footprints[replica][stage].capacity_bytes,
            }
        };
        ranks.map(row).collect()
    }
}

/// The iteration as JSON: times in seconds, shares of the GPUs' time, memory in bytes.
pub fn iteration_json(report: &IterationReport<'_>) -> Value {
    let plan = report.plan;
    let makespan_s = report.makespan().as_seconds();
    let breakdown = IterationBreakdown::of(report.iteration);
    let total = breakdown.ledger.total().as_gpu_seconds();
    let share = |activity| figures::ratio(breakdown.ledger.get(activity).as_gpu_seconds(), total);
    let of_stage = |time: SimTime| figures::ratio(time.as_seconds(), makespan_s);
    let stage = |row: &StageRow| {
        let stage = &plan.replicas[row.replica].stages[row.stage];
        json!({
            "replica": row.replica,
            "stage": row.stage,
            "node": stage.node,
            "gpu_type": stage.gpu_type,
            "gpus": stage.gpus.len(),
            "chunks": stage.chunk_count(),
            "num_layers": stage.layer_count(),
            "busy_share": of_stage(row.shares.busy),
            "communication_share": of_stage(row.shares.communication),
            "idle_share": of_stage(row.shares.idle),
            "peak_memory_bytes": row.peak.memory.total_bytes(),
            "peak_memory": row.peak.memory,
            "peak_at_s": row.peak.at.as_seconds(),
            "memory_capacity_bytes": row.capacity_bytes,
        })
    };
    json!({
        "model": plan.model.name(),
        "schedule": plan.schedule,
        "iteration_s": makespan_s,
        "bubble_fraction": report.bubble_fraction(),
        "tokens_per_s": report.tokens_per_s(),
        "gpu_time": {
            "useful": share(Activity::Useful),
            "recomputation": share(Activity::Recomputation),
            "exposed_communication": share(Activity::ExposedCommunication),
            "bubble": share(Activity::Bubble),
        },
        "stages": report.rows().iter().map(stage).collect::<Vec<_>>(),
    })
}

/// Parts of a GPU's memory for people, without those that are nothing: `weights 3.3 + gradients 3.3 + … GB`.
pub(super) fn parts_text(memory: &StageMemory) -> String {
    let parts = [
        ("weights", memory.parameters_bytes),
        ("gradients", memory.gradients_bytes),
        ("optimizer", memory.optimizer_bytes),
        ("activations", memory.activations_bytes),
        ("transients", memory.transient_bytes),
        ("reserve", memory.reserve_bytes),
    ];
    let text = |(name, bytes): (&str, u64)| format!("{name} {:.1}", bytes as f64 / 1e9);
    let held = parts.into_iter().filter(|(_, bytes)| *bytes > 0);
    held.map(text).collect::<Vec<_>>().join(" + ") + " GB"
}
