//! What steps and shards are called in a store.

use crate::ids::LayerId;
use crate::model::{Block, SHARDS_PER_BLOCK, Shard};

/// The manifest's name within its step.
const MANIFEST: &str = "manifest.json";
/// How names of steps begin.
pub(super) const STEPS: &str = "step-";

/// What all names of a step begin with: `step-0000000120/`.
pub(super) fn prefix(step: u64) -> String {
    format!("{STEPS}{step:010}/")
}

/// The step's manifest.
pub(super) fn manifest(step: u64) -> String {
    format!("{}{MANIFEST}", prefix(step))
}

/// The step that an object or a leftover belongs to, and what it is called within it.
pub(super) fn split(name: &str) -> Option<(u64, &str)> {
    let (folder, file) = name.split_once('/')?;
    let step = folder.strip_prefix(STEPS)?.parse().ok()?;
    // Only the one way in which a step is written.
    (prefix(step).trim_end_matches('/') == folder).then_some((step, file))
}

/// The step whose manifest this is.
pub(super) fn step_of_manifest(name: &str) -> Option<u64> {
    split(name).and_then(|(step, file)| (file == MANIFEST).then_some(step))
}

/// A block in file names: `embedding`, `layer-00003`, `head`.
pub(super) fn block(block: Block) -> String {
    match block {
        Block::Embedding => "embedding".into(),
        Block::Layer(layer) => format!("layer-{:05}", layer.0),
        Block::Head => "head".into(),
    }
}

/// The shard's file within its step: `layer-00003.slice-4.safetensors`.
pub(super) fn file(shard: Shard) -> String {
    format!("{}.slice-{}.safetensors", block(shard.block), shard.slice)
}

/// The shard whose file this is.
pub(super) fn shard(name: &str) -> Option<Shard> {
    let mut words = name.splitn(3, '.');
    let block = match words.next()? {
        "embedding" => Block::Embedding,
        "head" => Block::Head,
        layer => Block::Layer(LayerId(layer.strip_prefix("layer-")?.parse().ok()?)),
    };
    let slice = words.next()?.strip_prefix("slice-")?.parse().ok()?;
    let shard = Shard { block, slice };
    (usize::from(slice) < SHARDS_PER_BLOCK && file(shard) == name).then_some(shard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_documented_and_are_read_back() {
        let shard_of = |block, slice| Shard { block, slice };
        let named = [
            (shard_of(Block::Layer(LayerId(3)), 4), "layer-00003.slice-4.safetensors"),
            (shard_of(Block::Layer(LayerId(123_456)), 0), "layer-123456.slice-0.safetensors"),
            (shard_of(Block::Embedding, 0), "embedding.slice-0.safetensors"),
            (shard_of(Block::Head, 7), "head.slice-7.safetensors"),
        ];
        for (value, name) in named {
            assert_eq!(file(value), name);
            assert_eq!(shard(name), Some(value));
        }
        assert_eq!(manifest(120), "step-0000000120/manifest.json");
        assert_eq!(step_of_manifest("step-0000000120/manifest.json"), Some(120));
        assert_eq!(step_of_manifest(&manifest(u64::MAX)), Some(u64::MAX));
        assert_eq!(split("step-0000000007/.tmp-1-2-x"), Some((7, ".tmp-1-2-x")));
        assert_eq!(split("step-0000000007/"), Some((7, "")));
    }

    #[test]
    fn no_other_names_are_read() {
        for name in ["layer-3.slice-4.safetensors", "head.slice-8.safetensors", "head.slice-07.safetensors", "head", ""]
        {
            assert_eq!(shard(name), None, "{name}");
        }
        for name in ["step-120/manifest.json", "step-/x", "step-0000000120", "other/manifest.json", "step-+000000120/x"]
        {
            assert_eq!(split(name), None, "{name}");
        }
        assert_eq!(step_of_manifest("step-0000000120/manifest.json.bak"), None);
    }
}
