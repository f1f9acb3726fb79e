//! What a sweep leaves behind: rows, a chart, and what it was.

use super::hash::hash;
use super::{PROGRAM, Shard, SweepError, SweepFile, key_text};
use crate::report::{
    GateOutcome, ReportError, ResultsFolder, SweepChart, SweepKind, SweepRow, SweepStatus, SweepTable, compare_keys,
    sweep_html, sweep_svg,
};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Version of the layout of `summary.json` and of the journal.
const SCHEMA_VERSION: u32 = 1;

/// What rows are of: rows of unlike headers don't belong together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) schema_version: u32,
    pub(super) name: String,
    pub(super) kind: SweepKind,
    pub(super) axes: Vec<String>,
    /// A hash of what the sweep file says, and of what is in the files that its runs read.
    pub(super) sweep: String,
    /// The program that made the rows.
    pub(super) program: String,
    /// Runs of the whole sweep.
    pub(super) runs: usize,
    /// The part of it, where it is one.
    pub(super) shard: Option<String>,
}

impl Header {
    pub(super) fn new(sweep: &SweepFile, runs: usize, shard: Option<Shard>) -> Self {
        // Comments and blanks aside.
        let said = toml::from_str::<toml::Table>(&sweep.text).map(|table| table.to_string());
        let said = said.unwrap_or_else(|_| sweep.text.clone());
        Self {
            schema_version: SCHEMA_VERSION,
            name: sweep.name.clone(),
            kind: sweep.kind,
            axes: sweep.axes.clone(),
            sweep: format!("{:032x}", hash(&[said.as_bytes(), sweep.inputs.as_bytes()])),
            program: PROGRAM.to_owned(),
            runs,
            shard: shard.filter(|shard| !shard.is_whole()).map(|shard| shard.to_string()),
        }
    }
}

/// `summary.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SweepSummary {
    #[serde(flatten)]
    pub(super) header: Header,
    ok: usize,
    infeasible: usize,
    error: usize,
}

/// All rows of a sweep, or of a shard of it.
#[derive(Clone, Debug)]
pub struct SweepResults {
    pub(super) header: Header,
    /// The rows.
    pub table: SweepTable,
    /// The sweep file.
    pub(super) text: String,
}

impl SweepResults {
    /// The rows of a sweep of so many runs.
    pub fn new(sweep: &SweepFile, runs: usize, shard: Option<Shard>, rows: Vec<SweepRow>) -> Self {
        let header = Header::new(sweep, runs, shard);
        let table = SweepTable::new(sweep.kind, sweep.axes.clone(), rows);
        Self { header, table, text: sweep.text.clone() }
    }

    /// Name of the sweep.
    pub fn name(&self) -> &str {
        &self.header.name
    }

    /// The results as one page of HTML, with what a comparison with a baseline found.
    pub fn html(&self, gate: Option<&GateOutcome>) -> String {
        sweep_html(self.name(), &self.table, gate, &self.text)
    }

    /// Writes the folder, whole or not at all.
    pub fn write(&self, out: &Path) -> Result<PathBuf, ReportError> {
        let folder = ResultsFolder::create(out)?;
        let count = |status| self.table.count(status);
        // Only who merges shards must know the very sources; results that are kept would change with each of them.
        let program = match self.header.shard {
            Some(_) => self.header.program.clone(),
            None => env!("CARGO_PKG_VERSION").to_owned(),
        };
        let summary = SweepSummary {
            header: Header { program, ..self.header.clone() },
            ok: count(SweepStatus::Ok),
            infeasible: count(SweepStatus::Infeasible),
            error: count(SweepStatus::Error),
        };
        let summary = serde_json::to_string_pretty(&summary).expect("a summary has names and numbers only");
        folder.write("summary.json", summary + "\n")?;
        folder.write("rows.csv", self.table.csv())?;
        folder.write("rows.jsonl", self.table.json_lines())?;
        folder.write("sweep.toml", &self.text)?;
        if let Some(chart) = SweepChart::of(&self.table) {
            folder.write("sweep.svg", sweep_svg(self.name(), &self.table, &chart))?;
        }
        folder.commit()
    }

    /// Reads a folder that [`write`](Self::write) has written.
    pub(super) fn read(folder: &Path) -> Result<Self, SweepError> {
        let text = |name: &str| {
            let path = folder.join(name);
            crate::input::read_text(&path).map_err(|source| SweepError::read(path, source))
        };
        let refused = |problem: String| SweepError::Rows {
            path: folder.to_owned(),
            problem,
            hint: "name folders that `autohet-sim sweep --shard` has written",
        };
        let summary: SweepSummary = serde_json::from_str(&text("summary.json")?)
            .map_err(|error| refused(format!("has no summary of a sweep: {error}")))?;
        let header = summary.header;
        let mut rows = Vec::new();
        for (number, line) in (1..).zip(text("rows.jsonl")?.lines()) {
            let row = SweepTable::row_of_line(&header.axes, line);
            rows.push(row.ok_or_else(|| refused(format!("has no row of the sweep in line {number} of `rows.jsonl`")))?);
        }
        let table = SweepTable::new(header.kind, header.axes.clone(), rows);
        if let Some(pair) = table.rows.windows(2).find(|pair| compare_keys(&pair[0].key, &pair[1].key).is_eq()) {
            return Err(refused(format!("has the row {} twice", key_text(&pair[0].key))));
        }
        Ok(Self { header, table, text: text("sweep.toml")? })
    }
}
