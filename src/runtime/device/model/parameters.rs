//! Each block's parameters: shapes, start, and how tensor parallelism cuts them.

use crate::model::{Architecture, Block, ModelSpec};

/// Standard deviation of the matrices (Radford et al. 2019).
const DEVIATION: f32 = 0.02;

/// A whole parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) struct ParameterShape {
    /// Rows; one for vectors.
    pub(in super::super) rows: usize,
    /// Columns.
    pub(in super::super) columns: usize,
    /// How the ranks that share a stage share it.
    pub(in super::super) cut: Cut,
    pub(super) start: Start,
}

/// How a parameter is shared (Shoeybi et al. 2019, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Cut {
    /// Everyone holds all of it.
    Replicated,
    /// By columns: those of a product's results, or the entries of the bias that is added to them.
    Columns,
    /// By rows: those that meet a rank's part of the input, or its part of the vocabulary.
    Rows,
}

/// What a parameter is before the first step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Start {
    Constant(f32),
    Normal(f32),
}

impl ParameterShape {
    /// Number of values.
    pub(in super::super) fn len(&self) -> usize {
        self.rows * self.columns
    }

    fn cut(self, cut: Cut) -> Self {
        Self { cut, ..self }
    }
}

fn matrix(rows: usize, columns: usize, deviation: f32) -> ParameterShape {
    ParameterShape { rows, columns, cut: Cut::Replicated, start: Start::Normal(deviation) }
}

fn vector(columns: usize, value: f32) -> ParameterShape {
    ParameterShape { rows: 1, columns, cut: Cut::Replicated, start: Start::Constant(value) }
}

/// A block's parameters, in the order in which its forward pass takes them.
///
/// The head has a word matrix whether tied or not: tied ones start alike and get the sum of both gradients, and so stay
/// alike.
pub(in super::super) fn shapes(model: &ModelSpec, block: Block) -> Vec<ParameterShape> {
    let h = model.hidden_size as usize;
    let words = matrix(model.vocab_size as usize, h, DEVIATION).cut(Cut::Rows);
    match (block, model.architecture) {
        (Block::Embedding, Architecture::Llama) => vec![words],
        (Block::Embedding, Architecture::Gpt) => vec![words, matrix(model.seq_length as usize, h, DEVIATION)],
        (Block::Embedding, Architecture::Bert) => {
            let (positions, types) = (matrix(model.seq_length as usize, h, DEVIATION), matrix(2, h, DEVIATION));
            [vec![words, positions, types], norm(model)].concat()
        }
        (Block::Layer(_), _) => layer(model),
        (Block::Head, Architecture::Bert) => {
            let bias = vector(model.vocab_size as usize, 0.0).cut(Cut::Columns);
            [vec![matrix(h, h, DEVIATION), vector(h, 0.0)], norm(model), vec![words, bias]].concat()
        }
        (Block::Head, _) => [norm(model), vec![words]].concat(),
    }
}

/// Place of the word matrix among the embedding's parameters.
pub(in super::super) const WORDS_IN_EMBEDDING: usize = 0;

/// Place of the word matrix among the head's parameters.
pub(in super::super) fn words_in_head(model: &ModelSpec) -> usize {
    let before = if model.architecture == Architecture::Bert { 2 } else { 0 };
    before + norm(model).len()
}

fn layer(model: &ModelSpec) -> Vec<ParameterShape> {
    let h = model.hidden_size as usize;
    let [heads, key_values] =
        [model.num_attention_heads, model.num_key_value_heads].map(|heads| (heads * model.head_dim) as usize);
    let ffn = model.ffn_hidden_size as usize;
    // Matrices that write to the residual stream are smaller, as there are two a layer that add up.
    let deviation = DEVIATION / (2.0 * model.num_layers as f32).sqrt();
    let with_bias = |weight: ParameterShape, bias: ParameterShape| {
        if model.architecture.has_bias() { vec![weight, bias] } else { vec![weight] }
    };
    let into = |width| with_bias(matrix(h, width, DEVIATION).cut(Cut::Columns), vector(width, 0.0).cut(Cut::Columns));
    // Its bias is added once the parts' products are summed.
    let out_of = |width| with_bias(matrix(width, h, deviation).cut(Cut::Rows), vector(h, 0.0));
    let attention = [into(heads), into(key_values), into(key_values), out_of(heads)].concat();
    let inner = if model.gated_mlp { [into(ffn), into(ffn)].concat() } else { into(ffn) };
    let mlp = [inner, out_of(ffn)].concat();
    if model.architecture == Architecture::Bert {
        [attention, norm(model), mlp, norm(model)].concat()
    } else {
        [norm(model), attention, norm(model), mlp].concat()
    }
}

/// `LayerNorm`'s gain and bias, or `RMSNorm`'s gain.
fn norm(model: &ModelSpec) -> Vec<ParameterShape> {
    let h = model.hidden_size as usize;
    if model.architecture.has_bias() { vec![vector(h, 1.0), vector(h, 0.0)] } else { vec![vector(h, 1.0)] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::LayerId;

    #[test]
    fn there_are_as_many_parameters_as_the_model_says() {
        for name in ["gpt-tiny", "llama-tiny", "bert-tiny", "bert-large", "llama-7b"] {
            let model = ModelSpec::preset(name).unwrap();
            for tie_word_embeddings in [false, true] {
                let model = ModelSpec { tie_word_embeddings, ..model.clone() };
                for block in [Block::Embedding, Block::Layer(LayerId(1)), Block::Head] {
                    let shapes = shapes(&model, block);
                    let found: usize = shapes.iter().map(ParameterShape::len).sum();
                    assert_eq!(found as u64, model.block_parameters(block), "{name}, {block}");
                }
                assert_eq!(shapes(&model, Block::Head)[words_in_head(&model)].rows, model.vocab_size as usize);
            }
        }
    }
}
