//! The counts under search, and what they lack at a target time.

use super::super::micro_batches::{Pace, divide};
use super::super::{Grouping, GroupingProblem};

/// Weighs what makes a replica impossible against micro batches that it cannot take in time.
const BROKEN: f64 = 1e6;

/// Two slots whose units can be divided in at most so many ways have all of them tried.
const ALL_DIVISIONS: usize = 1000;

/// What is asked of the slots.
pub(super) struct Target {
    /// Per class: micro batches that one unit processes within the target time, `T · g / W`.
    rates: Vec<f64>,
    /// Per class, and the sum that a replica needs: see `GroupingProblem::unit_memory`.
    memory: Vec<i128>,
    memory_need: i128,
    layers: u32,
    /// What every replica must take.
    share: f64,
    /// What all must take together, less what each must.
    total: f64,
    equal: bool,
}

impl Target {
    pub fn new(problem: &GroupingProblem, time_s: f64) -> Self {
        let scale = time_s / problem.work_layers();
        let equal = problem.equal_micro_batches;
        Self {
            rates: problem.classes.iter().map(|class| class.layer_rate_per_s * scale).collect(),
            memory: problem.unit_memory().collect(),
            memory_need: problem.memory_need(),
            layers: problem.layers,
            share: if equal { f64::from(problem.micro_batches / problem.replicas) } else { 1.0 },
            total: f64::from(problem.micro_batches),
            equal,
        }
    }

