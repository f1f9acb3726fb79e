//! Models from files: a description of ours, in TOML or JSON, or the `config.json` of Hugging Face's transformers.

mod hugging_face;

use super::{Architecture, ModelError, ModelSpec};
use crate::input;
use hugging_face::Config;
use serde::Deserialize;
use std::path::Path;

/// A model as people describe it: what usually follows from the rest may be left out.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct Description {
    /// How plans, profiles and reports call it; else the file's name.
    name: Option<String>,
    /// Its family.
    architecture: Architecture,
    /// Transformer layers.
    num_layers: u32,
    /// Width of the residual stream.
    hidden_size: u32,
    /// Query heads.
    num_attention_heads: u32,
    /// Key and value heads; as many as query heads by default.
    num_key_value_heads: Option<u32>,
    /// Width of a head; `hidden_size / num_attention_heads` by default.
    head_dim: Option<u32>,
    /// Inner width of the MLP; four times `hidden_size` by default.
    ffn_hidden_size: Option<u32>,
    /// Whether the MLP has three matrices rather than two; that of llama has by default.
    gated_mlp: Option<bool>,
    /// Tokens of the vocabulary.
    vocab_size: u32,
    /// Tokens per sample.
    seq_length: u32,
    /// Whether the head shares the embedding's matrix; that of llama doesn't by default.
    tie_word_embeddings: Option<bool>,
}

/// The schema of descriptions.
#[cfg(test)]
pub(crate) fn file_schema() -> schemars::Schema {
    schemars::schema_for!(Description)
}

/// What is wrong with a file, and where in its text.
struct Problem {
    line: usize,
    message: String,
    hint: &'static str,
}

/// How to describe a model whose file says nothing that helps.
const HINT: &str = "`docs/formats.md` shows a model's description; Hugging Face's `config.json` is read too";

impl ModelSpec {
    /// The model that a command-line argument or a scenario names: a file where it ends in `.toml` or `.json` or is one,
    /// a preset otherwise.
    ///
    /// # Errors
    /// There is neither such a preset nor such a file, or the file describes no model that can be planned.
    pub fn from_argument(text: &str) -> Result<Self, ModelError> {
        let path = Path::new(text);
        let is_named_so =
            path.extension().is_some_and(|end| ["toml", "json"].iter().any(|known| end.eq_ignore_ascii_case(known)));
        if is_named_so || path.is_file() { Self::from_file(path) } else { Self::preset(text) }
    }

    /// Reads a description, or Hugging Face's `config.json`. A model without a name of its own has the file's, or the
    /// folder's where the file is called `config.json`.
    ///
    /// # Errors
    /// The file can't be read, or describes no model that can be planned.
    pub fn from_file(path: &Path) -> Result<Self, ModelError> {
        let file = path.display().to_string();
        let text = input::read_text(path)
            .map_err(|error| ModelError::Read { file: file.clone(), problem: error.to_string() })?;
        Self::from_text(&text, &file, &default_name(path))
    }

    /// Reads the text of such a file, which errors call `file`.
    fn from_text(text: &str, file: &str, default_name: &str) -> Result<Self, ModelError> {
        let read = if text.trim_start().starts_with('{') { from_json(text) } else { from_toml(text) };
        let model = read.map_err(|Problem { line, message, hint }| ModelError::Description {
            file: file.to_owned(),
            line,
            message,
            hint,
        })?;
        let name = if model.name.is_empty() { default_name.to_owned() } else { model.name };
        let model = Self { name, ..model };
        model.validate().map_err(|error| error.in_file(file, text))?;
        Ok(model)
    }

    /// The same model on sequences of another length. It is called otherwise, so that what was measured of the one, or
    /// saved of it, isn't taken for the other's.
    ///
    /// # Errors
    /// The length is none that a model can have.
    pub fn with_seq_length(self, seq_length: Option<u32>) -> Result<Self, ModelError> {
        let Some(seq_length) = seq_length.filter(|length| *length != self.seq_length) else { return Ok(self) };
        let model = Self { name: format!("{}-seq{seq_length}", self.name), seq_length, ..self };
        model.validate()?;
        Ok(model)
    }
}

/// `llama.toml` and `llama/config.json` are both called `llama`.
fn default_name(path: &Path) -> String {
    let is_config = path.file_name().is_some_and(|name| name == "config.json");
    let folder = path.parent().and_then(Path::file_name).filter(|_| is_config);
    folder.or_else(|| path.file_stem()).map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned())
}

fn from_toml(text: &str) -> Result<ModelSpec, Problem> {
    let description: Description = toml::from_str(text).map_err(|error| {
        let before = &text[..error.span().map_or(0, |span| span.start)];
        let line = 1 + before.bytes().filter(|byte| *byte == b'\n').count();
        Problem { line, message: error.message().to_owned(), hint: HINT }
    })?;
    Ok(description.into())
}

fn from_json(text: &str) -> Result<ModelSpec, Problem> {
    let syntax = |error: serde_json::Error| Problem {
        line: error.line(),
        message: error.to_string().split(" at line ").next().unwrap_or_default().to_owned(),
        hint: HINT,
    };
    if let Some(config) = Config::of(&serde_json::from_str(text).map_err(syntax)?) {
        return config.model().map_err(|problem| Problem { line: line_of(text, problem.key), ..problem.into() });
    }
    serde_json::from_str::<Description>(text).map(ModelSpec::from).map_err(syntax)
}

