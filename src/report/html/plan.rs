//! The page of a plan.

use super::{Section, card, ledgers, plan_sections, render};
use crate::metrics::IterationBreakdown;
use crate::report::figures::{count, figure, or_absent, percent};
use crate::report::iteration::IterationReport;
use crate::report::plan_report::PlanReport;
use crate::units::{format_bytes, format_seconds};

/// What a page of a plan is made from.
pub struct PlanPage<'a> {
    /// The cluster, as it was described.
    pub cluster: &'a str,
    /// The plan, and what is known of it.
    pub report: &'a PlanReport<'a>,
    /// An executed iteration of it.
    pub iteration: &'a IterationReport<'a>,
    /// The resolved scenario.
    pub scenario: &'a str,
}

/// A plan as a page.
pub fn plan_html(page: &PlanPage<'_>) -> String {
    let PlanPage { report, iteration, .. } = page;
    let (planned, plan) = (report.planned, &report.planned.plan);
    let mut cards = vec![
        card("tokens/s", or_absent(report.tokens_per_s(), figure)),
        card("an iteration", format_seconds(planned.predicted_iteration_s)),
        card("above the lower bound", percent(planned.gap)),
        card("bubble", or_absent(iteration.bubble_fraction(), percent)),
        card("GPUs in use", count(plan.world_size() as u64)),
    ];
    if report.usd_per_hour.is_some() {
        cards.push(card("USD an hour", or_absent(report.usd_per_hour, figure)));
        cards.push(card("USD per million tokens", or_absent(report.usd_per_million_tokens(), figure)));
    }
    let [drawing, chart] = plan_sections(iteration, &format!("Made by {}", plan.planner));
    let breakdown = IterationBreakdown::of(iteration.iteration);
    let note = "The time of all GPUs in use, from the start of the iteration to its end.";
    let sections = [
        drawing,
        ledgers("Where the GPU time goes", note, std::iter::once((plan.planner.as_str(), &breakdown.ledger))),
        chart,
        stages(iteration),
        Section {
            text: page.scenario.to_owned(),
            ..Section::new("Scenario", "Every setting in force; `--scenario` takes it back.")
        },
    ];
    let asked = format!(
        "{} samples an iteration on {}, {}, in {}.",
        count(u64::from(plan.global_batch_size)),
        page.cluster,
        plan.schedule.title(),
        match plan.replicas.len() {
            1 => "one replica".to_owned(),
            several => format!("{several} replicas"),
        }
    );
    render(&format!("Plan of {}", plan.model), &asked, &cards, &sections)
}

/// Every stage with its nodes, its work and its memory.
fn stages(report: &IterationReport<'_>) -> Section {
    let makespan_s = report.makespan().as_seconds();
    let share = |time: crate::units::SimTime| percent(time.as_seconds() / makespan_s);
    let rows = report.rows().into_iter().map(|row| {
        let replica = &report.plan.replicas[row.replica];
        let stage = &replica.stages[row.stage];
        vec![
            row.replica.to_string(),
            row.stage.to_string(),
            stage.node.clone(),
            stage.gpu_type.clone(),
            stage.gpus.len().to_string(),
            stage.layer_count().to_string(),
            replica.micro_batches.to_string(),
            share(row.shares.busy),
            share(row.shares.communication),
            share(row.shares.idle),
            format_bytes(row.peak.memory.total_bytes()),
            format_bytes(row.capacity_bytes),
        ]
    });
    let columns = [
        "replica",
        "stage",
        "node",
        "GPU type",
        "GPUs",
        "layers",
        "micro batches",
        "computes",
        "communicates",
        "waits",
        "peak memory",
        "of",
    ];
    Section::new("Stages", "Shares are of the iteration's time, memory is that of each GPU.")
        .with_table(&columns, rows.collect())
}
