//! The profile's file: JSON, one entry per measured point.

use super::blocks::MeasuredBlock;
use super::sailor::SailorFile;
use super::{Curve, LayerProfile, ProfileError, SCHEMA_VERSION};
use crate::cluster::GpuSpec;
use crate::input;
use crate::model::{Block, Precision};
use crate::units::format_number;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::path::Path;

/// Longest believable pass through one block: an hour.
const LONGEST_PASS_S: f64 = 3600.0;
/// Longest believable optimizer step, per parameter.
const LONGEST_STEP_S_PER_PARAMETER: f64 = 1e-3;
/// Longest believable latency of a message.
const LONGEST_LATENCY_S: f64 = 60.0;
/// Believable factors between two passes through one block.
const FACTORS: RangeInclusive<f64> = 0.1..=100.0;
/// Believable rates of links.
const BYTES_PER_S: RangeInclusive<f64> = 1.0..=1e15;

/// A profile as it stands in its file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProfileFile {
    /// [`SCHEMA_VERSION`] of the writer.
    #[cfg_attr(test, schemars(extend("const" = SCHEMA_VERSION)))]
    pub schema_version: u32,
    /// Name of the model.
    pub model: String,
    /// The measured points.
    pub entries: Vec<ProfileEntry>,
    /// What messages between two processes took, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<MeasuredLinks>,
}

/// What the transport between two ranks was measured to do, copies and checksums at both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MeasuredLinks {
    /// Seconds between one pass and the next on a rank that waits for nothing.
    pub dispatch_s: f64,
    /// Seconds from the end of one rank's pass to the start of the next one's, beside the message's bytes and the
    /// dispatch.
    pub latency_s: f64,
    /// Bytes a second from one rank to another.
    pub bytes_per_s: f64,
    /// Seconds of each step of an all-reduce beside its bytes: `n` members take `2 (n - 1)` steps.
    pub all_reduce_latency_s: f64,
    /// Bytes a second that each link of an all-reduce's ring carries, additions included.
    pub all_reduce_bytes_per_s: f64,
}

/// What was measured on one GPU type at one tensor-parallel degree and micro-batch size.
///
/// Times are those of one micro batch without recomputation, tensor-parallel collectives included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProfileEntry {
    /// GPU type, by any of its names.
    pub gpu: String,
    /// Tensor-parallel degree `t`.
    pub tensor_parallel_size: u32,
    /// Samples per micro batch.
    pub micro_batch_size: u32,
    /// Number format; fp16 where it is left out.
    #[serde(default)]
    pub precision: Precision,
    /// One transformer layer.
    pub layer: Measured,
    /// The embedding; estimated where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedding: Option<Measured>,
    /// Final norm, projection and loss; estimated where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Measured>,
    /// Seconds of the optimizer step for each parameter of a rank; estimated where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimizer_s_per_parameter: Option<f64>,
    /// How many times as long a layer's backward pass takes in the last micro batch, while gradients of the layers behind it
    /// are reduced; one where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_backward_factor: Option<f64>,
    /// Seconds of the optimizer step of the model that was measured, as it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimizer_step_s: Option<f64>,
    /// All blocks from the embedding to the head, where they were measured one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<MeasuredBlock>,
}

/// Seconds of one forward and one backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The forward pass.
    pub forward_s: f64,
    /// The backward pass, without recomputation.
    pub backward_s: f64,
}

impl ProfileEntry {
    /// The times of one kind of block.
    pub(super) fn block(&self, block: Block) -> Option<Measured> {
        match block {
            Block::Embedding => self.embedding,
            Block::Layer(_) => Some(self.layer),
            Block::Head => self.head,
        }
    }

