//! Grouping, order, layers and micro batches at once, for clusters of few units: nothing that was chosen before stands in
//! the way of the optimum.
//!
//! For a fixed setting and number of replicas, with links that take no time and in-flight micro batches as if each replica
//! had all of them,
//!
//! ```text
//! minimise    T = max_j  Σ_p τ_jp + (K_j - 1) max_p τ_jp
//! ```
//!
//! over the units of each replica, the order of its stages, whole layers within memory and whole micro batches. The search
//! is exact: it keeps of all replicas of given units those *lines* `fill + (K - 1) · period` that are shortest for some
//! `K`; which `T` can be met is then a question of adding up counts. SCIP solves the same problem (`planner::scip`).

use super::counts::Counts;
use super::setting::Setting;
use crate::planner::room::{Ends, Place};

#[cfg(test)]
mod tests;

/// Counts of units up to which all are gone through.
const MAX_COUNTS: usize = 100;
/// Orders of stages up to which all are tried: some ten milliseconds.
const MAX_ORDERS: usize = 5000;
/// Slack for comparing sums that were added in another order.
const SLACK: f64 = 1e-12;

/// A replica: its stages from the input side.
#[derive(Clone, Debug, PartialEq)]
pub struct JointReplica {
    /// Class of each stage, as an index into [`Setting::classes`].
    pub classes: Vec<usize>,
    /// Layers of each stage.
    pub layers: Vec<u32>,
    /// Micro batches per iteration.
    pub micro_batches: u32,
}

/// A solution.
#[derive(Clone, Debug, PartialEq)]
pub struct JointPlan {
    /// One entry per replica.
    pub replicas: Vec<JointReplica>,
    /// The objective `T`, seconds.
    pub time_s: f64,
}

impl JointPlan {
    /// These replicas with their time, `None` where a constraint is broken: the one place that says what they are.
    pub fn new(setting: &Setting, replicas: Vec<JointReplica>) -> Option<Self> {
        let mut left: Vec<u32> = setting.classes.iter().map(|class| class.units).collect();
        let (mut given, mut time_s) = (0, 0.0_f64);
        for replica in &replicas {
            for &class in &replica.classes {
                left[class] = left[class].checked_sub(1)?;
            }
            given += replica.micro_batches;
            let stage_s = stage_times_s(setting, &replica.classes, &replica.layers, replicas.len() as u32)?;
            let period_s = stage_s.iter().copied().fold(0.0, f64::max);
            let further = f64::from(replica.micro_batches.checked_sub(1)?);
            time_s = time_s.max(stage_s.iter().sum::<f64>() + further * period_s);
        }
        (given == setting.micro_batches).then_some(Self { replicas, time_s })
    }
}

/// Time of each stage for one micro batch, `None` where the layers aren't all there or don't fit.
fn stage_times_s(setting: &Setting, classes: &[usize], layers: &[u32], replicas: u32) -> Option<Vec<f64>> {
    let depth = classes.len();
    if depth == 0 || layers.len() != depth || layers.iter().sum::<u32>() != setting.num_layers {
        return None;
    }
    let stage = |(stage, (&class, &held)): (usize, (&usize, &u32))| {
        let fits = held > 0 && held <= most_layers(setting, class, (stage, depth), replicas);
        let class = &setting.classes[class];
        fits.then(|| class.fixed_s(Ends::at(stage, depth)) + f64::from(held) * class.layer_s)
    };
    classes.iter().zip(layers).enumerate().map(stage).collect()
}

/// Layers that fit a stage with all of the iteration's micro batches in its replica, one of so many.
pub fn most_layers(setting: &Setting, class: usize, (stage, depth): (usize, usize), replicas: u32) -> u32 {
    let place = Place { stage, depth, micro_batches: setting.micro_batches, replicas };
    setting.classes[class].layers_at(place).min(setting.num_layers)
}

