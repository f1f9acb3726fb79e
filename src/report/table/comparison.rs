//! Several planners side by side.

use super::Screen;
use super::grid::{Best, Grid, align_right, empty_table, trimmed};
use super::plans::{depths, memory, micro_batches};
use crate::report::figures::{ABSENT, figure, or_absent, percent, scaled};
use crate::report::plan_report::{ComparedPlanner, PlanReport};
use crate::units::format_seconds;
use comfy_table::ContentArrangement;
use std::fmt::Write as _;

const NEVER: &str = "writing to a string doesn't fail";

/// The plans of several planners, one column each, or, where these don't fit side by side, one row each with the figures
/// that matter most; reasons of those that have none stand below.
pub fn comparison_table(compared: &[ComparedPlanner<'_>], screen: Screen) -> String {
    let grid = figures(compared);
    let mut all = if grid.fits(screen) { grid.render(screen) } else { by_row(compared, screen) };
    for compared in compared {
        if let Err(error) = &compared.result {
            writeln!(all, "\n{}: {error}", compared.planner).expect(NEVER);
        }
    }
    all
}

/// The same figures as a Markdown table.
pub fn comparison_markdown(compared: &[ComparedPlanner<'_>]) -> String {
    figures(compared).markdown()
}

/// The same as CSV, a row for each planner, in full precision.
pub fn comparison_csv(compared: &[ComparedPlanner<'_>]) -> String {
    let mut text = String::from(
        "planner,tokens_per_s,iteration_s,lower_bound_s,gap,planning_s,gpus_in_use,tensor_parallel,replicas,micro_batch_size,\
         recompute,error\n",
    );
    for ComparedPlanner { planner, result } in compared {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let row = match result {
            Ok(report) => {
                let (planned, plan) = (report.planned, &report.planned.plan);
                [
                    report.tokens_per_s().map_or_else(String::new, |value| value.to_string()),
                    planned.predicted_iteration_s.to_string(),
                    planned.lower_bound_s.to_string(),
                    planned.gap.to_string(),
                    report.planning_s.to_string(),
                    plan.world_size().to_string(),
                    quoted(&plan.tensor_parallel_text()),
                    plan.replicas.len().to_string(),
                    plan.micro_batch_size.to_string(),
                    plan.recompute.to_string(),
                    String::new(),
                ]
            }
            Err(error) => {
                let mut row = [const { String::new() }; 11];
                row[10] = quoted(error);
                row
            }
        };
        writeln!(text, "{planner},{}", row.join(",")).expect(NEVER);
    }
    text
}

fn by_row(compared: &[ComparedPlanner<'_>], screen: Screen) -> String {
    let mut table = empty_table(screen);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(screen.width);
    table.set_header([
        "planner",
        "tokens/s",
        "iteration",
        "gap",
        "planning\ntime",
        "GPUs",
        "TP",
        "stages, by\nreplica",
        "micro\nbatch",
        "recom-\npute",
    ]);
    for ComparedPlanner { planner, result } in compared {
        let of = |f: &dyn Fn(&PlanReport<'_>) -> String| result.as_ref().map_or_else(|_| ABSENT.to_owned(), f);
        table.add_row([
            (*planner).to_owned(),
            of(&|r| or_absent(r.tokens_per_s(), figure)),
            of(&|r| format_seconds(r.planned.predicted_iteration_s)),
            of(&|r| percent(r.planned.gap)),
            of(&|r| format_seconds(r.planning_s)),
            of(&|r| r.planned.plan.world_size().to_string()),
            of(&|r| r.planned.plan.tensor_parallel_sizes().iter().map(u32::to_string).collect::<Vec<_>>().join(",")),
            of(&|r| depths(&r.planned.plan)),
            of(&|r| r.planned.plan.micro_batch_size.to_string()),
            of(&|r| r.planned.plan.recompute.to_string()),
        ]);
    }
    align_right(&mut table, [1, 2, 3, 4, 5, 8]);
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    trimmed(&table) + "\n"
}

/// The figures of several planners, one column each.
fn figures(compared: &[ComparedPlanner<'_>]) -> Grid {
    let mut grid = Grid {
        corner: "planner",
        names: compared.iter().map(|compared| compared.planner.to_owned()).collect(),
        rows: Vec::new(),
    };
    let of = |f: &dyn Fn(&PlanReport<'_>) -> Option<f64>| {
        compared.iter().map(|c| c.result.as_ref().ok().and_then(f)).collect::<Vec<_>>()
    };
    let text = |f: &dyn Fn(&PlanReport<'_>) -> String| {
        compared.iter().map(|c| c.result.as_ref().map_or_else(|_| ABSENT.to_owned(), f)).collect::<Vec<_>>()
    };
    grid.row("tokens/s", Best::Highest, &of(&|r| r.tokens_per_s()), figure);
    grid.row("predicted iteration", Best::Lowest, &of(&|r| Some(r.planned.predicted_iteration_s)), format_seconds);
    grid.row("lower bound", Best::Neither, &of(&|r| Some(r.planned.lower_bound_s)), format_seconds);
    grid.row("gap", Best::Neither, &of(&|r| Some(r.planned.gap)), percent);
    grid.row("planning time", Best::Neither, &of(&|r| Some(r.planning_s)), format_seconds);
    grid.row("GPUs in use", Best::Neither, &of(&|r| Some(r.planned.plan.world_size() as f64)), scaled);
    grid.text_row("tensor parallel", text(&|r| r.planned.plan.tensor_parallel_text()));
    grid.text_row("replicas", text(&|r| r.planned.plan.replicas.len().to_string()));
    grid.text_row("stages, by replica", text(&|r| depths(&r.planned.plan)));
    grid.text_row("micro batches, by replica", text(&|r| micro_batches(&r.planned.plan)));
    grid.text_row("micro batch size", text(&|r| r.planned.plan.micro_batch_size.to_string()));
    grid.text_row("recomputation", text(&|r| r.planned.plan.recompute.to_string()));
    grid.text_row("fullest GPU", text(&|r| r.fullest().as_ref().map_or_else(String::new, memory)));
    grid
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;
    use crate::report::plan_report::tests::report;

    #[test]
    fn planners_stand_side_by_side() {
        let (het, flat) = (fixture::planned(true), fixture::planned(false));
        let compared = [
            ComparedPlanner { planner: "autohet", result: Ok(report(&het)) },
            ComparedPlanner { planner: "megatron", result: Ok(report(&flat)) },
            ComparedPlanner { planner: "whale", result: Err("no plan fits: needs 213 GB".to_owned()) },
        ];
        insta::assert_snapshot!(comparison_table(&compared, Screen::PLAIN), @r"
        ─────────────────────────────────────────────────────────────────
         planner                          autohet       megatron   whale
        ─────────────────────────────────────────────────────────────────
         tokens/s                           4,096          3,277       -
         predicted iteration               8.00 s        10.00 s       -
         lower bound                       6.40 s         8.00 s       -
         gap                               25.0 %         25.0 %       -
         planning time                   125.0 ms       125.0 ms       -
         GPUs in use                            6              4       -
         tensor parallel                        2              2       -
         replicas                               2              1       -
         stages, by replica                  2, 1              2       -
         micro batches, by replica          10, 6             16       -
         micro batch size                       1              1       -
         recomputation                  selective      selective       -
         fullest GPU                 15.3/34.4 GB   10.8/85.9 GB       -
        ─────────────────────────────────────────────────────────────────

        whale: no plan fits: needs 213 GB
        ");
    }

    #[test]
    fn many_planners_have_a_row_each() {
        let planned = fixture::planned(true);
        let compared = ["autohet", "megatron", "whale", "varuna", "metis"]
            .map(|planner| ComparedPlanner { planner, result: Ok(report(&planned)) });
        let table = comparison_table(&compared, Screen::PLAIN);
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
        assert_eq!(table.lines().filter(|line| line.contains("8.00 s")).count(), 5, "{table}");
    }

    #[test]
    fn markdown_and_csv_have_what_the_table_has() {
        let planned = fixture::planned(true);
        let compared = [
            ComparedPlanner { planner: "autohet", result: Ok(report(&planned)) },
            ComparedPlanner { planner: "whale", result: Err("no plan fits: \"needs\" 213 GB".to_owned()) },
        ];
        let markdown = comparison_markdown(&compared);
        assert!(
            markdown.starts_with("| planner | autohet | whale |\n|---|---:|---:|\n| tokens/s | 4,096 | - |\n"),
            "{markdown}"
        );
        let csv = comparison_csv(&compared);
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines[1], "autohet,4096,8,6.4,0.25,0.125,6,\"2\",2,1,selective,");
        assert_eq!(lines[2], "whale,,,,,,,,,,,\"no plan fits: \"\"needs\"\" 213 GB\"");
    }
}
