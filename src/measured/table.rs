//! The table of measured runs: a CSV with a row for each figure.

mod job;
mod row;

use super::dataset::{Placed, source_of};
use super::{MeasuredError, MeasuredRun, MemoryScope, Quantity, Reading, Skip};
use crate::units::format_number;
use row::{Columns, Row};

/// Columns without which it isn't such a table.
const NEEDED: [&str; 5] = ["id", "gpu", "n_gpus", "metric", "value"];
const GIB: f64 = (1_u64 << 30) as f64;

/// Reads all rows.
pub(super) fn read(text: &str, path: &str) -> Result<Vec<Placed>, MeasuredError> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let broken = |error: &csv::Error| {
        let line = error.position().map_or(1, csv::Position::line);
        MeasuredError::Csv { path: path.to_owned(), line, problem: csv_problem(error) }
    };
    let header = reader.headers().map_err(|error| broken(&error))?.clone();
    let columns = Columns::new(&header);
    if let Some(missing) = NEEDED.iter().find(|name| !columns.has(name)) {
        let begins: String = text.trim_start().chars().take(40).collect();
        let begins = begins.lines().next().unwrap_or_default().to_owned();
        let problem = if begins.is_empty() {
            "it is empty".to_owned()
        } else {
            format!("it begins with `{begins}` and has no column `{missing}`")
        };
        return Err(MeasuredError::Format { path: path.to_owned(), problem });
    }
    let mut records = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| broken(&error))?;
        let line = record.position().map_or(0, csv::Position::line);
        let row = Row { path, line, columns: &columns, record: &record };
        records.push(Placed { line, reading: reading(&row)? });
    }
    Ok(records)
}

fn csv_problem(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("the row has {len} cells, expected {expected_len}")
        }
        csv::ErrorKind::Utf8 { .. } => "not UTF-8 text".to_owned(),
        _ => error.to_string(),
    }
}

/// What becomes of a row: an error where a cell can't be, a skip where the run can't be told or isn't of a kind that is
/// simulated.
fn reading(row: &Row) -> Result<Reading, MeasuredError> {
    let id = row.text("id");
    if id.is_empty() {
        return Err(row.wrong("id", "a name", "give each run an id of its own"));
    }
    let source = source_of(id);
    let skip = |reason: String| Reading::Skipped(Skip { id: id.to_owned(), source: source.clone(), reason });
    if row.text("quality").eq_ignore_ascii_case("C") {
        return Ok(skip("quality C: anomalous or incomplete".to_owned()));
    }
    let mut measured = match figures(row)? {
        Ok(measured) => measured,
        Err(reason) => return Ok(skip(reason)),
    };
    let job = match job::read(row)? {
        Ok(job) => job,
        Err(reason) => return Ok(skip(reason)),
    };
    measured.retain(|(quantity, _)| quantity.is_time() || job.is_memory_known);
    if measured.is_empty() {
        return Ok(skip("memory of sharded weights isn't simulated".to_owned()));
    }
    Ok(Reading::Run(Box::new(MeasuredRun {
        id: id.to_owned(),
        source,
        is_unconfirmed: row.text("notes").contains("memory") || row.text("inter_link").contains("memory"),
        model: job.model,
        is_as_profiled: false,
        cluster: job.cluster,
        plan: job.plan,
        cost: job.cost,
        framework: job.framework,
        measured,
    })))
}

type Figures = Vec<(Quantity, f64)>;

/// The time that a row gives, the nearest to what was measured first, and its memory. `Err` says why none is of use.
fn figures(row: &Row) -> Result<Result<Figures, String>, MeasuredError> {
    let metric = row.text("metric").to_lowercase();
    let value = row.number("value")?;
    if metric == "did not run" || value.is_some_and(f64::is_infinite) {
        return Ok(Err("it did not run".to_owned()));
    }
    let mut found = Figures::new();
    if metric.starts_with("activation memory %") {
        found.extend(value.map(|percent| (Quantity::Memory(MemoryScope::ActivationShare), percent / 100.0)));
    } else {
        let flops = flops_kind(row.text("tflops_kind"));
        let times = [
            (Some(Quantity::IterationTime), "iter_time_s", 1.0),
            (Some(Quantity::TokensPerSecond), "tokens_s_gpu", 1.0),
            (flops, "tflops_gpu", 1e12),
        ];
        for (quantity, column, unit) in times {
            let given = row.number(column)?.filter(|number| number.is_finite());
            if let (Some(quantity), Some(number), true) = (quantity, given, found.is_empty()) {
                found.push((quantity, number * unit));
            }
        }
        if let Some(gigabytes) = row.number("mem_gb")? {
            let kind = row.text("mem_kind");
            let unit = if kind.contains("GiB") { GIB } else { 1e9 };
            let scope = memory_scope(kind);
            found.extend(scope.map(|scope| (Quantity::Memory(scope), gigabytes * unit)));
        }
    }
    if let Some((quantity, number)) = found.iter().find(|(_, number)| *number <= 0.0) {
        let found = format_number(*number);
        return Err(row.wrong_value(quantity.name(), &format!("`{found}`"), "a number above zero"));
    }
    Ok(if found.is_empty() { Err(format!("no time or memory in `{}`", row.text("metric"))) } else { Ok(found) })
}

/// Whether operations are those of the model or those of the hardware; `None` where the words don't say.
fn flops_kind(text: &str) -> Option<Quantity> {
    let text = text.to_lowercase();
    if text.starts_with("hardware") {
        // Eight operations a parameter and token is another count than the sum of products.
        (!text.contains("8*n")).then_some(Quantity::HardwareFlops)
    } else {
        text.starts_with("model").then_some(Quantity::ModelFlops)
    }
}

fn memory_scope(text: &str) -> Option<MemoryScope> {
    let text = text.to_lowercase();
    if text.contains("sum") {
        Some(MemoryScope::StateAndActivations)
    } else if text.contains("peak") {
        Some(MemoryScope::Allocated)
    } else {
        None
    }
}
