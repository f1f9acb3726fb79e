//! What can be wrong with a model.

/// Why a model can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// No preset has this name.
    #[error("unknown model `{name}`\nhint: {hint}")]
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
