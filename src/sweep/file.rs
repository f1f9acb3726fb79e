//! A sweep as it is written: a scenario, and what of it is varied.

mod keys;
pub(super) mod places;

use super::SweepError;
use super::axes::{Axis, Values};
use super::combine::SampleSettings;
use super::run::Point;
use crate::elastic::policies;
use crate::input;
use crate::planner;
use crate::planner::autohet::Engine;
use crate::report::SweepKind;
use crate::suggest;
use keys::{flatten, set};
use places::{first_line, hint_of, line_at, place_of, place_of_word};
use serde::{Deserialize, Serialize};
use std::path::Path;
use toml::{Table, Value};

/// How hard the planner autohet tries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// Simple constructions.
    Fast,
    /// Its own search, as in a replay: without SCIP, the grids of other planners, and the polish that executes plans.
    #[default]
    Search,
    /// All that `plan` does.
    Full,
}

impl Effort {
    pub(super) fn engine(self) -> Engine {
        match self {
            Self::Fast => Engine::Fast,
            Self::Search => Engine::Search,
            Self::Full => Engine::Auto,
        }
    }
}

/// Tables beside the scenario's that can be varied too.
pub(super) const EXTRAS: [&str; 4] = ["gpus", "nodes", "gpus_per_node", "market"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Raw {
    kind: SweepKind,
    planners: Option<Vec<String>>,
    policies: Option<Vec<String>>,
    effort: Effort,
    bound: bool,
    scenario: Table,
    gpus: Table,
    nodes: Table,
    gpus_per_node: u32,
    market: Table,
    grid: Table,
    list: Vec<Table>,
    sample: Option<SampleSettings>,
}

impl Default for Raw {
    fn default() -> Self {
        Self {
            kind: SweepKind::Plans,
            planners: None,
            policies: None,
            effort: Effort::default(),
            bound: false,
            scenario: Table::new(),
            gpus: Table::new(),
            nodes: Table::new(),
            gpus_per_node: 8,
            market: Table::new(),
            grid: Table::new(),
            list: Vec::new(),
            sample: None,
        }
    }
}

/// A sweep file that was read and checked.
///
/// ```
/// use autohet::sweep::SweepFile;
/// let text = "planners = [\"autohet\", \"megatron\"]\n[scenario]\nmodel = \"gpt3-1.3b\"\n[grid]\ngpus.T4 = [1, 2, 4]\n";
/// let sweep = SweepFile::parse(text, "mine", "mine.toml")?;
/// let runs = sweep.runs()?;
/// assert_eq!((runs.len(), runs.key(5)), (6, vec![4.into(), "megatron".into()]));
/// # Ok::<(), autohet::sweep::SweepError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SweepFile {
    /// Its name without folder and ending.
    pub name: String,
    /// Its text.
    pub text: String,
    /// What the runs do.
    pub kind: SweepKind,
    /// How hard the planner autohet tries.
    pub effort: Effort,
    /// Whether it is proven how good plans are.
    pub bound: bool,
    /// The axes of its rows, the planner or the policy last.
    pub axes: Vec<String>,
    pub(super) file: String,
    /// What all runs have: a scenario with the extra tables.
    pub(super) base: Table,
    pub(super) list: Vec<Vec<(String, Value)>>,
    pub(super) grid: Vec<Axis>,
    pub(super) sample: Option<SampleSettings>,
    /// Planners or policies.
    pub(super) who: Vec<String>,
    /// A hash of the files that its runs read, once they are known.
    pub(super) inputs: String,
}

impl SweepFile {
    /// Reads a file and checks each value that it names.
    pub fn read(path: &Path) -> Result<Self, SweepError> {
        let text = input::read_text(path).map_err(|source| SweepError::read(path, source))?;
        let name = path.file_stem().map_or_else(|| "sweep".into(), |stem| stem.to_string_lossy().into_owned());
        Self::parse(&text, &name, &path.display().to_string())
    }

