//! Copies of checkpoints in the memory of peers: the only holder of a stage is killed, and what it held is read from there.

use super::survival::{children, kill, read_losses};
use super::{autohet_run, folder_with, plan, spawned};
use serde_json::Value;
use std::io::Read;

const STEPS: &str = "30";

/// Two stages of one replica, two nodes: each layer is held once. The object store takes seconds for a checkpoint, and the
/// disk of a lost node is lost with it.
#[test]
fn the_only_holder_of_a_stage_is_replaced_from_the_copy_that_a_peer_keeps() {
    let folder = folder_with(&plan("1f1b", "none", &[(2, &[2, 2])]));
    let run = ["--plan", "plan.json", "--steps", STEPS, "--out", "out"];
    autohet_run(folder.path()).args(run).assert().success();
    let undisturbed = read_losses(folder.path());
    let checkpoints = ["--checkpoint-dir", "ckpt", "--checkpoint-every", "2", "--store-total-mb-per-s", "2"];
    let options = [&run[..], &checkpoints, &["--peer-copies", "1", "--format", "json"]];
    let (mut child, rows) = spawned(&folder, &options);
    let mut events = rows.map(|row| serde_json::from_str::<Value>(&row.unwrap()).unwrap());
    let mut until = |name: &str, is_it: &dyn Fn(&Value) -> bool| {
        let found = events.by_ref().find(|event| event["event"] == name && is_it(event));
        found.unwrap_or_else(|| panic!("`{name}` never came"))
    };
    let copied = until("checkpoint", &|event| event["place"] == "host_memory");
    // By then memory is ahead of the copies.
    until("step", &|event| event["step"].as_u64() > copied["step"].as_u64());
    kill(children(child.id())[1]);
    let recovered = until("plan", &|event| event["cause"] == "loss");
    let read = &recovered["read_bytes"];
    assert!(read["copies"].as_u64() > Some(0), "{recovered}");
    assert_eq!([&read["memory"], &read["disk"], &read["object_store"]].map(Value::as_u64), [Some(0); 3]);
    assert_eq!(recovered["resume_step"], copied["step"]);
    events.for_each(drop);
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(child.wait().unwrap().success(), "{stderr}");
    let found = read_losses(folder.path());
    assert_eq!(found.keys().collect::<Vec<_>>(), undisturbed.keys().collect::<Vec<_>>());
    for (step, loss) in &found {
        approx::assert_relative_eq!(*loss, undisturbed[step], max_relative = 1e-5);
    }
    assert!(!folder.path().join("ckpt/object-store.pace").exists());
}
