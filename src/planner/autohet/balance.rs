//! Stage 3, load balance: integers that minimise the slowest replica. Layers over the stages of a replica, micro batches
//! over replicas; both exact.

use ordered_float::OrderedFloat;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What bounds the layers of one pipeline stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageLoad {
    /// Seconds of the embedding or the head, where the stage holds them, for one micro batch.
    pub fixed_s: f64,
    /// Seconds of one layer, forward and backward, for one micro batch.
    pub layer_s: f64,
    /// Layers that fit the stage's memory.
    pub max_layers: u32,
}

impl StageLoad {
    fn time_s(&self, layers: u32) -> f64 {
        self.fixed_s + f64::from(layers) * self.layer_s
    }
}

/// What an optimal split is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SplitGoal {
    /// Layers to hand out, `L`.
    pub num_layers: u32,
    /// Micro batches that run through the pipeline, `K`.
    pub micro_batches: u32,
    /// A period below this brings nothing: a boundary transfer takes as long.
    pub period_floor_s: f64,
}

/// Layers of each stage, and what they lead to.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerSplit {
    /// Layers by stage, each at least one.
    pub layers: Vec<u32>,
    /// Time of the slowest stage for one micro batch.
    pub bottleneck_s: f64,
    /// Time of all stages for one micro batch.
    pub fill_s: f64,
}

/// Slack for comparing sums that were added in another order.
const RELATIVE_SLACK: f64 = 1e-12;

/// The layers of each stage that minimise `fill + (K - 1) · max(bottleneck, floor)`; `None` where the layers don't fit.
///
/// Exact. The least bottleneck comes from handing layers out one by one, each to the stage that would be done first with
/// it (optimal for increasing functions). For a given bottleneck the least fill comes from filling the fastest stages
/// first. Slower bottlenecks that shorten the fill are tried as long as they can still win.
pub fn split_layers(stages: &[StageLoad], goal: SplitGoal) -> Option<LayerSplit> {
    let steady = f64::from(goal.micro_batches.saturating_sub(1));
    let cost = |split: &LayerSplit| split.fill_s + steady * split.bottleneck_s.max(goal.period_floor_s);
    let least = least_bottleneck_s(stages, goal.num_layers)?.max(goal.period_floor_s);
    let mut best = fill_fastest(stages, goal.num_layers, least)?;
    let unlimited = fill_fastest(stages, goal.num_layers, f64::INFINITY)?;
    if best.fill_s <= unlimited.fill_s * (1.0 + RELATIVE_SLACK) {
        return Some(best);
    }
    let mut limits = candidate_limits(stages, least);
    limits.sort_unstable_by(f64::total_cmp);
    limits.dedup();
    for limit in limits {
        if unlimited.fill_s + steady * limit >= cost(&best) {
            break;
        }
        if let Some(split) = fill_fastest(stages, goal.num_layers, limit)
            && cost(&split) < cost(&best) * (1.0 - RELATIVE_SLACK)
        {
            best = split;
        }
    }
    Some(best)
}

/// The least time of the slowest stage over all splits.
fn least_bottleneck_s(stages: &[StageLoad], num_layers: u32) -> Option<f64> {
    let depth = stages.len() as u32;
    let room = stages.iter().map(|stage| u64::from(stage.max_layers)).sum::<u64>();
    if depth == 0 || depth > num_layers || room < u64::from(num_layers) || stages.iter().any(|s| s.max_layers == 0) {
        return None;
    }
    let mut layers = vec![1_u32; stages.len()];
    for _ in depth..num_layers {
        let next = (0..stages.len())
            .filter(|&p| layers[p] < stages[p].max_layers)
            .min_by(|&a, &b| stages[a].time_s(layers[a] + 1).total_cmp(&stages[b].time_s(layers[b] + 1)))?;
        layers[next] += 1;
    }
    stages.iter().zip(&layers).map(|(stage, &held)| stage.time_s(held)).max_by(f64::total_cmp)
}

/// All stage times above `least_s` that some number of layers leads to.
fn candidate_limits(stages: &[StageLoad], least_s: f64) -> Vec<f64> {
    let mut kinds: Vec<StageLoad> = Vec::new();
    for stage in stages {
        if !kinds.contains(stage) {
            kinds.push(*stage);
        }
    }
    let times = kinds.iter().flat_map(|kind| (1..=kind.max_layers).map(|layers| kind.time_s(layers)));
    times.filter(|&time_s| time_s > least_s).collect()
}

