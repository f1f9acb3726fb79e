//! Processes that die: training goes on with what is left of them, the losses are those of a run to which nothing
//! happened, and nothing is left behind.

use super::{autohet_run, folder_with, plan, spawned};
use rstest::rstest;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Within which everything has to end.
const SOON: Duration = Duration::from_secs(15);
const STEPS: usize = 6;

/// Two stages, and a replica of one.
fn asymmetric() -> TempDir {
    folder_with(&plan("1f1b", "none", &[(2, &[2, 2]), (1, &[4])]))
}

/// The losses of a run with these options, by step; the last one where a step was done more than once.
fn losses(folder: &Path, options: &[&str]) -> (BTreeMap<u64, f64>, String) {
    let mut command = autohet_run(folder);
    let steps = STEPS.to_string();
    let output = command.args(["--plan", "plan.json", "--steps", &steps, "--out", "out"]).args(options);
    let output = output.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    (read_losses(folder), stderr)
}

pub fn read_losses(folder: &Path) -> BTreeMap<u64, f64> {
    let mut reader = csv::Reader::from_path(folder.join("out/metrics.csv")).unwrap();
    let header = reader.headers().unwrap().clone();
    let column = |name| header.iter().position(|found| found == name).unwrap();
    let (step, loss) = (column("step"), column("loss"));
    let rows = reader.records().map(|row| row.unwrap());
    rows.map(|row| (row[step].parse().unwrap(), row[loss].parse().unwrap())).collect()
}

/// The losses of a run to which nothing happens.
fn undisturbed() -> &'static BTreeMap<u64, f64> {
    static LOSSES: OnceLock<BTreeMap<u64, f64>> = OnceLock::new();
    LOSSES.get_or_init(|| losses(asymmetric().path(), &[]).0)
}

fn assert_same(found: &BTreeMap<u64, f64>, expected: &BTreeMap<u64, f64>) {
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (step, loss) in found {
        approx::assert_relative_eq!(*loss, expected[step], max_relative = 1e-5);
    }
}

#[rstest]
#[case::warm_up(&["n1@3:warm-up"])]
#[case::steady(&["n0@3:steady"])]
#[case::all_reduce(&["n2@3:all-reduce"])]
#[case::optimizer(&["n1@3:optimizer"])]
#[case::optimizer_of_the_only_replica_elsewhere(&["n2@2:optimizer"])]
#[case::two_at_once(&["n0@3:steady", "n1@3:steady"])]
#[case::during_a_recovery(&["n0@2:steady", "n2@2:recovery"])]
#[case::one_after_the_other(&["n0@2:warm-up", "n1@3:all-reduce", "n2@5:optimizer"])]
fn losses_go_on_as_if_nothing_had_happened(#[case] kills: &[&str]) {
    let folder = asymmetric();
    let options: Vec<&str> = kills.iter().flat_map(|kill| ["--kill", kill]).collect();
    let (found, stderr) = losses(folder.path(), &options);
    assert_same(&found, undisturbed());
    assert_eq!(stderr.matches("SIGKILL").count(), kills.len(), "{stderr}");
}

#[rstest]
#[case::writing_a_checkpoint(&["n1@2:checkpoint"])]
#[case::all_that_have_it(&["n0@4:steady", "n1@4:steady", "n2@4:steady"])]
#[case::both_of_the_last_stage(&["n1@5:steady", "n2@5:steady"])]
fn what_is_lost_with_all_its_copies_is_read_from_the_last_checkpoint(#[case] kills: &[&str]) {
    let folder = asymmetric();
    let mut options: Vec<&str> = kills.iter().flat_map(|kill| ["--kill", kill]).collect();
    options.extend(["--checkpoint-dir", "ckpt", "--checkpoint-every", "2"]);
    let (found, stderr) = losses(folder.path(), &options);
    assert_same(&found, undisturbed());
    assert_eq!(stderr.matches("SIGKILL").count(), kills.len(), "{stderr}");
}

