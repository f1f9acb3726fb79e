//! The samples of a rank's micro batches, and for BERT what is hidden in them.

use crate::ids::MicroBatch;
use crate::model::{Architecture, ModelSpec};
use crate::plan::Plan;
use crate::runtime::device::DataSet;
use crate::runtime::device::data::stream;
use crate::runtime::device::model::Batch;
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

/// Of 100 tokens of a sample, how many BERT is asked for (Devlin et al. 2019, section 3.1).
const ASKED_PER_CENT: usize = 15;
/// What decides what is hidden in a sample.
const MASKING: [u8; 8] = *b"masking.";
/// Of ten tokens that are asked for, how many it doesn't see.
const MASKED_IN_TEN: u32 = 8;
/// Of ten tokens that are asked for, how many are replaced by any token; the rest stays as it is.
const REPLACED_IN_TEN: u32 = 1;

/// Where a rank's samples are found.
pub(super) struct Samples {
    data: DataSet,
    seed: u64,
    global_batch_size: u64,
    micro_batch_size: u64,
    /// Micro batches of the replicas before this one.
    first_micro_batch: u64,
    /// Optimizer steps done.
    pub(super) step: u64,
}

impl Samples {
    /// Those of a replica, after this many optimizer steps. The global batch is dealt out replica by replica.
    pub(super) fn new(plan: &Plan, replica: usize, data: DataSet, seed: u64, step: u64) -> Self {
        let before = plan.replicas[..replica].iter();
        Self {
            data,
            seed,
            global_batch_size: u64::from(plan.global_batch_size),
            micro_batch_size: u64::from(plan.micro_batch_size),
            first_micro_batch: before.map(|replica| u64::from(replica.micro_batches)).sum(),
            step,
        }
    }

    /// How many tokens a micro batch has.
    pub(super) fn tokens(&self, model: &ModelSpec) -> usize {
        (self.micro_batch_size * u64::from(model.seq_length)) as usize
    }

    /// The tokens of a micro batch.
    pub(super) fn batch(&self, model: &ModelSpec, micro_batch: MicroBatch) -> Batch {
        let within_step = (self.first_micro_batch + u64::from(micro_batch.0)) * self.micro_batch_size;
        let first = self.step * self.global_batch_size + within_step;
        let mut batch = Batch::default();
        for number in first..first + self.micro_batch_size {
            let tokens = self.data.sample(number, self.seed, model);
            if model.architecture == Architecture::Bert {
                hide(&tokens[..tokens.len() - 1], model, stream(self.seed, number, MASKING), &mut batch);
            } else {
                batch.inputs.extend_from_slice(&tokens[..tokens.len() - 1]);
                batch.targets.extend_from_slice(&tokens[1..]);
                batch.weights.resize(batch.targets.len(), 1.0);
            }
        }
        let sum: f32 = batch.weights.iter().sum();
        batch.weights.iter_mut().for_each(|weight| *weight /= sum);
        batch
    }
}

/// Adds a sample for BERT: equally many tokens of each are asked for, so that the mean over micro batches is that over
/// tokens, however many samples each has. The vocabulary's last token stands for a masked one.
fn hide(tokens: &[u32], model: &ModelSpec, mut rng: Pcg64, batch: &mut Batch) {
    let first = batch.inputs.len();
    batch.inputs.extend_from_slice(tokens);
    batch.targets.extend_from_slice(tokens);
    batch.weights.resize(batch.targets.len(), 0.0);
    let asked = (tokens.len() * ASKED_PER_CENT).div_ceil(100);
    let mut places: Vec<usize> = (first..first + tokens.len()).collect();
    let (asked, _) = places.partial_shuffle(&mut rng, asked);
    for &mut place in asked {
        batch.weights[place] = 1.0;
        let drawn = rng.random_range(0..10);
        let any = rng.random_range(0..model.vocab_size);
        if drawn < MASKED_IN_TEN {
            batch.inputs[place] = model.vocab_size - 1;
        } else if drawn < MASKED_IN_TEN + REPLACED_IN_TEN {
            batch.inputs[place] = any;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifteen_in_a_hundred_are_asked_for_and_most_of_them_hidden() {
        let model = ModelSpec::preset("bert-tiny").unwrap();
        let tokens: Vec<u32> = (0..model.seq_length).map(|at| at % 250).collect();
        let mut batch = Batch::default();
        let samples = 100;
        for number in 0..samples {
            hide(&tokens, &model, stream(7, number, MASKING), &mut batch);
        }
        let all = tokens.len() * samples as usize;
        let asked: Vec<usize> = (0..all).filter(|&at| batch.weights[at] > 0.0).collect();
        assert_eq!(asked.len(), (tokens.len() * 15).div_ceil(100) * samples as usize);
        let share = |of: &dyn Fn(usize) -> bool| asked.iter().filter(|&&at| of(at)).count() as f64 / asked.len() as f64;
        let masked = share(&|at| batch.inputs[at] == model.vocab_size - 1);
        let kept = share(&|at| batch.inputs[at] == batch.targets[at]);
        assert!((masked - 0.8).abs() < 0.03 && (kept - 0.1).abs() < 0.02, "{masked}, {kept}");
        let others = (0..all).filter(|at| batch.weights[*at] <= 0.0);
        assert!(others.into_iter().all(|at| batch.inputs[at] == batch.targets[at]));
        assert!(batch.targets.iter().zip(tokens.iter().cycle()).all(|(a, b)| a == b));
    }
}
