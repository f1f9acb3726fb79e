//! All records of some datasets, predicted, by source.

use super::{Dataset, Errors, Predictor, Reading, Record, Skip};
use crate::profile::ProfileError;
use indexmap::IndexMap;
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What became of all records.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Accuracy {
    /// By source, in the order in which the datasets name them.
    pub sources: IndexMap<String, SourceAccuracy>,
    /// Records without a prediction.
    pub skipped: Vec<SkippedRun>,
}

/// A record without a prediction.
pub type SkippedRun = Skip;

/// The predictions of one source's runs.
#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct SourceAccuracy {
    /// Times.
    pub time: Vec<Record>,
    /// Memory.
    pub memory: Vec<Record>,
}

impl Accuracy {
    /// Predicts all runs of a dataset, with profiles where these measure a model.
    ///
    /// # Errors
    /// Where a profile can't be used.
    pub fn of(dataset: &Dataset, profiles: &[PathBuf]) -> Result<Self, ProfileError> {
        let predictor = Predictor::new(profiles, dataset.runs())?;
        let predict = |reading: &Reading| match reading {
            Reading::Run(run) => predictor.predict(run),
            Reading::Skipped(skip) => Err(skip.clone()),
        };
        let predicted: Vec<Result<Vec<Record>, Skip>> = dataset.readings.par_iter().map(predict).collect();
        let mut accuracy = Self::default();
        for predicted in predicted {
            match predicted {
                Ok(records) => records.into_iter().for_each(|record| accuracy.add(record)),
                Err(skip) => accuracy.skipped.push(skip),
            }
        }
        Ok(accuracy)
    }

    fn add(&mut self, record: Record) {
        let source = self.sources.entry(record.source.clone()).or_default();
        if record.is_time { source.time.push(record) } else { source.memory.push(record) }
    }

    /// How many records were skipped for each reason, the most frequent first.
    pub fn reasons(&self) -> Vec<(&str, usize)> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for skip in &self.skipped {
            *counts.entry(&skip.reason).or_default() += 1;
        }
        let mut reasons: Vec<_> = counts.into_iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        reasons
    }

    /// All records, source by source, times first.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.sources.values().flat_map(|source| source.time.iter().chain(&source.memory))
    }
}

impl SourceAccuracy {
    /// Errors of its times and of its memory.
    pub fn errors(&self) -> [Option<Errors>; 2] {
        [Errors::of(&self.time), Errors::of(&self.memory)]
    }
}
