//! Models by name, most of them published, and what a usable model must satisfy.

use super::{Architecture, ModelError, ModelSpec};
use crate::suggest;

/// One row of the table: name, layers, hidden size, heads, MLP width.
type Row = (&'static str, u32, u32, u32, u32);

/// GPT-3 sizes of Brown et al. 2020, table 2.1, sequence 2048, with the vocabulary of 50257 tokens padded to 51200 as
/// Megatron-LM pads it for tensor parallelism. Two rows of the table don't multiply out; here, as in the public
/// re-trainings, the 1.3B has 16 heads of 128 (printed: 24) and the 13B is 5120 wide (printed: 5140). The 30B isn't
/// in that table: its shape is OPT-30B's (Zhang et al. 2022, table 1).
const GPT3: [Row; 5] = [
    ("gpt3-1.3b", 24, 2048, 16, 8192),
    ("gpt3-2.7b", 32, 2560, 32, 10_240),
    ("gpt3-6.7b", 32, 4096, 32, 16_384),
    ("gpt3-13b", 40, 5120, 40, 20_480),
    ("gpt3-30b", 48, 7168, 56, 28_672),
];

/// Models for CPUs, which aren't published anywhere: small enough to train in minutes, on sequences of 128 bytes, whose 256
/// values are their vocabulary. LLaMA's has two query heads to a key and value head; BERT's has eight tokens more, of
/// which the last stands for what it doesn't see.
const TINY: [Row; 3] = [("gpt-tiny", 4, 128, 4, 512), ("llama-tiny", 4, 128, 4, 352), ("bert-tiny", 4, 128, 4, 512)];

/// A GPT whose speed on one core is measured: sequence 256, 8192 tokens.
const MIDDLE: Row = ("gpt-17m", 6, 384, 6, 1536);

/// GPT-2 in its smallest size (Radford et al. 2019): sequence 1024, the vocabulary of 50257 tokens padded to a multiple of
/// 64.
const SMALL: Row = ("gpt-small", 12, 768, 12, 3072);

/// OPT-350M of Zhang et al. 2022, table 1: sequence 2048, the vocabulary of 50272 tokens padded to 50304 as Megatron-LM
/// pads it, on which others have profiled it (Sailor, SOSP'25). The released weights have embeddings half as wide behind a
/// projection, which that profile and this shape leave out.
const OPT: Row = ("opt-350m", 24, 1024, 16, 4096);

/// LLaMA of Touvron et al. 2023, table 2; MLP widths and the vocabulary of 32000 from the released weights.
const LLAMA: [Row; 2] = [("llama-7b", 32, 4096, 32, 11_008), ("llama-13b", 40, 5120, 40, 13_824)];

/// BERT-large of Devlin et al. 2019, section 3, uncased vocabulary of 30522 word pieces.
const BERT: [Row; 1] = [("bert-large", 24, 1024, 16, 4096)];

impl ModelSpec {
    /// The model of this name; case and separators don't matter.
    ///
    /// ```
    /// use autohet::model::ModelSpec;
    /// let model = ModelSpec::preset("gpt3-6.7b")?;
    /// assert_eq!(model.num_layers, 32);
    /// assert!(ModelSpec::preset("gpt3-6.6b").unwrap_err().to_string().contains("did you mean `gpt3-6.7b`"));
    /// # Ok::<(), autohet::model::ModelError>(())
    /// ```
    pub fn preset(name: &str) -> Result<Self, ModelError> {
        let wanted = suggest::fold(name);
        presets().find(|model| suggest::fold(&model.name) == wanted).ok_or_else(|| {
            let names = Self::preset_names();
            ModelError::UnknownPreset { name: name.to_owned(), hint: suggest::hint(name, names) }
        })
    }

    /// Names of all presets: those for CPUs, then the published ones, smallest first within a family.
    pub fn preset_names() -> Vec<&'static str> {
        TINY.iter().chain([&MIDDLE, &SMALL, &OPT]).chain(&GPT3).chain(&LLAMA).chain(&BERT).map(|row| row.0).collect()
    }

    /// Checks that the shapes are those of a model that can be built.
    pub fn validate(&self) -> Result<(), ModelError> {
        const WIDEST: u32 = 1 << 20;
        let sizes = [
            ("num_layers", self.num_layers, 10_000),
            ("hidden_size", self.hidden_size, WIDEST),
            ("num_attention_heads", self.num_attention_heads, 4096),
            ("num_key_value_heads", self.num_key_value_heads, 4096),
            ("head_dim", self.head_dim, 65_536),
            ("ffn_hidden_size", self.ffn_hidden_size, WIDEST * 8),
            ("vocab_size", self.vocab_size, WIDEST * 16),
            ("seq_length", self.seq_length, WIDEST),
        ];
        for (field, value, limit) in sizes {
            if value == 0 || value > limit {
                return Err(ModelError::Size { model: self.name.clone(), field, value, limit });
            }
        }
        if !self.num_attention_heads.is_multiple_of(self.num_key_value_heads) {
            return Err(ModelError::GroupedHeads {
                model: self.name.clone(),
                query_heads: self.num_attention_heads,
                key_value_heads: self.num_key_value_heads,
            });
        }
        Ok(())
    }
}

