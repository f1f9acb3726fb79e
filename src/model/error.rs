//! What can be wrong with a model.

use super::description::line_of;

/// Why a model can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// No preset has this name.
    #[error("unknown model `{name}`\nhint: {hint}; `docs/formats.md` shows how a file describes another")]
    UnknownPreset {
        /// Name asked for.
        name: String,
        /// Near matches and the known names.
        hint: String,
    },
    /// A size is zero or implausibly large.
    #[error(
        "model `{model}`: `{field}` is `{value}`, expected 1 to {limit}\nhint: correct `{field}` in the model's description"
    )]
    Size {
        /// Name of the model.
        model: String,
        /// Field.
        field: &'static str,
        /// Value found.
        value: u32,
        /// Largest value that is accepted.
        limit: u32,
    },
    /// A model's file can't be read.
    #[error("cannot read the model `{file}`: {problem}\nhint: check the path and that the file may be read")]
    Read {
        /// Name of the file.
        file: String,
        /// What the system said.
        problem: String,
    },
    /// A file that describes no model that can be planned.
    #[error("`{file}` line {line}: {message}\nhint: {hint}")]
    Description {
        /// Name of the file.
        file: String,
        /// Line, from one.
        line: usize,
        /// What was expected and found.
        message: String,
        /// What to do.
        hint: &'static str,
    },
    /// Key and value heads can't be shared evenly by the query heads.
    #[error(
        "model `{model}`: `num_attention_heads` `{query_heads}` isn't a multiple of `num_key_value_heads` `{key_value_heads}`\nhint: without grouped-query attention both are equal"
    )]
    GroupedHeads {
        /// Name of the model.
        model: String,
        /// Query heads.
        query_heads: u32,
        /// Key and value heads.
        key_value_heads: u32,
    },
}

impl ModelError {
    /// The same problem with the place in the file that describes the model.
    pub(super) fn in_file(self, file: &str, text: &str) -> Self {
        let (key, message, hint) = match &self {
            Self::Size { field, value, limit, .. } => {
                (*field, format!("`{field}` is `{value}`, expected 1 to {limit}"), "correct it")
            }
            Self::GroupedHeads { query_heads, key_value_heads, .. } => (
                "num_key_value_heads",
                format!(
                    "`num_attention_heads` `{query_heads}` isn't a multiple of `num_key_value_heads` `{key_value_heads}`"
                ),
                "without grouped-query attention both are equal",
            ),
            _ => return self,
        };
        Self::Description { file: file.to_owned(), line: line_of(text, key), message, hint }
    }
}
