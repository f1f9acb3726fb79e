//! Files to write where something else than a file stands, and names that are given twice.

use crate::support::Sandbox;
use rstest::rstest;
use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::process::Command;

const PLAN: [&str; 5] = ["plan", "--cluster", "8xT4", "--model", "bert-large"];
const GENERATE: [&str; 5] = ["trace", "generate", "--pool", "2x8xT4", "--hours=2"];

#[rstest]
#[case::as_it_stands("same.json", "same.json")]
#[case::another_spelling("same.json", "./folder/../same.json")]
#[case::a_link("same.json", "link.json")]
#[case::a_device("/dev/null", "/dev/null")]
fn one_path_for_two_files(#[case] out: &str, #[case] perfetto: &str) {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("folder")).unwrap();
    symlink("same.json", sandbox.path("link.json")).unwrap();
    let args = [&PLAN[..], &["--out", out, "--perfetto", perfetto]].concat();
    sandbox.refuses(&args, &["`--out` and `--perfetto` both name", perfetto]);
}

#[test]
fn a_link_stays_and_what_it_points_to_is_written() {
    let sandbox = Sandbox::new().file("old.json", "old");
    symlink("old.json", sandbox.path("to-old")).unwrap();
    symlink("new.json", sandbox.path("to-new")).unwrap();
    symlink("to-new", sandbox.path("to-link")).unwrap();
    fs::set_permissions(sandbox.path("old.json"), fs::Permissions::from_mode(0o600)).unwrap();
    let ran = sandbox.run(&[&PLAN[..], &["--out", "to-old", "--perfetto", "to-link"]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    for link in ["to-old", "to-new", "to-link"] {
        assert!(sandbox.path(link).is_symlink(), "{link}");
    }
    assert!(sandbox.read("old.json").contains("schema_version"));
    assert!(sandbox.read("new.json").contains("traceEvents"));
    assert_eq!(fs::metadata(sandbox.path("old.json")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(sandbox.listing().len(), 5);
}

#[test]
fn a_full_disk_behind_stdout_is_named_with_a_hint() {
    if !std::path::Path::new("/dev/full").exists() {
        return;
    }
    // Opened for writing and never renamed or removed.
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let sandbox = Sandbox::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_autohet-sim"));
    let ran = command.current_dir(sandbox.path(".")).args(GENERATE).stdout(full).output().unwrap();
    let message = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(2), "{message}");
    assert!(message.starts_with("error: cannot write to stdout: No space left"), "{message}");
    assert!(message.contains("\nhint: free some disk space"), "{message}");
}

#[test]
fn an_error_that_nobody_reads_is_still_told_by_the_exit_code() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_autohet-sim"));
    let status = command.args(["plan", "--cluster", "1x1xFOO", "--model", "x"]).stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(2));
}

#[test]
fn a_circle_of_links_is_refused() {
    let sandbox = Sandbox::new();
    symlink("b", sandbox.path("a")).unwrap();
    symlink("a", sandbox.path("b")).unwrap();
    sandbox.refuses(&[&GENERATE[..], &["--out", "a"]].concat(), &["cannot write `a`", "too many links"]);
}

#[test]
fn a_pipe_is_written_into_and_stays() {
    let sandbox = Sandbox::new();
    let pipe = sandbox.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Opened for both directions it never waits for the other side; a pipe holds at least 4 KiB.
    let held = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let ran = sandbox.run(&[&GENERATE[..], &["--out", "pipe"]].concat());
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""));
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
    let expected = sandbox.run(&GENERATE).stdout;
    let mut written = vec![0; expected.len()];
    std::io::Read::read_exact(&mut &held, &mut written).unwrap();
    assert_eq!(String::from_utf8(written).unwrap(), expected);
}

#[test]
fn an_error_names_the_file_that_was_asked_for() {
    let sandbox = Sandbox::new();
    let args = [&GENERATE[..], &["--out", "none/t.csv"]].concat();
    sandbox.refuses(&args, &["cannot write `none/t.csv`: No such file or directory (os error 2)\n"]);
}