    /// Reads text; `file` stands for the file in messages.
    pub fn parse(text: &str, name: &str, file: &str) -> Result<Self, SweepError> {
        let raw: Raw = toml::from_str(text).map_err(|error| SweepError::File {
            place: format!("`{file}` line {}", line_at(text, error.span().map_or(0, |span| span.start))),
            problem: error.message().to_owned(),
            hint: "`scenarios/mix-sweep.toml` is an example, `docs/formats.md` has every key".to_owned(),
        })?;
        let refused = |key: &str, problem: String, hint: &str| SweepError::File {
            place: place_of(text, file, key),
            problem,
            hint: hint.to_owned(),
        };
        let (role, names, other) = match raw.kind {
            SweepKind::Plans => ("planner", raw.planners, raw.policies.map(|_| "policies")),
            SweepKind::Replays => ("policy", raw.policies, raw.planners.map(|_| "planners")),
        };
        if let Some(other) = other {
            return Err(refused(
                other,
                format!("`{other}` is of another kind of sweep"),
                "leave it out, or set `kind`",
            ));
        }
        if raw.kind == SweepKind::Replays && (raw.bound || raw.effort != Effort::default()) {
            let key = if raw.bound { "bound" } else { "effort" };
            return Err(refused(key, format!("`{key}` is of sweeps of plans"), "leave it out, or set `kind`"));
        }
        if raw.scenario.contains_key("policies") || raw.grid.contains_key("policies") {
            let problem = "the policies of a sweep stand at its top".to_owned();
            return Err(refused(
                "policies",
                problem,
                "write `policies = [\"autohet\", \"varuna\"]` before `[scenario]`",
            ));
        }
        let who = who(role, names).map_err(|(problem, hint)| refused(plural(role), problem, &hint))?;
        let grid = read_grid(&raw.grid, &|key, problem| {
            let hint = "write `[1, 2, 4]` or `{ from = 0, to = 8, step = 2 }`";
            refused(&format!("grid.{key}"), format!("`{key}`: {problem}"), hint)
        })?;
        let list = read_list(&raw.list)?;
        let mut axes: Vec<String> = Vec::new();
        for name in list.iter().flatten().map(|(key, _)| key) {
            if !axes.contains(name) {
                axes.push(name.clone());
            }
        }
        if let Some(twice) = grid.iter().find(|axis| axes.contains(&axis.name)) {
            let problem = format!("`{}` is in `list` and in `grid`", twice.name);
            return Err(refused(&format!("grid.{}", twice.name), problem, "vary it in one of them"));
        }
        axes.extend(grid.iter().map(|axis| axis.name.clone()));
        check_axes(raw.kind, &axes).map_err(|(axis, problem, hint)| {
            let table = if list.iter().flatten().any(|(key, _)| *key == axis) { "list" } else { "grid" };
            refused(&format!("{table}.{axis}"), problem, &hint)
        })?;
        axes.push(role.to_owned());
        let mut base = raw.scenario;
        let extras = [("gpus", raw.gpus), ("nodes", raw.nodes), ("market", raw.market)];
        base.extend(
            extras.into_iter().filter(|(_, table)| !table.is_empty()).map(|(key, table)| (key.into(), table.into())),
        );
        base.insert("gpus_per_node".into(), i64::from(raw.gpus_per_node).into());
        let (kind, effort, bound, sample) = (raw.kind, raw.effort, raw.bound, raw.sample);
        let (name, text, file) = (name.to_owned(), text.to_owned(), file.to_owned());
        let read =
            Self { name, text, kind, effort, bound, axes, file, base, list, grid, sample, who, inputs: String::new() };
        read.check_values()?;
        Ok(read)
    }

    /// Every value alone, so that what is wrong with one is told where it stands.
    fn check_values(&self) -> Result<(), SweepError> {
        let point = Point::check(&self.base);
        if let Err(problem) = point {
            let place = place_of_word(&self.text, &self.file, &problem);
            return Err(SweepError::File { place, problem: first_line(&problem), hint: hint_of(&problem) });
        }
        let listed = self.list.iter().flatten().map(|(key, value)| ("list", key, value));
        let grid = self.grid.iter().flat_map(|axis| match &axis.values {
            Values::Listed(values) => values.iter().map(|value| ("grid", &axis.name, value)).collect(),
            Values::Between { .. } => Vec::new(),
        });
        for (table, key, value) in listed.chain(grid) {
            let checked = self.with([(key.as_str(), value)]).and_then(|document| Point::check(&document));
            if let Err(problem) = checked {
                let place = place_of(&self.text, &self.file, &format!("{table}.{key}"));
                let problem_line = format!("`{key}` = {value}: {}", first_line(&problem));
                return Err(SweepError::File { place, problem: problem_line, hint: hint_of(&problem) });
            }
        }
        Ok(())
    }

