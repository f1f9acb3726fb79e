//! Every combination of values, or a random sample of them.

use super::axes::{Axis, Values};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use toml::Value;

/// Most runs of one sweep.
pub(super) const MOST_RUNS: u64 = 1_000_000;

/// A random sample of the combinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleSettings {
    /// Combinations that are drawn, no two alike.
    pub count: u64,
    /// The seed; 0 where it is left out.
    #[serde(default)]
    pub seed: u64,
}

/// A combination: a value for each axis.
pub(super) type Combination = Vec<Value>;

/// Combinations, of which none is made before it is asked for, but those that are drawn from ranges.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Combinations {
    /// So many, by number.
    All(u64),
    /// Those of these numbers.
    Some(Vec<u64>),
    /// These.
    Drawn(Vec<Combination>),
}

impl Combinations {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::All(count) => *count as usize,
            Self::Some(numbers) => numbers.len(),
            Self::Drawn(drawn) => drawn.len(),
        }
    }

    /// The combination of this place, of the axes that all of them were made of.
    pub(super) fn get(&self, axes: &[Axis], place: usize) -> Combination {
        match self {
            Self::All(_) => numbered(axes, place as u64),
            Self::Some(numbers) => numbered(axes, numbers[place]),
            Self::Drawn(drawn) => drawn[place].clone(),
        }
    }
}

/// All combinations of the axes' values, the last axis fastest; or the sample of them. Why not, where that can't be.
pub(super) fn combinations(axes: &[Axis], sample: Option<SampleSettings>) -> Result<Combinations, String> {
    let between = axes.iter().find(|axis| matches!(axis.values, Values::Between { .. }));
    let all = axes.iter().map(|axis| match &axis.values {
        Values::Listed(values) => values.len() as u64,
        Values::Between { .. } => u64::MAX,
    });
    let all = all.fold(1_u64, u64::saturating_mul);
    match (sample, between) {
        (None, Some(axis)) => Err(format!(
            "`{}` may be any number in its range, for which there must be a `step` or a `[sample]`",
            axis.name
        )),
        (None, None) if all > MOST_RUNS => {
            Err(format!("these are {all} combinations, at most {MOST_RUNS} are swept; a `[sample]` draws some of them"))
        }
        (None, None) => Ok(Combinations::All(all)),
        (Some(sample), _) if sample.count == 0 || sample.count > MOST_RUNS => {
            Err(format!("`sample.count` is {}, expected from 1 to {MOST_RUNS}", sample.count))
        }
        (Some(sample), None) if sample.count >= all => Ok(Combinations::All(all)),
        (Some(sample), None) => Ok(Combinations::Some(drawn_numbers(all, sample).into_iter().collect())),
        (Some(sample), Some(_)) => Ok(Combinations::Drawn(drawn(axes, sample))),
    }
}

/// The combination of this number.
fn numbered(axes: &[Axis], mut number: u64) -> Combination {
    let mut values = Vec::with_capacity(axes.len());
    for axis in axes.iter().rev() {
        let Values::Listed(listed) = &axis.values else { continue };
        let count = listed.len() as u64;
        values.push(listed[(number % count) as usize].clone());
        number /= count;
    }
    values.reverse();
    values
}

/// So many different numbers below `all`, in their order (Floyd's algorithm).
fn drawn_numbers(all: u64, sample: SampleSettings) -> BTreeSet<u64> {
    let mut random = Pcg64::seed_from_u64(sample.seed);
    let mut drawn = BTreeSet::new();
    for last in all - sample.count..all {
        let number = random.random_range(0..=last);
        if !drawn.insert(number) {
            drawn.insert(last);
        }
    }
    drawn
}

/// Combinations with a number from each range, none twice: fewer than were asked for where ranges are narrow.
fn drawn(axes: &[Axis], sample: SampleSettings) -> Vec<Combination> {
    let mut random = Pcg64::seed_from_u64(sample.seed);
    let mut value = |axis: &Axis| match &axis.values {
        Values::Listed(listed) => listed[random.random_range(0..listed.len())].clone(),
        Values::Between { from, to, is_logarithmic } => {
            let share: f64 = random.random();
            let number = if *is_logarithmic { from * (to / from).powf(share) } else { from + (to - from) * share };
            // Short enough to be read, and the same wherever it is written.
            Value::Float(format!("{number:.5e}").parse().unwrap_or(number))
        }
    };
    let mut known = BTreeSet::new();
    let drawn = (0..sample.count).map(|_| axes.iter().map(&mut value).collect::<Combination>());
    drawn.filter(|combination| known.insert(format!("{combination:?}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(name: &str, count: i64) -> Axis {
        Axis { name: name.into(), values: Values::Listed((0..count).map(Value::Integer).collect()) }
    }

    fn all_of(axes: &[Axis], sample: Option<SampleSettings>) -> Vec<Combination> {
        let combinations = combinations(axes, sample).unwrap();
        (0..combinations.len()).map(|place| combinations.get(axes, place)).collect()
    }

    #[test]
    fn the_last_axis_is_the_fastest() {
        let all = all_of(&[axis("a", 2), axis("b", 3)], None);
        let all: Vec<Vec<i64>> =
            all.iter().map(|values| values.iter().filter_map(Value::as_integer).collect()).collect();
        assert_eq!(all, [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]);
    }

    #[test]
    fn a_sample_has_so_many_combinations_and_none_twice() {
        let axes = [axis("a", 30), axis("b", 40)];
        let draw = |seed| all_of(&axes, Some(SampleSettings { count: 900, seed }));
        let one = draw(1);
        let distinct: BTreeSet<String> = one.iter().map(|values| format!("{values:?}")).collect();
        assert_eq!((one.len(), distinct.len()), (900, 900));
        assert_eq!(draw(1), one);
        assert_ne!(draw(2), one);
        assert_eq!(combinations(&axes, Some(SampleSettings { count: 5000, seed: 1 })).unwrap().len(), 1200);
    }

    #[test]
    fn numbers_are_drawn_from_ranges() {
        let values = Values::Between { from: 10.0, to: 1000.0, is_logarithmic: true };
        let axes = [axis("a", 2), Axis { name: "b".into(), values }];
        let drawn = all_of(&axes, Some(SampleSettings { count: 400, seed: 7 }));
        let numbers: Vec<f64> = drawn.iter().filter_map(|values| values[1].as_float()).collect();
        assert!(numbers.iter().all(|number| (10.0..=1000.0).contains(number)));
        // Half of them lie below the geometric middle.
        let below = numbers.iter().filter(|number| **number < 100.0).count();
        assert!((150..250).contains(&below), "{below}");
        assert!(combinations(&axes, None).unwrap_err().contains("`b`"));
    }

    #[test]
    fn too_many_are_refused() {
        let axes = [axis("a", 2000), axis("b", 2000)];
        assert!(combinations(&axes, None).unwrap_err().contains("4000000 combinations"));
        assert_eq!(combinations(&axes, Some(SampleSettings { count: 10, seed: 0 })).unwrap().len(), 10);
    }
}
