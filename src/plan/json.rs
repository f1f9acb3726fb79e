//! Plans as files.

use super::{Plan, Replica, SCHEMA_VERSION, ScheduleKind, StagePlace};
use crate::model::{PlannedModel, Precision, Recompute};
use serde::Deserialize;

/// Why a file isn't a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanFileError {
    /// Not JSON, or not of a plan's shape.
    #[error(
        "`{name}` line {line} column {column}: not a plan: {message}\nhint: `autohet-sim plan --out FILE` writes one"
    )]
    Syntax {
        /// Name of the file.
        name: String,
        /// Line, from one.
        line: usize,
        /// Column, from one.
        column: usize,
        /// What was expected and found.
        message: String,
    },
    /// A plan of another version.
    #[error(
        "`{name}` has schema version {found}, expected {SCHEMA_VERSION} or 1\nhint: make the plan again with this version of the program"
    )]
    SchemaVersion {
        /// Name of the file.
        name: String,
        /// Version in the file.
        found: u32,
    },
    /// A plan of version 1 with a stage that isn't of the plan's one degree.
    #[error(
        "`{name}`: {place} has {found} GPUs, but `tensor_parallel_size` is {expected}\nhint: from schema version 2 on each stage's degree is the number of its GPUs, and there is no `tensor_parallel_size`"
    )]
    Degree {
        /// Name of the file.
        name: String,
        /// The stage.
        place: StagePlace,
        /// The plan's degree.
        expected: u32,
        /// GPUs of the stage.
        found: u32,
    },
}

impl Plan {
    /// Reads a plan from the text of a file; `name` is how errors call that file. The plan isn't validated against a
    /// cluster: [`Plan::validate`] does that.
    pub fn from_json(text: &str, name: &str) -> Result<Self, PlanFileError> {
        // The version first: a later schema may have keys that this one refuses.
        #[derive(Deserialize)]
        struct Version {
            schema_version: u32,
        }
        let syntax = |error: serde_json::Error| PlanFileError::Syntax {
            name: name.to_owned(),
            line: error.line(),
            column: error.column(),
            message: without_place(&error),
        };
        let Version { schema_version } = serde_json::from_str(text).map_err(syntax)?;
        match schema_version {
            SCHEMA_VERSION => serde_json::from_str(text).map_err(syntax),
            1 => serde_json::from_str::<PlanOfOneDegree>(text).map_err(syntax)?.upgraded(name),
            found => Err(PlanFileError::SchemaVersion { name: name.to_owned(), found }),
        }
    }

    /// The plan as indented JSON, with a newline at the end.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a plan has string keys and finite numbers only") + "\n"
    }
}

/// A plan of schema version 1: all stages are of one tensor-parallel degree, which has a key of its own.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanOfOneDegree {
    #[serde(rename = "schema_version")]
    _schema_version: u32,
    planner: String,
    model: PlannedModel,
    global_batch_size: u32,
    micro_batch_size: u32,
    tensor_parallel_size: u32,
    sequence_parallel: bool,
    recompute: Recompute,
    precision: Precision,
    schedule: ScheduleKind,
    replicas: Vec<Replica>,
}

impl PlanOfOneDegree {
    fn upgraded(self, name: &str) -> Result<Plan, PlanFileError> {
        let expected = self.tensor_parallel_size;
        let plan = Plan {
            schema_version: SCHEMA_VERSION,
            planner: self.planner,
            model: self.model,
            global_batch_size: self.global_batch_size,
            micro_batch_size: self.micro_batch_size,
            sequence_parallel: self.sequence_parallel,
            recompute: self.recompute,
            precision: self.precision,
            schedule: self.schedule,
            replicas: self.replicas,
        };
        let unlike = plan.stages().find(|(_, stage)| stage.tensor_parallel_size() != expected);
        if let Some((place, stage)) = unlike {
            let found = stage.tensor_parallel_size();
            return Err(PlanFileError::Degree { name: name.to_owned(), place, expected, found });
        }
        Ok(plan)
    }
}

/// The message of a `serde_json` error without the place that it appends.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
