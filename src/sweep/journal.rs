//! Rows as they end, so that what was done before an interruption isn't done again.

use super::results::Header;
use super::{Shard, SweepError, SweepFile};
use crate::report::{SweepRow, SweepTable};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A file of JSON lines: the first says what the rows are of, each further one is a row.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    axes: Vec<String>,
}

impl Journal {
    /// Where the journal of results at `out` is: beside them, because they appear at once when all is done.
    pub fn path_for(out: &Path) -> PathBuf {
        let mut name = out.file_name().unwrap_or_default().to_owned();
        name.push(".journal.jsonl");
        out.with_file_name(name)
    }

    /// Begins a journal, or goes on with the one that is there, whose rows are given back. A last line that was cut short
    /// is dropped.
    ///
    /// # Errors
    /// Where the file can't be used, or its rows are those of another sweep, shard or program.
    pub fn open(
        path: &Path,
        sweep: &SweepFile,
        runs: usize,
        shard: Option<Shard>,
        is_resumed: bool,
    ) -> Result<(Self, Vec<SweepRow>), SweepError> {
        let header = Header::new(sweep, runs, shard);
        if !is_resumed && !is_ours(path) {
            return Err(SweepError::Rows {
                path: path.to_owned(),
                problem: "isn't the journal of a sweep, and would be written over".to_owned(),
                hint: "name another `--out`",
            });
        }
        // Read before the file is touched, so that one which isn't ours stays as it is; and again once nobody else writes.
        if is_resumed {
            read(path, &header)?;
        }
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(|source| SweepError::write(folder, source))?;
        }
        let failed = |source| SweepError::write(path, source);
        let file = locked(path)?;
        let rows = if is_resumed { read(path, &header)? } else { Vec::new() };
        file.set_len(0).map_err(failed)?;
        let mut journal = Self { path: path.to_owned(), file, axes: sweep.axes.clone() };
        let first = serde_json::to_string(&header).expect("a header has names and numbers only") + "\n";
        let known = rows.iter().map(|row| SweepTable::json_line(&journal.axes, row) + "\n");
        let text: String = std::iter::once(first).chain(known).collect();
        journal.write(&text)?;
        Ok((journal, rows))
    }

    /// Adds a row.
    pub fn add(&mut self, row: &SweepRow) -> Result<(), SweepError> {
        let line = SweepTable::json_line(&self.axes, row) + "\n";
        self.write(&line)
    }

    fn write(&mut self, text: &str) -> Result<(), SweepError> {
        self.file.write_all(text.as_bytes()).map_err(|source| SweepError::write(&self.path, source))
    }

    /// Removes it: the results are where they belong.
    pub fn remove(self) {
        drop(fs::remove_file(&self.path));
    }
}

/// The journal, which no other process writes while this one lives: the lock goes with the process, however it ends.
fn locked(path: &Path) -> Result<File, SweepError> {
    let failed = |source| SweepError::write(path, source);
    let open = || OpenOptions::new().create(true).write(true).truncate(false).open(path);
    loop {
        let file = open().map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(SweepError::Rows {
                    path: path.to_owned(),
                    problem: "is being written by another sweep".to_owned(),
                    hint: "wait for it, or name another `--out`",
                });
            }
            // A file system without locks has to do without.
            Err(TryLockError::Error(error)) if error.kind() == std::io::ErrorKind::Unsupported => return Ok(file),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        // Who held it before may have been done, and removed it, between opening and locking.
        if is_there(&file, path) {
            return Ok(file);
        }
    }
}

/// Whether a file that is open is the one at the path.
#[cfg(unix)]
fn is_there(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    file.metadata().map(id).ok() == fs::metadata(path).map(id).ok()
}

#[cfg(not(unix))]
fn is_there(_: &File, path: &Path) -> bool {
    path.exists()
}

/// Whether there is nothing at the path, or a journal.
fn is_ours(path: &Path) -> bool {
    let Ok(text) = fs::read(path) else { return true };
    let text = String::from_utf8_lossy(&text);
    // One that was cut in its first line has no end of it.
    text.split_once('\n').is_none_or(|(first, _)| serde_json::from_str::<Header>(first).is_ok())
}

