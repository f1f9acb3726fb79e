//! The program over columns with whole replicas, where there are few enough units to count them out.
//!
//! How many units of each class a replica takes also says where its stages stand: behind a stage are as many as were
//! placed before it, last stage first. So for each `K` one pass over all counts finds the most layers that they hold, and
//! with it the most micro batches of each count. `D` of these are then added up, largest sum for the units they take
//! together, in `2 log D` steps. A replica's fill counts its own fastest class, not the cluster's.

use super::columns::Columns;
use super::reductions::Reductions;
use crate::planner::autohet::setting::Setting;

/// Counts of units up to which all are gone through.
const MAX_COUNTS: usize = 1500;

/// Whether it's proven that so many replicas can't do all micro batches in `time_s` seconds without the optimizer step;
/// `None` where there are too many counts. Adds its steps to `work`.
pub fn is_too_short(
    setting: &Setting,
    replicas: u32,
    (reductions, time_s): (&Reductions, f64),
    work: &mut u64,
) -> Option<bool> {
    let counts = Counts::new(setting)?;
    let most = setting.micro_batches - (replicas - 1);
    let mut one = vec![None; counts.len()];
    for fastest in 0..setting.classes.len() {
        let columns = Columns::new(setting, reductions, (time_s, replicas, fastest));
        // No replica's counts are resolved twice: each has one fastest class.
        let mut open: Vec<usize> = (0..counts.len())
            .filter(|&at| counts.fastest(at) == Some(fastest) && counts.stages(at) <= columns.most_stages())
            .collect();
        let mut held = vec![0; counts.len()];
        for micro_batches in (1..=most).rev() {
            if open.is_empty() {
                break;
            }
            *work += (counts.len() * setting.classes.len()) as u64;
            counts.hold(&columns, (micro_batches, fastest), &mut held);
            open.retain(|&at| {
                let fits = counts.holds_all(&columns, (micro_batches, fastest), &held, at);
                if fits {
                    one[at] = Some(micro_batches);
                }
                !fits
            });
        }
    }
    let all = times(&counts, &one, replicas, work);
    Some(all.into_iter().flatten().max().unwrap_or(0) < setting.micro_batches)
}

/// All counts of units by class, in mixed radix.
struct Counts {
    digits: Vec<Vec<u32>>,
    weights: Vec<usize>,
    units: Vec<u32>,
    num_layers: u32,
}

impl Counts {
    fn new(setting: &Setting) -> Option<Self> {
        let units: Vec<u32> = setting.classes.iter().map(|class| class.units).collect();
        let (mut weights, mut size) = (Vec::with_capacity(units.len()), 1_usize);
        for &most in &units {
            weights.push(size);
            size = size.checked_mul(most as usize + 1).filter(|&size| size <= MAX_COUNTS)?;
        }
        let digit = |at: usize, class: usize| (at / weights[class]) as u32 % (units[class] + 1);
        let digits = (0..size).map(|at| (0..units.len()).map(|class| digit(at, class)).collect()).collect();
        Some(Self { digits, weights, units, num_layers: setting.num_layers })
    }

    fn len(&self) -> usize {
        self.digits.len()
    }

    fn stages(&self, at: usize) -> u32 {
        self.digits[at].iter().sum()
    }

    fn fastest(&self, at: usize) -> Option<usize> {
        self.digits[at].iter().position(|&count| count > 0)
    }

    /// The most layers of the last stages of a replica by the units that these take; -1 where a stage would hold none.
    fn hold(&self, columns: &Columns, (micro_batches, fastest): (u32, usize), held: &mut [i64]) {
        let classes = self.units.len();
        let places = columns.most_stages();
        let most: Vec<Vec<u32>> = (0..places)
            .map(|place| (fastest..classes).map(|c| columns.most_layers(micro_batches, place, c, false)).collect())
            .collect();
        for at in 1..self.len() {
            held[at] = -1;
            let behind = self.stages(at) as usize - 1;
            if behind >= most.len() || self.fastest(at).is_none_or(|first| first < fastest) {
                continue;
            }
            for class in (fastest..classes).filter(|&class| self.digits[at][class] > 0) {
                let before = held[at - self.weights[class]];
                let own = i64::from(most[behind][class - fastest]);
                if before >= 0 && own > 0 {
                    held[at] = held[at].max(before + own);
                }
            }
        }
    }

    /// Whether a replica of these units can hold all layers.
    fn holds_all(
        &self,
        columns: &Columns,
        (micro_batches, fastest): (u32, usize),
        held: &[i64],
        at: usize,
    ) -> bool {
        let behind = self.stages(at) - 1;
        (fastest..self.units.len()).filter(|&class| self.digits[at][class] > 0).any(|class| {
            let before = held[at - self.weights[class]];
            before >= 0
                && before + i64::from(columns.most_layers(micro_batches, behind, class, true))
                    >= i64::from(self.num_layers)
        })
    }
}

/// The most micro batches of so many replicas by the units that they take.
fn times(counts: &Counts, one: &[Option<u32>], replicas: u32, work: &mut u64) -> Vec<Option<u32>> {
    let mut sum: Option<Vec<Option<u32>>> = None;
    let mut power = one.to_vec();
    let mut left = replicas;
    loop {
        if left & 1 == 1 {
            sum = Some(sum.map_or_else(|| power.clone(), |sum| added(counts, &sum, &power, work)));
        }
        left >>= 1;
        if left == 0 {
            return sum.unwrap_or_default();
        }
        power = added(counts, &power, &power, work);
    }
}

fn added(counts: &Counts, a: &[Option<u32>], b: &[Option<u32>], work: &mut u64) -> Vec<Option<u32>> {
    let mut sums = vec![None; counts.len()];
    let there = |values: &[Option<u32>]| -> Vec<(usize, u32)> {
        values.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?))).collect()
    };
    let (a, b) = (there(a), there(b));
    *work += (a.len() * b.len()) as u64;
    for &(at_a, value_a) in &a {
        for &(at_b, value_b) in &b {
            let digits = counts.digits[at_a].iter().zip(&counts.digits[at_b]).zip(&counts.units);
            if digits.into_iter().all(|((a, b), most)| a + b <= *most) {
                let sum = &mut sums[at_a + at_b];
                *sum = (*sum).max(Some(value_a + value_b));
            }
        }
    }
    sums
}
