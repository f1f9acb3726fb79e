//! A scenario with the file that it stands in, so that what is wrong with it can be told with its place.

use super::{Scenario, ScenarioError};
use crate::input;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// A scenario that was read from a file.
#[derive(Clone, Debug)]
pub struct ScenarioFile {
    /// What it says; within the ranges that make sense.
    pub scenario: Scenario,
    file: String,
    text: String,
}

impl ScenarioFile {
    /// Reads a file and checks what it says.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let file = path.display().to_string();
        let text = input::read_text(path).map_err(|source| ScenarioError::Read { file: file.clone(), source })?;
        let scenario = Scenario::parse(&text, &file)?;
        let read = Self { scenario, file, text };
        match read.scenario.check() {
            Ok(()) => Ok(read),
            Err(ScenarioError::Value { key, value, expected, hint }) => Err(match read.place_of(key) {
                Some(place) => ScenarioError::Placed { place, key, value, expected, hint },
                None => ScenarioError::Value { key, value, expected, hint },
            }),
            Err(error) => Err(error),
        }
    }

    /// Where a key stands, as `` `file` line 3 ``; `None` where the file doesn't have it.
    pub fn place_of(&self, key: &str) -> Option<String> {
        let root = DeTable::parse(&self.text).ok()?;
        let line = 1 + self.text[..start_of(root.get_ref(), key)?].bytes().filter(|byte| *byte == b'\n').count();
        Some(format!("`{}` line {line}", self.file))
    }
}

/// Where a dotted key starts in the text.
fn start_of(table: &DeTable<'_>, key: &str) -> Option<usize> {
    let (first, rest) = key.split_once('.').map_or((key, None), |(first, rest)| (first, Some(rest)));
    let (name, value) = table.iter().find(|(name, _)| name.get_ref() == first)?;
    match (rest, value.get_ref()) {
        (None, _) => Some(name.span().start),
        (Some(rest), DeValue::Table(inner)) => start_of(inner, rest),
        (Some(_), _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ScenarioFile, ScenarioError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.toml");
        std::fs::write(&path, text).unwrap();
        ScenarioFile::read(&path)
    }

    #[test]
    fn keys_have_places() {
        let read = read("# a job\nmodel = \"llama-7b\"\n\n[training]\n\n  global_batch_size = 64\n").unwrap();
        let line = |key: &str| read.place_of(key).map(|place| place.rsplit(' ').next().unwrap().to_owned());
        assert_eq!(line("model").as_deref(), Some("2"));
        assert_eq!(line("training").as_deref(), Some("4"));
        assert_eq!(line("training.global_batch_size").as_deref(), Some("6"));
        assert_eq!(line("training.precision"), None);
        assert_eq!(line("model.size"), None);
    }

    #[test]
    fn values_out_of_range_are_told_with_their_line() {
        let error = read("model = \"llama-7b\"\n[training]\nglobal_batch_size = 0\n").unwrap_err().to_string();
        assert!(error.contains("s.toml` line 3: `training.global_batch_size` is `0`"), "{error}");
        assert!(error.contains("\nhint: "), "{error}");
    }
}
