//! Predictions beside measurements: JSON, table, Markdown, CSV and a figure.

mod markdown;
mod scatter;

pub use markdown::accuracy_markdown;
pub use scatter::accuracy_svg;

use super::Screen;
use super::figures::{or_absent, percent};
use super::table::error_rows;
use crate::measured::{Accuracy, Errors, Record};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// Version of the JSON.
const SCHEMA_VERSION: u32 = 1;

/// Everything as JSON: by source and for `time` and `memory`, statistics and records, then what was skipped. Errors are
/// fractions of the measured value.
pub fn accuracy_json(accuracy: &Accuracy) -> Value {
    let mut sources = Map::new();
    for (name, source) in &accuracy.sources {
        let [time, memory] = source.errors();
        let mut entry = Map::new();
        for (key, errors, records) in [("time", time, &source.time), ("memory", memory, &source.memory)] {
            if let Some(errors) = errors {
                entry.insert(key.to_owned(), with_records(&errors, records));
            }
        }
        sources.insert(name.clone(), Value::Object(entry));
    }
    let reasons: Map<String, Value> =
        accuracy.reasons().into_iter().map(|(reason, count)| (reason.to_owned(), count.into())).collect();
    json!({
        "schema_version": SCHEMA_VERSION,
        "sources": sources,
        "skipped": { "count": accuracy.skipped.len(), "reasons": reasons, "records": accuracy.skipped },
    })
}

fn with_records(errors: &Errors, records: &[Record]) -> Value {
    let mut value = json!(errors);
    if let Value::Object(entry) = &mut value {
        entry.insert("records".to_owned(), json!(records));
    }
    value
}

/// The errors of all sources for people, and what was skipped.
pub fn accuracy_table(accuracy: &Accuracy, screen: Screen) -> String {
    let mut text = error_rows(rows(accuracy).into_iter(), screen) + "\n";
    if !accuracy.skipped.is_empty() {
        writeln!(text, "\n{} records without a prediction:", accuracy.skipped.len()).expect(NEVER);
        for (reason, count) in accuracy.reasons() {
            writeln!(text, "{count:>5}  {reason}").expect(NEVER);
        }
    }
    text
}

/// Every record as CSV.
pub fn accuracy_csv(accuracy: &Accuracy) -> String {
    let mut text = String::from("source,id,kind,model,gpus,gpu_types,measured,predicted,error,profiled,unconfirmed\n");
    for record in accuracy.records() {
        let Record { source, id, kind, model, gpus, measured, predicted, error, profiled, unconfirmed, .. } = record;
        let (model, types) = (model.replace([',', '"', '\n'], " "), record.gpu_types.join("+"));
        let id = id.replace([',', '"', '\n'], " ");
        writeln!(
            text,
            "{source},{id},{kind},{model},{gpus},{types},{measured},{predicted},{error},{profiled},{unconfirmed}"
        )
        .expect(NEVER);
    }
    text
}

const NEVER: &str = "writing to a string doesn't fail";

/// A row for the times and one for the memory of each source, where there are some.
fn rows(accuracy: &Accuracy) -> Vec<[String; 9]> {
    let mut rows = Vec::new();
    for (name, source) in &accuracy.sources {
        for (what, errors) in ["time", "memory"].into_iter().zip(source.errors()) {
            let Some(errors) = errors else { continue };
            rows.push([
                name.clone(),
                what.to_owned(),
                errors.count.to_string(),
                percent(errors.mape),
                percent(errors.median),
                percent(errors.p90),
                percent(errors.max),
                format!("{:+.1} %", errors.bias * 100.0),
                or_absent(errors.rank_correlation, |rho| format!("{rho:.3}")),
            ]);
        }
    }
    rows
}
