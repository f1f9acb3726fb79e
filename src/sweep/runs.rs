//! The runs of a sweep, none of which is made before it is asked for: a million of them take no room.

use super::axes::{Axis, Values, json};
use super::combine::{Combination, Combinations, combinations};
use super::file::places::{first_line, hint_of, place_of, place_of_word};
use super::run::Point;
use super::{Run, Shared, SweepError, SweepFile, key_text, replay};
use crate::cluster::Cluster;
use crate::report::SweepKind;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use toml::Value;

/// Name of the axis that stands for the entries of a list.
const LIST: &str = "list";
/// Keys whose values are files, or may be.
const FILES: [&str; 5] = ["profile", "trace.file", "cluster", "model", "prices.history"];
/// Tables and keys on which depends what is read from files, and whether it makes sense.
const READING: [&str; 9] =
    ["profile", "trace", "cluster", "model", "seq_length", "cost", "framework", "network", "prices"];

/// The runs of a sweep by place, in the order of its combinations, planners or policies fastest.
#[derive(Debug)]
pub struct Runs<'a> {
    sweep: &'a SweepFile,
    /// The grid's, behind that of the list.
    axes: Vec<Axis>,
    combinations: Combinations,
}

impl SweepFile {
    /// Its runs.
    ///
    /// # Errors
    /// Where there are too many, or two have the same values.
    pub fn runs(&self) -> Result<Runs<'_>, SweepError> {
        let refused = |key: &str, problem: String, hint: &str| SweepError::File {
            place: place_of(&self.text, &self.file, key),
            problem,
            hint: hint.to_owned(),
        };
        let mut axes = self.grid.clone();
        if !self.list.is_empty() {
            let entries = (0_i64..).take(self.list.len()).map(Value::Integer).collect();
            axes.insert(0, Axis { name: LIST.into(), values: Values::Listed(entries) });
        }
        let fewer = "sweep fewer values, or add `[sample]` with a `count`";
        let combinations = combinations(&axes, self.sample).map_err(|problem| refused("grid", problem, fewer))?;
        if let Some((key, twice)) = self.value_twice() {
            let problem = format!("two runs have the same values of {}: {twice}", self.axes.join(", "));
            return Err(refused(&key, problem, "name each value once"));
        }
        Ok(Runs { sweep: self, axes, combinations })
    }

    /// A value that an axis has twice, or an entry of the list that is there twice, with its key.
    fn value_twice(&self) -> Option<(String, String)> {
        let twice = |values: Vec<String>| {
            let mut known = BTreeSet::new();
            values.into_iter().find(|value| !known.insert(value.clone()))
        };
        for axis in &self.grid {
            if let Values::Listed(values) = &axis.values
                && let Some(value) = twice(values.iter().map(|value| json(value).to_string()).collect())
            {
                return Some((format!("grid.{}", axis.name), value));
            }
        }
        let of_list = |axis: &&String| self.list.iter().flatten().any(|(key, _)| key == *axis);
        let axes: Vec<&String> = self.axes.iter().filter(of_list).collect();
        let value = |entry: &[(String, Value)], axis: &String| {
            entry.iter().find(|(key, _)| key == axis).map_or(serde_json::Value::Null, |(_, value)| json(value))
        };
        let key =
            |entry: &Vec<(String, Value)>| key_text(&axes.iter().map(|axis| value(entry, axis)).collect::<Vec<_>>());
        twice(self.list.iter().map(key).collect()).map(|value| (LIST.to_owned(), value))
    }

    /// Notes what is in the files that its runs read: rows of other contents aren't rows of this sweep.
    pub fn note_inputs(&mut self, shared: &Shared) {
        let mut files: BTreeSet<PathBuf> = BTreeSet::new();
        let mut take = |value: &Value| match value {
            Value::String(path) => drop(files.insert(path.into())),
            Value::Array(paths) => files.extend(paths.iter().filter_map(Value::as_str).map(PathBuf::from)),
            _ => {}
        };
        for key in FILES {
            let mut parts = key.split('.');
            let first = parts.next().and_then(|part| self.base.get(part));
            parts.fold(first, |value, part| value?.get(part)).into_iter().for_each(&mut take);
            let listed = self.list.iter().flatten().filter(|(name, _)| name == key).map(|(_, value)| value);
            listed.for_each(&mut take);
            for axis in self.grid.iter().filter(|axis| axis.name == key) {
                if let Values::Listed(values) = &axis.values {
                    values.iter().for_each(&mut take);
                }
            }
        }
        // A cluster in the mix notation is no file.
        let files = files.iter().filter(|path| path.exists());
        let contents: Vec<String> = files.map(|path| format!("{:032x}", shared.content_of(path))).collect();
        self.inputs = contents.join(" ");
    }
}