    fn check(&self) -> Result<(), String> {
        if self.tensor_parallel_size == 0 || self.micro_batch_size == 0 {
            return Err("`tensor_parallel_size` and `micro_batch_size` must be above zero".to_owned());
        }
        if let Some(seconds) = self.optimizer_s_per_parameter {
            check_range("optimizer_s_per_parameter", seconds, LONGEST_STEP_S_PER_PARAMETER)?;
        }
        if let Some(factor) = self.last_backward_factor
            && !FACTORS.contains(&factor)
        {
            let expected = format!("expected {} to {}", FACTORS.start(), FACTORS.end());
            return Err(format!("`last_backward_factor` is `{}`, {expected}", format_number(factor)));
        }
        if let Some(seconds) = self.optimizer_step_s {
            check_range("optimizer_step_s", seconds, LONGEST_PASS_S)?;
        }
        for (index, block) in self.blocks.iter().enumerate() {
            for (pass, seconds) in [("forward_s", block.forward_s), ("backward_s", block.backward_s)] {
                check_range(&format!("blocks[{index}].{pass}"), seconds, LONGEST_PASS_S)?;
            }
        }
        let blocks = [("layer", Some(self.layer)), ("embedding", self.embedding), ("head", self.head)];
        for (name, measured) in blocks.iter().filter_map(|(name, measured)| Some((name, (*measured)?))) {
            for (pass, seconds) in [("forward_s", measured.forward_s), ("backward_s", measured.backward_s)] {
                check_range(&format!("{name}.{pass}"), seconds, LONGEST_PASS_S)?;
            }
        }
        Ok(())
    }
}

impl MeasuredLinks {
    fn check(&self) -> Result<(), String> {
        let latencies = [
            ("dispatch_s", self.dispatch_s),
            ("latency_s", self.latency_s),
            ("all_reduce_latency_s", self.all_reduce_latency_s),
        ];
        for (name, latency_s) in latencies {
            if !(0.0..=LONGEST_LATENCY_S).contains(&latency_s) {
                let expected = format!("expected seconds from zero to {LONGEST_LATENCY_S}");
                return Err(format!("`links.{name}` is `{}`, {expected}", format_number(latency_s)));
            }
        }
        let rates = [("bytes_per_s", self.bytes_per_s), ("all_reduce_bytes_per_s", self.all_reduce_bytes_per_s)];
        for (name, rate) in rates {
            if !BYTES_PER_S.contains(&rate) {
                let expected = format!("expected {} to {}", BYTES_PER_S.start(), BYTES_PER_S.end());
                return Err(format!("`links.{name}` is `{}`, {expected}", format_number(rate)));
            }
        }
        Ok(())
    }
}

/// Refuses what aren't seconds above zero and at most `limit_s`.
fn check_range(name: &str, seconds: f64, limit_s: f64) -> Result<(), String> {
    if seconds > 0.0 && seconds <= limit_s {
        return Ok(());
    }
    Err(format!("`{name}` is `{}`, expected seconds above zero, at most {limit_s}", format_number(seconds)))
}

impl ProfileFile {
    /// Reads a file in any of the known formats, told apart by the keys that it has.
    pub(super) fn read(path: &Path) -> Result<Self, ProfileError> {
        let text = input::read_text(path)
            .map_err(|error| ProfileError::Read { path: path.display().to_string(), problem: error.to_string() })?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads the text of a file in any of the known formats; `path` names it in errors.
    pub(super) fn parse(text: &str, path: &str) -> Result<Self, ProfileError> {
        /// What only a file of Sailor's has.
        #[derive(Deserialize)]
        struct Probe {
            by_micro_batch_size: Option<IgnoredAny>,
        }
        if parse::<Probe>(text, path)?.by_micro_batch_size.is_none() {
            return parse(text, path);
        }
        let file: SailorFile = parse(text, path)?;
        file.into_profile().map_err(|problem| ProfileError::Sailor { path: path.to_owned(), problem })
    }
}

fn parse<T: DeserializeOwned>(text: &str, path: &str) -> Result<T, ProfileError> {
    serde_json::from_str(text).map_err(|error| ProfileError::Json {
        path: path.to_owned(),
        line: error.line(),
        column: error.column(),
        problem: problem(&error),
    })
}

impl LayerProfile {
    /// Reads a profile from its JSON file.
    pub fn read(path: &Path) -> Result<Self, ProfileError> {
        Self::from_entries(ProfileFile::read(path)?, &path.display().to_string())
    }

