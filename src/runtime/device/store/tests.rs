//! Checkpoints end to end, on a real folder, with and without mishaps.

mod crashes;

use super::*;
use crate::ids::LayerId;
use crate::model::{Block, ModelSpec, Shard};
use crate::runtime::device::BlockState;
use proptest::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// A folder of checkpoints that goes with the test.
struct Place {
    folder: tempfile::TempDir,
    checkpoints: CheckpointStore,
}

fn run() -> RunIdentity {
    RunIdentity::new(&ModelSpec::preset("bert-large").unwrap(), 7)
}

fn layer(layer: u32, slice: u8) -> Shard {
    Shard { block: Block::Layer(LayerId(layer)), slice }
}

fn state(seed: u32, length: usize) -> BlockState {
    let vector = |salt: u32| (0..length as u32).map(|at| (at * 31 + seed * 7 + salt) as f32 / 64.0 - 1.0).collect();
    BlockState { values: vector(1), mean: vector(2), mean_of_squares: vector(3) }
}

fn bits(state: &BlockState) -> [Vec<u32>; 3] {
    [&state.values, &state.mean, &state.mean_of_squares].map(|vector| vector.iter().map(|v| v.to_bits()).collect())
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = CheckpointStore::new(Arc::new(LocalDirectory::new(folder.path())), run());
        Self { folder, checkpoints }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes and commits a step of a few small shards.
    fn checkpoint(&self, step: u64) {
        self.checkpoints.begin(step).unwrap();
        let writer = self.checkpoints.writer();
        let shards = [layer(0, 0), layer(0, 1), layer(1, 0)];
        let entries = shards.map(|shard| writer.write(step, shard, &state(step as u32, 5)).unwrap());
        self.checkpoints.commit(step, entries.to_vec()).unwrap();
    }

    fn is_clean(&self) -> bool {
        LocalDirectory::new(self.folder.path()).leftovers("").unwrap().is_empty()
    }
}

#[test]
fn states_come_back_bit_by_bit() {
    let place = Place::new();
    let extremes = vec![
        f32::MAX,
        f32::MIN,
        f32::MIN_POSITIVE,
        f32::from_bits(1),
        -f32::from_bits(0x007f_ffff),
        0.0,
        -0.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::EPSILON,
    ];
    let mut turned = extremes.clone();
    turned.reverse();
    let mixed = BlockState { mean: turned, mean_of_squares: vec![1.5; extremes.len()], values: extremes };
    let shard = |block| Shard { block, slice: 7 };
    let written =
        [(shard(Block::Embedding), mixed), (shard(Block::Head), BlockState::default()), (layer(23, 0), state(3, 1001))];
    place.checkpoints.begin(1).unwrap();
    let writer = place.checkpoints.writer();
    let shards: Vec<(Shard, &BlockState)> = written.iter().map(|(shard, state)| (*shard, state)).collect();
    let entries = writer.write_all(1, &shards).unwrap();
    place.checkpoints.commit(1, entries).unwrap();
    let opened = place.checkpoints.open(1).unwrap();
    assert_eq!(opened.shards().map(|(shard, _)| shard).collect::<Vec<_>>(), [written[0].0, written[2].0, written[1].0]);
    for (shard, state) in written {
        assert_eq!(bits(&opened.read(shard).unwrap()), bits(&state));
    }
    place.checkpoints.verify(1).unwrap();
    assert!(place.is_clean());
}

