//! The program over columns with whole replicas, where there are few enough units to count them out.
//!
//! How many units of each class a replica takes also says where its stages stand: behind a stage are as many as were
//! placed before it, last stage first. So for each `K` one pass over all counts finds the most layers that they hold, and
//! with it the most micro batches of each count. `D` of these are then added up, largest sum for the units they take
//! together, in `2 log D` steps. A replica's fill counts its own fastest class, not the cluster's.

use super::columns::Columns;
use super::reductions::Reductions;
use crate::planner::autohet::counts::Counts;
use crate::planner::autohet::setting::Setting;

/// Counts of units up to which all are gone through.
const MAX_COUNTS: usize = 450;

/// Whether it's proven that so many replicas can't do all micro batches in `time_s` seconds without the optimizer step;
/// `None` where there are too many counts. Takes its steps off `work`, and proves nothing without any left.
pub fn is_too_short(
    setting: &Setting,
    replicas: u32,
    (reductions, time_s): (&Reductions, f64),
    work: &mut u64,
) -> Option<bool> {
    if setting.has_several_degrees() {
        return None;
    }
    let units: Vec<u32> = setting.classes.iter().map(|class| class.units).collect();
    let counts = Counts::new(&units, MAX_COUNTS)?;
    let most = setting.micro_batches - (replicas - 1);
    let mut one = vec![None; counts.len()];
    for fastest in 0..setting.classes.len() {
        let columns = Columns::new(setting, reductions, (time_s, replicas, fastest), u64::MAX);
        // No replica's counts are resolved twice: each has one fastest class.
        let is_open = |&at: &usize| counts.fastest(at) == Some(fastest) && counts.stages(at) <= columns.most_stages();
        let open = (0..counts.len()).filter(is_open).collect();
        let mut replicas = Replicas { counts: &counts, columns, fastest, held: vec![0; counts.len()], most: &mut one };
        if !replicas.resolve((0, most), open, setting.num_layers, work) {
            return Some(false);
        }
    }
    let mut added = 0;
    let all = times(&counts, &one, replicas, &mut added);
    *work = work.saturating_sub(added);
    Some(all.into_iter().flatten().max().unwrap_or(0) < setting.micro_batches)
}

/// The replicas with one fastest class.
struct Replicas<'a> {
    counts: &'a Counts,
    columns: Columns<'a>,
    fastest: usize,
    held: Vec<i64>,
    /// Most micro batches by count, once known.
    most: &'a mut [Option<u32>],
}

impl Replicas<'_> {
    /// Finds the most micro batches of the `open` counts, which can do the first number and no more than the second. False
    /// where the work ran out.
    fn resolve(&mut self, (can, may): (u32, u32), open: Vec<usize>, num_layers: u32, work: &mut u64) -> bool {
        if open.is_empty() {
            return true;
        }
        if can == may {
            for at in open {
                self.most[at] = (can > 0).then_some(can);
            }
            return true;
        }
        let steps = (self.counts.len() * self.counts.classes()) as u64;
        *work = work.saturating_sub(steps);
        if *work == 0 {
            return false;
        }
        let middle = (can + may).div_ceil(2);
        hold(self.counts, &self.columns, (middle, self.fastest), &mut self.held);
        let fits = |at: &usize| {
            let layers = most_held(self.counts, &self.columns, (middle, self.fastest), &self.held, *at);
            layers >= i64::from(num_layers)
        };
        let (fitting, others): (Vec<usize>, Vec<usize>) = open.into_iter().partition(fits);
        self.resolve((middle, may), fitting, num_layers, work)
            && self.resolve((can, middle - 1), others, num_layers, work)
    }
}

/// The most layers of the last stages of a replica by the units that these take; -1 where a stage would hold none.
fn hold(counts: &Counts, columns: &Columns, (micro_batches, fastest): (u32, usize), held: &mut [i64]) {
    let classes = counts.classes();
    let of_place = |place| (fastest..classes).map(|c| columns.most_layers(micro_batches, place, c, false)).collect();
    let most: Vec<Vec<u32>> = (0..columns.most_stages()).map(of_place).collect();
    for at in 1..counts.len() {
        held[at] = -1;
        let behind = counts.stages(at) as usize - 1;
        if behind >= most.len() || counts.fastest(at).is_none_or(|first| first < fastest) {
            continue;
        }
        for class in (fastest..classes).filter(|&class| counts.digits(at)[class] > 0) {
            let before = held[counts.without_one(at, class)];
            let own = i64::from(most[behind][class - fastest]);
            if before >= 0 && own > 0 {
                held[at] = held[at].max(before + own);
            }
        }
    }
}

/// The most layers of a whole replica of these units; -1 where a stage would hold none.
fn most_held(
    counts: &Counts,
    columns: &Columns,
    (micro_batches, fastest): (u32, usize),
    held: &[i64],
    at: usize,
) -> i64 {
    let behind = counts.stages(at) - 1;
    let with_first = |class: usize| {
        let before = held[counts.without_one(at, class)];
        let own = columns.most_layers(micro_batches, behind, class, true);
        if before >= 0 && own > 0 { before + i64::from(own) } else { -1 }
    };
    (fastest..counts.classes()).filter(|&c| counts.digits(at)[c] > 0).map(with_first).max().unwrap_or(-1)
}

/// The most micro batches of so many replicas by the units that they take.
fn times(counts: &Counts, one: &[Option<u32>], replicas: u32, work: &mut u64) -> Vec<Option<u32>> {
    let mut sum: Option<Vec<Option<u32>>> = None;
    let mut power = one.to_vec();
    let mut left = replicas;
    loop {
        if left & 1 == 1 {
            sum = Some(sum.map_or_else(|| power.clone(), |sum| counts.added(&sum, &power, work)));
        }
        left >>= 1;
        if left == 0 {
            return sum.unwrap_or_default();
        }
        power = counts.added(&power, &power, work);
    }
}
