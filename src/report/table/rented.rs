//! Plans with their throughput and cost, one a row.

use super::Screen;
use super::grid::{align_right, empty_table, trimmed};
use crate::plan::PricedPlan;
use crate::report::figures::figure;
use crate::report::rented::shape;
use crate::units::format_seconds;
use comfy_table::ContentArrangement;

/// Plans with their throughput and cost, in the order given.
pub fn rented_table(plans: &[PricedPlan], screen: Screen) -> String {
    let mut table = empty_table(screen);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(screen.width);
    table.set_header([
        "tokens/s",
        "iteration",
        "USD/h",
        "USD per\n10^6 tokens",
        "nodes",
        "GPUs",
        "micro\nbatch",
        "plan",
    ]);
    for plan in plans {
        table.add_row([
            figure(plan.tokens_per_s),
            format_seconds(plan.predicted_iteration_s),
            format!("{:.2}", plan.usd_per_hour),
            format!("{:.4}", plan.usd_per_million_tokens()),
            plan.nodes.to_string(),
            plan.plan.world_size().to_string(),
            plan.plan.micro_batch_size.to_string(),
            shape(&plan.plan),
        ]);
    }
    align_right(&mut table, [0, 1, 2, 3, 4, 5, 6]);
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    trimmed(&table)
}
