//! Groupings for a fixed number of replicas: a few constructions, and a local search over them that sees the whole cost
//! (order, layer balance, micro-batch balance), where stage 1 sees only sums.
//!
//! Replicas of one composition are one [`Kind`] with a number, so that the work grows with the kinds and not with the
//! replicas.

mod constructions;
mod reduction;
mod steps;
#[cfg(test)]
mod tests;

use super::balance::{Pace, water_level_s, whole_level_s};
use super::effort::Effort;
use super::pipeline::{Pipeline, Pipelines};
use super::setting::{Composition, MAX_CLASSES, Setting, Used};
use constructions::constructions;
use reduction::{HeldLayers, reduce_gradients_s};
use std::cmp::Reverse;
use steps::steps;

/// Rounds of the local search; each improves the objective, so this is far beyond what happens.
const MAX_ROUNDS: usize = 200;

/// A construction that is so many times slower than what is worth a look has no better siblings.
const HOPELESS: f64 = 1.3;

/// Steps of which the best is taken, where there is one; of kinds as few as most groupings have there are no more.
const MANY_STEPS: usize = 1000;

/// How much the time counts that divisible micro batches would take: enough to see a way where whole ones take equally
/// long.
const SMOOTHING: f64 = 1e-2;

/// Replicas of one composition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// Units of each.
    pub units: Composition,
    /// How many there are.
    pub replicas: u32,
}

/// A grouping with its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The replicas, as [`merged`] leaves them.
    pub kinds: Vec<Kind>,
    /// The slowest replica's time, and an estimate of the gradient synchronisation that shows.
    pub time_s: f64,
}

/// The kinds in one order, each once.
pub fn merged(mut kinds: Vec<Kind>) -> Vec<Kind> {
    kinds.retain(|kind| kind.replicas > 0);
    kinds.sort_unstable_by_key(|kind| Reverse(kind.units));
    kinds.dedup_by(|later, first| {
        let alike = later.units == first.units;
        first.replicas += if alike { later.replicas } else { 0 };
        alike
    });
    kinds
}

/// The kinds of these replicas.
pub fn kinds_of(replicas: &[Composition]) -> Vec<Kind> {
    merged(replicas.iter().map(|&units| Kind { units, replicas: 1 }).collect())
}

/// Units of each class that the replicas take.
pub fn used(kinds: &[Kind]) -> Used {
    let mut used = [0; MAX_CLASSES];
    for kind in kinds {
        for (sum, units) in used.iter_mut().zip(kind.units.0) {
            *sum += u32::from(units) * kind.replicas;
        }
    }
    used
}

/// Searches groupings of one setting and number of replicas.
pub struct GroupingSearch<'a> {
    pipelines: Pipelines<'a>,
    replicas: u32,
    paces: Vec<(Pace, u32)>,
    stages: Vec<HeldLayers>,
    looked_at: u64,
}

impl<'a> GroupingSearch<'a> {
    /// A search for `replicas` replicas, at least one.
    pub fn new(setting: &'a Setting, replicas: u32) -> Self {
        let share = (setting.micro_batches / replicas).max(1);
        let pipelines = Pipelines::new(setting, share, replicas);
        Self { pipelines, replicas, paces: Vec::new(), stages: Vec::new(), looked_at: 0 }
    }

    /// Pipelines found so far.
    pub fn pipelines(&mut self) -> &mut Pipelines<'a> {
        &mut self.pipelines
    }

    /// The setting searched.
    pub fn setting(&self) -> &'a Setting {
        self.pipelines.setting()
    }

    /// Work done so far: stages looked at.
    pub fn work(&self) -> u64 {
        self.pipelines.work() + self.looked_at
    }

    /// The best of the constructions, `None` where none fits. The first that fits decides whether the others are worth the
    /// time: not where it's far slower than `worth_s`.
    pub fn construct(&mut self, worth_s: f64) -> Option<Candidate> {
        let mut best: Option<Candidate> = None;
        for kinds in constructions(self.setting(), self.replicas) {
            if let Some(found) = self.evaluate(kinds)
                && best.as_ref().is_none_or(|best| found.time_s < best.time_s)
            {
                if found.time_s > worth_s * HOPELESS {
                    return None;
                }
                best = Some(found);
            }
        }
        best
    }

    /// A grouping with its time, `None` where a replica doesn't fit, there are too few micro batches, or it isn't of as many
    /// replicas as are searched for.
    pub fn evaluate(&mut self, kinds: Vec<Kind>) -> Option<Candidate> {
        let replicas: u32 = kinds.iter().map(|kind| kind.replicas).sum();
        if replicas != self.replicas || !self.setting().can_form(&used(&kinds)) {
            return None;
        }
        let time_s = self.time_s(&kinds, f64::INFINITY)?;
        Some(Candidate { kinds, time_s })
    }

    /// The time of a grouping, `None` where it doesn't fit or isn't below `limit_s`.
    fn time_s(&mut self, kinds: &[Kind], limit_s: f64) -> Option<f64> {
        self.paces.clear();
        self.stages.clear();
        let mut longest_period_s = 0.0_f64;
        for &Kind { units, replicas } in kinds {
            let Pipeline { pace, layers, classes } = self.pipelines.get(&units)?;
            longest_period_s = longest_period_s.max(pace.period_s);
            self.paces.push((*pace, replicas));
            let mut first_layer = 0;
            for (&class, &layers) in classes.iter().zip(layers) {
                self.stages.push(HeldLayers { class, first_layer, end_layer: first_layer + layers, replicas });
                first_layer += layers;
            }
        }
        self.looked_at += self.stages.len() as u64;
        let setting = self.pipelines.setting();
        let level_s = water_level_s(&self.paces, setting.micro_batches)?;
        if level_s >= limit_s {
            return None;
        }
        let whole_s = whole_level_s(&self.paces, setting.micro_batches, level_s);
        let compute_s = whole_s + (level_s - whole_s) * SMOOTHING;
        if compute_s >= limit_s {
            return None;
        }
        let reduce_s = reduce_gradients_s(setting, self.replicas, &mut self.stages);
        // The backward passes of the last micro batch, about two thirds of a period, hide a part.
        let time_s = compute_s + (reduce_s - longest_period_s * 2.0 / 3.0).max(0.0);
        (time_s < limit_s).then_some(time_s)
    }

    /// Moves units, or swaps them, between replicas or with the idle ones, always the best such step of the many that were
    /// looked at, until none helps or the effort is spent.
    pub fn improve(&mut self, mut best: Candidate, effort: &mut Effort) -> Candidate {
        for _ in 0..MAX_ROUNDS {
            let mut next: Option<Candidate> = None;
            let mut least_s = best.time_s * (1.0 - 1e-9);
            for (index, kinds) in steps(self.setting(), &best.kinds).into_iter().enumerate() {
                if effort.is_spent() || (index >= MANY_STEPS && next.is_some()) {
                    break;
                }
                let before = self.work();
                if let Some(time_s) = self.time_s(&kinds, least_s) {
                    least_s = time_s;
                    next = Some(Candidate { kinds, time_s });
                }
                effort.spend(self.work() - before);
            }
            match next {
                Some(better) => best = better,
                None => break,
            }
        }
        best
    }
}