#[test]
fn another_plan_goes_on_from_the_checkpoint_of_the_first() {
    let folder = asymmetric();
    let options = ["--checkpoint-dir", "ckpt", "--checkpoint-every", "50"];
    let mut command = autohet_run(folder.path());
    command.args(["--plan", "plan.json", "--steps", "3"]).args(options).assert().success();
    let other = plan("gpipe", "full", &[(3, &[1, 3])]);
    fs::write(folder.path().join("plan.json"), other.to_string()).unwrap();
    let (found, _) = losses(folder.path(), &options);
    let expected: BTreeMap<u64, f64> = undisturbed().range(4..).map(|(&step, &loss)| (step, loss)).collect();
    assert_same(&found, &expected);
}

#[test]
fn a_plan_of_unlike_degrees_goes_on_from_a_checkpoint_and_from_what_survives() {
    let folder = asymmetric();
    let options = ["--checkpoint-dir", "ckpt", "--checkpoint-every", "50"];
    let mut command = autohet_run(folder.path());
    command.args(["--plan", "plan.json", "--steps", "3"]).args(options).assert().success();
    let mut unlike = plan("1f1b", "none", &[(2, &[1, 3]), (1, &[4])]);
    unlike["replicas"][0]["stages"][0]["gpus"] = [0, 1].into();
    fs::write(folder.path().join("plan.json"), unlike.to_string()).unwrap();
    // The stage of two is lost with its node: its slices are whole with the other replica.
    let (found, stderr) = losses(folder.path(), &[&options[..], &["--kill", "n0@5:steady"]].concat());
    assert!(stderr.contains("SIGKILL"), "{stderr}");
    let expected: BTreeMap<u64, f64> = undisturbed().range(4..).map(|(&step, &loss)| (step, loss)).collect();
    assert_same(&found, &expected);
}

/// A checkpoint of step 2 and one of step 4.
fn with_checkpoints() -> TempDir {
    let folder = asymmetric();
    let options = ["--plan", "plan.json", "--steps", "4", "--checkpoint-dir", "ckpt", "--checkpoint-every", "2"];
    autohet_run(folder.path()).args(options).assert().success();
    folder
}

fn damage(folder: &TempDir, step: u64) {
    let manifest = format!("ckpt/object-store/step-{step:010}/manifest.json");
    fs::write(folder.path().join(manifest), "{").unwrap();
}

#[test]
fn a_damaged_checkpoint_is_passed_over_and_told_of() {
    let folder = with_checkpoints();
    damage(&folder, 4);
    let (found, stderr) = losses(folder.path(), &["--checkpoint-dir", "ckpt"]);
    assert!(stderr.contains("checkpoint of step 4"), "{stderr}");
    let expected: BTreeMap<u64, f64> = undisturbed().range(3..).map(|(&step, &loss)| (step, loss)).collect();
    assert_same(&found, &expected);
}

/// One byte in the middle of a shard, of a file that keeps its size.
fn flip(folder: &TempDir, step: u64) {
    let shard = folder.path().join(format!("ckpt/object-store/step-{step:010}/layer-00000.slice-0.safetensors"));
    let mut bytes = fs::read(&shard).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(shard, bytes).unwrap();
}

#[test]
fn where_a_checkpoint_has_one_wrong_byte_training_goes_on_from_the_one_before() {
    let folder = with_checkpoints();
    flip(&folder, 4);
    let (found, stderr) = losses(folder.path(), &["--checkpoint-dir", "ckpt"]);
    assert!(stderr.contains("checkpoint of step 4 failed") && stderr.contains("crc32"), "{stderr}");
    let expected: BTreeMap<u64, f64> = undisturbed().range(3..).map(|(&step, &loss)| (step, loss)).collect();
    assert_same(&found, &expected);
    assert!(folder.path().join("ckpt/object-store/step-0000000002/manifest.json").exists());
}