/// The split of least fill whose stages all stay within `limit_s`; within stages of one speed as even as can be, later
/// stages taking the remainder, since they hold fewer micro batches in flight.
fn fill_fastest(stages: &[StageLoad], num_layers: u32, limit_s: f64) -> Option<LayerSplit> {
    let limit_s = limit_s * (1.0 + RELATIVE_SLACK);
    let most: Vec<u32> = stages.iter().map(|stage| layers_within(stage, limit_s)).collect();
    if most.contains(&0) || most.iter().map(|&m| u64::from(m)).sum::<u64>() < u64::from(num_layers) {
        return None;
    }
    let mut left = num_layers.checked_sub(stages.len() as u32)?;
    let mut layers = vec![1_u32; stages.len()];
    let mut by_speed: Vec<usize> = (0..stages.len()).collect();
    by_speed.sort_by(|&a, &b| stages[a].layer_s.total_cmp(&stages[b].layer_s));
    for group in by_speed.chunk_by(|&a, &b| stages[a].layer_s.total_cmp(&stages[b].layer_s).is_eq()) {
        let room: u32 = group.iter().map(|&p| most[p] - 1).sum();
        let take = left.min(room);
        left -= take;
        spread(group, take, &most, &mut layers);
    }
    let time_s = |p: usize| stages[p].time_s(layers[p]);
    let bottleneck_s = (0..stages.len()).map(time_s).fold(0.0, f64::max);
    let fill_s = (0..stages.len()).map(time_s).sum();
    Some(LayerSplit { layers, bottleneck_s, fill_s })
}

/// Hands out `count` layers evenly over a group of stages of one speed.
fn spread(group: &[usize], mut count: u32, most: &[u32], layers: &mut [u32]) {
    if count == group.iter().map(|&p| most[p] - 1).sum::<u32>() {
        for &p in group {
            layers[p] = most[p];
        }
        return;
    }
    while count > 0 {
        let least = group.iter().rev().filter(|&&p| layers[p] < most[p]).min_by_key(|&&p| layers[p]);
        let &stage = least.expect("the group has room for what it was given");
        layers[stage] += 1;
        count -= 1;
    }
}

/// Layers that a stage can hold without taking longer than `limit_s`.
fn layers_within(stage: &StageLoad, limit_s: f64) -> u32 {
    if limit_s.is_infinite() || stage.layer_s <= 0.0 {
        return stage.max_layers;
    }
    (((limit_s - stage.fixed_s) / stage.layer_s).max(0.0).floor() as u32).min(stage.max_layers)
}

/// How a replica's time grows with its micro batches: `T(K) = fill + (K - 1) · period`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Time of one micro batch alone.
    pub fill_s: f64,
    /// Time that each further micro batch adds.
    pub period_s: f64,
}

impl Pace {
    /// Time of `micro_batches` micro batches, at least one.
    pub fn time_s(&self, micro_batches: u32) -> f64 {
        self.fill_s + f64::from(micro_batches - 1) * self.period_s
    }
}

/// Micro batches of each replica, each at least one, that minimise the slowest replica. `None` where there are fewer
/// micro batches than replicas.
///
/// Exact: start at what each replica finishes within a time that no split can beat, then give the rest one by one to the
/// replica that would be done first.
pub fn split_micro_batches(paces: &[Pace], total: u32) -> Option<Vec<u32>> {
    if paces.is_empty() || (total as usize) < paces.len() {
        return None;
    }
    let each: Vec<(Pace, u32)> = paces.iter().map(|pace| (*pace, 1)).collect();
    let level_s = water_level_s(&each, total)?;
    let mut counts: Vec<u32> = paces.iter().map(|pace| whole_within(pace, level_s)).collect();
    let mut given: u32 = counts.iter().sum();
    let done_s = |j: usize, counts: &[u32]| OrderedFloat(paces[j].time_s(counts[j] + 1));
    let mut next: BinaryHeap<Reverse<(OrderedFloat<f64>, usize)>> = BinaryHeap::new();
    if given < total {
        next.extend((0..paces.len()).map(|j| Reverse((done_s(j, &counts), j))));
    }
    while given < total {
        let Reverse((_, first)) = next.pop()?;
        counts[first] += 1;
        given += 1;
        next.push(Reverse((done_s(first, &counts), first)));
    }
    // Rounding in the level can hand out one too many; take it back where it hurts most.
    while given > total {
        let slowest = |&a: &usize, &b: &usize| paces[a].time_s(counts[a]).total_cmp(&paces[b].time_s(counts[b]));
        let last = (0..paces.len()).filter(|&j| counts[j] > 1).max_by(slowest)?;
        counts[last] -= 1;
        given -= 1;
    }
    Some(counts)
}