fn presets() -> impl Iterator<Item = ModelSpec> {
    let [gpt, llama, bert] = &TINY;
    let tiny = [
        ModelSpec { vocab_size: 256, seq_length: 128, ..from_row(gpt, Architecture::Gpt) },
        ModelSpec {
            num_key_value_heads: 2,
            gated_mlp: true,
            vocab_size: 256,
            seq_length: 128,
            tie_word_embeddings: false,
            ..from_row(llama, Architecture::Llama)
        },
        ModelSpec { vocab_size: 264, seq_length: 128, ..from_row(bert, Architecture::Bert) },
    ];
    let small = [
        ModelSpec { vocab_size: 8192, seq_length: 256, ..from_row(&MIDDLE, Architecture::Gpt) },
        ModelSpec { vocab_size: 50_304, seq_length: 1024, ..from_row(&SMALL, Architecture::Gpt) },
        ModelSpec { vocab_size: 50_304, ..from_row(&OPT, Architecture::Gpt) },
    ];
    let gpt = GPT3.iter().map(|row| ModelSpec { vocab_size: 51_200, ..from_row(row, Architecture::Gpt) });
    let llama = LLAMA.iter().map(|row| ModelSpec {
        gated_mlp: true,
        vocab_size: 32_000,
        tie_word_embeddings: false,
        ..from_row(row, Architecture::Llama)
    });
    let bert =
        BERT.iter().map(|row| ModelSpec { vocab_size: 30_522, seq_length: 512, ..from_row(row, Architecture::Bert) });
    tiny.into_iter().chain(small).chain(gpt).chain(llama).chain(bert)
}

fn from_row(&(name, num_layers, hidden_size, heads, ffn_hidden_size): &Row, architecture: Architecture) -> ModelSpec {
    ModelSpec {
        name: name.to_owned(),
        architecture,
        num_layers,
        hidden_size,
        num_attention_heads: heads,
        num_key_value_heads: heads,
        head_dim: hidden_size / heads,
        ffn_hidden_size,
        gated_mlp: false,
        vocab_size: 0,
        seq_length: 2048,
        tie_word_embeddings: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_valid_and_found_by_its_name() {
        for name in ModelSpec::preset_names() {
            let model = ModelSpec::preset(name).unwrap();
            assert_eq!(model.name, name);
            assert_eq!(model.validate(), Ok(()));
            assert_eq!(model.head_dim * model.num_attention_heads, model.hidden_size);
        }
        assert_eq!(ModelSpec::preset("GPT3_6.7B").unwrap().name, "gpt3-6.7b");
    }

    /// Embedding, one layer and head as Sailor's profile of one GPU counts them.
    #[test]
    fn opt_350m_has_the_blocks_that_were_profiled() {
        let model = ModelSpec::preset("opt-350m").unwrap();
        let layer = crate::model::Block::Layer(crate::ids::LayerId(0));
        let blocks = [crate::model::Block::Embedding, layer, crate::model::Block::Head];
        assert_eq!(blocks.map(|block| model.block_parameters(block)), [53_608_448, 12_596_224, 51_513_344]);
    }

    #[test]
    fn an_unknown_name_is_answered_with_near_ones_and_all() {
        let message = ModelSpec::preset("lama-7b").unwrap_err().to_string();
        assert!(message.starts_with("unknown model `lama-7b`\nhint: did you mean `llama-7b`"), "{message}");
        assert!(message.contains("bert-large"));
    }

    #[test]
    fn impossible_shapes_are_refused() {
        let good = ModelSpec::preset("llama-7b").unwrap();
        let zero = ModelSpec { num_layers: 0, ..good.clone() };
        assert!(zero.validate().unwrap_err().to_string().contains("`num_layers` is `0`, expected 1 to 10000"));
        let grouped = ModelSpec { num_key_value_heads: 5, ..good.clone() };
        assert!(matches!(grouped.validate(), Err(ModelError::GroupedHeads { .. })));
        let wide = ModelSpec { hidden_size: u32::MAX, ..good };
        assert!(matches!(wide.validate(), Err(ModelError::Size { field: "hidden_size", .. })));
    }
}