#[test]
fn where_all_checkpoints_have_a_wrong_byte_nothing_is_deleted() {
    let folder = with_checkpoints();
    flip(&folder, 2);
    flip(&folder, 4);
    let mut command = autohet_run(folder.path());
    let output = command.args(["--plan", "plan.json", "--steps", "6", "--checkpoint-dir", "ckpt"]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("the object store failed: ") && stderr.contains("\nhint: "), "{stderr}");
    for step in [2, 4] {
        assert!(folder.path().join(format!("ckpt/object-store/step-{step:010}/manifest.json")).exists());
    }
}

#[test]
fn another_runs_checkpoints_are_refused() {
    let folder = with_checkpoints();
    let options = ["--plan", "plan.json", "--steps", "6", "--seed", "1", "--checkpoint-dir", "ckpt"];
    let output = autohet_run(folder.path()).args(options).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("of another run") && stderr.contains("hint: "), "{stderr}");
}

#[test]
fn where_all_checkpoints_are_damaged_nothing_is_deleted() {
    let folder = with_checkpoints();
    damage(&folder, 2);
    damage(&folder, 4);
    let mut command = autohet_run(folder.path());
    let output = command.args(["--plan", "plan.json", "--steps", "6", "--checkpoint-dir", "ckpt"]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && stderr.contains("hint: "), "{stderr}");
    assert!(folder.path().join("ckpt/object-store/step-0000000002/head.slice-0.safetensors").exists());
    assert!(folder.path().join("ckpt/object-store/step-0000000004/head.slice-0.safetensors").exists());
}

#[test]
fn nodes_that_arent_started_again_are_done_without() {
    let folder = asymmetric();
    let (found, stderr) = losses(folder.path(), &["--max-restarts", "0", "--kill", "n1@2", "--kill", "n0@4"]);
    assert_same(&found, undisturbed());
    assert_eq!(stderr.matches("SIGKILL").count(), 2, "{stderr}");
}

#[test]
fn where_nothing_is_left_the_run_ends_with_an_error() {
    let folder = asymmetric();
    let kills = ["--kill", "n0@2", "--kill", "n1@2", "--kill", "n2@2"];
    let mut command = autohet_run(folder.path());
    let output = command.args(["--plan", "plan.json", "--max-restarts", "0"]).args(kills).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("can't go on with the nodes that are left") && stderr.contains("hint: "), "{stderr}");
}

/// A run in the middle of its steps, and the workers' process ids.
fn running(folder: &TempDir, steps: &str) -> (Child, Vec<u32>) {
    let options = ["--checkpoint-dir", "ckpt", "--checkpoint-every", "2", "--silence-s", "2"];
    let (child, mut rows) =
        spawned(folder, &[&["--plan", "plan.json", "--steps", steps, "--out", "out"], &options[..]]);
    // The heading and some steps: all are at work.
    rows.by_ref().take(4).for_each(|row| drop(row.unwrap()));
    thread::spawn(move || rows.for_each(drop));
    wait_until("a checkpoint is whole", || {
        let steps = fs::read_dir(folder.path().join("ckpt/object-store")).into_iter().flatten();
        steps.flatten().any(|step| step.path().join("manifest.json").exists())
    });
    let workers = children(child.id());
    assert_eq!(workers.len(), 3);
    (child, workers)
}

