//! What a step consists of.

use super::{ObjectStore, StoreError, names};
use crate::model::{ModelSpec, Shard};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the format.
const SCHEMA_VERSION: u32 = 1;

/// What tells a run's checkpoints from those of another: its model and where its randomness comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunIdentity {
    /// The model's name.
    pub model: String,
    /// CRC-32 of the model's shape, as JSON, in eight hexadecimal digits.
    pub shape_digest: String,
    /// Seed of weights and samples.
    pub seed: u64,
}

impl RunIdentity {
    /// The identity of a run that trains this model from this seed.
    pub fn new(model: &ModelSpec, seed: u64) -> Self {
        let shape = serde_json::to_vec(model).expect("a model is plain data");
        Self { model: model.name.clone(), shape_digest: format!("{:08x}", crc32fast::hash(&shape)), seed }
    }

    fn check(&self, found: &Self, place: &str) -> Result<(), StoreError> {
        let pairs = [
            ("model", self.model.clone(), found.model.clone()),
            ("model's shape digest", self.shape_digest.clone(), found.shape_digest.clone()),
            ("seed", self.seed.to_string(), found.seed.to_string()),
        ];
        match pairs.into_iter().find(|(_, expected, found)| expected != found) {
            None => Ok(()),
            Some((what, expected, found)) => {
                Err(StoreError::OtherRun { place: place.to_owned(), what, expected, found })
            }
        }
    }
}

/// One file of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardEntry {
    /// Its name within the step.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// Checksum of all of it.
    #[serde(with = "hexadecimal")]
    pub crc32: u32,
}

impl ShardEntry {
    /// The shard that it holds; none where the name isn't that of a shard.
    pub fn shard(&self) -> Option<Shard> {
        names::shard(&self.file)
    }

    pub(super) fn describe(&self) -> String {
        format!("{} bytes of crc32 {:08x}", self.bytes, self.crc32)
    }
}

/// What a step consists of. It is written once all of that is there: a step without its manifest doesn't exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    schema_version: u32,
    /// Optimizer steps done.
    pub step: u64,
    /// Whose checkpoint it is.
    pub run: RunIdentity,
    /// The files, by shard.
    pub shards: Vec<ShardEntry>,
    #[serde(with = "hexadecimal")]
    crc32: u32,
}

/// All that every version has.
#[derive(Deserialize)]
struct Versioned {
    schema_version: u32,
}

impl Manifest {
    /// The manifest of what writers report; a shard that several replicas have written, all alike, counts once.
    pub(super) fn new(run: &RunIdentity, step: u64, entries: Vec<ShardEntry>) -> Result<Self, StoreError> {
        let mut shards: BTreeMap<Shard, ShardEntry> = BTreeMap::new();
        for entry in entries {
            let shard = entry.shard().expect("entries come from writers, which name files");
            match shards.get(&shard) {
                Some(other) if *other != entry => {
                    let (file, one, other) = (entry.file.clone(), other.describe(), entry.describe());
                    return Err(StoreError::Disagreement { step, file, one, other });
                }
                _ => drop(shards.insert(shard, entry)),
            }
        }
        assert!(!shards.is_empty(), "a step has shards");
        let shards = shards.into_values().collect();
        Ok(Self { schema_version: SCHEMA_VERSION, step, run: run.clone(), shards, crc32: 0 }.sealed())
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("a manifest is plain data");
        text.push(b'\n');
        text
    }

    /// Reads the step's manifest; nothing where there is none.
    pub(super) fn read(store: &dyn ObjectStore, run: &RunIdentity, step: u64) -> Result<Option<Self>, StoreError> {
        let name = names::manifest(step);
        let Some(bytes) = store.get(&name)? else { return Ok(None) };
        Self::from_json(&bytes, run, step, &store.place(&name)).map(Some)
    }

