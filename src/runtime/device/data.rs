//! What is trained on. Every rank can make every sample, so that no sample ever travels.

use super::DeviceError;
use crate::model::ModelSpec;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::sync::Arc;

/// A set of samples, by number.
#[derive(Clone, Debug)]
pub enum DataSet {
    /// A language without meaning: nine times in ten a token decides the next one, by a map drawn from the seed. Its
    /// entropy, about `0.325 + 0.1 ln V` nats a token, is the lowest loss that any model reaches.
    Synthetic,
    /// The bytes of a text, one token each. A sample starts anywhere.
    Text(Arc<[u8]>),
}

/// Bytes that a text can have.
const BYTE_VALUES: u32 = 256;
/// How often, in ten, the synthetic set goes by its map.
const RULE_IN_TEN: u32 = 9;

impl DataSet {
    /// Checks that it has samples for this model.
    pub fn check(&self, model: &ModelSpec) -> Result<(), DeviceError> {
        let Self::Text(bytes) = self else { return Ok(()) };
        if model.vocab_size < BYTE_VALUES {
            return Err(DeviceError::Vocabulary { vocab_size: model.vocab_size });
        }
        let needed = model.seq_length as usize + 1;
        if bytes.len() < needed {
            return Err(DeviceError::TooLittleData { found: bytes.len(), needed });
        }
        Ok(())
    }

    /// Sample `number`: `seq_length + 1` tokens, of which all but the last are input and all but the first are to be
    /// predicted.
    pub(super) fn sample(&self, number: u64, seed: u64, model: &ModelSpec) -> Vec<u32> {
        let length = model.seq_length as usize + 1;
        // A stream of its own for each sample; the map's is one that no sample has.
        let mut rng = stream(seed, number);
        match self {
            Self::Text(bytes) => {
                let start = rng.random_range(0..=bytes.len() - length);
                bytes[start..start + length].iter().map(|&byte| u32::from(byte)).collect()
            }
            Self::Synthetic => {
                let mut token = rng.random_range(0..model.vocab_size);
                let mut tokens = vec![token];
                while tokens.len() < length {
                    let by_rule = rng.random_range(0..10) < RULE_IN_TEN;
                    let drawn = rng.random_range(0..model.vocab_size);
                    token = if by_rule { successor(token, seed, model.vocab_size) } else { drawn };
                    tokens.push(token);
                }
                tokens
            }
        }
    }
}

fn successor(token: u32, seed: u64, vocab_size: u32) -> u32 {
    stream(seed, u64::MAX - u64::from(token)).random_range(0..vocab_size)
}

/// The random stream of this number. Seeding mixes both, so that streams of neighbouring numbers have nothing in common.
fn stream(seed: u64, number: u64) -> Pcg64 {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    bytes[16..24].copy_from_slice(b"samples.");
    Pcg64::from_seed(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> ModelSpec {
        ModelSpec::preset("gpt-tiny").unwrap()
    }

    #[test]
    fn a_sample_is_a_piece_of_the_text() {
        let text: Vec<u8> = (0..1000_u32).map(|i| (i * i % 251) as u8).collect();
        let data = DataSet::Text(text.clone().into());
        let sample = data.sample(3, 7, &model());
        let bytes: Vec<u8> = sample.iter().map(|&token| token as u8).collect();
        assert_eq!(bytes.len(), 129);
        assert!(text.windows(129).any(|window| window == bytes));
        assert_eq!(sample, data.sample(3, 7, &model()));
        assert_ne!(sample, data.sample(4, 7, &model()));
    }

    #[test]
    fn the_synthetic_set_mostly_goes_by_its_map() {
        let sample = DataSet::Synthetic.sample(0, 7, &model());
        let by_rule = sample.windows(2).filter(|pair| successor(pair[0], 7, 256) == pair[1]).count();
        assert!((95..=127).contains(&by_rule), "{by_rule} of 128");
        assert!(sample.iter().all(|&token| token < 256));
    }

    #[test]
    fn what_yields_no_sample_is_refused() {
        let short = DataSet::Text(vec![0; 128].into());
        assert!(matches!(short.check(&model()), Err(DeviceError::TooLittleData { found: 128, needed: 129 })));
        let small = ModelSpec { vocab_size: 255, ..model() };
        assert!(matches!(DataSet::Text(vec![0; 999].into()).check(&small), Err(DeviceError::Vocabulary { .. })));
    }
}
