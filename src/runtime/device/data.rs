//! What is trained on. Every rank can make every sample, so that no sample ever travels.

mod corpus;

pub use corpus::{Corpus, DataOrigin, TokenFormat};

use super::DeviceError;
use crate::model::ModelSpec;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// A set of samples, by number.
#[derive(Clone, Debug)]
pub enum DataSet {
    /// A language without meaning: nine times in ten a token decides the next one, by a map drawn from the seed. Its
    /// entropy, about `0.325 + 0.1 ln V` nats a token, is the lowest loss that any model reaches.
    Synthetic,
    /// The tokens of a file. A sample starts anywhere.
    Corpus(Corpus),
}

/// Bytes that a text can have.
const BYTE_VALUES: u32 = 256;
/// What the streams of this file are for.
const SAMPLES: [u8; 8] = *b"samples.";
/// How often, in ten, the synthetic set goes by its map.
const RULE_IN_TEN: u32 = 9;

impl DataSet {
    /// Checks that it has samples for this model.
    pub fn check(&self, model: &ModelSpec) -> Result<(), DeviceError> {
        let Self::Corpus(corpus) = self else { return Ok(()) };
        let vocab_size = model.vocab_size;
        if corpus.format() == TokenFormat::Text && vocab_size < BYTE_VALUES {
            return Err(DeviceError::Vocabulary { vocab_size });
        }
        let needed = model.seq_length as usize + 1;
        if corpus.len() < needed {
            return Err(DeviceError::TooLittleData { data: corpus.name(), found: corpus.len(), needed });
        }
        match corpus.first_beyond(vocab_size) {
            Some((position, token)) => Err(DeviceError::Token { data: corpus.name(), position, token, vocab_size }),
            None => Ok(()),
        }
    }

    /// What a worker has to be told of it, and what it has to be sent besides.
    pub fn origin(&self) -> (DataOrigin, Option<&[u8]>) {
        match self {
            Self::Synthetic => (DataOrigin::Synthetic, None),
            Self::Corpus(corpus) => corpus.origin(),
        }
    }

    /// What tells it from others, for people.
    pub fn fingerprint(&self) -> String {
        match self {
            Self::Synthetic => "synthetic".to_owned(),
            Self::Corpus(corpus) => corpus.fingerprint(),
        }
    }

    /// Bytes that each process holds of it.
    pub fn held_bytes(&self) -> u64 {
        match self {
            Self::Synthetic => 0,
            Self::Corpus(corpus) => corpus.byte_count(),
        }
    }

    /// Sample `number`: `seq_length + 1` tokens, of which all but the last are input and all but the first are to be
    /// predicted.
    pub(super) fn sample(&self, number: u64, seed: u64, model: &ModelSpec) -> Vec<u32> {
        let length = model.seq_length as usize + 1;
        // A stream of its own for each sample; the map's is one that no sample has.
        let mut rng = stream(seed, number, SAMPLES);
        match self {
            Self::Corpus(corpus) => {
                let start = rng.random_range(0..=corpus.len() - length);
                corpus.tokens(start, length)
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
    stream(seed, u64::MAX - u64::from(token), SAMPLES).random_range(0..vocab_size)
}

/// The random stream of this number and purpose. Seeding mixes them all, so that streams of neighbouring numbers have nothing
/// in common.
pub(super) fn stream(seed: u64, number: u64, purpose: [u8; 8]) -> Pcg64 {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    bytes[16..24].copy_from_slice(&purpose);
    Pcg64::from_seed(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> ModelSpec {
        ModelSpec::preset("gpt-tiny").unwrap()
    }

    fn corpus(format: TokenFormat, bytes: Vec<u8>) -> DataSet {
        DataSet::Corpus(Corpus::from_bytes(format, bytes))
    }

    #[test]
    fn a_sample_is_a_piece_of_the_text() {
        let text: Vec<u8> = (0..1000_u32).map(|i| (i * i % 251) as u8).collect();
        let data = corpus(TokenFormat::Text, text.clone());
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
        let short = corpus(TokenFormat::Text, vec![0; 128]);
        assert!(matches!(short.check(&model()), Err(DeviceError::TooLittleData { found: 128, needed: 129, .. })));
        let small = ModelSpec { vocab_size: 255, ..model() };
        let text = corpus(TokenFormat::Text, vec![0; 999]);
        assert!(matches!(text.check(&small), Err(DeviceError::Vocabulary { .. })));
        let mut numbers = vec![0; 400];
        numbers[302] = 44;
        numbers[303] = 1;
        let tokens = corpus(TokenFormat::U16, numbers);
        let beyond = tokens.check(&model()).unwrap_err();
        assert!(matches!(beyond, DeviceError::Token { position: 151, token: 300, vocab_size: 256, .. }), "{beyond}");
    }
}
