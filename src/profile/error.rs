//! What can be wrong with a profile.

/// Why a profile can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The file can't be read.
    #[error("cannot read profile `{path}`: {problem}\nhint: check the path")]
    Read {
        /// Path.
        path: String,
        /// What the system says.
        problem: String,
    },
    /// The file isn't a profile.
    #[error(
        "{path}:{line}:{column}: {problem}\nhint: a profile has `schema_version`, `model` and `entries`, each with `gpu`, `tensor_parallel_size`, `micro_batch_size` and `layer`; one of Sailor has `model`, `gpu`, `tp`, `layers` and `by_micro_batch_size`"
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
    /// A file of Sailor's has values that can't be.
    #[error("{path}: {problem}\nhint: take the file as it was published")]
    Sailor {
        /// Path.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// An entry has a value that can't be.
    #[error("{path}: entry {entry}: {problem}\nhint: measure the point again or leave the entry out")]
    Entry {
        /// Path.
        path: String,
        /// Place of the entry, counted from 1.
        entry: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// The links have a value that can't be.
    #[error("{path}: {problem}\nhint: measure again or leave `links` out")]
    Links {
        /// Path.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The schema is another one.
    #[error("{path}: `schema_version` is `{found}`, expected `{expected}`\nhint: measure again with this version")]
    Version {
        /// Path.
        path: String,
        /// Version of the file.
        found: u32,
        /// Version that is read.
        expected: u32,
    },
    /// It measures another model than the one that is trained.
    #[error(
        "the profile measures model `{profile}`, not `{model}`\nhint: name the profile of `{model}`, or train `{profile}`"
    )]
    OtherModel {
        /// Model of the profile.
        profile: String,
        /// Model that is trained.
        model: String,
    },
    /// What was measured block by block has other layers than the model.
    #[error(
        "the profile measures {found} blocks of model `{model}`, which has {expected}: its layers, the embedding before them and the head behind\nhint: name the profile of the model as it is trained"
    )]
    Blocks {
        /// Model.
        model: String,
        /// Blocks of the profile.
        found: usize,
        /// Blocks of the model.
        expected: usize,
    },
    /// There is no measurement at or around the point asked for.
    #[error(
        "the profile has no {precision} measurement of `{gpu}` at tensor-parallel size `{tensor_parallel_size}` and micro-batch size `{micro_batch_size}`\nhint: it measures {available}; ask for one of these, or measure the point"
    )]
    NotMeasured {
        /// GPU type.
        gpu: String,
        /// Precision.
        precision: String,
        /// Tensor-parallel degree.
        tensor_parallel_size: u32,
        /// Micro-batch size.
        micro_batch_size: u32,
        /// What is there for this GPU type.
        available: String,
    },
}
