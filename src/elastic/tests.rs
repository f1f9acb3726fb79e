//! Recovery plans: closed forms.

mod arrivals;
mod changes;
mod histories;

use super::fixtures::{cluster, plan};
use super::peer_copies::place_copies;
use super::*;
use crate::plan::Plan;

fn layout(num_layers: u32) -> StateLayout {
    StateLayout::of_bytes(num_layers, 1600, 800, 2400)
}

fn bandwidths() -> StorageBandwidths {
    StorageBandwidths { disk_bytes_per_s: 50.0, object_store_bytes_per_s: 400.0, object_store_total_bytes_per_s: None }
}

fn options(sources: AllowedSources) -> RecoveryOptions {
    RecoveryOptions { sources, bandwidths: bandwidths() }
}

fn recover(bitmap: &LayerBitmap, plan: &Plan, up: &[&str]) -> RecoveryPlan {
    plan_recovery(bitmap, plan, &cluster(up), &options(AllowedSources::All))
}

fn transfers(recovery: &RecoveryPlan) -> Vec<(&str, Source, u64)> {
    recovery.transfers.iter().map(|transfer| (&*transfer.to, transfer.source.clone(), transfer.bytes)).collect()
}

fn peer(node: &str, tier: Tier) -> Source {
    Source::Peer { node: node.into(), tier }
}

#[test]
fn nothing_anywhere_starts_from_initial_weights() {
    let recovery = recover(&LayerBitmap::new(layout(2)), &plan(1, &[&[("a", 0, 2)]]), &["a"]);
    assert_eq!((recovery.resume_step, recovery.origin), (0, Origin::InitialWeights));
    assert!(recovery.transfers.is_empty() && recovery.shards.is_empty());
}

#[test]
fn the_same_plan_again_moves_nothing() {
    let mut bitmap = LayerBitmap::new(layout(2));
    let same = plan(1, &[&[("a", 0, 2)]]);
    bitmap.set_live(&same, 7);
    let recovery = recover(&bitmap, &same, &["a"]);
    assert_eq!((recovery.resume_step, recovery.origin), (7, Origin::Live));
    assert_eq!(transfers(&recovery), [("a", Source::OwnMemory, 1600 + 2 * 800 + 2400)]);
    assert_eq!(fetch_time(&recovery, &cluster(&["a"]), &bandwidths()), crate::units::SimTime::ZERO);
}

#[test]
fn a_survivor_keeps_its_layers_and_reads_the_rest_from_the_other_replica() {
    let mut bitmap = LayerBitmap::new(layout(2));
    bitmap.set_live(&plan(1, &[&[("a", 0, 1), ("b", 1, 1)], &[("c", 0, 2)]]), 7);
    bitmap.forget_node("b");
    // Another tensor-parallel degree reads the same shards.
    let recovery = recover(&bitmap, &plan(2, &[&[("a", 0, 2)], &[("c", 0, 2)]]), &["a", "c"]);
    let expected = [
        ("a", Source::OwnMemory, 1600 + 800),
        ("a", peer("c", Tier::Memory), 800 + 2400),
        ("c", Source::OwnMemory, 1600 + 2 * 800 + 2400),
    ];
    assert_eq!((recovery.resume_step, transfers(&recovery)), (7, expected.to_vec()));
}

#[test]
fn a_change_of_degrees_moves_what_a_node_lacks_and_nothing_else() {
    let mut bitmap = LayerBitmap::new(layout(2));
    let before = plan(2, &[&[("a", 0, 1), ("b", 1, 1)]]);
    bitmap.set_live(&before, 7);
    // The same layers on the same nodes, on one GPU and on four.
    let mut after = before.clone();
    after.replicas[0].stages[0].gpus = vec![0];
    after.replicas[0].stages[1].gpus = vec![0, 1, 2, 3];
    let own = recover(&bitmap, &after, &["a", "b"]);
    assert!(own.transfers.iter().all(|transfer| transfer.source == Source::OwnMemory), "{own:?}");
    // A new node takes over the second stage: it reads each slice once, however many GPUs share it.
    after.replicas[0].stages[1].node = "c".to_owned();
    let moved = recover(&bitmap, &after, &["a", "b", "c"]);
    assert_eq!(transfers(&moved)[1..], [("c", peer("b", Tier::Memory), 800 + 2400)]);
}

