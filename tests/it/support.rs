//! A folder of its own for each test, and the program run in it.

use assert_cmd::Command;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Two nodes, a loss with notice, a return as another type, a loss without notice.
pub const SMALL_TRACE: &str = "\
time_s,event,node,gpu_type,gpu_count,zone,price_usd_per_hour,notice_s
0,up,a,T4,4,z1,1.5,
0,up,b,T4,4,z1,1.5,
600,notice,b,,,,,
720,down,b,,,,,
1200,up,b,V100-16,4,z2,4,
1800,down,a,,,,,
2400,down,b,,,,,
";

/// A folder with files for one test.
pub struct Sandbox {
    folder: TempDir,
}

/// How a run ended.
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Sandbox {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A sandbox with [`SMALL_TRACE`] as `small.csv`.
    pub fn with_small_trace() -> Self {
        Self::new().file("small.csv", SMALL_TRACE)
    }

    /// Puts a file in it.
    pub fn file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        fs::write(self.path(name), content).unwrap();
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Runs `autohet-sim` in the folder. A run that hangs is killed and has no code.
    pub fn run<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> Ran {
        self.run_with(args, &[])
    }

    pub fn run_with<S: AsRef<std::ffi::OsStr>>(&self, args: &[S], environment: &[(&str, &str)]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_autohet-sim"));
        command.current_dir(self.folder.path()).args(args).timeout(Duration::from_mins(1));
        let output = command.envs(environment.iter().copied()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Every file and folder below it.
    pub fn listing(&self) -> Vec<PathBuf> {
        listing(self.folder.path())
    }

    /// Runs and expects exit 2 with one error of ours that holds all `parts`, and nothing else to have happened.
    pub fn refuses(&self, args: &[&str], parts: &[&str]) {
        self.ends_badly(args, 2, parts);
    }

    /// As [`Self::refuses`] with another exit code.
    pub fn ends_badly(&self, args: &[&str], code: i32, parts: &[&str]) {
        let before = self.listing();
        let ran = self.run(args);
        let shown = format!("{args:?} ended with {:?}\n{}", ran.code, ran.stderr);
        assert_eq!(ran.code, Some(code), "{shown}");
        assert_eq!(ran.stdout, "", "{shown}");
        assert_eq!(ran.stderr.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{shown}");
        assert_eq!(ran.stderr.matches("\nhint: ").count(), 1, "{shown}");
        for part in parts {
            assert!(ran.stderr.contains(part), "`{part}` isn't in what {shown}");
        }
        for crash in ["panicked", "backtrace", "src/", "Caused by"] {
            assert!(!ran.stderr.contains(crash), "{shown}");
        }
        assert_eq!(self.listing(), before, "{args:?} left something behind");
    }
}

fn listing(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(listing(&path));
        }
        found.push(path);
    }
    found.sort();
    found
}
