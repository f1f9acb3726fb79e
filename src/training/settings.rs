//! What a run trains with beside what tells its checkpoints from those of others. Its checkpoints have it beside them, so
//! that a run that goes on from them with something else says so.

use crate::runtime::device::DataSet;
use crate::runtime::device::messages::Job;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Its file in the folder of checkpoints.
const FILE: &str = "settings.json";

/// By the options that say them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Settings(BTreeMap<String, String>);

impl Settings {
    pub(super) fn new(job: &Job, data: &DataSet) -> Self {
        let rate = &job.learning_rate;
        let or_none = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
        let settings = [
            ("--data", data.fingerprint()),
            ("--global-batch-size", job.plan.global_batch_size.to_string()),
            ("--precision", job.plan.precision.to_string()),
            ("--learning-rate", rate.peak.to_string()),
            ("--warmup-steps", rate.warmup_steps.to_string()),
            ("--decay-steps", or_none(rate.decay_steps.map(|step| step.to_string()))),
            ("--min-learning-rate", rate.minimum.to_string()),
            ("--clip-norm", or_none(job.clip_norm.map(|norm| norm.to_string()))),
            ("--weight-decay", job.optimizer.weight_decay.to_string()),
        ];
        Self(settings.into_iter().map(|(option, value)| (option.to_owned(), value)).collect())
    }

    /// Those of the run that kept its checkpoints here before; nothing where they can't be read.
    pub(super) fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(folder.join(FILE)).ok()?).ok()
    }

    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        // Under another name first: half a file would say nothing of what was trained with.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all((serde_json::to_string_pretty(self)? + "\n").as_bytes())?;
        file.persist(folder.join(FILE)).map(drop).map_err(|error| error.error)
    }

    /// What is another than it was: option, value, value before.
    pub(super) fn differences(&self, before: &Self) -> Vec<String> {
        let differs = |(option, value): (&String, &String)| {
            let before = before.0.get(option).filter(|before| *before != value)?;
            Some(format!("`{option}` is {value}, it was {before}"))
        };
        self.0.iter().filter_map(differs).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelSpec;
    use crate::plan::Plan;
    use crate::runtime::device::{Corpus, TokenFormat};

    fn job() -> Job {
        let text = r#"{
            "schema_version": 2, "planner": "by hand", "model": "gpt-tiny", "global_batch_size": 2, "micro_batch_size": 1,
            "sequence_parallel": false, "recompute": "none", "precision": "fp32", "schedule": "1f1b",
            "replicas": [{ "micro_batches": 2, "stages": [
                { "node": "n0", "gpus": [0], "gpu_type": "T4", "first_layer": 0, "num_layers": 4 }
            ] }]
        }"#;
        Job::new(Plan::from_json(text, "plan").unwrap(), ModelSpec::preset("gpt-tiny").unwrap(), 1)
    }

    #[test]
    fn what_is_another_than_before_is_found() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Settings::read(folder.path()), None);
        let before = Settings::new(&job(), &DataSet::Synthetic);
        before.write(folder.path()).unwrap();
        assert_eq!(Settings::read(folder.path()), Some(before.clone()));
        assert!(before.differences(&before).is_empty());
        let mut other = job();
        other.learning_rate.peak = 5e-4;
        other.plan.global_batch_size = 16;
        let corpus = DataSet::Corpus(Corpus::from_bytes(TokenFormat::Text, b"text".to_vec()));
        let differences = Settings::new(&other, &corpus).differences(&before);
        let expected = [
            "`--data` is text of 4 bytes (crc32 3b8ba7c7), it was synthetic",
            "`--global-batch-size` is 16, it was 2",
            "`--learning-rate` is 0.0005, it was 0.001",
        ];
        assert_eq!(differences, expected);
    }
}
