//! A process that dies takes the run with it, at once, and leaves none behind.

use super::{folder_with, plan};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Within which everything has to end.
const SOON: Duration = Duration::from_secs(15);

/// A run of three ranks in the middle of a step, and the ranks' process ids.
fn running(folder: &tempfile::TempDir) -> (Child, Vec<u32>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_autohet-run"))
        .current_dir(folder.path())
        .args(["--plan", "plan.json", "--steps", "100000", "--out", "out"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut rows = BufReader::new(child.stdout.take().unwrap()).lines();
    // The heading and a step: all ranks are at work.
    rows.by_ref().take(2).for_each(|row| drop(row.unwrap()));
    thread::spawn(move || rows.for_each(drop));
    let ranks = children(child.id());
    assert_eq!(ranks.len(), 3);
    (child, ranks)
}

/// Processes whose parent is this one.
fn children(parent: u32) -> Vec<u32> {
    let is_child = |pid: &u32| stat(*pid).is_some_and(|(_, found)| found == parent);
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    pids.filter(is_child).collect()
}

/// State and parent of a process.
fn stat(pid: u32) -> Option<(String, u32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text[text.rfind(')')? + 2..].split(' ');
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

/// Whether a process still does anything; one that is dead and not yet buried doesn't.
fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != "Z" && state != "X")
}

fn kill(pid: u32) {
    assert!(Command::new("sh").args(["-c", &format!("kill -9 {pid}")]).status().unwrap().success());
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited too long until {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_killed_rank_ends_the_run_with_an_error() {
    let folder = folder_with(&plan("1f1b", "none", &[(2, &[2, 2]), (1, &[4])]));
    let (mut child, ranks) = running(&folder);
    kill(ranks[1]);
    wait_until("the run ends", || child.try_wait().unwrap().is_some());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{stderr}");
    assert!(stderr.contains("is gone: its process ended with signal: 9 (SIGKILL)\nhint: "), "{stderr}");
    assert!(ranks.iter().all(|&rank| !is_alive(rank)));
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["plan.json"]);
}

#[test]
fn ranks_follow_a_killed_coordinator() {
    let folder = folder_with(&plan("1f1b", "none", &[(2, &[2, 2]), (1, &[4])]));
    let (mut child, ranks) = running(&folder);
    kill(child.id());
    child.wait().unwrap();
    wait_until("the ranks end", || ranks.iter().all(|&rank| !is_alive(rank)));
}
