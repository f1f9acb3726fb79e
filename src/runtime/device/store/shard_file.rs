//! One shard as a safetensors file: its three vectors as tensors, and metadata that say what it is.

use super::manifest::RunIdentity;
use super::{ShardEntry, StoreError, names};
use crate::model::Shard;
use crate::runtime::device::BlockState;
use crate::runtime::device::numbers::{to_bytes, vector};
use crc32fast::Hasher;
use safetensors::tensor::{Metadata, SafeTensors};
use safetensors::{Dtype, SafeTensorError};
use serde_json::json;
use std::borrow::Cow;

/// Version of the metadata.
const SCHEMA_VERSION: u32 = 1;
/// The header's length comes first, in as many bytes.
const LENGTH_BYTES: usize = 8;
/// The tensors begin at a multiple of this, as the format's own writer has it.
const ALIGNMENT: usize = 8;
/// The tensors, in their order.
const TENSORS: [&str; 3] = ["values", "mean", "mean_of_squares"];

/// A shard as the parts of its file, which are borrowed from the state where the machine is little-endian.
pub(super) struct Encoded<'a> {
    pub(super) entry: ShardEntry,
    header: Vec<u8>,
    tensors: [Cow<'a, [u8]>; 3],
}

impl Encoded<'_> {
    /// All parts, in order.
    pub(super) fn parts(&self) -> [&[u8]; 4] {
        let [values, mean, mean_of_squares] = &self.tensors;
        [&self.header, values, mean, mean_of_squares]
    }
}

/// The file of a shard. Equal states make equal bytes, whoever writes them.
pub(super) fn encode<'a>(run: &RunIdentity, step: u64, shard: Shard, state: &'a BlockState) -> Encoded<'a> {
    let vectors = [&state.values, &state.mean, &state.mean_of_squares];
    assert!(vectors.iter().all(|vector| vector.len() == state.values.len()), "moments are as long as what they are of");
    let tensors = vectors.map(|vector| to_bytes(vector));
    let mut content = Hasher::new();
    for tensor in &tensors {
        content.update(tensor);
    }
    let header = header(run, step, shard, state.values.len(), &content);
    let mut whole = Hasher::new();
    whole.update(&header);
    whole.combine(&content);
    let bytes = header.len() + tensors.iter().map(|tensor| tensor.len()).sum::<usize>();
    let entry = ShardEntry { file: names::file(shard), bytes: bytes as u64, crc32: whole.finalize() };
    Encoded { entry, header, tensors }
}

/// The header with its length, padded with spaces. It is written here rather than by the library, whose metadata are a
/// hash map, so that replicas write the same bytes.
fn header(run: &RunIdentity, step: u64, shard: Shard, length: usize, content: &Hasher) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let metadata = metadata(run, step, shard).into_iter().chain([("crc32", crc32_text(content))]);
    header.insert("__metadata__".into(), metadata.map(|(key, value)| (key.to_owned(), json!(value))).collect());
    for (index, name) in TENSORS.into_iter().enumerate() {
        let bytes = length * size_of::<f32>();
        let offsets = [index * bytes, (index + 1) * bytes];
        header.insert(name.into(), json!({ "dtype": "F32", "shape": [length], "data_offsets": offsets }));
    }
    let text = serde_json::Value::Object(header).to_string();
    let padded = text.len().next_multiple_of(ALIGNMENT);
    let mut bytes = (padded as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes.resize(LENGTH_BYTES + padded, b' ');
    bytes
}

/// What the metadata say about a shard, apart from the checksum.
fn metadata(run: &RunIdentity, step: u64, shard: Shard) -> [(&'static str, String); 7] {
    [
        ("schema_version", SCHEMA_VERSION.to_string()),
        ("model", run.model.clone()),
        ("shape_digest", run.shape_digest.clone()),
        ("seed", run.seed.to_string()),
        ("step", step.to_string()),
        ("block", names::block(shard.block)),
        ("slice", shard.slice.to_string()),
    ]
}

fn crc32_text(content: &Hasher) -> String {
    format!("{:08x}", content.clone().finalize())
}

/// What should be in a file.
pub(super) struct Expected<'a> {
    pub(super) run: &'a RunIdentity,
    pub(super) step: u64,
    pub(super) shard: Shard,
    pub(super) entry: &'a ShardEntry,
    /// Where the file is, for messages.
    pub(super) place: &'a str,
}

