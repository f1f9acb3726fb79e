//! Stage 1, device grouping: which units form which data parallel replica.
//!
//! A *unit* is what serves one pipeline stage: a tensor parallel group of equal GPUs. Units of one [`UnitClass`] are
//! interchangeable, so a grouping is a count per class and replica, `x_cj`, and a number of micro batches `K_j`.
//!
//! With `G_j = Σ_c x_cj g_c` (layers per second), `P_j = Σ_c x_cj` (stages) and `W = layers + extra_layers` (work of one
//! micro batch), a replica whose layers are balanced finishes a 1F1B iteration in `K_j + P_j − 1` slots of `W / G_j`
//! each, and the slowest replica sets the pace:
//!
//! ```text
//! minimise    T = max_j (K_j + P_j − 1) · W / G_j
//! subject to  Σ_j x_cj ≤ N_c                       units may stay idle
//!             1 ≤ P_j ≤ layers                     a stage holds at least one layer
//!             Σ_j K_j = micro_batches, K_j ≥ 1
//!             layers·s + e + layers·a·(P_j + 1)/2 ≤ Σ_c x_cj M_c
//! ```
//!
//! `AutoHet` (arXiv 2512.20953) maximises `D · min_j (1 − ρ_j) G_j` with the bubble fraction
//! `ρ_j = (P_j − 1) / (K_j + P_j − 1)`. As `(1 − ρ_j) G_j = K_j · G_j / (K_j + P_j − 1)`, for its equal
//! `K_j = K` that is `D · K · W / T`: the same optimum. With free `K_j`, `T` is what one wants to be small.
//!
//! The memory condition compares sums over the replica: weights, gradients and optimizer state (`s` per layer, `e` for
//! embedding and head), and activations `a` per layer and micro batch. Stage `p` of 1F1B keeps `P − p` micro batches in
//! flight, which over equal stages makes `layers · (P + 1)/2` layer activations. It is not capped by `K_j < P − p`, so it
//! is a little strict where there are fewer micro batches than stages.
//!
//! All this is an estimate made for choosing groups: layers are whole and memory is not pooled. Mapping and balancing
//! check exactly.

mod bound;
mod micro_batches;
mod search;
#[cfg(test)]
pub(in crate::planner) mod tests;

pub use bound::lower_bound;
pub use search::search_grouping;

use thiserror::Error;

/// One class of interchangeable units.
#[derive(Debug, Clone, PartialEq)]
pub struct UnitClass {
    /// How many there are.
    pub units: u32,
    /// Layers per second, forward and backward of one micro batch.
    pub layer_rate_per_s: f64,
    /// What one unit can hold of the quantities that [`GroupingProblem`] names `_bytes`.
    pub usable_memory_bytes: u64,
}

/// A grouping to be found for a fixed number of replicas.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupingProblem {
    /// The units at hand.
    pub classes: Vec<UnitClass>,
    /// Data parallel degree `D`.
    pub replicas: u32,
    /// Micro batches of one iteration, over all replicas.
    pub micro_batches: u32,
    /// Transformer layers of the model.
    pub layers: u32,
    /// Embedding, head and loss, as the number of layers that would take as long. Added once per replica.
    pub extra_layers: f64,
    /// Parameters, gradients and optimizer state of one layer on one GPU of the unit.
    pub layer_state_bytes: u64,
    /// The same of embedding and head, once per replica.
    pub extra_state_bytes: u64,
    /// Stored activations of one layer for one micro batch in flight.
    pub layer_activation_bytes: u64,
    /// Every replica gets `micro_batches / replicas`, as in the paper. Else they are free integers of the same sum.
    pub equal_micro_batches: bool,
}

/// An assignment of units and micro batches to replicas.
#[derive(Debug, Clone, PartialEq)]
pub struct Grouping {
    /// One entry per replica, largest total rate first.
    pub replicas: Vec<GroupedReplica>,
    /// The objective `T`, seconds.
    pub iteration_s: f64,
}

/// What one replica gets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupedReplica {
    /// Units taken of each class, in the order of [`GroupingProblem::classes`].
    pub units: Vec<u32>,
    /// Micro batches per iteration.
    pub micro_batches: u32,
}

/// Why a [`GroupingProblem`] makes no sense. That it has no solution is not among them.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum GroupingError {
    /// A count is zero that must not be, or a list is empty.
    #[error("`{field}` must be at least 1")]
    Zero {
        /// The field of [`GroupingProblem`].
        field: &'static str,
    },
    /// A rate or an amount of work is not a finite number in its range.
    #[error("`{field}` must be a finite number {range}, found `{found}`")]
    NotFinite {
        /// The field, with its class where it has one.
        field: String,
        /// The accepted range in words.
        range: &'static str,
        /// The value found.
        found: f64,
    },
    /// There are more replicas than micro batches.
    #[error(
        "`{micro_batches}` micro batches cannot feed `{replicas}` replicas\nhint: use fewer replicas or smaller micro batches"
    )]
    TooFewMicroBatches {
        /// Micro batches of the iteration.
        micro_batches: u32,
        /// Replicas asked for.
        replicas: u32,
    },
    /// Equal shares are asked for, but the division leaves a remainder.
    #[error(
        "`{micro_batches}` micro batches do not divide equally among `{replicas}` replicas\nhint: use a divisor, or allow unequal shares"
    )]
    UnequalShares {
        /// Micro batches of the iteration.
        micro_batches: u32,
        /// Replicas asked for.
        replicas: u32,
    },
    /// Counts are beyond anything that exists, and sums of them would overflow.
    #[error("`{field}` must be at most `{limit}`, found `{found}`")]
    TooLarge {
        /// The field of [`GroupingProblem`].
        field: &'static str,
        /// The largest accepted value.
        limit: u32,
        /// The value found.
        found: u64,
    },
}

