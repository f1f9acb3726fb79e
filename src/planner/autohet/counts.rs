//! All ways to take some of a few units, and what replicas of them do together.

/// All counts of units by class, in mixed radix: index zero takes none.
#[derive(Clone, Debug)]
pub struct Counts {
    digits: Vec<Vec<u32>>,
    weights: Vec<usize>,
    units: Vec<u32>,
}

impl Counts {
    /// The counts up to `units` of each class; `None` where there are more than `most` of them.
    pub fn new(units: &[u32], most: usize) -> Option<Self> {
        let (mut weights, mut size) = (Vec::with_capacity(units.len()), 1_usize);
        for &of_class in units {
            weights.push(size);
            size = size.checked_mul(of_class as usize + 1).filter(|&size| size <= most)?;
        }
        let digit = |at: usize, class: usize| (at / weights[class]) as u32 % (units[class] + 1);
        let digits = (0..size).map(|at| (0..units.len()).map(|class| digit(at, class)).collect()).collect();
        Some(Self { digits, weights, units: units.to_vec() })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.digits.len()
    }

    /// Classes told apart.
    pub fn classes(&self) -> usize {
        self.units.len()
    }

    /// Units by class.
    pub fn digits(&self, at: usize) -> &[u32] {
        &self.digits[at]
    }

    /// Units in all.
    pub fn stages(&self, at: usize) -> u32 {
        self.digits[at].iter().sum()
    }

    /// The first class of which there are any.
    pub fn fastest(&self, at: usize) -> Option<usize> {
        self.digits[at].iter().position(|&count| count > 0)
    }

    /// The counts with one unit less of a class that has some.
    pub fn without_one(&self, at: usize, class: usize) -> usize {
        at - self.weights[class]
    }

    /// The counts less others, where these are part of them.
    pub fn minus(&self, at: usize, other: usize) -> Option<usize> {
        let within = self.digits[at].iter().zip(&self.digits[other]).all(|(all, part)| all >= part);
        within.then(|| at - other)
    }

    /// The largest sums of one value of each, by the units that both take together. Adds its steps to `work`.
    pub fn added(&self, a: &[Option<u32>], b: &[Option<u32>], work: &mut u64) -> Vec<Option<u32>> {
        let mut sums = vec![None; self.len()];
        let there = |values: &[Option<u32>]| -> Vec<(usize, u32)> {
            values.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?))).collect()
        };
        let (a, b) = (there(a), there(b));
        *work += (a.len() * b.len()) as u64;
        for &(at_a, value_a) in &a {
            for &(at_b, value_b) in &b {
                let digits = self.digits[at_a].iter().zip(&self.digits[at_b]).zip(&self.units);
                if digits.into_iter().all(|((a, b), most)| a + b <= *most) {
                    let sum: &mut Option<u32> = &mut sums[at_a + at_b];
                    *sum = (*sum).max(Some(value_a + value_b));
                }
            }
        }
        sums
    }
}