impl Expected<'_> {
    fn damaged(&self, expected: impl Into<String>, found: impl Into<String>) -> StoreError {
        StoreError::Damaged { place: self.place.to_owned(), expected: expected.into(), found: found.into() }
    }

    /// Looks at the bytes without taking them apart: length and checksum are what the manifest says.
    pub(super) fn check(&self, bytes: &[u8]) -> Result<(), StoreError> {
        self.checksums(bytes).map(drop)
    }

    /// The state in a file of which every byte is as it was written.
    pub(super) fn decode(&self, bytes: &[u8]) -> Result<BlockState, StoreError> {
        let content = self.checksums(bytes)?;
        let unreadable = |error: SafeTensorError| self.damaged("a safetensors file", format!("one with `{error}`"));
        let tensors = SafeTensors::deserialize(bytes).map_err(unreadable)?;
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(unreadable)?;
        self.check_metadata(&header, &content)?;
        let read = |name: &str| {
            let tensor = tensors.tensor(name).map_err(unreadable)?;
            if tensor.dtype() != Dtype::F32 || tensor.shape().len() != 1 {
                let found = format!("{:?} of shape {:?}", tensor.dtype(), tensor.shape());
                return Err(self.damaged(format!("`{name}` as a vector of F32"), found));
            }
            Ok(vector(tensor.data()))
        };
        let [values, mean, mean_of_squares] = TENSORS.map(read);
        let state = BlockState { values: values?, mean: mean?, mean_of_squares: mean_of_squares? };
        let lengths = [state.values.len(), state.mean.len(), state.mean_of_squares.len()];
        if lengths.iter().any(|length| *length != lengths[0]) {
            return Err(self.damaged("three tensors of one length", format!("lengths {lengths:?}")));
        }
        Ok(state)
    }

    /// Compares length and checksum with the manifest's; gives back the checksum of the tensors alone.
    fn checksums(&self, bytes: &[u8]) -> Result<Hasher, StoreError> {
        let length = bytes.len() as u64;
        if length != self.entry.bytes {
            return Err(self.damaged(format!("{} bytes", self.entry.bytes), format!("{length}")));
        }
        let prefix: Option<[u8; LENGTH_BYTES]> = bytes.get(..LENGTH_BYTES).and_then(|prefix| prefix.try_into().ok());
        let header = prefix.map_or(0, |prefix| u64::from_le_bytes(prefix).saturating_add(LENGTH_BYTES as u64));
        let (header, content) = bytes.split_at(header.min(length) as usize);
        let (mut whole, mut tensors) = (Hasher::new(), Hasher::new());
        whole.update(header);
        tensors.update(content);
        whole.combine(&tensors);
        let found = whole.finalize();
        if found != self.entry.crc32 {
            let text = |crc32: u32| format!("crc32 {crc32:08x}");
            return Err(self.damaged(text(self.entry.crc32), text(found)));
        }
        Ok(tensors)
    }

    fn check_metadata(&self, header: &Metadata, content: &Hasher) -> Result<(), StoreError> {
        let wanted = metadata(self.run, self.step, self.shard).into_iter().chain([("crc32", crc32_text(content))]);
        for (key, wanted) in wanted {
            let found = header.metadata().as_ref().and_then(|metadata| metadata.get(key));
            if found != Some(&wanted) {
                let found = found.map_or("none".into(), |found| format!("`{found}`"));
                return Err(self.damaged(format!("`{key}` to be `{wanted}`"), found));
            }
        }
        Ok(())
    }
}