/// Micro batches that a replica finishes by `level_s`, at least one.
fn whole_within(pace: &Pace, level_s: f64) -> u32 {
    1 + (((level_s - pace.fill_s) / pace.period_s) * (1.0 - RELATIVE_SLACK)).floor().max(0.0) as u32
}

/// The time in which the replicas, so many of each pace, finish `total` micro batches, were these divisible: no integer
/// split is faster. A replica that is slower than that with its first micro batch takes that one all the same.
pub fn water_level_s(paces: &[(Pace, u32)], total: u32) -> Option<f64> {
    let replicas: u32 = paces.iter().map(|(_, replicas)| replicas).sum();
    if paces.is_empty() || total < replicas {
        return None;
    }
    let mut order: Vec<usize> = (0..paces.len()).collect();
    order.sort_by(|&a, &b| paces[a].0.fill_s.total_cmp(&paces[b].0.fill_s));
    // Replicas beyond the first so many have not begun their second micro batch when the level is reached.
    let further = f64::from(total - replicas);
    let (mut rate, mut weighted) = (0.0, 0.0);
    let mut level_s = paces[order[0]].0.fill_s;
    for (index, &j) in order.iter().enumerate() {
        let (pace, replicas) = (paces[j].0, f64::from(paces[j].1));
        rate += replicas / pace.period_s;
        weighted += replicas * pace.fill_s / pace.period_s;
        level_s = (further + weighted) / rate;
        if order.get(index + 1).is_none_or(|&next| paces[next].0.fill_s >= level_s) {
            break;
        }
    }
    Some(level_s)
}

/// The time of the best split into whole micro batches, from their [`water_level_s`]: the least time by which the
/// replicas have finished as many as there are.
pub fn whole_level_s(paces: &[(Pace, u32)], total: u32, water_level_s: f64) -> f64 {
    let mut counts: Vec<u32> = paces.iter().map(|(pace, _)| whole_within(pace, water_level_s)).collect();
    let mut given: u64 = paces.iter().zip(&counts).map(|((_, n), &count)| u64::from(*n) * u64::from(count)).sum();
    while given < u64::from(total) {
        let done_s = |k: usize| paces[k].0.time_s(counts[k] + 1);
        let Some(next) = (0..paces.len()).min_by(|&a, &b| done_s(a).total_cmp(&done_s(b))) else { break };
        counts[next] += 1;
        given += u64::from(paces[next].1);
    }
    paces.iter().zip(&counts).map(|((pace, _), &count)| pace.time_s(count)).fold(0.0, f64::max)
}

/// The period of 1F1B in its steady state: the greatest mean, over every run of neighbouring stages, of the stages' times
/// and of the transfers between them there and back.
///
/// Between stages `p` and `q` a micro batch goes forward from `p` to `q` and backward from `q` to `p`, and 1F1B lets
/// `q - p + 1` micro batches be on that way at once; so each takes at least the way's length divided by that number. For
/// `p = q` this is the stage's own time. Transfers at balanced boundaries are thereby exposed, though they overlap.
///
/// `stage_s` has one more element than `round_trip_s`, the transfers at the boundaries.
pub fn steady_period_s(stage_s: &[f64], round_trip_s: &[f64]) -> f64 {
    let mut period_s = 0.0_f64;
    for first in 0..stage_s.len() {
        let mut way_s = 0.0;
        for (last, one_s) in stage_s.iter().enumerate().skip(first) {
            way_s += one_s;
            period_s = period_s.max(way_s / (last - first + 1) as f64);
            if let Some(trip_s) = round_trip_s.get(last) {
                way_s += trip_s;
            }
        }
    }
    period_s
}

#[cfg(test)]
mod tests;