    /// What a replica of these units lacks, and how many micro batches it can take in time.
    fn judge(&self, units: &[u32]) -> Judgement {
        let (mut stages, mut rate, mut memory) = (0_u32, 0.0, 0_i128);
        for (class, &count) in units.iter().enumerate() {
            stages += count;
            rate += f64::from(count) * self.rates[class];
            memory += i128::from(count) * self.memory[class];
        }
        if stages == 0 {
            return Judgement { lack: 2.0 * BROKEN, takes: 0.0 };
        }
        let excess = f64::from(stages.saturating_sub(self.layers));
        // A share of the need, so that it compares with the excess in stages.
        let missing = if memory < self.memory_need {
            (self.memory_need - memory) as f64 / self.memory_need.max(1) as f64
        } else {
            0.0
        };
        let steady = rate - f64::from(stages) + 1.0;
        let takes = if self.equal { steady } else { steady.floor() };
        let late = (self.share - takes).max(0.0);
        Judgement { lack: BROKEN * (excess + missing) + if self.equal { late } else { BROKEN / 1e3 * late }, takes }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Judgement {
    /// Zero for a replica that is possible and takes its share in time.
    lack: f64,
    /// Micro batches in time, whole ones where shares are free.
    takes: f64,
}

/// How units are dealt before the search.
#[derive(Debug, Clone, Copy)]
pub(super) enum Start {
    /// To the replica that has done least work; units whose stage costs more than it brings stay idle.
    GainfulByWork,
    /// The same with all units, for where memory needs them.
    AllByWork,
    /// Largest memory first, to the replica that has least of it.
    AllByMemory,
    /// Class by class in turn, each going on where the one before ended.
    GainfulInTurn,
}

impl Start {
    pub const ALL: [Self; 4] = [Self::GainfulByWork, Self::AllByWork, Self::AllByMemory, Self::GainfulInTurn];
}

/// Units per slot and class. The last slot is the idle pool.
pub(super) struct State {
    units: Vec<Vec<u32>>,
    judged: Vec<Judgement>,
    /// Sums over the replicas.
    lack: f64,
    takes: f64,
    free: bool,
}

impl State {
    /// The start for a search whose best time may be `time_s`.
    pub fn new(problem: &GroupingProblem, start: Start, time_s: f64) -> Self {
        let scale = time_s / problem.work_layers();
        // What a unit brings: its micro batches in that time less the slot that its stage adds.
        let gains: Vec<f64> = problem.classes.iter().map(|class| class.layer_rate_per_s * scale - 1.0).collect();
        let memory: Vec<f64> = problem.unit_memory().map(|memory| memory as f64).collect();
        let ones = vec![1.0; gains.len()];
        let all = vec![true; gains.len()];
        let gainful: Vec<bool> = gains.iter().map(|gain| *gain > -1e-9).collect();
        match start {
            Start::GainfulByWork => Self::deal(problem, &gains, &gains, &gainful),
            Start::AllByWork => Self::deal(problem, &gains, &gains, &all),
            Start::AllByMemory => Self::deal(problem, &memory, &memory, &all),
            Start::GainfulInTurn => Self::deal(problem, &gains, &ones, &gainful),
        }
    }

    /// Deals the used units, those of the highest `rank` first, to the replica with the smallest sum of `weight`.
    fn deal(problem: &GroupingProblem, rank: &[f64], weight: &[f64], used: &[bool]) -> Self {
        let replicas = problem.replicas as usize;
        let mut units = vec![vec![0; problem.classes.len()]; replicas + 1];
        let mut order: Vec<usize> = (0..problem.classes.len()).collect();
        order.sort_by(|&a, &b| rank[b].total_cmp(&rank[a]).then(a.cmp(&b)));
        let mut sums = vec![(0_u32, 0.0_f64); replicas];
        for class in order {
            for _ in 0..problem.classes[class].units {
                let open = sums.iter().enumerate().filter(|(_, sum)| used[class] && sum.0 < problem.layers);
                let lagging = open.min_by(|a, b| a.1.1.total_cmp(&b.1.1).then(a.0.cmp(&b.0)));
                let slot = lagging.map_or(replicas, |(slot, _)| slot);
                units[slot][class] += 1;
                if let Some((stages, sum)) = sums.get_mut(slot) {
                    *stages += 1;
                    *sum += weight[class];
                }
            }
        }
        let judged = vec![Judgement::default(); replicas + 1];
        Self { units, judged, lack: 0.0, takes: 0.0, free: !problem.equal_micro_batches }
    }

    /// Replicas and the pool.
    pub fn slots(&self) -> usize {
        self.units.len()
    }

    /// Judges all replicas anew.
    pub fn set_target(&mut self, target: &Target) {
        let replicas = self.slots() - 1;
        for (judged, units) in self.judged.iter_mut().zip(&self.units).take(replicas) {
            *judged = target.judge(units);
        }
        self.add_up();
    }

    fn add_up(&mut self) {
        self.lack = self.judged.iter().map(|judged| judged.lack).sum();
        self.takes = self.judged.iter().map(|judged| judged.takes).sum();
    }

    /// Whether the target is met.
    pub fn lacks_nothing(&self, target: &Target) -> bool {
        self.lack <= 0.0 && (target.equal || self.takes >= target.total)
    }

    /// With equal shares only a pair that lacks something can get better.
    pub fn worth_a_look(&self, a: usize, b: usize) -> bool {
        self.free || self.judged[a].lack + self.judged[b].lack > 0.0
    }

    /// Divides the units of two slots anew if that is better: by the best move of one unit or swap of two, or where
    /// `wide`, by the best of all divisions unless there are very many. Takes the divisions tried off `left`.
    pub fn improve_pair(&mut self, (a, b): (usize, usize), wide: bool, target: &Target, left: &mut usize) -> bool {
        let both: Vec<u32> = self.units[a].iter().zip(&self.units[b]).map(|(a, b)| a + b).collect();
        let divisions = both.iter().fold(1_usize, |product, &count| product.saturating_mul(count as usize + 1));
        let mut best = (self.cost(self.judged[a]) + self.cost(self.judged[b]) - 1e-9, None);
        let mut rest = both.clone();
        let mut consider = |units: &[u32]| {
            rest.iter_mut().zip(both.iter().zip(units)).for_each(|(rest, (all, count))| *rest = all - count);
            let cost = self.cost(self.judge(a, units, target)) + self.cost(self.judge(b, &rest, target));
            *left = left.saturating_sub(1);
            if cost < best.0 {
                best = (cost, Some((units.to_vec(), rest.clone())));
            }
        };
        if wide && divisions <= ALL_DIVISIONS {
            for_all_divisions(&both, &mut consider);
        } else {
            for_single_moves(&self.units[a], &self.units[b], &mut consider);
        }
        let Some((units, rest)) = best.1 else { return false };
        self.judged[a] = self.judge(a, &units, target);
        self.judged[b] = self.judge(b, &rest, target);
        (self.units[a], self.units[b]) = (units, rest);
        self.add_up();
        true
    }

    /// The pool lacks nothing and takes nothing.
    fn judge(&self, slot: usize, units: &[u32], target: &Target) -> Judgement {
        if slot + 1 == self.slots() { Judgement::default() } else { target.judge(units) }
    }

    fn cost(&self, judged: Judgement) -> f64 {
        judged.lack - if self.free { judged.takes } else { 0.0 }
    }

    /// The groups with their best shares.
    pub fn grouping(&self, problem: &GroupingProblem) -> Option<Grouping> {
        let units = &self.units[..self.slots() - 1];
        let shares = if self.free {
            let pace = |counts: &Vec<u32>| Pace {
                stages: counts.iter().sum(),
                rate_per_s: problem.rate_per_s(counts) / problem.work_layers(),
            };
            divide(&units.iter().map(pace).collect::<Vec<_>>(), problem.micro_batches)
        } else {
            vec![problem.micro_batches / problem.replicas; units.len()]
        };
        problem.grouping(units, &shares)
    }
}

/// Calls `consider` with every vector of counts from zero to `both`.
fn for_all_divisions(both: &[u32], consider: &mut impl FnMut(&[u32])) {
    let mut units = vec![0; both.len()];
    loop {
        consider(&units);
        let Some(class) = (0..both.len()).find(|&class| units[class] < both[class]) else { return };
        units[class] += 1;
        units[..class].fill(0);
    }
}

/// Calls `consider` with `a` less a unit, with one of `b`'s, or both.
fn for_single_moves(a: &[u32], b: &[u32], consider: &mut impl FnMut(&[u32])) {
    let mut units = a.to_vec();
    for out in (0..a.len()).filter(|&class| a[class] > 0).map(Some).chain([None]) {
        for back in (0..b.len()).filter(|&class| b[class] > 0).map(Some).chain([None]) {
            if out != back {
                units.copy_from_slice(a);
                if let Some(class) = out {
                    units[class] -= 1;
                }
                if let Some(class) = back {
                    units[class] += 1;
                }
                consider(&units);
            }
        }
    }
}