    /// The document of a run: what all have, and its values.
    pub(super) fn with<'a>(&self, values: impl IntoIterator<Item = (&'a str, &'a Value)>) -> Result<Table, String> {
        let mut document = self.base.clone();
        for (key, value) in values {
            set(&mut document, key, value.clone())?;
        }
        Ok(document)
    }
}

/// Tables that only replays read.
const OF_REPLAYS: [&str; 5] = ["trace", "checkpoint", "reconfiguration", "market", "policies"];

/// Refuses an axis that no run of the kind reads, so that all of its values would give the same rows: the axis, what is
/// wrong, and what to do.
fn check_axes(kind: SweepKind, axes: &[String]) -> Result<(), (String, String, String)> {
    let table = |axis: &str| axis.split('.').next().unwrap_or_default().to_owned();
    let counts_nodes = axes.iter().any(|axis| table(axis) == "nodes");
    let is_unread = |axis: &str| match kind {
        SweepKind::Plans => OF_REPLAYS.contains(&table(axis).as_str()),
        SweepKind::Replays => axis == "gpus_per_node",
    };
    for axis in axes {
        let refused = |problem: &str, hint: &str| Err((axis.clone(), format!("`{axis}` {problem}"), hint.to_owned()));
        if is_unread(axis) {
            return match kind {
                SweepKind::Plans => {
                    refused("isn't read by sweeps of plans", "leave it out, or set `kind = \"replays\"`")
                }
                SweepKind::Replays => refused("isn't read by replays", "vary `trace.gpus_per_node`, or leave it out"),
            };
        }
        if axis == "gpus_per_node" && !counts_nodes {
            return refused("is read where nodes are counted only", "vary `nodes.A100-80` too, or leave it out");
        }
    }
    Ok(())
}

/// The key of a run as text.
pub fn key_text(key: &[serde_json::Value]) -> String {
    serde_json::Value::Array(key.to_vec()).to_string()
}

/// The axes of a grid; `refused` makes an error of a key and what is wrong with it.
fn read_grid(grid: &Table, refused: &dyn Fn(&str, String) -> SweepError) -> Result<Vec<Axis>, SweepError> {
    let mut axes = Vec::new();
    flatten(grid, "", true, &mut |key, value| {
        let values = Values::read(value).map_err(|problem| refused(key, problem))?;
        axes.push(Axis { name: key.to_owned(), values });
        Ok(())
    })?;
    Ok(axes)
}

/// The values of each entry of a list, by their dotted keys.
fn read_list(list: &[Table]) -> Result<Vec<Vec<(String, Value)>>, SweepError> {
    let mut entries = Vec::new();
    for entry in list {
        let mut values = Vec::new();
        flatten(entry, "", false, &mut |key, value| {
            values.push((key.to_owned(), value.clone()));
            Ok(())
        })?;
        entries.push(values);
    }
    Ok(entries)
}

fn plural(role: &str) -> &'static str {
    if role == "planner" { "planners" } else { "policies" }
}

/// Planners or policies by name: all that are known where none are named, ours and two others for plans.
fn who(role: &str, names: Option<Vec<String>>) -> Result<Vec<String>, (String, String)> {
    let known: Vec<&str> = if role == "planner" { planner::names().to_vec() } else { policies::NAMES.to_vec() };
    let usual = || match role {
        "planner" => vec!["autohet".to_owned()],
        _ => known.iter().map(|name| (*name).to_owned()).collect(),
    };
    let names = names.unwrap_or_else(usual);
    if names.is_empty() {
        return Err((format!("no {role} is named"), format!("name at least one {role}")));
    }
    for (index, name) in names.iter().enumerate() {
        if !known.contains(&name.as_str()) {
            return Err((format!("unknown {role} `{name}`"), suggest::hint(name, known)));
        }
        if names[..index].contains(name) {
            return Err((format!("{role} `{name}` is named twice"), format!("name each {role} once")));
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests;
