//! Shapes and initial values of each block's parameters.

use crate::model::{Block, ModelSpec};
use rand::SeedableRng;
use rand_distr::{Distribution, Normal};
use rand_pcg::Pcg64;

/// Standard deviation of the matrices (Radford et al. 2019).
const DEVIATION: f32 = 0.02;

/// A parameter's rows, columns and start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) struct ParameterShape {
    /// Rows; one for vectors.
    pub(in super::super) rows: usize,
    /// Columns.
    pub(in super::super) columns: usize,
    start: Start,
}

/// What a parameter is before the first step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Start {
    Constant(f32),
    Normal(f32),
}

impl ParameterShape {
    /// Number of values.
    pub(in super::super) fn len(&self) -> usize {
        self.rows * self.columns
    }
}

/// A block's parameters, in the order in which its forward pass takes them.
///
/// The head has a word matrix whether tied or not: tied ones start alike and get the sum of both gradients, and so stay
/// alike.
pub(in super::super) fn shapes(model: &ModelSpec, block: Block) -> Vec<ParameterShape> {
    let h = model.hidden_size as usize;
    let heads = (model.num_attention_heads * model.head_dim) as usize;
    let ffn = model.ffn_hidden_size as usize;
    let matrix = |rows, columns| ParameterShape { rows, columns, start: Start::Normal(DEVIATION) };
    // Matrices that write to the residual stream are smaller, as there are two a layer that add up.
    let deviation = DEVIATION / (2.0 * model.num_layers as f32).sqrt();
    let residual = |rows, columns| ParameterShape { rows, columns, start: Start::Normal(deviation) };
    let vector = |value, columns| ParameterShape { rows: 1, columns, start: Start::Constant(value) };
    let (gain, bias) = (vector(1.0, h), vector(0.0, h));
    let words = matrix(model.vocab_size as usize, h);
    match block {
        Block::Embedding => vec![words, matrix(model.seq_length as usize, h)],
        Block::Layer(_) => {
            let projection = [matrix(h, heads), vector(0.0, heads)];
            let attention = [gain, bias].into_iter().chain([projection; 3].concat()).chain([residual(heads, h), bias]);
            let mlp = [gain, bias, matrix(h, ffn), vector(0.0, ffn), residual(ffn, h), bias];
            attention.chain(mlp).collect()
        }
        Block::Head => vec![gain, bias, words],
    }
}

/// The initial values of a block's parameters, one after the other. They depend on the seed and the block alone, so that
/// any plan starts from the same model.
pub(in super::super) fn initial(model: &ModelSpec, block: Block, seed: u64) -> Vec<f32> {
    let mut values = Vec::new();
    for (index, shape) in shapes(model, block).into_iter().enumerate() {
        let is_tied = model.tie_word_embeddings && block == Block::Head && index == TIED_IN_HEAD;
        let (owner, index) = if is_tied { (Block::Embedding, TIED_IN_EMBEDDING) } else { (block, index) };
        match shape.start {
            Start::Constant(value) => values.resize(values.len() + shape.len(), value),
            Start::Normal(deviation) => {
                let normal = Normal::new(0.0, deviation).expect("the deviation is positive");
                values.extend(normal.sample_iter(stream(seed, owner, index)).take(shape.len()));
            }
        }
    }
    values
}

/// Place of the word matrix among the embedding's parameters.
const TIED_IN_EMBEDDING: usize = 0;
/// Place of the word matrix among the head's parameters.
const TIED_IN_HEAD: usize = 2;

/// The random stream of one parameter.
fn stream(seed: u64, block: Block, index: usize) -> Pcg64 {
    let place = match block {
        Block::Embedding => 0,
        Block::Layer(layer) => u64::from(layer.0) + 1,
        Block::Head => u64::MAX,
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&place.to_le_bytes());
    bytes[16..24].copy_from_slice(&(index as u64).to_le_bytes());
    bytes[24..].copy_from_slice(b"weights.");
    Pcg64::from_seed(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::LayerId;

    #[test]
    fn there_are_as_many_parameters_as_the_model_says() {
        let tied = ModelSpec::preset("gpt-tiny").unwrap();
        for model in [ModelSpec { tie_word_embeddings: false, ..tied.clone() }, tied] {
            for block in [Block::Embedding, Block::Layer(LayerId(1)), Block::Head] {
                let found: usize = shapes(&model, block).iter().map(ParameterShape::len).sum();
                assert_eq!(found as u64, model.block_parameters(block), "{block}");
                assert_eq!(initial(&model, block, 1).len(), found);
            }
        }
    }

    #[test]
    fn tied_matrices_start_alike_and_others_dont() {
        let tied = ModelSpec::preset("gpt-tiny").unwrap();
        let untied = ModelSpec { tie_word_embeddings: false, ..tied.clone() };
        let words = (tied.vocab_size * tied.hidden_size) as usize;
        let of_head = |model| initial(model, Block::Head, 1)[2 * tied.hidden_size as usize..].to_vec();
        let embedding = &initial(&tied, Block::Embedding, 1)[..words];
        assert_eq!(of_head(&tied), embedding);
        assert_ne!(of_head(&untied), embedding);
        assert_ne!(initial(&tied, Block::Layer(LayerId(0)), 1), initial(&tied, Block::Layer(LayerId(1)), 1));
        assert_ne!(initial(&tied, Block::Embedding, 2)[..words], *embedding);
    }
}
