//! Profiles of Sailor (SOSP'25): one file for a model, a GPU type and a tensor-parallel degree, in fp32.
//!
//! Times are seconds of one micro batch by block, the embedding first and the head last, tensor-parallel collectives
//! included; parameters and activations are numbers on one GPU of the group. Three things to know:
//!
//! - `update_s` is the optimizer step of the whole model that was measured, which had two layers, and the same number
//!   stands at every block: divided by that model's parameters it is the step of one parameter.
//! - The backward pass of the embedding wasn't measured and stands there with a few microseconds.
//! - Points that ran out of memory are left out, and so aren't measured here either.
//! - Smaller micro batches were measured first, and some took longer than larger ones: an embedding twice as long for one
//!   sample as for two. No pass does, so that it is believed to take what the larger one took.

use super::{BlockMemory, Measured, MeasuredBlock, ProfileEntry, ProfileFile, SCHEMA_VERSION};
use crate::model::Precision;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Layers of the model whose optimizer step was measured.
const LAYERS_OF_MEASURED_STEP: usize = 2;
/// A last layer that takes less than this share of the one before it is no transformer layer but the final norm.
const NORM_SHARE: f64 = 0.1;

/// What stands where a backward pass wasn't measured.
const UNMEASURED_S: f64 = 1e-6;

/// Names of their models that are presets here.
const MODELS: [(&str, &str); 1] = [("OPT-350", "opt-350m")];

/// The file. It may have further keys, such as `units`, which are for people.
#[derive(Deserialize)]
pub(super) struct SailorFile {
    model: String,
    gpu: String,
    tp: u32,
    bytes_per_float: u64,
    layers: Vec<Layer>,
    by_micro_batch_size: BTreeMap<u32, Times>,
}

#[derive(Deserialize)]
struct Layer {
    params_count: Option<u64>,
    output_act_floats_per_sample: Option<u64>,
    stored_act_floats_per_sample: Option<u64>,
}

#[derive(Deserialize)]
struct Times {
    #[serde(rename = "fwd_s")]
    forward: Vec<f64>,
    #[serde(rename = "bwd_s")]
    backward: Vec<f64>,
    #[serde(rename = "update_s")]
    update: Vec<f64>,
}

/// What a model of Sailor's is called here.
pub fn model_of_sailor(name: &str) -> String {
    let known = MODELS.iter().find(|(theirs, _)| *theirs == name);
    known.map_or_else(|| name.to_lowercase(), |(_, ours)| (*ours).to_owned())
}

impl SailorFile {
    /// The same measurements as entries of our own format; an error says what can't be.
    pub(super) fn into_profile(self) -> Result<ProfileFile, String> {
        if self.bytes_per_float != 4 {
            return Err(format!("`bytes_per_float` is `{}`, expected `4`", self.bytes_per_float));
        }
        if self.layers.len() < 3 {
            return Err(format!("`layers` has {} of them, expected embedding, layers and head", self.layers.len()));
        }
        let entries = self.by_micro_batch_size.iter().map(|(size, times)| self.entry(*size, times));
        let mut entries = entries.collect::<Result<Vec<_>, String>>()?;
        put_in_order(&mut entries);
        let model = model_of_sailor(&self.model);
        Ok(ProfileFile { schema_version: SCHEMA_VERSION, model, entries, links: None })
    }

    fn entry(&self, micro_batch_size: u32, times: &Times) -> Result<ProfileEntry, String> {
        let count = self.layers.len();
        for (key, list) in [("fwd_s", &times.forward), ("bwd_s", &times.backward), ("update_s", &times.update)] {
            if list.len() != count {
                let found = list.len();
                return Err(format!(
                    "`by_micro_batch_size.{micro_batch_size}.{key}` has {found} times for {count} layers"
                ));
            }
        }
        let mut blocks: Vec<MeasuredBlock> = (0..count)
            .map(|block| MeasuredBlock {
                forward_s: times.forward[block],
                backward_s: times.backward[block],
                memory: self.layers[block].memory(),
            })
            .collect();
        // It wasn't measured, and in some files stands there as zero.
        blocks[0].backward_s = blocks[0].backward_s.max(UNMEASURED_S);
        join_norm(&mut blocks);
        let (embedding, head) = (blocks[0].time(), blocks[blocks.len() - 1].time());
        let layers = &blocks[1..blocks.len() - 1];
        let mean = |of: fn(&MeasuredBlock) -> f64| layers.iter().map(of).sum::<f64>() / layers.len() as f64;
        let layer = Measured { forward_s: mean(|b| b.forward_s), backward_s: mean(|b| b.backward_s) };
        // Where the step wasn't measured it stands there as zero.
        let step_s = Some(times.update[0]).filter(|step_s| *step_s > 0.0);
        Ok(ProfileEntry {
            gpu: self.gpu.clone(),
            tensor_parallel_size: self.tp,
            micro_batch_size,
            precision: Precision::Fp32,
            layer,
            embedding: Some(embedding),
            head: Some(head),
            optimizer_s_per_parameter: measured_parameters(&blocks)
                .zip(step_s)
                .map(|(parameters, step_s)| step_s / parameters as f64),
            last_backward_factor: None,
            optimizer_step_s: step_s,
            blocks,
        })
    }
}

impl Layer {
    fn memory(&self) -> Option<BlockMemory> {
        Some(BlockMemory {
            parameters: self.params_count?,
            stored_activations: self.stored_act_floats_per_sample?,
            output_activations: self.output_act_floats_per_sample?,
        })
    }
}

/// Has no micro batch take longer than a larger one. Entries come in the order of their sizes; what was measured block by
/// block stays as it was.
fn put_in_order(entries: &mut [ProfileEntry]) {
    let shorter = |time: Measured, larger: Measured| Measured {
        forward_s: time.forward_s.min(larger.forward_s),
        backward_s: time.backward_s.min(larger.backward_s),
    };
    for index in (1..entries.len()).rev() {
        let [.., entry, larger] = &mut entries[..=index] else { unreachable!("an index from one on") };
        entry.layer = shorter(entry.layer, larger.layer);
        entry.embedding = entry.embedding.zip(larger.embedding).map(|(time, larger)| shorter(time, larger));
        entry.head = entry.head.zip(larger.head).map(|(time, larger)| shorter(time, larger));
    }
}

/// Makes the final norm a part of the head where it was measured as a layer of its own.
fn join_norm(blocks: &mut Vec<MeasuredBlock>) {
    let count = blocks.len();
    let seconds = |block: &MeasuredBlock| block.forward_s + block.backward_s;
    if count < 5 || seconds(&blocks[count - 2]) >= NORM_SHARE * seconds(&blocks[count - 3]) {
        return;
    }
    let norm = blocks.remove(count - 2);
    let head = &mut blocks[count - 2];
    head.forward_s += norm.forward_s;
    head.backward_s += norm.backward_s;
    head.memory = head.memory.zip(norm.memory).map(|(head, norm)| BlockMemory {
        parameters: head.parameters + norm.parameters,
        stored_activations: head.stored_activations + norm.stored_activations,
        output_activations: head.output_activations,
    });
}

/// Parameters of the model whose step was measured.
fn measured_parameters(blocks: &[MeasuredBlock]) -> Option<u64> {
    let layers = blocks[1..blocks.len() - 1].iter().take(LAYERS_OF_MEASURED_STEP);
    let held = [&blocks[0], &blocks[blocks.len() - 1]].into_iter().chain(layers);
    held.map(|block| block.memory.map(|memory| memory.parameters)).sum()
}
