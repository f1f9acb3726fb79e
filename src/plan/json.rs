//! Plans as files.

use super::{Plan, SCHEMA_VERSION};
use serde::Deserialize;

/// Why a file isn't a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanFileError {
    /// Not JSON, or not of a plan's shape.
    #[error(
        "`{name}` line {line} column {column}: not a plan: {message}\nhint: `autohet-sim plan --format json` writes one"
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
        "`{name}` has schema version {found}, expected {SCHEMA_VERSION}\nhint: make the plan again with this version of the program"
    )]
    SchemaVersion {
        /// Name of the file.
        name: String,
        /// Version in the file.
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
        if schema_version != SCHEMA_VERSION {
            return Err(PlanFileError::SchemaVersion { name: name.to_owned(), found: schema_version });
        }
        serde_json::from_str(text).map_err(syntax)
    }

    /// The plan as indented JSON, with a newline at the end.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a plan has string keys and finite numbers only") + "\n"
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