#[test]
fn peers_share_the_sending_evenly() {
    let mut bitmap = LayerBitmap::new(layout(2));
    bitmap.set_live(&plan(1, &[&[("a", 0, 2)], &[("b", 0, 2)]]), 7);
    let recovery = recover(&bitmap, &plan(1, &[&[("new", 0, 2)]]), &["a", "b", "new"]);
    let expected = [("new", peer("a", Tier::Memory), 2800), ("new", peer("b", Tier::Memory), 2800)];
    assert_eq!(transfers(&recovery), expected);
    assert_eq!(recovery.bytes_from(|source| matches!(source, Source::Peer { .. })), 5600);
}

#[test]
fn wider_interfaces_send_more() {
    let mut bitmap = LayerBitmap::new(layout(2));
    bitmap.set_live(&plan(1, &[&[("a", 0, 2)], &[("b", 0, 2)]]), 7);
    let mut up = cluster(&["a", "b", "new"]);
    up.nodes[0].nic.bytes_per_s = 300.0;
    let recovery = plan_recovery(&bitmap, &plan(1, &[&[("new", 0, 2)]]), &up, &options(AllowedSources::All));
    let from_a = recovery.bytes_from(|source| *source == peer("a", Tier::Memory));
    assert!((4000..=4400).contains(&from_a), "three quarters of 5600 are 4200, not {from_a}");
}

#[test]
fn rolled_back_nodes_read_their_own_disk_then_a_peers() {
    let mut bitmap = LayerBitmap::new(layout(2));
    let first = plan(1, &[&[("a", 0, 1), ("b", 1, 1)]]);
    bitmap.set_live(&first, 10);
    bitmap.begin_checkpoint(&first, 10, &PeerCopies::default());
    bitmap.record_disk(10);
    // Training goes on on `a` and another node, which is lost with half of what is in memory.
    bitmap.set_live(&plan(1, &[&[("a", 0, 1), ("c", 1, 1)]]), 10);
    bitmap.advance_live(12);
    bitmap.forget_node("c");
    let recovery = recover(&bitmap, &plan(1, &[&[("a", 0, 2)]]), &["a", "b"]);
    let expected = [("a", Source::OwnDisk, 2400), ("a", peer("b", Tier::Disk), 3200)];
    assert_eq!((recovery.resume_step, recovery.origin), (10, Origin::Checkpoint));
    assert_eq!(transfers(&recovery), expected);
}

#[test]
fn the_store_serves_what_no_survivor_has_even_if_it_is_faster() {
    let mut bitmap = LayerBitmap::new(layout(2));
    let first = plan(1, &[&[("a", 0, 1), ("b", 1, 1)]]);
    bitmap.set_live(&first, 10);
    bitmap.begin_checkpoint(&first, 10, &PeerCopies::default());
    bitmap.record_disk(10);
    assert!(bitmap.record_object_store(10));
    bitmap.advance_live(12);
    bitmap.forget_node("b");
    let next = plan(1, &[&[("c", 0, 2)]]);
    let recovery = recover(&bitmap, &next, &["a", "c"]);
    let expected = [("c", peer("a", Tier::Disk), 2400), ("c", Source::ObjectStore, 3200)];
    assert_eq!((recovery.resume_step, transfers(&recovery)), (10, expected.to_vec()));
    // A policy that knows only the store reads everything from there, also what survivors have.
    let up = cluster(&["a", "c"]);
    let recovery = plan_recovery(&bitmap, &next, &up, &options(AllowedSources::ObjectStore));
    assert_eq!(transfers(&recovery), [("c", Source::ObjectStore, 5600)]);
}

#[test]
fn copies_in_memory_and_store_of_one_step_complete_each_other() {
    let mut bitmap = LayerBitmap::new(layout(2));
    let first = plan(1, &[&[("a", 0, 1), ("b", 1, 1)]]);
    bitmap.set_live(&first, 10);
    bitmap.begin_checkpoint(&first, 10, &PeerCopies::default());
    assert!(bitmap.record_object_store(10));
    bitmap.forget_node("b");
    let recovery = recover(&bitmap, &plan(1, &[&[("a", 0, 2)]]), &["a"]);
    let expected = [("a", Source::OwnMemory, 2400), ("a", Source::ObjectStore, 3200)];
    assert_eq!((recovery.resume_step, recovery.origin), (10, Origin::Live));
    assert_eq!(transfers(&recovery), expected);
}

