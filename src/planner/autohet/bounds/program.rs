//! The linear program over columns: how many micro batches can `D` replicas do in a time?
//!
//! ```text
//! maximise    Σ_k λ_k K_k
//! subject to  Σ_k λ_k n_kc ≤ N_c    for each class
//!             Σ_k λ_k = D,  λ ≥ 0
//! ```
//!
//! Where GPUs can be used at several degrees, `n_kc` is what the replica's units take up of class `c`: those of twice its degree
//! on the same GPUs take up two of its units.
//!
//! Every plan is a solution with whole `λ`, so that a time in which the optimum stays below `B/b` is too short. The simplex
//! method solves it with one row per class and one for the replicas; the entering column comes from [`Columns::best`].
//! Weak duality makes each step a proof: at prices `π ≥ 0` and `μ`, with no column's gain above `g`, no more than
//! `D g + Σ_c N_c π_c` micro batches are done.

use super::columns::{Column, Columns};
use crate::planner::autohet::setting::{MAX_CLASSES, Setting};

/// Steps of the simplex method; a program that takes more proves nothing.
const MAX_STEPS: usize = 80;
const ROWS: usize = MAX_CLASSES + 1;
const EPSILON: f64 = 1e-9;

/// Whether it's proven that so many replicas can't do all micro batches.
pub fn is_too_short(setting: &Setting, replicas: u32, columns: &mut Columns) -> bool {
    let wanted = f64::from(setting.micro_batches);
    let most = setting.micro_batches - (replicas - 1);
    let classes = setting.classes.len();
    if is_too_short_by_rates(setting, replicas, columns) {
        return true;
    }
    let mut tableau = Tableau::new(setting, replicas);
    for _ in 0..MAX_STEPS {
        if tableau.value() >= wanted - EPSILON {
            return false;
        }
        let (mut prices, per_replica) = tableau.prices();
        if let Some(row) = (0..classes).find(|&row| prices[row] < -EPSILON) {
            // The slack of this row brings more than its price.
            if !tableau.enter(&tableau.slack(row), 0.0) {
                return false;
            }
            continue;
        }
        for price in &mut prices {
            *price = price.max(0.0);
        }
        let paid: f64 = prices.iter().zip(&setting.classes).map(|(price, class)| price * f64::from(class.units)).sum();
        // Gains below this leave the bound below what is wanted.
        let harmless = (wanted - paid) / f64::from(replicas) - EPSILON;
        let unit_prices: Vec<f64> = (0..classes).map(|class| setting.unit_price(class, &prices[..classes])).collect();
        let Some(column) = columns.best(&unit_prices, most, harmless) else { return !columns.is_exhausted() };
        if columns.is_exhausted() || column.gain <= per_replica + EPSILON || !tableau.enter_column(setting, &column) {
            return false;
        }
    }
    false
}

/// A first look: prices in proportion to the units' rates prove most times that are much too short.
fn is_too_short_by_rates(setting: &Setting, replicas: u32, columns: &mut Columns) -> bool {
    let wanted = f64::from(setting.micro_batches);
    let most = setting.micro_batches - (replicas - 1);
    let rate_per_s = setting.most_of(super::ClassCosts::layer_rate_per_s);
    SHARES.iter().any(|share| {
        let price = |class: &super::ClassCosts| share * wanted * class.layer_rate_per_s() / rate_per_s;
        let prices: Vec<f64> = setting.classes.iter().map(price).collect();
        let harmless = wanted * (1.0 - share) / f64::from(replicas) - EPSILON;
        columns.next_above(&prices, most, harmless).is_none() && !columns.is_exhausted()
    })
}

/// What all units together are worth, as multiples of all micro batches: more than one, as each replica has a bubble.
const SHARES: [f64; 6] = [1.0, 1.03, 1.08, 1.15, 1.3, 1.6];

/// A basis and its inverse. Row `classes` is that of the replicas.
struct Tableau {
    rows: usize,
    inverse: [[f64; ROWS]; ROWS],
    /// Values of the basic variables, and what each counts.
    values: [f64; ROWS],
    counts: [f64; ROWS],
}

impl Tableau {
    /// All slacks. A replica that isn't there counts so little that none is left out for long.
    fn new(setting: &Setting, replicas: u32) -> Self {
        let rows = setting.classes.len() + 1;
        let mut inverse = [[0.0; ROWS]; ROWS];
        let (mut values, mut counts) = ([0.0; ROWS], [0.0; ROWS]);
        for (row, line) in inverse.iter_mut().enumerate().take(rows) {
            line[row] = 1.0;
            values[row] = setting.classes.get(row).map_or(f64::from(replicas), |class| f64::from(class.units));
        }
        counts[rows - 1] = -100.0 * f64::from(setting.micro_batches);
        Self { rows, inverse, values, counts }
    }

    fn value(&self) -> f64 {
        self.values[..self.rows].iter().zip(&self.counts).map(|(value, count)| value * count).sum()
    }

    /// Prices of the classes' units, and of a replica.
    fn prices(&self) -> ([f64; ROWS], f64) {
        let mut prices = [0.0; ROWS];
        for (line, count) in self.inverse.iter().zip(self.counts).take(self.rows) {
            for (price, entry) in prices.iter_mut().zip(line) {
                *price += count * entry;
            }
        }
        (prices, prices[self.rows - 1])
    }

    fn slack(&self, row: usize) -> [f64; ROWS] {
        let mut column = [0.0; ROWS];
        column[row] = 1.0;
        debug_assert!(row < self.rows);
        column
    }

    fn enter_column(&mut self, setting: &Setting, column: &Column) -> bool {
        let mut entries = [0.0; ROWS];
        entries[..MAX_CLASSES].copy_from_slice(&setting.taken_up(&column.units));
        entries[self.rows - 1] = 1.0;
        self.enter(&entries, f64::from(column.micro_batches))
    }

    /// One step of the simplex method; false where nothing would leave.
    fn enter(&mut self, column: &[f64; ROWS], count: f64) -> bool {
        let mut direction = [0.0; ROWS];
        for (entry, line) in direction.iter_mut().zip(&self.inverse).take(self.rows) {
            *entry = line.iter().zip(column).map(|(a, b)| a * b).sum();
        }
        let ratio = |&row: &usize| self.values[row] / direction[row];
        let leaving =
            (0..self.rows).filter(|&row| direction[row] > EPSILON).min_by(|a, b| ratio(a).total_cmp(&ratio(b)));
        let Some(leaving) = leaving else { return false };
        let pivot = direction[leaving];
        self.inverse[leaving].iter_mut().for_each(|entry| *entry /= pivot);
        self.values[leaving] /= pivot;
        let (line, value) = (self.inverse[leaving], self.values[leaving]);
        for row in (0..self.rows).filter(|&row| row != leaving) {
            for (entry, entered) in self.inverse[row].iter_mut().zip(line) {
                *entry -= direction[row] * entered;
            }
            self.values[row] = (self.values[row] - direction[row] * value).max(0.0);
        }
        self.counts[leaving] = count;
        true
    }
}