/// Largest number of units, micro batches or layers: keeps every sum of counts within `u32`.
const COUNT_LIMIT: u32 = 1 << 24;

impl GroupingProblem {
    /// Rejects nonsense: zero counts, rates that are not positive numbers, shares that cannot be equal.
    pub fn validate(&self) -> Result<(), GroupingError> {
        let units = self.classes.iter().map(|class| u64::from(class.units)).sum();
        let counts = [
            ("classes", units),
            ("replicas", self.replicas.into()),
            ("micro_batches", self.micro_batches.into()),
            ("layers", self.layers.into()),
        ];
        for (field, found) in counts {
            if found == 0 {
                return Err(GroupingError::Zero { field });
            }
            if found > COUNT_LIMIT.into() {
                return Err(GroupingError::TooLarge { field, limit: COUNT_LIMIT, found });
            }
        }
        for (index, class) in self.classes.iter().enumerate() {
            let found = class.layer_rate_per_s;
            if !(found.is_finite() && found > 0.0) {
                let field = format!("classes[{index}].layer_rate_per_s");
                return Err(GroupingError::NotFinite { field, range: "above 0", found });
            }
        }
        let found = self.extra_layers;
        if !(found.is_finite() && found >= 0.0) {
            return Err(GroupingError::NotFinite { field: "extra_layers".into(), range: "of at least 0", found });
        }
        let (micro_batches, replicas) = (self.micro_batches, self.replicas);
        if micro_batches < replicas {
            return Err(GroupingError::TooFewMicroBatches { micro_batches, replicas });
        }
        if self.equal_micro_batches && !micro_batches.is_multiple_of(replicas) {
            return Err(GroupingError::UnequalShares { micro_batches, replicas });
        }
        Ok(())
    }

    /// The objective in seconds of `units[replica][class]` and `micro_batches[replica]`, or nothing where a constraint
    /// is broken. The one place that says what a feasible grouping is and what it costs.
    pub fn evaluate(&self, units: &[Vec<u32>], micro_batches: &[u32]) -> Option<f64> {
        let replicas = self.replicas as usize;
        if units.len() != replicas || micro_batches.len() != replicas {
            return None;
        }
        if units.iter().any(|counts| counts.len() != self.classes.len() || !self.fits(counts)) {
            return None;
        }
        let sum_of = |class: usize| units.iter().map(|counts| u64::from(counts[class])).sum::<u64>();
        if self.classes.iter().enumerate().any(|(index, class)| sum_of(index) > class.units.into()) {
            return None;
        }
        let total: u64 = micro_batches.iter().map(|&count| u64::from(count)).sum();
        let equal = micro_batches.iter().all(|&count| count == micro_batches[0]);
        if total != u64::from(self.micro_batches) || micro_batches.contains(&0) || (self.equal_micro_batches && !equal)
        {
            return None;
        }
        let times = units.iter().zip(micro_batches).map(|(counts, &share)| {
            let stages: u32 = counts.iter().sum();
            f64::from(share + stages - 1) * self.work_layers() / self.rate_per_s(counts)
        });
        Some(times.fold(0.0, f64::max))
    }

    /// [`Self::evaluate`], and the grouping put in its normal order if it is feasible.
    pub fn grouping(&self, units: &[Vec<u32>], micro_batches: &[u32]) -> Option<Grouping> {
        let iteration_s = self.evaluate(units, micro_batches)?;
        let mut replicas: Vec<GroupedReplica> = units
            .iter()
            .zip(micro_batches)
            .map(|(units, &micro_batches)| GroupedReplica { units: units.clone(), micro_batches })
            .collect();
        // Replicas are interchangeable, so equal groupings should look equal, whoever found them.
        replicas.sort_by(|a, b| self.rate_per_s(&b.units).total_cmp(&self.rate_per_s(&a.units)).then_with(|| b.cmp(a)));
        Some(Grouping { replicas, iteration_s })
    }

    /// Whether a replica of these units (per class) has as many stages as it may and memory for the model.
    pub fn fits(&self, units: &[u32]) -> bool {
        let stages: u64 = units.iter().map(|&count| u64::from(count)).sum();
        let memory: i128 = units.iter().zip(self.unit_memory()).map(|(&count, each)| i128::from(count) * each).sum();
        (1..=u64::from(self.layers)).contains(&stages) && memory >= self.memory_need()
    }

    /// Work of one micro batch in one replica: `W`, in layers.
    pub fn work_layers(&self) -> f64 {
        f64::from(self.layers) + self.extra_layers
    }

    fn rate_per_s(&self, units: &[u32]) -> f64 {
        units.iter().zip(&self.classes).map(|(&count, class)| f64::from(count) * class.layer_rate_per_s).sum()
    }

    /// What each unit adds to its replica's memory, in half bytes. The activations that its own stage adds are taken
    /// off, which leaves a condition that is linear in the units: `Σ x_c (2 M_c − layers·a) ≥ memory_need`.
    pub(in crate::planner) fn unit_memory(&self) -> impl Iterator<Item = i128> {
        let activations = i128::from(self.layers) * i128::from(self.layer_activation_bytes);
        self.classes.iter().map(move |class| 2 * i128::from(class.usable_memory_bytes) - activations)
    }

    /// What [`Self::unit_memory`] must sum up to: `2 (layers·s + e) + layers·a`, in half bytes.
    pub(in crate::planner) fn memory_need(&self) -> i128 {
        let layers = i128::from(self.layers);
        let state = layers * i128::from(self.layer_state_bytes) + i128::from(self.extra_state_bytes);
        2 * state + layers * i128::from(self.layer_activation_bytes)
    }
}