/// The rows of a journal; none where there is no journal.
fn read(path: &Path, header: &Header) -> Result<Vec<SweepRow>, SweepError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(SweepError::read(path, source)),
    };
    let text = String::from_utf8_lossy(&bytes);
    // What follows the last end of a line was being written when it was cut.
    let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    let mut lines = whole.lines();
    let refused = |problem: &str| SweepError::Rows {
        path: path.to_owned(),
        problem: problem.to_owned(),
        hint: "leave out `--resume` to begin anew, or name another `--out`",
    };
    match lines.next().map(serde_json::from_str::<Header>) {
        None => return Ok(Vec::new()),
        Some(Ok(theirs)) if theirs == *header => {}
        Some(Ok(theirs)) if theirs.program != header.program => {
            return Err(refused("has rows of another version of the program"));
        }
        Some(Ok(theirs)) if theirs.shard != header.shard => return Err(refused("has rows of another shard")),
        Some(Ok(_)) => return Err(refused("has rows of another sweep, or the sweep file was changed since")),
        Some(Err(_)) => return Err(refused("isn't the journal of a sweep")),
    }
    let rows = lines.map(|line| SweepTable::row_of_line(&header.axes, line)).collect::<Option<Vec<_>>>();
    rows.ok_or_else(|| refused("has a line that is no row of this sweep"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{SweepOutcome, SweepStatus};

    fn sweep(batch: u32) -> SweepFile {
        let text = format!("[scenario]\ncluster = \"1x8xT4\"\n[grid]\ntraining.global_batch_size = [8, {batch}]\n");
        SweepFile::parse(&text, "s", "s.toml").unwrap()
    }

    fn row(batch: u32) -> SweepRow {
        let outcome = SweepOutcome::without_figures(SweepStatus::Infeasible, "größer");
        SweepRow { key: vec![batch.into(), "autohet".into()], outcome }
    }

    #[test]
    fn rows_survive_a_cut_at_any_byte() {
        let place = tempfile::tempdir().unwrap();
        let path = Journal::path_for(&place.path().join("out"));
        let (mut journal, rows) = Journal::open(&path, &sweep(16), 2, None, true).unwrap();
        assert_eq!(rows, []);
        for batch in [8, 16] {
            journal.add(&row(batch)).unwrap();
        }
        drop(journal);
        let whole = fs::read(&path).unwrap();
        for cut in 0..=whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let (_, rows) = Journal::open(&path, &sweep(16), 2, None, true).unwrap();
            let ends = whole[..cut].split(|byte| *byte == b'\n').count() - 1;
            assert_eq!(rows.len(), ends.saturating_sub(1), "cut at {cut}");
        }
        fs::write(&path, &whole).unwrap();
        let (_, rows) = Journal::open(&path, &sweep(16), 2, None, true).unwrap();
        assert_eq!(rows, [row(8), row(16)]);
    }

    #[test]
    fn one_sweep_at_a_time_writes_a_journal() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("j.jsonl");
        let (mut first, _) = Journal::open(&path, &sweep(16), 2, None, false).unwrap();
        first.add(&row(8)).unwrap();
        for is_resumed in [false, true] {
            let error = Journal::open(&path, &sweep(16), 2, None, is_resumed).unwrap_err().to_string();
            assert!(error.contains("is being written by another sweep") && error.contains("\nhint: "), "{error}");
        }
        drop(first);
        let (second, rows) = Journal::open(&path, &sweep(16), 2, None, true).unwrap();
        assert_eq!(rows, [row(8)]);
        second.remove();
        assert!(!path.exists());
    }

    #[test]
    fn what_is_no_journal_is_kept() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("j.jsonl");
        fs::write(&path, "precious\n").unwrap();
        let error = Journal::open(&path, &sweep(16), 2, None, false).unwrap_err().to_string();
        assert!(error.contains("isn't the journal of a sweep") && error.contains("\nhint: "), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"precious\n");
    }

    #[test]
    fn edited_rows_and_rows_of_other_inputs_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("j.jsonl");
        let (mut journal, _) = Journal::open(&path, &sweep(16), 2, None, false).unwrap();
        journal.add(&row(8)).unwrap();
        let mut other = sweep(16);
        other.inputs = "another trace".to_owned();
        let error = Journal::open(&path, &other, 2, None, true).unwrap_err().to_string();
        assert!(error.contains("has rows of another sweep"), "{error}");
        fs::write(&path, fs::read_to_string(&path).unwrap() + "garbage\n").unwrap();
        let error = Journal::open(&path, &sweep(16), 2, None, true).unwrap_err().to_string();
        assert!(error.contains("has a line that is no row"), "{error}");
    }

    #[test]
    fn rows_of_something_else_are_not_taken() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("j.jsonl");
        drop(Journal::open(&path, &sweep(16), 2, None, false).unwrap());
        let message = |result: Result<(Journal, Vec<SweepRow>), SweepError>| result.unwrap_err().to_string();
        assert!(message(Journal::open(&path, &sweep(32), 2, None, true)).contains("another sweep"));
        let shard = Some("1/2".parse().unwrap());
        assert!(message(Journal::open(&path, &sweep(16), 2, shard, true)).contains("another shard"));
        fs::write(&path, "hello\n").unwrap();
        assert!(message(Journal::open(&path, &sweep(16), 2, None, true)).contains("isn't the journal"));
    }
}