    fn from_json(bytes: &[u8], run: &RunIdentity, step: u64, place: &str) -> Result<Self, StoreError> {
        let damaged =
            |expected: String, found: String| StoreError::Damaged { place: place.to_owned(), expected, found };
        let unreadable = |error: serde_json::Error| damaged("a manifest".into(), format!("`{error}`"));
        let version: Versioned = serde_json::from_slice(bytes).map_err(unreadable)?;
        if version.schema_version != SCHEMA_VERSION {
            let (expected, found) = (SCHEMA_VERSION, version.schema_version);
            return Err(StoreError::Version { place: place.to_owned(), expected, found });
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(unreadable)?;
        let sealed = manifest.clone().sealed();
        if sealed.crc32 != manifest.crc32 {
            let text = |manifest: &Self| format!("crc32 {:08x}", manifest.crc32);
            return Err(damaged(text(&sealed), text(&manifest)));
        }
        run.check(&manifest.run, place)?;
        if manifest.step != step {
            return Err(damaged(format!("step {step}"), format!("step {}", manifest.step)));
        }
        let shards: Vec<Option<Shard>> = manifest.shards.iter().map(ShardEntry::shard).collect();
        if shards.contains(&None) || !shards.is_sorted_by(|one, next| one < next) {
            return Err(damaged("files of shards, in order".into(), "others".into()));
        }
        Ok(manifest)
    }

    /// The manifest with the checksum of all else in it.
    fn sealed(mut self) -> Self {
        self.crc32 = 0;
        self.crc32 = crc32fast::hash(&serde_json::to_vec(&self).expect("a manifest is plain data"));
        self
    }
}

/// Checksums as eight hexadecimal digits.
mod hexadecimal {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub fn serialize<S: Serializer>(value: &u32, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{value:08x}"))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
        let text = String::deserialize(deserializer)?;
        let value = u32::from_str_radix(&text, 16).map_err(D::Error::custom)?;
        if format!("{value:08x}") == text { Ok(value) } else { Err(D::Error::custom("not eight hexadecimal digits")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> RunIdentity {
        RunIdentity::new(&ModelSpec::preset("bert-large").unwrap(), 7)
    }

    fn entry(file: &str, crc32: u32) -> ShardEntry {
        ShardEntry { file: file.into(), bytes: 10, crc32 }
    }

    fn manifest() -> Manifest {
        let entries = vec![entry("head.slice-0.safetensors", 3), entry("layer-00001.slice-7.safetensors", 2)];
        Manifest::new(&run(), 120, entries).unwrap()
    }

    fn error_of(text: &str) -> String {
        Manifest::from_json(text.as_bytes(), &run(), 120, "ckpt/m.json").unwrap_err().to_string()
    }

    #[test]
    fn a_manifest_goes_there_and_back() {
        let manifest = manifest();
        assert_eq!(Manifest::from_json(&manifest.to_json(), &run(), 120, "").unwrap(), manifest);
        assert_eq!(manifest.shards[0].file, "layer-00001.slice-7.safetensors", "blocks from the input side");
    }

    #[test]
    fn the_example_in_the_documentation_is_one() {
        let document = include_str!("../../../../docs/formats.md");
        let section = document.split("\n## ").find(|section| section.starts_with("Checkpoints\n")).unwrap();
        let text = section.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
        let manifest = Manifest::from_json(text.as_bytes(), &run(), 120, "formats.md").unwrap();
        assert_eq!(String::from_utf8(manifest.to_json()).unwrap(), text);
    }

    #[test]
    fn replicas_may_write_the_same_but_nothing_else() {
        let file = "head.slice-0.safetensors";
        let twice = Manifest::new(&run(), 1, vec![entry(file, 3), entry(file, 3)]).unwrap();
        assert_eq!(twice.shards, [entry(file, 3)]);
        let message = Manifest::new(&run(), 1, vec![entry(file, 3), entry(file, 4)]).unwrap_err().to_string();
        assert!(message.contains(file) && message.contains("00000003") && message.contains("hint:"), "{message}");
    }

    #[test]
    fn another_model_shape_or_seed_is_refused_by_name() {
        let bytes = manifest().to_json();
        let gpt = ModelSpec::preset("gpt3-6.7b").unwrap();
        let deeper = ModelSpec { num_layers: 25, ..ModelSpec::preset("bert-large").unwrap() };
        let cases = [
            (RunIdentity::new(&gpt, 7), "its model is `bert-large`, expected `gpt3-6.7b`"),
            (RunIdentity::new(&deeper, 7), "its model's shape digest is"),
            (RunIdentity { seed: 8, ..run() }, "its seed is `7`, expected `8`"),
        ];
        for (other, expected) in cases {
            let message = Manifest::from_json(&bytes, &other, 120, "ckpt/m.json").unwrap_err().to_string();
            assert!(message.starts_with("`ckpt/m.json` is of another run"), "{message}");
            assert!(message.contains(expected) && message.contains("hint:"), "{message}");
        }
    }

    #[test]
    fn what_is_no_manifest_of_the_step_is_refused() {
        let text = String::from_utf8(manifest().to_json()).unwrap();
        assert!(error_of("{").contains("expected a manifest"));
        assert!(error_of("").contains("expected a manifest"));
        assert!(error_of(&text.replace("\"schema_version\": 1", "\"schema_version\": 2")).contains("schema version 2"));
        assert!(error_of(&text.replace("\"step\": 120", "\"step\": 121")).contains("crc32"));
        assert!(error_of(&text.replace("\"bytes\": 10", "\"bytes\": 11")).contains("crc32"));
        assert!(error_of(&text.replace("\"run\"", "\"ran\"")).contains("unknown field"));
        let other = Manifest { step: 121, ..manifest() }.sealed();
        assert!(error_of(&String::from_utf8(other.to_json()).unwrap()).contains("expected step 120, found step 121"));
        for file in ["../../secret", "head.slice-0.safetensors"] {
            let shards = vec![entry("head.slice-0.safetensors", 3), entry(file, 3)];
            let other = Manifest { shards, ..manifest() }.sealed();
            assert!(error_of(&String::from_utf8(other.to_json()).unwrap()).contains("files of shards, in order"));
        }
    }

    proptest::proptest! {
        #[test]
        fn no_flipped_bit_changes_what_is_read(position in 0_usize..1 << 20, bit in 0_u8..8) {
            let manifest = manifest();
            let mut bytes = manifest.to_json();
            let position = position % bytes.len();
            bytes[position] ^= 1 << bit;
            if let Ok(read) = Manifest::from_json(&bytes, &run(), 120, "") {
                // White space between the words isn't part of what is said.
                proptest::prop_assert_eq!(read, manifest);
            }
        }
    }
}
