//! The `config.json` of Hugging Face's transformers: one shape under several names for its keys.

use super::Problem;
use crate::model::{Architecture, ModelSpec};
use serde_json::{Map, Value};

/// The model types that are understood: name, family, whether the head shares the embedding's matrix where the file doesn't
/// say. What they have beside the family's parts (biases of queries, norms of heads) is a few thousandths of a percent.
const MODEL_TYPES: [(&str, Architecture, bool); 13] = [
    ("bert", Architecture::Bert, true),
    ("gemma", Architecture::Llama, true),
    ("gpt2", Architecture::Gpt, true),
    ("gpt_neo", Architecture::Gpt, true),
    ("gpt_neox", Architecture::Gpt, false),
    ("llama", Architecture::Llama, false),
    ("mistral", Architecture::Llama, false),
    ("opt", Architecture::Gpt, true),
    ("phi3", Architecture::Llama, false),
    ("qwen2", Architecture::Llama, false),
    ("qwen3", Architecture::Llama, false),
    ("roberta", Architecture::Bert, true),
    ("smollm3", Architecture::Llama, true),
];

const LAYERS: [&str; 3] = ["num_hidden_layers", "n_layer", "num_layers"];
const HIDDEN: [&str; 3] = ["hidden_size", "n_embd", "d_model"];
const HEADS: [&str; 3] = ["num_attention_heads", "n_head", "num_heads"];
const KEY_VALUE_HEADS: [&str; 1] = ["num_key_value_heads"];
const HEAD_DIM: [&str; 1] = ["head_dim"];
const MLP: [&str; 4] = ["intermediate_size", "n_inner", "ffn_dim", "d_ff"];
const VOCABULARY: [&str; 1] = ["vocab_size"];
const POSITIONS: [&str; 2] = ["max_position_embeddings", "n_positions"];
const EXPERTS: [&str; 3] = ["num_local_experts", "n_routed_experts", "num_experts"];

/// A `config.json`.
pub(super) struct Config<'a>(&'a Map<String, Value>);

/// What is wrong with one of its keys.
pub(super) struct KeyProblem {
    pub(super) key: &'static str,
    message: String,
    hint: &'static str,
}

impl From<KeyProblem> for Problem {
    fn from(problem: KeyProblem) -> Self {
        Self { line: 1, message: problem.message, hint: problem.hint }
    }
}

impl<'a> Config<'a> {
    /// The document, where it is one of transformers.
    pub(super) fn of(document: &'a Value) -> Option<Self> {
        let map = document.as_object()?;
        ["model_type", "architectures", "text_config"].iter().any(|key| map.contains_key(*key)).then_some(Self(map))
    }

    /// The shape that it describes; without a name.
    pub(super) fn model(&self) -> Result<ModelSpec, KeyProblem> {
        self.refuse_what_is_not_modelled()?;
        let (architecture, ties) = self.family()?;
        let hidden_size = self.required(&HIDDEN)?;
        let num_attention_heads = self.required(&HEADS)?;
        let or = |keys, otherwise| Ok(self.number(keys)?.unwrap_or(otherwise));
        Ok(ModelSpec {
            name: String::new(),
            architecture,
            num_layers: self.required(&LAYERS)?,
            hidden_size,
            num_attention_heads,
            num_key_value_heads: or(&KEY_VALUE_HEADS, num_attention_heads)?,
            head_dim: or(&HEAD_DIM, hidden_size / num_attention_heads.max(1))?,
            ffn_hidden_size: or(&MLP, hidden_size.saturating_mul(4))?,
            gated_mlp: architecture == Architecture::Llama,
            vocab_size: self.required(&VOCABULARY)?,
            seq_length: self.required(&POSITIONS)?,
            tie_word_embeddings: self.0.get("tie_word_embeddings").and_then(Value::as_bool).unwrap_or(ties),
        })
    }

    fn refuse_what_is_not_modelled(&self) -> Result<(), KeyProblem> {
        if self.0.contains_key("text_config") {
            let message = "`text_config` is part of a model of several kinds of input, which isn't modelled".to_owned();
            let hint = "give what stands in `text_config` as a file of its own";
            return Err(KeyProblem { key: "text_config", message, hint });
        }
        for key in EXPERTS {
            if let Some(count) = self.number(&[key])?.filter(|count| *count > 1) {
                let message = format!("`{key}` is `{count}`: a mixture of experts isn't modelled");
                return Err(KeyProblem { key, message, hint: "models are dense: one MLP in each layer" });
            }
        }
        match (self.number(&["word_embed_proj_dim"])?, self.number(&HIDDEN)?) {
            (Some(narrow), Some(hidden_size)) if narrow != hidden_size => {
                let message = format!(
                    "`word_embed_proj_dim` is `{narrow}`, the hidden size `{hidden_size}`: a projection between them isn't modelled"
                );
                let hint = "describe the model without it, as `docs/formats.md` shows";
                Err(KeyProblem { key: "word_embed_proj_dim", message, hint })
            }
            _ => Ok(()),
        }
    }

    /// Its family, and whether the head is tied where the file doesn't say.
    fn family(&self) -> Result<(Architecture, bool), KeyProblem> {
        let found = self.0.get("model_type").and_then(Value::as_str).unwrap_or_default();
        let known = MODEL_TYPES.iter().find(|(name, ..)| *name == found);
        known.map(|(_, architecture, ties)| (*architecture, *ties)).ok_or_else(|| {
            let names = MODEL_TYPES.map(|(name, ..)| name).join(", ");
            let message = format!("`model_type` is `{found}`, expected one of {names}");
            let hint = "describe another model by its shapes, as `docs/formats.md` shows";
            KeyProblem { key: "model_type", message, hint }
        })
    }

    fn required(&self, keys: &[&'static str]) -> Result<u32, KeyProblem> {
        self.number(keys)?.ok_or_else(|| {
            let names = keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(" or ");
            KeyProblem { key: keys[0], message: format!("expected {names}, found none"), hint: super::HINT }
        })
    }

    /// The number under whichever of the keys is there; a null is nothing.
    fn number(&self, keys: &[&'static str]) -> Result<Option<u32>, KeyProblem> {
        let found = keys.iter().find_map(|key| Some((*key, self.0.get(*key).filter(|value| !value.is_null())?)));
        let Some((key, value)) = found else { return Ok(None) };
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        number.map(Some).ok_or_else(|| {
            let message = format!("`{key}` is `{value}`, expected a whole number");
            KeyProblem { key, message, hint: super::HINT }
        })
    }
}
