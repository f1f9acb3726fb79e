//! What parameters are before the first step.

use super::parameters::{Start, WORDS_IN_EMBEDDING, shapes, words_in_head};
use crate::model::{Block, ModelSpec};
use rand::SeedableRng;
use rand_distr::{Distribution, Normal};
use rand_pcg::Pcg64;

/// The initial values of a block's parameters, whole, one vector each. They depend on the seed and the block alone, so
/// that any plan starts from the same model.
pub(super) fn initial(model: &ModelSpec, block: Block, seed: u64) -> impl Iterator<Item = Vec<f32>> {
    let is_tied = model.tie_word_embeddings && block == Block::Head;
    let tied = is_tied.then(|| words_in_head(model));
    shapes(model, block).into_iter().enumerate().map(move |(index, shape)| {
        let (owner, index) = if tied == Some(index) { (Block::Embedding, WORDS_IN_EMBEDDING) } else { (block, index) };
        match shape.start {
            Start::Constant(value) => vec![value; shape.len()],
            Start::Normal(deviation) => {
                let normal = Normal::new(0.0, deviation).expect("the deviation is positive");
                normal.sample_iter(stream(seed, owner, index)).take(shape.len()).collect()
            }
        }
    })
}

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
    fn tied_matrices_start_alike_and_others_dont() {
        for name in ["gpt-tiny", "bert-tiny"] {
            let tied = ModelSpec::preset(name).unwrap();
            let untied = ModelSpec { tie_word_embeddings: false, ..tied.clone() };
            let at = words_in_head(&tied);
            let of_head = |model| initial(model, Block::Head, 1).nth(at).unwrap();
            let embedding = |seed| initial(&tied, Block::Embedding, seed).next().unwrap();
            assert_eq!(of_head(&tied), embedding(1));
            assert_ne!(of_head(&untied), embedding(1));
            assert_ne!(embedding(2), embedding(1));
            let layer = |layer| initial(&tied, Block::Layer(LayerId(layer)), 1).collect::<Vec<_>>();
            assert_ne!(layer(0), layer(1));
        }
    }
}