#[test]
fn files_are_safetensors_that_say_what_they_are() {
    let place = Place::new();
    place.checkpoints.begin(120).unwrap();
    place.checkpoints.writer().write(120, layer(3, 4), &state(1, 6)).unwrap();
    let bytes = std::fs::read(place.path("step-0000000120/layer-00003.slice-4.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    for (name, vector) in [("values", 1), ("mean", 2), ("mean_of_squares", 3)] {
        let tensor = file.tensor(name).unwrap();
        assert_eq!((tensor.dtype(), tensor.shape()), (safetensors::Dtype::F32, [6].as_slice()));
        let expected: Vec<u8> =
            (0..6).flat_map(|at| ((at * 31 + 7 + vector) as f32 / 64.0 - 1.0).to_le_bytes()).collect();
        assert_eq!(tensor.data(), expected);
    }
    assert_eq!(file.len(), 3);
    let (header_bytes, header) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!((8 + header_bytes) % 8, 0);
    let metadata = header.metadata().as_ref().unwrap();
    let expected = [("model", "bert-large"), ("seed", "7"), ("step", "120"), ("block", "layer-00003"), ("slice", "4")];
    for (key, value) in expected {
        assert_eq!(metadata.get(key).map(String::as_str), Some(value), "{key}");
    }
    let content = crc32fast::hash(&bytes[8 + header_bytes..]);
    assert_eq!(metadata["crc32"], format!("{content:08x}"));
}

#[test]
fn an_entry_has_size_and_checksum_of_the_file() {
    let place = Place::new();
    let entry = place.checkpoints.writer().write(1, layer(0, 0), &state(1, 100)).unwrap();
    let bytes = std::fs::read(place.path("step-0000000001").join(&entry.file)).unwrap();
    assert_eq!((entry.bytes, entry.crc32), (bytes.len() as u64, crc32fast::hash(&bytes)));
    let again = place.checkpoints.writer().write(1, layer(0, 0), &state(1, 100)).unwrap();
    assert_eq!(again, entry, "equal states make equal files");
}

#[test]
fn any_state_comes_back() {
    let place = Place::new();
    proptest!(ProptestConfig::with_cases(64), |(words in proptest::collection::vec(any::<[u32; 3]>(), 0..200))| {
        let vector = |at: usize| words.iter().map(|word| f32::from_bits(word[at])).collect();
        let written = BlockState { values: vector(0), mean: vector(1), mean_of_squares: vector(2) };
        let entry = place.checkpoints.writer().write(1, layer(0, 0), &written).unwrap();
        place.checkpoints.commit(1, vec![entry]).unwrap();
        prop_assert_eq!(bits(&place.checkpoints.read(1, layer(0, 0)).unwrap()), bits(&written));
    });
}

#[test]
fn any_flipped_byte_is_noticed() {
    let place = Place::new();
    place.checkpoint(1);
    let path = place.path("step-0000000001/layer-00000.slice-1.safetensors");
    let whole = std::fs::read(&path).unwrap();
    proptest!(|(position in 0..whole.len(), flip in 1_u8..)| {
        let mut bytes = whole.clone();
        bytes[position] ^= flip;
        std::fs::write(&path, bytes).unwrap();
        let message = place.checkpoints.read(1, layer(0, 1)).unwrap_err().to_string();
        prop_assert!(message.contains("layer-00000.slice-1") && message.contains("hint:"), "{}", message);
        prop_assert!(place.checkpoints.verify(1).is_err());
        prop_assert!(place.checkpoints.read(1, layer(0, 0)).is_ok(), "the others are as they were");
    });
}

#[test]
fn missing_and_short_files_are_named_with_what_was_expected() {
    let place = Place::new();
    place.checkpoint(1);
    let path = place.path("step-0000000001/layer-00000.slice-1.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    for length in [0, 5, 8, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..length]).unwrap();
        let message = place.checkpoints.read(1, layer(0, 1)).unwrap_err().to_string();
        let expected = format!("is damaged: expected {} bytes, found {length}\nhint: ", bytes.len());
        assert!(message.contains(&expected) && message.contains(path.to_str().unwrap()), "{message}");
    }
    std::fs::remove_file(&path).unwrap();
    let message = place.checkpoints.read(1, layer(0, 1)).unwrap_err().to_string();
    let expected = format!("is missing, expected {} bytes of crc32", bytes.len());
    assert!(message.contains(&expected) && message.contains("hint:"), "{message}");
    let message = place.checkpoints.read(1, layer(9, 0)).unwrap_err().to_string();
    assert!(message.contains("step 1 has no `layer-00009.slice-0.safetensors`"), "{message}");
    let message = place.checkpoints.read(2, layer(9, 0)).unwrap_err().to_string();
    assert!(message.contains("no checkpoint of step 2") && message.contains("hint: there is 1"), "{message}");
}

#[test]
fn a_file_of_another_shard_is_not_taken_for_it() {
    let place = Place::new();
    let writer = place.checkpoints.writer();
    let entry = writer.write(1, layer(0, 0), &state(1, 5)).unwrap();
    let file = "layer-00000.slice-1.safetensors".to_owned();
    let folder = place.path("step-0000000001");
    std::fs::copy(folder.join(&entry.file), folder.join(&file)).unwrap();
    place.checkpoints.commit(1, vec![entry.clone(), ShardEntry { file, ..entry }]).unwrap();
    let message = place.checkpoints.read(1, layer(0, 1)).unwrap_err().to_string();
    assert!(message.contains("expected `slice` to be `1`, found `0`"), "{message}");
}

#[test]
fn the_newest_whole_step_passes_over_damaged_ones_and_says_why() {
    let place = Place::new();
    assert!(place.checkpoints.newest_whole_step(Scrutiny::Contents).unwrap().step.is_none());
    for step in [10, 20, 30, 40] {
        place.checkpoint(step);
    }
    std::fs::remove_file(place.path("step-0000000040/layer-00001.slice-0.safetensors")).unwrap();
    let path = place.path("step-0000000030/layer-00000.slice-0.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let found = |scrutiny| {
        let newest = place.checkpoints.newest_whole_step(scrutiny).unwrap();
        let skipped: Vec<(u64, String)> = newest.skipped.iter().map(|(step, why)| (*step, why.to_string())).collect();
        (newest.step.unwrap().step(), skipped)
    };
    let (step, skipped) = found(Scrutiny::Contents);
    assert_eq!((step, skipped.len()), (20, 2));
    assert!(skipped[0].0 == 40 && skipped[0].1.contains("is missing"), "{skipped:?}");
    assert!(skipped[1].0 == 30 && skipped[1].1.contains("is damaged"), "{skipped:?}");
    assert_eq!(found(Scrutiny::Sizes).0, 30, "a flipped bit has no size");
    assert_eq!(place.checkpoints.newest_step().unwrap(), Some(40));
    std::fs::write(place.path("step-0000000030/manifest.json"), "{}").unwrap();
    assert_eq!(found(Scrutiny::Sizes).0, 20);
}

#[test]
fn another_runs_checkpoints_are_an_error_everywhere_and_stay() {
    let place = Place::new();
    place.checkpoint(10);
    let store = Arc::new(LocalDirectory::new(place.folder.path()));
    let other = CheckpointStore::new(store, RunIdentity { seed: 8, ..run() });
    let errors = [
        other.newest_whole_step(Scrutiny::Sizes).err(),
        other.read(10, layer(0, 0)).err(),
        other.begin(5).err(),
        other.begin(20).err(),
        other.prune(1).err(),
    ];
    for error in errors {
        let message = error.unwrap().to_string();
        assert!(message.contains("its seed is `7`, expected `8`\nhint:"), "{message}");
    }
    place.checkpoints.verify(10).unwrap();
}

#[test]
fn a_committed_step_is_not_written_again_until_it_is_forgotten() {
    let place = Place::new();
    place.checkpoint(10);
    place.checkpoint(20);
    for step in [5, 10, 20] {
        let message = place.checkpoints.begin(step).unwrap_err().to_string();
        assert!(message.contains("has a checkpoint of step 20\nhint:"), "{message}");
    }
    place.checkpoints.begin(30).unwrap();
    place.checkpoints.writer().write(30, layer(0, 0), &state(1, 5)).unwrap();
    place.checkpoints.forget_after(10).unwrap();
    assert_eq!(place.checkpoints.steps().unwrap(), [10]);
    assert!(!place.path("step-0000000020").exists() && !place.path("step-0000000030").exists());
    place.checkpoint(20);
    place.checkpoints.verify(20).unwrap();
}

#[test]
fn pruning_keeps_the_newest_whole_steps_and_what_is_being_written() {
    let place = Place::new();
    assert_eq!(place.checkpoints.prune(2).unwrap(), Vec::<u64>::new());
    for step in [10, 20, 30, 40, 50] {
        place.checkpoint(step);
    }
    // One is damaged, one was never committed, one was interrupted, and one is being written.
    std::fs::remove_file(place.path("step-0000000030/layer-00001.slice-0.safetensors")).unwrap();
    std::fs::remove_file(place.path("step-0000000020/manifest.json")).unwrap();
    std::fs::write(place.path("step-0000000050/.tmp-1-0-head.slice-0.safetensors"), "half").unwrap();
    std::fs::create_dir(place.path("step-0000000045")).unwrap();
    std::fs::create_dir(place.path("step-0000000060")).unwrap();
    std::fs::write(place.path("step-0000000060/.tmp-1-1-head.slice-0.safetensors"), "half").unwrap();
    place.checkpoints.writer().write(60, layer(0, 0), &state(1, 5)).unwrap();
    std::fs::write(place.path("notes.txt"), "not ours").unwrap();
    assert_eq!(place.checkpoints.prune(2).unwrap(), [10, 30]);
    let mut left: Vec<String> = std::fs::read_dir(place.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["notes.txt", "step-0000000040", "step-0000000050", "step-0000000060"]);
    let store = LocalDirectory::new(place.folder.path());
    assert_eq!(store.leftovers("").unwrap(), ["step-0000000060/.tmp-1-1-head.slice-0.safetensors"]);
    assert_eq!(place.checkpoints.prune(0).unwrap(), [40], "the last one never goes");
    place.checkpoints.verify(50).unwrap();
}

#[test]
fn a_damaged_newest_step_doesnt_cost_the_older_ones() {
    let place = Place::new();
    place.checkpoint(10);
    place.checkpoint(20);
    std::fs::remove_file(place.path("step-0000000020/layer-00001.slice-0.safetensors")).unwrap();
    assert_eq!(place.checkpoints.prune(1).unwrap(), Vec::<u64>::new());
    place.checkpoints.verify(10).unwrap();
}

#[test]
fn commits_of_what_is_not_there_are_refused() {
    let place = Place::new();
    place.checkpoints.begin(1).unwrap();
    let writer = place.checkpoints.writer();
    let one = writer.write(1, layer(0, 0), &state(1, 5)).unwrap();
    let never = ShardEntry { file: "head.slice-0.safetensors".into(), ..one.clone() };
    let message = place.checkpoints.commit(1, vec![one.clone(), never]).unwrap_err().to_string();
    assert!(message.contains("head.slice-0.safetensors` is missing"), "{message}");
    let drifted = writer.write(1, layer(0, 0), &state(2, 5)).unwrap();
    assert!(matches!(place.checkpoints.commit(1, vec![one, drifted]), Err(StoreError::Disagreement { .. })));
    assert_eq!(place.checkpoints.steps().unwrap(), Vec::<u64>::new());
}

#[test]
fn many_writers_write_at_once() {
    let place = Place::new();
    place.checkpoints.begin(1).unwrap();
    let writer = place.checkpoints.writer();
    // Two replicas of four ranks: each shard is written twice, at the same time.
    let entries: Vec<ShardEntry> = std::thread::scope(|scope| {
        let write = |rank: u32| {
            let writer = writer.clone();
            scope.spawn(move || {
                let shards = (0..8).map(|slice| layer(rank % 4, slice));
                shards.map(|shard| writer.write(1, shard, &state(rank % 4, 3000)).unwrap()).collect::<Vec<_>>()
            })
        };
        let threads: Vec<_> = (0..8).map(write).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(entries.len(), 64);
    place.checkpoints.commit(1, entries).unwrap();
    let opened = place.checkpoints.open(1).unwrap();
    assert_eq!(opened.shards().count(), 32);
    opened.verify(Scrutiny::Contents).unwrap();
    assert_eq!(opened.read(layer(3, 7)).unwrap(), state(3, 3000));
    assert!(place.is_clean());
}
