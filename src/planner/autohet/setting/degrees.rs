//! Classes of unlike degree on the same GPUs: which units can be formed at once, and what they are worth.

use super::{ClassCosts, MAX_CLASSES, Setting, Used};
use std::sync::Arc;

impl Setting {
    /// Whether its stages may differ in degree.
    pub fn has_several_degrees(&self) -> bool {
        self.classes.iter().any(|class| class.tensor_parallel_size != self.execution.tensor_parallel_size)
    }

    /// The class of these GPUs at this degree.
    pub fn find_class(&self, like: &ClassCosts) -> Option<usize> {
        let is_it = |class: &ClassCosts| {
            class.tensor_parallel_size == like.tensor_parallel_size && class.nic == like.nic && class.gpu == like.gpu
        };
        self.classes.iter().position(is_it)
    }

    /// Whether two classes are of the same GPUs.
    pub fn share_gpus(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.classes[one], &self.classes[other]);
        one.nic == other.nic && (Arc::ptr_eq(&one.gpu, &other.gpu) || one.gpu == other.gpu)
    }

    /// At least the sum of a weight over any units that can be formed: each GPU at its best degree.
    pub fn most_of(&self, weight: impl Fn(&ClassCosts) -> f64) -> f64 {
        let prices = self.prices_by(weight);
        self.classes.iter().zip(prices).map(|(class, price)| f64::from(class.units) * price).sum()
    }

    /// The price of a unit of this class, where each class has a price for what units of no smaller degree on the same GPUs
    /// take up of it.
    pub fn unit_price(&self, class: usize, prices: &[f64]) -> f64 {
        let of_class = |(below, price): (&ClassCosts, &f64)| {
            let (_, places) = below.above.iter().find(|(above, _)| *above == class)?;
            Some(price * f64::from(*places))
        };
        self.classes.iter().zip(prices).filter_map(of_class).sum()
    }

    /// What units take up of each class.
    pub fn taken_up(&self, units: &[u16; MAX_CLASSES]) -> [f64; MAX_CLASSES] {
        let mut taken = [0.0; MAX_CLASSES];
        for (taken, class) in taken.iter_mut().zip(&self.classes) {
            *taken = class.above.iter().map(|&(above, places)| f64::from(units[above]) * f64::from(places)).sum();
        }
        taken
    }

    /// Prices of the classes at which each unit costs at least its weight, and all GPUs together [`Self::most_of`] it.
    pub fn prices_by(&self, weight: impl Fn(&ClassCosts) -> f64) -> Vec<f64> {
        let price = |class: usize| {
            let per_place =
                self.classes[class].above.iter().map(|&(above, n)| weight(&self.classes[above]) / f64::from(n));
            if self.is_least(class) { per_place.fold(0.0, f64::max) } else { 0.0 }
        };
        (0..self.classes.len()).map(price).collect()
    }

    /// Whether the class has all GPUs of its type that any degree can use: that of least degree.
    fn is_least(&self, class: usize) -> bool {
        let is_above = |below: &ClassCosts| below.above.iter().any(|(above, _)| *above == class);
        self.classes.iter().enumerate().all(|(other, below)| other == class || !is_above(below))
    }

    /// Whether so many units of each class can be formed at once.
    ///
    /// As each degree divides the next, a unit of degree `t` takes up `t / s` places of degree `s < t` in whichever node it
    /// is formed. So units fit if, for each degree, those of no smaller degree take up no more of its places than there are.
    pub fn can_form(&self, used: &Used) -> bool {
        self.classes.iter().all(|class| Self::taken(class, used) <= u64::from(class.units))
    }

    /// Units of this class that can be formed beside those in use.
    pub fn free_units(&self, class: usize, used: &Used) -> u32 {
        let of_class = |below: &ClassCosts| {
            let (_, places) = below.above.iter().find(|(above, _)| *above == class)?;
            let free = u64::from(below.units).saturating_sub(Self::taken(below, used));
            Some((free / u64::from(*places)) as u32)
        };
        self.classes.iter().filter_map(of_class).min().unwrap_or(0)
    }

    fn taken(class: &ClassCosts, used: &Used) -> u64 {
        class.above.iter().map(|&(above, places)| u64::from(used[above]) * u64::from(places)).sum()
    }
}