    /// Reads a profile from JSON; `path` names it in errors.
    ///
    /// ```
    /// use autohet::profile::LayerProfile;
    /// let entry = r#"{"gpu": "T4", "tensor_parallel_size": 1, "micro_batch_size": 1, "layer": {"forward_s": 0.01, "backward_s": 0.02}}"#;
    /// let text = format!(r#"{{"schema_version": 1, "model": "bert-large", "entries": [{entry}]}}"#);
    /// assert_eq!(LayerProfile::from_json(&text, "mine.json")?.model(), "bert-large");
    /// # Ok::<(), autohet::profile::ProfileError>(())
    /// ```
    pub fn from_json(text: &str, path: &str) -> Result<Self, ProfileError> {
        Self::from_entries(ProfileFile::parse(text, path)?, path)
    }

    /// Checks and sorts the entries; `path` names their origin in errors.
    pub fn from_entries(file: ProfileFile, path: &str) -> Result<Self, ProfileError> {
        let mut profile = Self { model: file.model.clone(), curves: Vec::new(), links: None, is_whole: false };
        profile.add(file, path)?;
        Ok(profile)
    }

    /// Adds the measurements of one more file.
    pub(super) fn add(&mut self, file: ProfileFile, path: &str) -> Result<(), ProfileError> {
        if file.schema_version != SCHEMA_VERSION {
            let path = path.to_owned();
            return Err(ProfileError::Version { path, found: file.schema_version, expected: SCHEMA_VERSION });
        }
        if let Some(problem) = file.links.and_then(|links| links.check().err()) {
            return Err(ProfileError::Links { path: path.to_owned(), problem });
        }
        self.links = self.links.or(file.links);
        for (index, entry) in file.entries.into_iter().enumerate() {
            let refused = |problem| ProfileError::Entry { path: path.to_owned(), entry: index + 1, problem };
            self.insert(entry).map_err(refused)?;
        }
        Ok(())
    }

    /// Refuses blocks that don't agree with those of earlier entries: as many of them, and holding the same at the same
    /// degree, whatever the type.
    fn check_blocks(&self, entry: &ProfileEntry) -> Result<(), String> {
        if entry.blocks.is_empty() {
            return Ok(());
        }
        let found = entry.blocks.len();
        if let Some(known) = self.block_count().filter(|known| *known != found) {
            return Err(format!("`blocks` has {found} of them, in earlier entries there are {known}"));
        }
        let same = self.memory(entry.tensor_parallel_size, entry.precision);
        let differs = |known| entry.blocks.iter().filter_map(|block| block.memory).zip(known).any(|(a, b)| a != b);
        if same.is_some_and(differs) {
            let degree = entry.tensor_parallel_size;
            return Err(format!(
                "`memory` of a block isn't that of earlier entries at tensor-parallel size `{degree}`"
            ));
        }
        Ok(())
    }

    fn insert(&mut self, entry: ProfileEntry) -> Result<(), String> {
        entry.check()?;
        self.check_blocks(&entry)?;
        let gpu = GpuSpec::lookup(&entry.gpu).map_or_else(|_| entry.gpu.clone(), |spec| spec.name.clone());
        let found = self.curves.iter_mut().find(|curve| {
            curve.gpu == gpu
                && curve.precision == entry.precision
                && curve.tensor_parallel_size == entry.tensor_parallel_size
        });
        let size = entry.micro_batch_size;
        let Some(curve) = found else {
            let (precision, tensor_parallel_size) = (entry.precision, entry.tensor_parallel_size);
            self.curves.push(Curve { gpu, precision, tensor_parallel_size, points: vec![(size, entry)] });
            return Ok(());
        };
        match curve.points.binary_search_by_key(&size, |(size, _)| *size) {
            Ok(_) => Err(format!("a second measurement of `{gpu}` at micro-batch size `{size}`")),
            Err(place) => {
                curve.points.insert(place, (size, entry));
                Ok(())
            }
        }
    }
}

/// The message without the place, which is given before it.
fn problem(error: &serde_json::Error) -> String {
    let message = error.to_string();
    message.rsplit_once(" at line ").map_or(message.clone(), |(problem, _)| problem.to_owned())
}