impl Runs<'_> {
    /// How many there are.
    #[expect(clippy::len_without_is_empty, reason = "a sweep without runs is refused")]
    pub fn len(&self) -> usize {
        self.combinations.len() * self.sweep.who.len()
    }

    /// The values of a combination, by key.
    fn values<'b>(&'b self, combination: &'b Combination) -> Vec<(&'b str, &'b Value)> {
        let (entry, of_grid) = if self.sweep.list.is_empty() {
            (&[][..], &combination[..])
        } else {
            let entry = combination[0].as_integer().unwrap_or_default() as usize;
            (&self.sweep.list[entry][..], &combination[1..])
        };
        let of_grid = self.sweep.grid.iter().map(|axis| axis.name.as_str()).zip(of_grid);
        entry.iter().map(|(key, value)| (key.as_str(), value)).chain(of_grid).collect()
    }

    fn combination(&self, place: usize) -> Combination {
        self.combinations.get(&self.axes, place / self.sweep.who.len())
    }

    /// The key of the run at a place.
    pub fn key(&self, place: usize) -> Vec<serde_json::Value> {
        let combination = self.combination(place);
        let values = self.values(&combination);
        let value = |axis: &String| values.iter().find(|(key, _)| key == axis).map(|(_, value)| json(value));
        let (_, axes) = self.sweep.axes.split_last().expect("the planner or the policy is one");
        let key = axes.iter().map(|axis| value(axis).unwrap_or(serde_json::Value::Null));
        key.chain([self.who(place).into()]).collect()
    }

    fn who(&self, place: usize) -> &str {
        &self.sweep.who[place % self.sweep.who.len()]
    }

    /// The run at a place.
    ///
    /// # Errors
    /// Where its values together make no sense.
    pub fn get(&self, place: usize) -> Result<Run, SweepError> {
        let combination = self.combination(place);
        let point = self.point(&self.values(&combination))?;
        Ok(Run { key: self.key(place), who: self.who(place).to_owned(), point })
    }

    fn point(&self, values: &[(&str, &Value)]) -> Result<Point, SweepError> {
        let point = self.sweep.with(values.iter().copied()).and_then(|document| Point::new(&document, self.sweep.kind));
        point.map_err(|problem| {
            let place = place_of_word(&self.sweep.text, &self.sweep.file, &problem);
            let run = if values.is_empty() { String::new() } else { format!("with {}: ", shown(values)) };
            SweepError::Run { place, run, problem }
        })
    }

    /// Refuses, before the first run, values that make no sense together, of the runs of these places, and files that can't be
    /// used, of all of them.
    pub fn check(&self, is_ours: impl Fn(usize) -> bool, shared: &Shared) -> Result<(), SweepError> {
        let each = self.sweep.who.len();
        let mut read = BTreeSet::new();
        for number in 0..self.combinations.len() {
            let combination = self.combinations.get(&self.axes, number);
            let values = self.values(&combination);
            let is_reading = |key: &str| READING.iter().any(|name| key.split('.').next() == Some(name));
            let reading: Vec<(&str, &Value)> = values.iter().copied().filter(|(key, _)| is_reading(key)).collect();
            let is_new = read.insert(shown(&reading));
            if is_new || (number * each..(number + 1) * each).any(&is_ours) {
                let point = self.point(&values)?;
                if is_new {
                    self.check_files(&point, &reading, shared)?;
                }
            }
        }
        Ok(())
    }

    fn check_files(&self, point: &Point, values: &[(&str, &Value)], shared: &Shared) -> Result<(), SweepError> {
        let cluster = point.cluster.as_deref().filter(|cluster| Path::new(cluster).is_file());
        let cluster = cluster.map_or(Ok(()), |cluster| {
            let read = Cluster::from_argument(cluster, &point.scenario.network.node_defaults());
            read.map(drop).map_err(|error| ("cluster", error.to_string()))
        });
        let cost = || shared.cost(&point.scenario).map(drop).map_err(|error| ("profile", error.to_string()));
        let source = if point.market.is_some() { "market" } else { "trace.file" };
        let trace = || match self.sweep.kind {
            SweepKind::Plans => Ok(()),
            SweepKind::Replays => replay::check(point, shared).map_err(|error| (source, error)),
        };
        cluster.and_then(|()| cost()).and_then(|()| trace()).map_err(|(key, problem)| {
            let table = if values.iter().any(|(name, _)| *name == key) { "grid" } else { "scenario" };
            let is_listed = self.sweep.list.iter().flatten().any(|(name, _)| name == key);
            let table = if is_listed { LIST } else { table };
            let key_there = if key == "market" { key.to_owned() } else { format!("{table}.{key}") };
            SweepError::File {
                place: place_of(&self.sweep.text, &self.sweep.file, &key_there),
                problem: format!("`{key}`: {}", first_line(&problem)),
                hint: hint_of(&problem),
            }
        })
    }
}

/// Values with their keys, for messages.
fn shown(values: &[(&str, &Value)]) -> String {
    values.iter().map(|(key, value)| format!("`{key}` = {value}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_runs_take_no_room() {
        let text = "[scenario]\ncluster = \"1x8xT4\"\n[grid]\nnetwork.nic_gbit_per_s = { from = 1, to = 1000 }\n\
                    network.nic_latency_us = { from = 1, to = 1000 }\n";
        let sweep = SweepFile::parse(text, "s", "s.toml").unwrap();
        let runs = sweep.runs().unwrap();
        assert_eq!(runs.len(), 1_000_000);
        assert!(matches!(runs.combinations, Combinations::All(1_000_000)));
        let last = runs.get(999_999).unwrap();
        assert_eq!(last.key, [1000.into(), 1000.into(), "autohet".into()] as [serde_json::Value; 3]);
        assert_eq!(last.key, runs.key(999_999));
        assert_eq!(runs.key(1000), [2.into(), 1.into(), "autohet".into()] as [serde_json::Value; 3]);
    }
}
