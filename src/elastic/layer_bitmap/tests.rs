//! The layer bitmap by hand.

use super::*;
use crate::elastic::PeerCopies;
use crate::elastic::fixtures::{cluster, plan};

/// Two layers on `a` and `b`, and again on `c`.
fn two_replicas() -> Plan {
    plan(1, &[&[("a", 0, 1), ("b", 1, 1)], &[("c", 0, 2)]])
}

fn bitmap() -> LayerBitmap {
    LayerBitmap::new(StateLayout::of_bytes(2, 800, 800, 800))
}

/// Training goes on from `step` on another node, which is lost at once.
fn lose_memory(bitmap: &mut LayerBitmap, step: u64) {
    bitmap.set_live(&plan(1, &[&[("other", 0, 2)]]), step);
    bitmap.forget_node("other");
}

#[test]
fn live_copies_survive_while_each_shard_has_a_holder() {
    let mut bitmap = bitmap();
    let up = cluster(&["a", "b", "c"]);
    let newest = |bitmap: &LayerBitmap| bitmap.newest_recoverable_step(&up, AllowedSources::All);
    assert_eq!(newest(&bitmap), None);
    bitmap.set_live(&two_replicas(), 4);
    bitmap.advance_live(5);
    assert_eq!((bitmap.live_step(), newest(&bitmap)), (Some(5), Some(5)));
    bitmap.forget_node("a");
    assert_eq!(newest(&bitmap), Some(5));
    bitmap.forget_node("c");
    assert_eq!(newest(&bitmap), None);
}

#[test]
fn a_node_that_comes_again_is_empty() {
    let mut bitmap = bitmap();
    bitmap.set_live(&two_replicas(), 1);
    bitmap.begin_checkpoint(&two_replicas(), 1, &PeerCopies::default());
    bitmap.forget_node("b");
    bitmap.forget_node("c");
    // The write ends when nodes of the lost ones' names are there again.
    bitmap.record_disk(1);
    let up = cluster(&["a", "b", "c"]);
    assert_eq!(bitmap.newest_recoverable_step(&up, AllowedSources::All), None);
    assert!(!bitmap.record_object_store(1));
}

#[test]
fn disks_and_object_store_finish_in_either_order() {
    let mut bitmap = bitmap();
    bitmap.set_live(&two_replicas(), 10);
    bitmap.begin_checkpoint(&two_replicas(), 10, &PeerCopies::default());
    assert!(bitmap.record_object_store(10));
    bitmap.record_disk(10);
    assert_eq!(bitmap.disk.keys().copied().collect::<Vec<_>>(), [10]);
    // What comes after the end is not of this checkpoint.
    bitmap.advance_live(20);
    bitmap.begin_checkpoint(&two_replicas(), 20, &PeerCopies::default());
    bitmap.end_checkpoint(20);
    bitmap.record_disk(20);
    assert!(!bitmap.record_object_store(20));
    assert_eq!(bitmap.disk.keys().copied().collect::<Vec<_>>(), [10]);
}

#[test]
fn the_newest_two_complete_checkpoints_are_kept() {
    let mut bitmap = bitmap();
    for step in [10, 20, 30] {
        bitmap.set_live(&two_replicas(), step);
        bitmap.begin_checkpoint(&two_replicas(), step, &PeerCopies::default());
        bitmap.record_disk(step);
        assert!(bitmap.record_object_store(step));
    }
    assert_eq!(bitmap.disk.keys().copied().collect::<Vec<_>>(), [20, 30]);
    assert_eq!(bitmap.object_store.iter().copied().collect::<Vec<_>>(), [20, 30]);
    // One that isn't whole displaces none that is.
    bitmap.begin_checkpoint(&two_replicas(), 40, &PeerCopies::default());
    bitmap.forget_node("a");
    bitmap.forget_node("c");
    bitmap.begin_checkpoint(&plan(1, &[&[("b", 0, 2)]]), 50, &PeerCopies::default());
    bitmap.record_disk(40);
    bitmap.record_disk(50);
    assert_eq!(bitmap.newest_recoverable_step(&cluster(&["b"]), AllowedSources::All), Some(50));
    assert_eq!(bitmap.object_store_step(), Some(30));
}

#[test]
fn sources_limit_which_step_is_newest() {
    let mut bitmap = bitmap();
    for (step, stored) in [(10, true), (20, false)] {
        bitmap.set_live(&two_replicas(), step);
        bitmap.begin_checkpoint(&two_replicas(), step, &PeerCopies::default());
        bitmap.record_disk(step);
        if stored {
            assert!(bitmap.record_object_store(step));
        }
    }
    bitmap.advance_live(25);
    let up = cluster(&["a", "b", "c"]);
    let newest = |bitmap: &LayerBitmap, sources| bitmap.newest_recoverable_step(&up, sources);
    assert_eq!(newest(&bitmap, AllowedSources::All), Some(25));
    assert_eq!(newest(&bitmap, AllowedSources::MemoryAndObjectStore), Some(25));
    assert_eq!(newest(&bitmap, AllowedSources::ObjectStore), Some(10));
    lose_memory(&mut bitmap, 20);
    assert_eq!(newest(&bitmap, AllowedSources::All), Some(20));
    assert_eq!(newest(&bitmap, AllowedSources::MemoryAndObjectStore), Some(10));
}

#[test]
fn copies_that_cannot_be_read_count_no_longer() {
    let mut bitmap = bitmap();
    for step in [10, 20] {
        bitmap.set_live(&two_replicas(), step);
        bitmap.begin_checkpoint(&two_replicas(), step, &PeerCopies::default());
        bitmap.record_disk(step);
        assert!(bitmap.record_object_store(step));
    }
    lose_memory(&mut bitmap, 20);
    let up = cluster(&["a", "b", "c"]);
    let newest = |bitmap: &LayerBitmap| bitmap.newest_recoverable_step(&up, AllowedSources::All);
    // `a` and `b` still have everything between them.
    bitmap.forget_object_store(20);
    bitmap.forget_disk("c");
    assert_eq!((newest(&bitmap), bitmap.object_store_step()), (Some(20), Some(10)));
    bitmap.forget_disk("b");
    assert_eq!(newest(&bitmap), Some(10));
    bitmap.forget_object_store(10);
    bitmap.forget_disk("nobody");
    assert_eq!(newest(&bitmap), None);
}

#[test]
fn rolling_back_gives_up_later_checkpoints() {
    let mut bitmap = bitmap();
    bitmap.set_live(&two_replicas(), 10);
    bitmap.begin_checkpoint(&two_replicas(), 10, &PeerCopies::default());
    bitmap.record_disk(10);
    lose_memory(&mut bitmap, 5);
    assert_eq!(bitmap.newest_recoverable_step(&cluster(&["a", "b", "c"]), AllowedSources::All), None);
    assert!(!bitmap.record_object_store(10));
}

#[test]
fn bits_are_used_again() {
    let mut bitmap = bitmap();
    for round in 0..200 {
        let name = format!("node{round}");
        bitmap.set_live(&plan(1, &[&[(&name, 0, 2)]]), round);
        assert_eq!(bitmap.bit(&name), Some(0));
        bitmap.forget_node(&name);
    }
}
