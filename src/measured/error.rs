//! Why a dataset can't be used.

/// Why a dataset can't be used. What a sound record leaves open isn't an error: it is skipped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MeasuredError {
    /// The file can't be read.
    #[error("cannot read dataset `{path}`: {problem}\nhint: check the path")]
    Read {
        /// Path.
        path: String,
        /// What the system says.
        problem: String,
    },
    /// The content is of no known format.
    #[error(
        "{path}: not a dataset of measured runs: {problem}\nhint: a CSV has a header with `id`, `gpu`, `n_gpus`, `metric` and `value`; JSON of Sailor's has `network` and `configs`"
    )]
    Format {
        /// Path.
        path: String,
        /// What it begins with.
        problem: String,
    },
    /// A cell or key holds what can't be.
    #[error("{path}:{line}: `{key}` is {found}, expected {expected}\nhint: {hint}")]
    Value {
        /// Path.
        path: Box<str>,
        /// Line, counted from 1.
        line: u64,
        /// Column of a table, or key.
        key: Box<str>,
        /// What stands there.
        found: Box<str>,
        /// What could.
        expected: Box<str>,
        /// What to do.
        hint: Box<str>,
    },
    /// The JSON isn't of the form that its keys promise.
    #[error(
        "{path}:{line}:{column}: {problem}\nhint: each of `configs` has `id`, `model`, `pipelines` and `measured`, as Sailor publishes them"
    )]
    Json {
        /// Path.
        path: String,
        /// Line, counted from 1.
        line: usize,
        /// Column, counted from 1.
        column: usize,
        /// What was found and expected.
        problem: String,
    },
    /// The table isn't a CSV.
    #[error("{path}:{line}: {problem}\nhint: each row has as many cells as the header")]
    Csv {
        /// Path.
        path: String,
        /// Line, counted from 1.
        line: u64,
        /// What is wrong.
        problem: String,
    },
    /// Two records have one id.
    #[error(
        "{path}:{line}: `id` is `{id}`, which another record has\nhint: give each run an id of its own, and each dataset once"
    )]
    Twice {
        /// Path.
        path: String,
        /// Line, counted from 1.
        line: u64,
        /// The id.
        id: String,
    },
    /// There is nothing in it.
    #[error("{path}: no records\nhint: name a file with at least one measured run")]
    Empty {
        /// Path.
        path: String,
    },
}