/// The line on which a key stands first, the first one where it doesn't.
pub(super) fn line_of(text: &str, key: &str) -> usize {
    let is_key = |line: &str| line.trim_start().trim_start_matches(['{', '"', ' ']).starts_with(key);
    let quoted = format!("\"{key}\"");
    1 + text.lines().position(|line| is_key(line) || line.contains(&quoted)).unwrap_or(0)
}

impl From<Description> for ModelSpec {
    fn from(read: Description) -> Self {
        let is_llama = read.architecture == Architecture::Llama;
        let heads = read.num_attention_heads;
        Self {
            name: read.name.unwrap_or_default(),
            architecture: read.architecture,
            num_layers: read.num_layers,
            hidden_size: read.hidden_size,
            num_attention_heads: heads,
            num_key_value_heads: read.num_key_value_heads.unwrap_or(heads),
            head_dim: read.head_dim.unwrap_or(read.hidden_size / heads.max(1)),
            ffn_hidden_size: read.ffn_hidden_size.unwrap_or_else(|| read.hidden_size.saturating_mul(4)),
            gated_mlp: read.gated_mlp.unwrap_or(is_llama),
            vocab_size: read.vocab_size,
            seq_length: read.seq_length,
            tie_word_embeddings: read.tie_word_embeddings.unwrap_or(!is_llama),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::LayerId;
    use crate::model::Block;

    fn read(text: &str) -> Result<ModelSpec, ModelError> {
        ModelSpec::from_text(text, "m", "file")
    }

    /// Parameters of the released weights, as their model cards and safetensors indices count them.
    #[test]
    fn published_configurations_have_the_published_numbers_of_parameters() {
        let llama_3_8b = r#"{"architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "hidden_size": 4096,
            "intermediate_size": 14336, "max_position_embeddings": 8192, "model_type": "llama",
            "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
            "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 128256}"#;
        let mistral_7b = r#"{"model_type": "mistral", "hidden_act": "silu", "hidden_size": 4096,
            "intermediate_size": 14336, "max_position_embeddings": 32768, "num_attention_heads": 32,
            "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 32000}"#;
        let gpt2 = r#"{"model_type": "gpt2", "activation_function": "gelu_new", "n_ctx": 1024, "n_embd": 768,
            "n_head": 12, "n_inner": null, "n_layer": 12, "n_positions": 1024, "vocab_size": 50257}"#;
        for (config, parameters) in [(llama_3_8b, 8_030_261_248), (mistral_7b, 7_241_732_096), (gpt2, 124_439_808)] {
            assert_eq!(read(config).unwrap().parameters(), parameters, "{config}");
        }
    }

    #[test]
    fn a_description_has_what_usually_follows() {
        let text = "architecture = \"llama\"\nnum_layers = 2\nhidden_size = 64\nnum_attention_heads = 4\n\
                    vocab_size = 100\nseq_length = 16\n";
        let model = read(text).unwrap();
        assert_eq!((model.name.as_str(), model.head_dim, model.ffn_hidden_size), ("file", 16, 256));
        assert_eq!((model.num_key_value_heads, model.gated_mlp, model.tie_word_embeddings), (4, true, false));
        let json = serde_json::to_string(&model).unwrap();
        assert_eq!(read(&json).unwrap(), model, "as JSON, with every key");
        assert!(model.block_parameters(Block::Layer(LayerId(0))) > 0);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let told = |text: &str| read(text).unwrap_err().to_string();
        let zero = "architecture = \"gpt\"\nnum_layers = 0\nhidden_size = 64\nnum_attention_heads = 4\n\
                    vocab_size = 100\nseq_length = 16\n";
        assert!(
            told(zero).starts_with("`m` line 2: `num_layers` is `0`, expected 1 to 10000\nhint: "),
            "{}",
            told(zero)
        );
        let unknown = format!("{zero}layers = 3\n");
        assert!(told(&unknown).starts_with("`m` line 7: unknown field `layers`"), "{}", told(&unknown));
        assert!(told("{\n\"num_layers\": \"x\"}").starts_with("`m` line 2: "));
        assert!(told("").contains("missing field `architecture`"));
        let experts = "{\"model_type\": \"mixtral\",\n\"num_local_experts\": 8}";
        assert!(told(experts).starts_with("`m` line 2: `num_local_experts` is `8`"), "{}", told(experts));
    }

    #[test]
    fn another_sequence_length_is_another_model() {
        let model = ModelSpec::preset("llama-7b").unwrap();
        let longer = model.clone().with_seq_length(Some(4096)).unwrap();
        assert_eq!((longer.name.as_str(), longer.seq_length), ("llama-7b-seq4096", 4096));
        assert_eq!(model.clone().with_seq_length(Some(2048)).unwrap(), model);
        assert!(model.with_seq_length(Some(0)).is_err());
    }

    #[test]
    fn names_come_from_files_and_folders() {
        assert_eq!(default_name(Path::new("a/mine.toml")), "mine");
        assert_eq!(default_name(Path::new("a/llama-3/config.json")), "llama-3");
        assert_eq!(default_name(Path::new("config.json")), "config");
    }
}
