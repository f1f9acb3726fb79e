//! From options to what the job is made of: data, optimizer, devices, checkpoints.

use super::args::{Backend, CheckpointArgs, DataArgs, DataFormat, DeviceArgs, InjectionArgs, OptimizerArgs};
use crate::cluster::Cluster;
use crate::elastic::AllowedSources;
use crate::runtime::device::messages::StopPhase;
use crate::runtime::device::{AdamW, Corpus, DataSet, DeviceKind, LearningRate, StorePace, TokenFormat};
use crate::training::{CheckpointPlan, KillPoint};
use crate::units::format_number;
use anyhow::anyhow;
use clap::ValueEnum;
use std::path::Path;

/// Where the state of lost ranks is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum RecoverFrom {
    /// Survivors' memory first, then copies in host memory, then disks, the object store last.
    All,
    /// The object store only, as systems do that restart from checkpoints.
    ObjectStore,
}

impl From<RecoverFrom> for AllowedSources {
    fn from(from: RecoverFrom) -> Self {
        match from {
            RecoverFrom::All => Self::All,
            RecoverFrom::ObjectStore => Self::ObjectStore,
        }
    }
}

/// Longest latency of an emulated object store.
const MAX_LATENCY_MS: f64 = 60_000.0;

/// The optimizer, its step size, and the norm to which gradients are clipped.
pub(super) struct OptimizerSettings {
    pub(super) optimizer: AdamW,
    pub(super) learning_rate: LearningRate,
    pub(super) clip_norm: Option<f32>,
}

impl DataArgs {
    /// Reads the data, if it has at most `most_bytes`.
    pub(super) fn read(&self, most_bytes: u64) -> anyhow::Result<DataSet> {
        let Some(path) = &self.data else { return Ok(DataSet::Synthetic) };
        let format = self.data_format.map_or_else(|| by_extension(path), TokenFormat::from);
        Ok(DataSet::Corpus(Corpus::read(path, format, most_bytes)?))
    }
}

impl From<DataFormat> for TokenFormat {
    fn from(format: DataFormat) -> Self {
        match format {
            DataFormat::Text => Self::Text,
            DataFormat::U16 => Self::U16,
            DataFormat::U32 => Self::U32,
        }
    }
}

fn by_extension(path: &Path) -> TokenFormat {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "bin" | "u16" => TokenFormat::U16,
        "u32" => TokenFormat::U32,
        _ => TokenFormat::Text,
    }
}

impl OptimizerArgs {
    pub(super) fn resolve(&self) -> anyhow::Result<OptimizerSettings> {
        let peak = self.learning_rate;
        check("--learning-rate", peak, peak > 0.0, "a number above 0", "AdamW usually takes 1e-4 to 1e-3")?;
        let minimum = self.min_learning_rate.unwrap_or(0.0);
        let expected = "a number from 0 to the learning rate";
        check("--min-learning-rate", minimum, (0.0..=peak).contains(&minimum), expected, "a tenth of it is usual")?;
        if self.min_learning_rate.is_some() && self.decay_steps.is_none() {
            return Err(anyhow!("`--min-learning-rate` has no meaning without `--decay-steps`\nhint: add it"));
        }
        if let Some(end) = self.decay_steps.filter(|end| *end <= self.warmup_steps) {
            return Err(anyhow!(
                "`--decay-steps` is `{end}`, expected a step after the {} of `--warmup-steps`\nhint: it counts from the first step, as the number of all steps does",
                self.warmup_steps
            ));
        }
        let clip = self.clip_norm;
        check("--clip-norm", clip, clip >= 0.0, "a number of 0 or more", "0 turns clipping off")?;
        let decay = self.weight_decay;
        check("--weight-decay", decay, (0.0..=1.0).contains(&decay), "a number from 0 to 1", "0.01 and 0.1 are usual")?;
        Ok(OptimizerSettings {
            optimizer: AdamW { weight_decay: decay, ..AdamW::default() },
            learning_rate: LearningRate {
                peak,
                warmup_steps: self.warmup_steps,
                decay_steps: self.decay_steps,
                minimum,
            },
            clip_norm: (clip > 0.0).then_some(clip),
        })
    }
}

