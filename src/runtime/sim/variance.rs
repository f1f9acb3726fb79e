//! Iterations that vary: operations that take now longer and now shorter, and GPUs that are always slow.

use super::{PricedProgram, SimBackend, SimError};
use crate::cluster::Cluster;
use crate::cost::CostModel;
use crate::ids::Rank;
use crate::plan::Plan;
use crate::program::{LowerOptions, Program};
use crate::runtime::{DriveError, drive};
use crate::units::SimTime;
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution, LogNormal};
use rand_pcg::Pcg64;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// What varies. Nothing does by default.
///
/// Every pass, message and reduction takes its price times a factor that is log-normal with mean one; GPUs that are slow take
/// longer for each pass, in all repetitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Jitter {
    /// Standard deviation of an operation's time, as a share of it.
    pub sigma: f64,
    /// GPUs that are slow.
    pub stragglers: Stragglers,
    /// Seed of all of it.
    pub seed: u64,
}

/// GPUs that are slow from the first iteration to the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stragglers {
    /// Chance of each GPU to be one, from 0 to 1.
    pub share: f64,
    /// How much longer they take for each pass: 0.2 is a fifth.
    pub slowdown: f64,
}

/// Seconds of iterations that were repeated, the shortest first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Repetitions {
    /// Of each, sorted.
    pub seconds: Vec<f64>,
}

/// The factors of one iteration.
#[derive(Clone, Debug)]
pub(super) struct Draws {
    factor: LogNormal<f64>,
    random: Pcg64,
    slow: Vec<f64>,
}

/// Streams of randomness of one seed.
const STRAGGLERS: u64 = 0;
const FIRST_REPETITION: u64 = 1;

impl Jitter {
    /// Whether anything varies.
    pub fn is_none(&self) -> bool {
        self.sigma <= 0.0 && (self.stragglers.share <= 0.0 || self.stragglers.slowdown <= 0.0)
    }

    pub(super) fn draws(&self, ranks: usize, repetition: u32) -> Draws {
        // With variance v of a mean of one, the logarithm's is ln (1 + v), and its mean half of that below zero.
        let variance = (self.sigma * self.sigma).ln_1p();
        let factor = LogNormal::new(-variance / 2.0, variance.sqrt()).expect("a finite deviation");
        let mut stragglers = stream(self.seed, STRAGGLERS);
        let slow = (0..ranks).map(|_| {
            let is_slow = stragglers.random::<f64>() < self.stragglers.share;
            if is_slow { 1.0 + self.stragglers.slowdown } else { 1.0 }
        });
        let slow = slow.collect();
        Draws { factor, random: stream(self.seed, FIRST_REPETITION + u64::from(repetition)), slow }
    }
}

fn stream(seed: u64, number: u64) -> Pcg64 {
    let mut mixed = Pcg64::seed_from_u64(seed);
    let state = (u128::from(mixed.next_u64()) << 64) | u128::from(mixed.next_u64());
    Pcg64::new(state, u128::from(number))
}

impl Draws {
    /// Factor of the next message or reduction.
    pub(super) fn transfer(&mut self) -> f64 {
        self.factor.sample(&mut self.random)
    }

    /// Time of the next pass of a rank.
    pub(super) fn pass(&mut self, rank: Rank, time: SimTime) -> SimTime {
        let factor = self.factor.sample(&mut self.random) * self.slow[rank.index()];
        SimTime::from_seconds(time.as_seconds() * factor)
    }
}

impl Repetitions {
    /// The seconds that this share of the iterations doesn't exceed, interpolated between the nearest two; none of no
    /// iterations.
    ///
    /// ```
    /// use autohet::runtime::sim::Repetitions;
    /// let repetitions = Repetitions { seconds: vec![1.0, 2.0, 4.0] };
    /// assert_eq!([0.0, 0.5, 0.75, 1.0].map(|share| repetitions.quantile(share).unwrap()), [1.0, 2.0, 3.0, 4.0]);
    /// ```
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let last = self.seconds.len().checked_sub(1)?;
        let place = share.clamp(0.0, 1.0) * last as f64;
        let below = (place.floor() as usize).min(last);
        let above = (below + 1).min(last);
        Some(self.seconds[below] + (self.seconds[above] - self.seconds[below]) * (place - below as f64))
    }

    /// Mean seconds; none of no iterations.
    pub fn mean(&self) -> Option<f64> {
        let count = self.seconds.len();
        (count > 0).then(|| self.seconds.iter().sum::<f64>() / count as f64)
    }
}

/// Executes iterations of a valid plan, each with its own luck. The same seed gives the same seconds.
pub fn repeat(
    plan: &Plan,
    cluster: &Cluster,
    cost: &CostModel,
    jitter: &Jitter,
    repetitions: u32,
) -> Result<Repetitions, SimError> {
    let program = Program::lower(plan, LowerOptions::of(cost));
    let priced = PricedProgram::new(plan, &program, cluster, cost)?;
    let ranks: Vec<Rank> = (0..program.ranks().len()).map(Rank::from).collect();
    let one_s = |repetition: u32| {
        let mut backend = SimBackend::new(&program, &priced).with_draws(jitter.draws(ranks.len(), repetition));
        match drive(&program, &ranks, &mut backend) {
            Ok(timeline) => Ok(timeline.makespan().as_seconds()),
            Err(DriveError::Backend(error)) => Err(error),
            Err(DriveError::Deadlock(waiting)) => unreachable!("a lowered program can't deadlock: {waiting:?}"),
        }
    };
    let mut seconds = (0..repetitions).into_par_iter().map(one_s).collect::<Result<Vec<f64>, SimError>>()?;
    seconds.sort_by(f64::total_cmp);
    Ok(Repetitions { seconds })
}
