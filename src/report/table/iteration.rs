//! One iteration stage by stage.

use super::Screen;
use super::grid::{align_right, empty_table, trimmed};
use super::plans::{depths, joined_by_commas, layers};
use crate::report::figures::{figure, or_absent, percent};
use crate::report::iteration::{IterationReport, StageRow};
use crate::units::{SimTime, format_seconds};
use comfy_table::{Cell, ContentArrangement, Table};

/// An iteration for people: what it takes, what each stage's GPUs do, and what fills their memory when it is fullest.
pub fn iteration_table(report: &IterationReport<'_>, screen: Screen) -> String {
    let rows = report.rows();
    let times = times_table(report, &rows, screen);
    let memory = memory_table(&rows, screen);
    format!(
        "{}\n{}\n\nMemory of a GPU at its peak, GB\n{}\n",
        heading(report, screen),
        trimmed(&times),
        trimmed(&memory)
    )
}

fn heading(report: &IterationReport<'_>, screen: Screen) -> String {
    let plan = report.plan;
    let replicas = plan.replicas.len();
    let plural = if replicas == 1 { "replica" } else { "replicas" };
    let shape = [
        format!("{} on {} GPUs", plan.model, plan.world_size()),
        format!("{replicas} {plural} of {} stages", depths(plan)),
        format!("global batch size {}", plan.global_batch_size),
        format!("micro batch size {}", plan.micro_batch_size),
        plan.schedule.title().to_owned(),
    ];
    let figures = [
        format!("iteration {}", format_seconds(report.makespan().as_seconds())),
        format!("bubble {}", or_absent(report.bubble_fraction(), percent)),
        format!("{} tokens/s", or_absent(report.tokens_per_s(), figure)),
    ];
    format!("{}\n{}", joined_by_commas(&shape, screen), joined_by_commas(&figures, screen))
}

fn new_table(header: &[&str], screen: Screen) -> Table {
    let mut table = empty_table(screen);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(screen.width);
    table.set_header(header);
    table
}

fn narrow(table: &mut Table) {
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
}

fn times_table(report: &IterationReport<'_>, rows: &[StageRow], screen: Screen) -> Table {
    let makespan_s = report.makespan().as_seconds();
    let share = |time: SimTime| percent(time.as_seconds() / makespan_s);
    let header = ["replica", "stage", "GPUs", "layers", "busy", "communi-\ncation", "idle", "peak memory\nof capacity"];
    let mut table = new_table(&header, screen);
    for row in rows {
        let stage = &report.plan.replicas[row.replica].stages[row.stage];
        let (peak, capacity) = (row.peak.memory.total_bytes() as f64 / 1e9, row.capacity_bytes as f64 / 1e9);
        table.add_row([
            Cell::new(if row.stage == 0 { row.replica.to_string() } else { String::new() }),
            Cell::new(row.stage),
            Cell::new(format!("{} x{}", stage.gpu_type, stage.gpus.len())),
            Cell::new(layers(stage)),
            Cell::new(share(row.shares.busy)),
            Cell::new(share(row.shares.communication)),
            Cell::new(share(row.shares.idle)),
            Cell::new(format!("{peak:.1}/{capacity:.1} GB")),
        ]);
    }
    align_right(&mut table, 4..8);
    narrow(&mut table);
    table
}

fn memory_table(rows: &[StageRow], screen: Screen) -> Table {
    let header = ["replica", "stage", "weights", "grads", "optim.", "activ.", "trans.", "reserve", "peak", "at"];
    let mut table = new_table(&header, screen);
    for row in rows {
        let memory = &row.peak.memory;
        let gigabytes = |bytes: u64| Cell::new(format!("{:.1}", bytes as f64 / 1e9));
        table.add_row([
            Cell::new(if row.stage == 0 { row.replica.to_string() } else { String::new() }),
            Cell::new(row.stage),
            gigabytes(memory.parameters_bytes),
            gigabytes(memory.gradients_bytes),
            gigabytes(memory.optimizer_bytes),
            gigabytes(memory.activations_bytes),
            gigabytes(memory.transient_bytes),
            gigabytes(memory.reserve_bytes),
            gigabytes(memory.total_bytes()),
            Cell::new(format_seconds(row.peak.at.as_seconds())),
        ]);
    }
    align_right(&mut table, 2..10);
    narrow(&mut table);
    table
}