fn check(option: &str, value: f32, is_right: bool, expected: &str, hint: &str) -> anyhow::Result<()> {
    if value.is_finite() && is_right {
        return Ok(());
    }
    Err(anyhow!("`{option}` is `{value}`, expected {expected}\nhint: {hint}"))
}

impl DeviceArgs {
    pub(super) fn kind(&self) -> anyhow::Result<DeviceKind> {
        match (self.backend, &self.device_map) {
            (Backend::Cuda, map) => Ok(DeviceKind::Cuda { indices: map.clone().unwrap_or_else(|| vec![0]) }),
            (_, None) => Ok(DeviceKind::Cpu),
            (_, Some(_)) => Err(anyhow!(
                "`--device-map` names GPUs, the backend is `{}`\nhint: add `--backend cuda`",
                self.backend_name()
            )),
        }
    }
}

impl CheckpointArgs {
    /// Where checkpoints go.
    pub(super) fn resolve(&self) -> anyhow::Result<Option<CheckpointPlan>> {
        let rates = [("--store-mb-per-s", self.store_mb_per_s), ("--store-total-mb-per-s", self.store_total_mb_per_s)];
        for (option, rate) in rates {
            if let Some(rate) = rate.filter(|rate| !(rate.is_finite() && *rate > 0.0)) {
                let rate = format_number(rate);
                return Err(anyhow!(
                    "`{option}` is `{rate}`, expected a number above 0\nhint: leave it out for a store as fast as the disk"
                ));
            }
        }
        if !(0.0..=MAX_LATENCY_MS).contains(&self.store_latency_ms) {
            let latency = format_number(self.store_latency_ms);
            return Err(anyhow!(
                "`--store-latency-ms` is `{latency}`, expected a number from 0 to {MAX_LATENCY_MS}\nhint: object stores take 10 to 100"
            ));
        }
        let [bytes_per_s, total_bytes_per_s] = rates.map(|(_, rate)| rate.map(|rate| rate * 1e6));
        let pace = StorePace { bytes_per_s, total_bytes_per_s, latency_s: self.store_latency_ms / 1e3 };
        let (every, peer_copies) = (self.checkpoint_every, self.peer_copies);
        Ok(self.checkpoint_dir.clone().map(|folder| CheckpointPlan { folder, every, pace, peer_copies }))
    }
}

impl InjectionArgs {
    /// Refuses what could never happen: kills of nodes that there never are (`nodes` are all that there can be) or after
    /// the last step, and kills and recoveries that take checkpoints where none are kept.
    pub(super) fn check(&self, nodes: &Cluster, steps: u32, has_checkpoints: bool) -> anyhow::Result<()> {
        let names = nodes.nodes.iter().map(|node| node.name.as_str());
        if let Some(KillPoint { node, .. }) = self.kill.iter().find(|kill| nodes.find(&kill.node).is_none()) {
            let hint = crate::suggest::hint(node, names);
            return Err(anyhow!("`--kill` names node `{node}`, which there never is\nhint: {hint}"));
        }
        if let Some(kill) = self.kill.iter().find(|kill| kill.at.step > u64::from(steps)) {
            return Err(anyhow!(
                "`--kill` of node `{}` is in iteration {}, the run has {steps}\nhint: name an earlier one, or give more `--steps`",
                kill.node,
                kill.at.step
            ));
        }
        let in_checkpoint = self.kill.iter().any(|kill| kill.at.phase == StopPhase::Checkpoint);
        let option = match (has_checkpoints, in_checkpoint, self.recover_from) {
            (false, true, _) => "--kill` in the phase `checkpoint",
            (false, _, RecoverFrom::ObjectStore) => "--recover-from object-store",
            _ => return Ok(()),
        };
        Err(anyhow!("`{option}` takes checkpoints, and none are kept\nhint: add `--checkpoint-dir FOLDER`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_go_by_the_end_of_the_name() {
        let formats =
            ["a.bin", "a.U16", "a.u32", "a.txt", "bin", "a.bin.txt"].map(|name| by_extension(Path::new(name)));
        let (text, u16, u32) = (TokenFormat::Text, TokenFormat::U16, TokenFormat::U32);
        assert_eq!(formats, [u16, u16, u32, text, text, text]);
    }
}
