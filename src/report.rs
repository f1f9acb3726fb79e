//! What people and machines read: a finished [`Replay`](crate::replay::Replay), plans and simulated iterations, as tables,
//! JSON, CSV, a figure and a timeline.
//!
//! Everything here is a pure function from outcomes to bytes, and gives the same bytes for the same outcomes. The one
//! exception is [`ResultsFolder`], which puts those bytes on disk, all of them or none.

mod accuracy;
mod across;
mod canvas;
mod capacity_panel;
mod costs_csv;
mod error;
mod figures;
#[cfg(test)]
mod fixture;
mod front_chart;
mod gantt;
mod html;
mod iteration;
mod ledger_csv;
mod loss_chart;
mod movement;
mod palette;
mod panel;
mod peer;
mod perfetto;
mod plan_drawing;
mod plan_report;
mod plans_jsonl;
mod records;
mod recoveries_csv;
mod recovery_comparison;
mod rented;
mod reproduction;
mod results_folder;
mod summary;
mod svg;
mod sweep;
mod table;
mod throughput_chart;
mod timeline_csv;
mod trace_chart;
mod variation;

pub use accuracy::{accuracy_csv, accuracy_json, accuracy_markdown, accuracy_svg, accuracy_table};
pub use across::{AcrossRow, across_json, across_records, across_table, interval_table};
pub use costs_csv::costs_csv;
pub use error::ReportError;
pub use front_chart::{FrontPoint, front_svg};
pub use gantt::gantt_svg;
pub use html::{PlanPage, ReplayPage, plan_html, replay_html, sweep_html};
pub use iteration::{IterationReport, iteration_json};
pub use ledger_csv::ledger_csv;
pub use loss_chart::{LossMark, LossPoint, MarkKind, loss_svg};
pub use movement::{movement_json, movement_text};
pub use peer::{PeerRow, peer_csv, peer_records, peer_table};
pub use perfetto::perfetto_json;
pub use plan_report::{ComparedPlanner, PlanReport, StageFootprint, comparison_json, plan_json, plan_records};
pub use plans_jsonl::plans_jsonl;
pub use records::Records;
pub use recoveries_csv::recoveries_csv;
pub use recovery_comparison::{
    LostState, Recovered, RecoveryCase, RecoveryComparison, recovery_csv, recovery_markdown, recovery_svg,
    recovery_table,
};
pub use rented::{rented_json, rented_records, unlike};
pub use reproduction::{
    ReproducedCase, ReproducedPlan, Reproduction, reproduction_csv, reproduction_markdown, reproduction_svg,
    reproduction_table,
};
pub use results_folder::ResultsFolder;
pub use summary::{PolicySummary, SUMMARY_SCHEMA, SUMMARY_SCHEMA_VERSION, Summary, SummaryInputs, TraceSummary};
pub use sweep::{
    Baseline, Better, Change, GateOutcome, SweepChart, SweepKind, SweepOutcome, SweepRow, SweepStatus, SweepTable,
    SweepTableError, Tolerance, better, compare_keys, compare_with_baseline, gate_junit, gate_markdown, gate_text,
    rounded, sweep_markdown, sweep_svg, sweep_table,
};
pub use table::{
    Screen, TraceLaws, comparison_csv, comparison_markdown, comparison_table, explanation_text, fitting_changes_text,
    iteration_table, plan_heading, plan_table, policy_table, rented_table, statistics_records, statistics_table,
};
pub use throughput_chart::throughput_svg;
pub use timeline_csv::timeline_csv;
pub use trace_chart::trace_svg;
pub use variation::{variation_json, variation_text};
