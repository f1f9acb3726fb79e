//! The results' `README.md`: the table, the figure, every record.

use super::super::figures::figure;
use super::super::table::ERROR_COLUMNS;
use super::{NEVER, rows};
use crate::measured::{Accuracy, Record};
use std::fmt::Write as _;

/// The results as Markdown; `command` is what wrote them.
pub fn accuracy_markdown(accuracy: &Accuracy, command: &str) -> String {
    let mut text = format!(
        "# Predictions beside measurements\n\n\
         Written by `{command}`. `records.csv` and `summary.json` have every record in full.\n\n\
         ![Predicted against measured](scatter.svg)\n\n\
         ## Errors by source\n\n\
         Errors are relative to the measured value: mean (MAPE), median, 90th percentile and largest of their absolute values,\n\
         and their signed mean (bias). *Rank corr.* is Spearman's coefficient over configurations of one model.\n\n"
    );
    writeln!(text, "| {} |\n|---|---|---:|---:|---:|---:|---:|---:|---:|", ERROR_COLUMNS.join(" | ")).expect(NEVER);
    for row in rows(accuracy) {
        writeln!(text, "| {} |", row.join(" | ")).expect(NEVER);
    }
    if !accuracy.skipped.is_empty() {
        write!(
            text,
            "\n## Not predicted\n\n{} records, in `summary.json` one by one:\n\n| records | why |\n|---:|---|\n",
            accuracy.skipped.len()
        )
        .expect(NEVER);
        for (reason, count) in accuracy.reasons() {
            writeln!(text, "| {count} | {reason} |").expect(NEVER);
        }
    }
    text.push_str(
        "\n## Every record\n\nTimes in seconds of an iteration, memory in GB (10⁹ bytes), shares of activation memory as \
         they are. A `?` behind an id: a field of the run is unconfirmed, mostly a link's bandwidth.\n\n\
         | run | what | model | GPUs | measured | predicted | error |\n|---|---|---|---|---:|---:|---:|\n",
    );
    accuracy.records().for_each(|record| write_record(&mut text, record));
    text
}

fn write_record(text: &mut String, record: &Record) {
    let unit = if record.kind.ends_with("memory") || record.kind == "state_and_activations" { 1e9 } else { 1.0 };
    let doubt = if record.unconfirmed { " ?" } else { "" };
    writeln!(
        text,
        "| {}{doubt} | {} | {} | {} {} | {} | {} | {:+.1} % |",
        record.id,
        record.kind.replace('_', " "),
        record.model,
        record.gpus,
        record.gpu_types.join(" + "),
        figure(record.measured / unit),
        figure(record.predicted / unit),
        record.error * 100.0
    )
    .expect(NEVER);
}