/// Processes whose parent is this one.
pub fn children(parent: u32) -> Vec<u32> {
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

pub fn kill(pid: u32) {
    signal("KILL", pid);
}

fn signal(name: &str, pid: u32) {
    assert!(Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status().unwrap().success());
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited too long until {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_worker_killed_from_outside_is_replaced() {
    let folder = asymmetric();
    let (mut child, workers) = running(&folder, "12");
    kill(workers[1]);
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(child.wait().unwrap().success(), "{stderr}");
    assert!(workers.iter().all(|&worker| !is_alive(worker)));
    let found = read_losses(folder.path());
    assert_eq!(found.len(), 12);
    for (step, loss) in undisturbed() {
        approx::assert_relative_eq!(found[step], *loss, max_relative = 1e-5);
    }
}

#[test]
fn a_worker_that_hangs_is_replaced() {
    let folder = asymmetric();
    let (mut child, workers) = running(&folder, "100000");
    signal("STOP", workers[1]);
    wait_until("its node is lost", || children(child.id()).iter().any(|pid| !workers.contains(pid)));
    wait_until("it has ended", || !is_alive(workers[1]));
    signal("INT", child.id());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(stderr.contains("gave no sign of life for 2 s"), "{stderr}");
    // However many steps a busy machine had time for.
    for (step, loss) in read_losses(folder.path()).range(..=STEPS as u64) {
        approx::assert_relative_eq!(*loss, undisturbed()[step], max_relative = 1e-5);
    }
}

#[test]
fn an_interrupted_run_leaves_no_process_and_no_half_written_checkpoint() {
    let folder = asymmetric();
    let (mut child, workers) = running(&folder, "100000");
    signal("STOP", workers[2]);
    signal("INT", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(workers.iter().all(|&worker| !is_alive(worker)), "the stopped one too");
    assert_eq!(temporary_files(&folder.path().join("ckpt")), Vec::<PathBuf>::new());
}

/// Files under a name that isn't theirs yet.
fn temporary_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let is_temporary = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().contains(".tmp");
    files.into_iter().filter(is_temporary).chain(folders.iter().flat_map(|inner| temporary_files(inner))).collect()
}

#[test]
fn workers_follow_a_killed_coordinator_and_the_next_one_goes_on_from_the_checkpoint() {
    let folder = asymmetric();
    let (mut child, workers) = running(&folder, "100000");
    kill(child.id());
    child.wait().unwrap();
    wait_until("the workers end", || workers.iter().all(|&worker| !is_alive(worker)));
    // The folder of results, which is renamed into place at the end, never came to be.
    let (found, _) = losses_after(&folder);
    assert!(found.len() < STEPS, "it goes on from step 2 or later: {found:?}");
    for (step, loss) in &found {
        approx::assert_relative_eq!(*loss, undisturbed()[step], max_relative = 1e-5);
    }
}

/// The run is started again with as many steps as the undisturbed one has.
fn losses_after(folder: &TempDir) -> (BTreeMap<u64, f64>, String) {
    losses(folder.path(), &["--checkpoint-dir", "ckpt", "--checkpoint-every", "2"])
}

/// The only replica loses a stage; what the other one has on its disk of the last checkpoint is damaged by then.
#[test]
fn what_is_damaged_on_a_disk_is_read_from_the_object_store() {
    let folder = folder_with(&plan("1f1b", "none", &[(2, &[2, 2])]));
    let run = ["--plan", "plan.json", "--steps", "8", "--backend", "emulated", "--time-scale", "40"];
    let events = ["--format", "json", "--checkpoint-dir", "ckpt", "--checkpoint-every", "4", "--kill", "n1@7:steady"];
    let (mut child, mut rows) = spawned(&folder, &[&run, &events]);
    let mut until = |what: &[&str]| {
        let found = rows.by_ref().map(Result::unwrap).find(|row| what.iter().all(|part| row.contains(part)));
        found.unwrap_or_else(|| panic!("{what:?} never came"))
    };
    until(&["\"checkpoint\"", "\"step\":4", "object_store"]);
    let step = folder.path().join("ckpt/autohet-disks/n0/gpu-0/step-0000000004");
    let shards = fs::read_dir(&step).unwrap().map(|entry| entry.unwrap().path());
    for shard in shards.filter(|path| path.extension().is_some_and(|extension| extension == "safetensors")) {
        fs::write(shard, "damaged").unwrap();
    }
    let failed = until(&["\"checkpoint_failed\"", "disk of"]);
    assert!(failed.contains("`n0`"), "{failed}");
    let plan = until(&["\"plan\""]);
    assert!(plan.contains("\"resume_step\":4") && plan.contains("\"disk\":0"), "{plan}");
    until(&["\"step\":8"]);
    assert!(child.wait().unwrap().success());
}