/// The optimum; `None` where nothing fits or there are too many units to go through all orders.
pub fn search(setting: &Setting, replicas: u32) -> Option<JointPlan> {
    let units: Vec<u32> = setting.classes.iter().map(|class| class.units).collect();
    let counts = Counts::new(&units, MAX_COUNTS)?;
    if replicas > setting.micro_batches || replicas > setting.units() {
        return None;
    }
    let mut lines = vec![Vec::new(); counts.len()];
    let mut orders = 0;
    for (at, lines) in lines.iter_mut().enumerate() {
        *lines = shortest_lines(setting, counts.digits(at), replicas, &mut orders)?;
    }
    // Any time that can be met bounds the optimum from above; halve in on it until no number lies between.
    let single = lines.iter().flatten().map(|line| line.time_s(setting.micro_batches));
    let longest_s = single.fold(0.0, f64::max);
    let mut best = meet(setting, replicas, &counts, &lines, longest_s)?;
    let mut too_short_s = 0.0;
    while best.time_s > too_short_s * (1.0 + SLACK) {
        let middle_s = f64::midpoint(too_short_s, best.time_s * (1.0 - SLACK / 2.0));
        if middle_s <= too_short_s {
            break;
        }
        match meet(setting, replicas, &counts, &lines, middle_s) {
            Some(found) if found.time_s < best.time_s => best = found,
            _ => too_short_s = middle_s,
        }
    }
    Some(best)
}

/// A replica as its time grows with its micro batches.
#[derive(Clone, Debug)]
struct Line {
    fill_s: f64,
    period_s: f64,
    classes: Vec<usize>,
    layers: Vec<u32>,
}

impl Line {
    fn time_s(&self, micro_batches: u32) -> f64 {
        self.fill_s + f64::from(micro_batches - 1) * self.period_s
    }

    /// Most micro batches in this time.
    fn micro_batches(&self, time_s: f64, most: u32) -> u32 {
        if self.fill_s > time_s * (1.0 + SLACK) {
            return 0;
        }
        let further = (time_s * (1.0 + SLACK) - self.fill_s) / self.period_s;
        most.min(1 + further.max(0.0).min(f64::from(most)) as u32)
    }
}

/// Of all orders and splits of these units, the lines that no other is below everywhere; `None` beyond the limit of orders.
fn shortest_lines(setting: &Setting, units: &[u32], replicas: u32, orders: &mut usize) -> Option<Vec<Line>> {
    let depth: u32 = units.iter().sum();
    let mut lines: Vec<Line> = Vec::new();
    if depth == 0 || depth > setting.num_layers {
        return Some(lines);
    }
    let mut left = units.to_vec();
    let mut visit = |order: &[usize]| {
        *orders += 1;
        add_lines(setting, order, replicas, &mut lines);
        *orders <= MAX_ORDERS
    };
    for_each_order(&mut left, &mut Vec::with_capacity(depth as usize), &mut visit).then_some(lines)
}

fn for_each_order(left: &mut [u32], order: &mut Vec<usize>, visit: &mut impl FnMut(&[usize]) -> bool) -> bool {
    if left.iter().all(|&count| count == 0) {
        return visit(order);
    }
    for class in 0..left.len() {
        if left[class] > 0 {
            left[class] -= 1;
            order.push(class);
            let goes_on = for_each_order(left, order, visit);
            order.pop();
            left[class] += 1;
            if !goes_on {
                return false;
            }
        }
    }
    true
}

