//! Reading datasets, each in the format that its content shows.

use super::{MeasuredError, MeasuredRun, Reading, pipelines, table};
use crate::input;
use std::collections::BTreeSet;
use std::path::Path;

/// The records of one or several files, in their order.
///
/// A table of runs is a CSV whose header has at least `id`, `gpu`, `n_gpus`, `metric` and `value`; further columns that are
/// read: `quality`, `gpus_per_node`, `intra_link`, `inter_link`, `inter_gbps_per_node`, `model`, `layers`, `hidden`, `heads`,
/// `kv_heads`, `ffn`, `vocab`, `seq_len`, `precision`, `global_batch`, `micro_batch`, `tp`, `pp`, `vpp`, `dp`, `ep`, `cp`,
/// `sequence_parallel`, `recompute`, `zero`, `schedule`, `iter_time_s`, `tokens_s_gpu`, `tflops_gpu`, `tflops_kind`,
/// `mem_gb`, `mem_kind` and `notes`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Dataset {
    /// What became of each record.
    pub readings: Vec<Reading>,
}

/// A record and the line where it stands.
pub(super) struct Placed {
    pub(super) line: u64,
    pub(super) reading: Reading,
}

impl Dataset {
    /// Reads files, each in the format that its content shows.
    ///
    /// # Errors
    /// Where a file can't be read or is of no known format, where a value can't be, and where two records have one id.
    pub fn read<P: AsRef<Path>>(paths: &[P]) -> Result<Self, MeasuredError> {
        let mut all = Self::default();
        let mut ids = BTreeSet::new();
        for path in paths {
            let shown = path.as_ref().display().to_string();
            let text = input::read_text(path.as_ref())
                .map_err(|error| MeasuredError::Read { path: shown.clone(), problem: error.to_string() })?;
            for Placed { line, reading } in parse(&text, &shown)? {
                if !ids.insert(reading.id().to_owned()) {
                    return Err(MeasuredError::Twice { path: shown, line, id: reading.id().to_owned() });
                }
                all.readings.push(reading);
            }
        }
        Ok(all)
    }

    /// Reads the text of one file; `path` names it in errors.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn parse(text: &str, path: &str) -> Result<Self, MeasuredError> {
        Ok(Self { readings: parse(text, path)?.into_iter().map(|placed| placed.reading).collect() })
    }

    /// The records that can be executed.
    pub fn runs(&self) -> impl Iterator<Item = &MeasuredRun> {
        self.readings.iter().filter_map(|reading| match reading {
            Reading::Run(run) => Some(&**run),
            Reading::Skipped(_) => None,
        })
    }
}

fn parse(text: &str, path: &str) -> Result<Vec<Placed>, MeasuredError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let start = text.trim_start();
    let records = if start.starts_with(['{', '[']) { pipelines::read(text, path)? } else { table::read(text, path)? };
    if records.is_empty() {
        return Err(MeasuredError::Empty { path: path.to_owned() });
    }
    Ok(records)
}

impl Reading {
    /// The record's id.
    pub fn id(&self) -> &str {
        match self {
            Self::Run(run) => &run.id,
            Self::Skipped(skip) => &skip.id,
        }
    }
}

/// How an id begins: up to its second `/` where it has some, else up to its first `-`.
pub(super) fn source_of(id: &str) -> String {
    match id.match_indices('/').nth(1) {
        Some((end, _)) => id[..end].to_owned(),
        None => id.split('-').next().unwrap_or(id).to_owned(),
    }
}
