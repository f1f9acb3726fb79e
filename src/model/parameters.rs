//! Parameters, block by block.

use super::{Architecture, Block, ModelSpec};

impl ModelSpec {
    /// Parameters of one transformer layer: `12 h² + 13 h` for GPT and BERT.
    pub fn layer_parameters(&self) -> u64 {
        let h = u64::from(self.hidden_size);
        let f = u64::from(self.ffn_hidden_size);
        let (query, key_value) = (self.query_width(), self.key_value_width());
        let up = if self.gated_mlp { 2 * f } else { f };
        let matrices = h * (query + 2 * key_value) + query * h + h * up + f * h;
        let biases = if self.architecture.has_bias() { query + 2 * key_value + h + up + h } else { 0 };
        matrices + biases + 2 * self.norm_parameters()
    }

    /// Parameters that the stage holding `block` holds for it.
    ///
    /// The head always counts its vocabulary projection, also where it is tied to the embedding: with more than one
    /// stage the last one keeps a copy of the matrix (Megatron-LM does so), and gradients of both copies are reduced.
    pub fn block_parameters(&self, block: Block) -> u64 {
        match block {
            Block::Embedding => self.embedding_parameters(),
            Block::Layer(_) => self.layer_parameters(),
            Block::Head => self.head_parameters() + self.word_embedding_parameters(),
        }
    }

    /// Parameters of the whole model, the tied matrix counted once.
    pub fn parameters(&self) -> u64 {
        let tied = if self.tie_word_embeddings { self.word_embedding_parameters() } else { 0 };
        self.block_parameters(Block::Embedding)
            + u64::from(self.num_layers) * self.layer_parameters()
            + self.block_parameters(Block::Head)
            - tied
    }

    /// The word embedding's matrix, `V h`.
    pub fn word_embedding_parameters(&self) -> u64 {
        u64::from(self.vocab_size) * u64::from(self.hidden_size)
    }

    /// Whether `t` GPUs can share every layer evenly: whole query heads and equal MLP slices for each, and key/value
    /// heads that are split or copied evenly. The vocabulary is padded where needed.
    pub fn supports_tensor_parallel(&self, t: u32) -> bool {
        let key_value = self.num_key_value_heads;
        t > 0
            && self.num_attention_heads.is_multiple_of(t)
            && self.ffn_hidden_size.is_multiple_of(t)
            && (key_value.is_multiple_of(t) || t.is_multiple_of(key_value))
    }

    /// Width of all query heads together; `h` in most models.
    pub(crate) fn query_width(&self) -> u64 {
        u64::from(self.num_attention_heads) * u64::from(self.head_dim)
    }

    /// Width of all key heads together, and of all value heads.
    pub(crate) fn key_value_width(&self) -> u64 {
        u64::from(self.num_key_value_heads) * u64::from(self.head_dim)
    }

    /// Learned positions (GPT, BERT); BERT adds two token types and a norm.
    fn embedding_parameters(&self) -> u64 {
        let h = u64::from(self.hidden_size);
        let positions = u64::from(self.seq_length) * h;
        self.word_embedding_parameters()
            + match self.architecture {
                Architecture::Gpt => positions,
                Architecture::Bert => positions + 2 * h + self.norm_parameters(),
                Architecture::Llama => 0,
            }
    }

    /// The final norm; BERT's masked-language-model head has a dense layer and a bias over the vocabulary as well.
    fn head_parameters(&self) -> u64 {
        let h = u64::from(self.hidden_size);
        self.norm_parameters()
            + match self.architecture {
                Architecture::Bert => h * h + h + u64::from(self.vocab_size),
                Architecture::Gpt | Architecture::Llama => 0,
            }
    }

    /// `LayerNorm` has a scale and a bias, `RMSNorm` a scale only.
    fn norm_parameters(&self) -> u64 {
        let h = u64::from(self.hidden_size);
        if self.architecture.has_bias() { 2 * h } else { h }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::LayerId;
    use rstest::rstest;

    #[test]
    fn a_gpt_layer_has_12_h_squared_plus_13_h() {
        let model = ModelSpec::preset("gpt3-6.7b").unwrap();
        assert_eq!(model.layer_parameters(), 12 * 4096 * 4096 + 13 * 4096);
        assert_eq!(model.block_parameters(Block::Layer(LayerId(3))), model.layer_parameters());
    }

    /// Parameter counts of the released LLaMA weights.
    #[rstest]
    #[case("llama-7b", 6_738_415_616)]
    #[case("llama-13b", 13_015_864_320)]
    fn llama_has_its_published_size(#[case] name: &str, #[case] parameters: u64) {
        assert_eq!(ModelSpec::preset(name).unwrap().parameters(), parameters);
    }

    /// Narayanan et al. 2021, equation 2: `P = 12 l h² (1 + 13/(12 h) + (V + s)/(12 l h))`; the final norm is ours.
    #[rstest]
    #[case("gpt3-1.3b", 1.3e9)]
    #[case("gpt3-2.7b", 2.7e9)]
    #[case("gpt3-6.7b", 6.7e9)]
    #[case("gpt3-13b", 13.0e9)]
    #[case("gpt3-30b", 30.0e9)]
    fn gpt_agrees_with_equation_2_and_with_its_name(#[case] name: &str, #[case] nominal: f64) {
        let model = ModelSpec::preset(name).unwrap();
        let [l, h, v, s] = [model.num_layers, model.hidden_size, model.vocab_size, model.seq_length].map(u64::from);
        assert_eq!(model.parameters(), 12 * l * h * h + 13 * l * h + (v + s) * h + 2 * h);
        assert!((model.parameters() as f64 / nominal - 1.0).abs() < 0.03, "{}", model.parameters());
    }

    /// Devlin et al. 2019 give 340 M with the pooler (1.05 M) that we leave out.
    #[test]
    fn bert_large_has_its_published_size() {
        let parameters = ModelSpec::preset("bert-large").unwrap().parameters();
        assert!((334_000_000..338_000_000).contains(&parameters), "{parameters}");
    }

    #[test]
    fn a_tied_matrix_counts_once_in_the_model_and_twice_in_the_blocks() {
        let tied = ModelSpec::preset("gpt3-1.3b").unwrap();
        let untied = ModelSpec { tie_word_embeddings: false, ..tied.clone() };
        assert_eq!(untied.parameters() - tied.parameters(), tied.word_embedding_parameters());
        assert_eq!(untied.block_parameters(Block::Head), tied.block_parameters(Block::Head));
    }
}
