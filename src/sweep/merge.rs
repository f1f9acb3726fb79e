//! Shards put together: what the whole sweep would have given.

use super::results::Header;
use super::{SweepError, SweepResults, key_text};
use crate::report::{SweepTable, compare_keys};
use std::path::PathBuf;

/// The results of a sweep from those of its shards.
///
/// # Errors
/// Where a folder isn't a shard of the same sweep by the same program, a row is in two of them, or rows are missing.
pub fn merge(folders: &[PathBuf]) -> Result<SweepResults, SweepError> {
    let mut shards = folders.iter().map(|folder| Ok((folder, SweepResults::read(folder)?)));
    let Some((first, mut whole)) = shards.next().transpose()? else {
        return Err(SweepError::Shard { problem: "no shards to merge are named".to_owned() });
    };
    let mut rows = std::mem::take(&mut whole.table.rows);
    whole.header.shard = None;
    for shard in shards {
        let (folder, SweepResults { header, table, .. }) = shard?;
        if (Header { shard: None, ..header.clone() }) != whole.header {
            let why = if header.program == whole.header.program { "sweep" } else { "version of the program" };
            let problem = format!("isn't of the same {why} as `{}`", first.display());
            return Err(refused(folder.clone(), problem, "name the shards of one sweep, made by one program"));
        }
        rows.extend(table.rows);
    }
    let table = SweepTable::new(whole.header.kind, whole.header.axes.clone(), rows);
    if let Some(pair) = table.rows.windows(2).find(|pair| compare_keys(&pair[0].key, &pair[1].key).is_eq()) {
        let problem = format!("and another folder both have the row {}", key_text(&pair[0].key));
        return Err(refused(first.clone(), problem, "name each shard once"));
    }
    let missing = whole.header.runs.saturating_sub(table.rows.len());
    if missing > 0 {
        let problem = format!("and the others lack {missing} of {} rows", whole.header.runs);
        return Err(refused(first.clone(), problem, "name all shards; `--resume` finishes one that was interrupted"));
    }
    Ok(SweepResults { table, ..whole })
}

fn refused(path: PathBuf, problem: String, hint: &'static str) -> SweepError {
    SweepError::Rows { path, problem, hint }
}