/// The only holder of the second half is lost; the first one keeps a copy of it.
#[test]
fn a_lost_stage_is_read_from_the_copy_in_a_peers_host_memory() {
    let mut bitmap = LayerBitmap::new(layout(2));
    let first = plan(1, &[&[("a", 0, 1), ("b", 1, 1)]]);
    let up = cluster(&["a", "b", "c"]);
    let copies = place_copies(bitmap.layout(), &first, &cluster(&["a", "b"]), 1);
    let sums: Vec<_> = copies.transfers().collect();
    assert_eq!(sums, [("a", "b", 2400), ("b", "a", 3200)]);
    bitmap.set_live(&first, 10);
    bitmap.begin_checkpoint(&first, 10, &copies);
    bitmap.record_host(10);
    bitmap.advance_live(12);
    bitmap.forget_node("b");
    // `a` keeps its own part of the checkpoint, and that of `b`, in host memory; `c` is new.
    let recovery = recover(&bitmap, &plan(1, &[&[("a", 0, 1), ("c", 1, 1)]]), &["a", "c"]);
    let expected = [("a", Source::OwnHost, 2400), ("c", peer("a", Tier::Host), 3200)];
    assert_eq!((recovery.resume_step, recovery.origin), (10, Origin::Checkpoint));
    assert_eq!(transfers(&recovery), expected);
    // Over an interface of 100 bytes a second; what `a` has itself comes over host links of 1000.
    let time_s = fetch_time(&recovery, &cluster(&["a", "c"]), &bandwidths()).as_seconds();
    assert!((time_s - 32.0).abs() < 1e-6, "{time_s} s");
    // Who reads from the object store only has nothing.
    let options = options(AllowedSources::ObjectStore);
    assert_eq!(plan_recovery(&bitmap, &first, &up, &options).origin, Origin::InitialWeights);
    // What can't be read is read elsewhere; here there is nothing else.
    bitmap.forget_host("a");
    assert_eq!(recover(&bitmap, &first, &["a", "b"]).origin, Origin::InitialWeights);
}

#[test]
fn copies_are_of_the_last_checkpoint_that_has_arrived() {
    let mut bitmap = LayerBitmap::new(layout(2));
    let first = plan(1, &[&[("a", 0, 1), ("b", 1, 1)]]);
    let copies = place_copies(bitmap.layout(), &first, &cluster(&["a", "b"]), 1);
    bitmap.set_live(&first, 10);
    for step in [10, 20, 30] {
        bitmap.advance_live(step);
        bitmap.begin_checkpoint(&first, step, &copies);
        if step < 30 {
            bitmap.record_host(step);
        }
        bitmap.end_checkpoint(step);
    }
    bitmap.record_host(30);
    bitmap.forget_node("b");
    assert_eq!(recover(&bitmap, &plan(1, &[&[("a", 0, 2)]]), &["a"]).resume_step, 20);
    // Training goes on from an older step: what came later belongs to a history that is given up.
    bitmap.set_live(&plan(1, &[&[("c", 0, 2)]]), 15);
    bitmap.forget_node("c");
    assert_eq!(recover(&bitmap, &plan(1, &[&[("a", 0, 2)]]), &["a"]).origin, Origin::InitialWeights);
}

/// A keeper without a part in the plan is lost while it is sent copies: the checkpoint goes on without them.
#[test]
fn a_keeper_that_is_lost_before_its_copies_arrive_keeps_none() {
    let mut bitmap = LayerBitmap::new(layout(2));
    let first = plan(1, &[&[("a", 0, 2)]]);
    let copies = place_copies(bitmap.layout(), &first, &cluster(&["a", "idle"]), 1);
    bitmap.set_live(&first, 10);
    bitmap.begin_checkpoint(&first, 10, &copies);
    bitmap.forget_node("idle");
    bitmap.record_host(10);
    bitmap.advance_live(12);
    bitmap.forget_node("a");
    assert_eq!(recover(&bitmap, &plan(1, &[&[("idle", 0, 2)]]), &["idle"]).origin, Origin::InitialWeights);
}

#[test]
#[should_panic(expected = "node `b`, which isn't up")]
fn a_plan_for_a_node_that_is_not_up_is_a_bug() {
    let mut bitmap = LayerBitmap::new(layout(2));
    bitmap.set_live(&plan(1, &[&[("a", 0, 2)]]), 1);
    recover(&bitmap, &plan(1, &[&[("b", 0, 2)]]), &["a"]);
}