/// The splits of one order: for each period that some stage can have, the one of least fill.
fn add_lines(setting: &Setting, order: &[usize], replicas: u32, lines: &mut Vec<Line>) {
    let depth = order.len();
    let time_s = |stage: usize, layers: u32| {
        let class = &setting.classes[order[stage]];
        class.fixed_s(Ends::at(stage, depth)) + f64::from(layers) * class.layer_s
    };
    let most: Vec<u32> = (0..depth).map(|stage| most_layers(setting, order[stage], (stage, depth), replicas)).collect();
    let mut periods: Vec<f64> =
        (0..depth).flat_map(|p| (1..=most[p]).map(move |l| (p, l))).map(|(p, l)| time_s(p, l)).collect();
    periods.sort_unstable_by(f64::total_cmp);
    periods.dedup();
    let mut by_speed: Vec<usize> = (0..depth).collect();
    by_speed.sort_by(|&a, &b| setting.classes[order[a]].layer_s.total_cmp(&setting.classes[order[b]].layer_s));
    let mut least_fill_s = f64::INFINITY;
    for period_s in periods {
        let within = |stage: usize| {
            let class = &setting.classes[order[stage]];
            let left_s = period_s * (1.0 + SLACK) - class.fixed_s(Ends::at(stage, depth));
            most[stage].min((left_s / class.layer_s).max(0.0) as u32)
        };
        let caps: Vec<u32> = (0..depth).map(within).collect();
        if caps.contains(&0) || caps.iter().sum::<u32>() < setting.num_layers {
            continue;
        }
        let mut layers = vec![1; depth];
        let mut left = setting.num_layers - depth as u32;
        for &stage in &by_speed {
            let taken = left.min(caps[stage] - 1);
            layers[stage] += taken;
            left -= taken;
        }
        let fill_s: f64 = (0..depth).map(|stage| time_s(stage, layers[stage])).sum();
        if fill_s < least_fill_s * (1.0 - SLACK) {
            least_fill_s = fill_s;
            let period_s = (0..depth).map(|stage| time_s(stage, layers[stage])).fold(0.0, f64::max);
            let below = |other: &Line| other.fill_s <= fill_s && other.period_s <= period_s;
            if !lines.iter().any(below) {
                lines.retain(|other| other.fill_s < fill_s || other.period_s < period_s);
                lines.push(Line { fill_s, period_s, classes: order.to_vec(), layers });
            }
        }
    }
}

/// A plan within this time, if there is one.
fn meet(setting: &Setting, replicas: u32, counts: &Counts, lines: &[Vec<Line>], time_s: f64) -> Option<JointPlan> {
    let total = setting.micro_batches;
    let most = total - (replicas - 1);
    let share = |line: &Line| line.micro_batches(time_s, most);
    let chosen: Vec<Option<&Line>> =
        lines.iter().map(|lines| lines.iter().filter(|line| share(line) > 0).max_by_key(|line| share(line))).collect();
    let one: Vec<Option<u32>> = chosen.iter().map(|line| line.map(share)).collect();
    let mut sums = vec![one.clone()];
    for _ in 1..replicas {
        let next = counts.added(sums.last()?, &one, &mut 0);
        sums.push(next);
    }
    let mut at = (0..counts.len()).filter(|&at| sums.last().is_some_and(|sum| sum[at] >= Some(total))).min()?;
    let mut taken = Vec::with_capacity(replicas as usize);
    for done in (0..replicas as usize - 1).rev() {
        let sum = sums[done + 1][at]?;
        let last = (0..counts.len()).find(|&last| {
            let rest = counts.minus(at, last).and_then(|rest| sums[done][rest]);
            one[last].zip(rest).is_some_and(|(share, rest)| share + rest == sum)
        })?;
        taken.push(last);
        at = counts.minus(at, last)?;
    }
    taken.push(at);
    // The shares are the most within the time; what is too much is taken off from the end.
    let mut surplus = taken.iter().filter_map(|&at| one[at]).sum::<u32>().checked_sub(total)?;
    let replica = |&at: &usize| {
        let line = chosen[at]?;
        let micro_batches = one[at]?;
        let less = surplus.min(micro_batches - 1);
        surplus -= less;
        let (classes, layers) = (line.classes.clone(), line.layers.clone());
        Some(JointReplica { classes, layers, micro_batches: micro_batches - less })
    };
    let replicas = taken.iter().map(replica).collect::<Option<Vec<_>>>()?;
    JointPlan::new(setting, replicas)
}
