//! Groupings for a fixed number of replicas: a few constructions, and a local search over them that sees the whole cost
//! (order, layer balance, micro-batch balance), where stage 1 sees only sums.

use super::balance::{Pace, split_micro_batches, water_level_s};
use super::pipeline::{Pipeline, Pipelines};
use super::setting::{Composition, Setting};

/// Rounds of the local search; each improves the objective, so this is far beyond what happens.
const MAX_ROUNDS: usize = 200;

/// A construction that is so many times slower than what is worth a look has no better siblings.
const HOPELESS: f64 = 1.3;

/// A grouping with its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Units of each replica.
    pub replicas: Vec<Composition>,
    /// The slowest replica's time, were micro batches divisible, and an estimate of the gradient synchronisation that shows.
    pub time_s: f64,
}

/// Searches groupings of one setting and number of replicas.
pub struct GroupingSearch<'a> {
    pipelines: Pipelines<'a>,
    replicas: usize,
    paces: Vec<Pace>,
    stages: Vec<HeldLayers>,
}

impl<'a> GroupingSearch<'a> {
    /// A search for `replicas` replicas, at least one.
    pub fn new(setting: &'a Setting, replicas: usize) -> Self {
        let share = (setting.micro_batches / replicas as u32).max(1);
        Self { pipelines: Pipelines::new(setting, share), replicas, paces: Vec::new(), stages: Vec::new() }
    }

    /// Pipelines found so far.
    pub fn pipelines(&mut self) -> &mut Pipelines<'a> {
        &mut self.pipelines
    }

    /// The best of the constructions, `None` where none fits. The first that fits decides whether the others are worth the
    /// time: not where it's far slower than `worth_s`.
    pub fn construct(&mut self, worth_s: f64) -> Option<Candidate> {
        let mut best: Option<Candidate> = None;
        for replicas in constructions(self.pipelines.setting(), self.replicas) {
            if let Some(found) = self.evaluate(replicas)
                && best.as_ref().is_none_or(|best| found.time_s < best.time_s)
            {
                if found.time_s > worth_s * HOPELESS {
                    return None;
                }
                best = Some(found);
            }
        }
        best
    }

    /// A grouping with its time, `None` where a replica doesn't fit or there are too few micro batches.
    pub fn evaluate(&mut self, replicas: Vec<Composition>) -> Option<Candidate> {
        let time_s = self.time_s(&replicas)?;
        Some(Candidate { replicas, time_s })
    }

    fn time_s(&mut self, replicas: &[Composition]) -> Option<f64> {
        self.paces.clear();
        self.stages.clear();
        let (mut slowest_fill_s, mut longest_period_s) = (0.0_f64, 0.0_f64);
        for units in replicas {
            let Pipeline { pace, layers, classes } = self.pipelines.get(units)?;
            slowest_fill_s = slowest_fill_s.max(pace.fill_s);
            longest_period_s = longest_period_s.max(pace.period_s);
            self.paces.push(*pace);
            let mut first_layer = 0;
            for (&class, &layers) in classes.iter().zip(layers) {
                self.stages.push(HeldLayers { class, first_layer, end_layer: first_layer + layers });
                first_layer += layers;
            }
        }
        let setting = self.pipelines.setting();
        let level_s = water_level_s(&self.paces, setting.micro_batches)?;
        let reduce_s = reduce_gradients_s(setting, replicas.len(), &mut self.stages);
        // The backward passes of the last micro batch, about two thirds of a period, hide a part.
        Some(level_s.max(slowest_fill_s) + (reduce_s - longest_period_s * 2.0 / 3.0).max(0.0))
    }

    /// Moves single units, or swaps two, between replicas or with the idle ones, always the best such step, until none
    /// helps.
    pub fn improve(&mut self, mut best: Candidate) -> Candidate {
        // The idle units stand behind the replicas as one more group.
        let mut groups = best.replicas.clone();
        groups.push(idle_units(self.pipelines.setting(), &best.replicas));
        for _ in 0..MAX_ROUNDS {
            let Some((step, time_s)) = self.best_step(&mut groups, best.time_s) else { break };
            step.apply(&mut groups);
            best.time_s = time_s;
        }
        groups.truncate(self.replicas);
        groups.sort_unstable_by(|a, b| b.cmp(a));
        best.replicas = groups;
        best
    }

    fn best_step(&mut self, groups: &mut [Composition], time_s: f64) -> Option<(Step, f64)> {
        let mut best = None;
        let mut least_s = time_s * (1.0 - 1e-9);
        for step in steps(groups, self.pipelines.setting().classes.len()) {
            step.apply(groups);
            if let Some(time_s) = self.time_s(&groups[..self.replicas])
                && time_s < least_s
            {
                least_s = time_s;
                best = Some((step, time_s));
            }
            step.undo(groups);
        }
        best
    }

    /// Whole micro batches for the replicas of a candidate.
    pub fn micro_batches(&mut self, replicas: &[Composition]) -> Option<Vec<u32>> {
        self.time_s(replicas)?;
        split_micro_batches(&self.paces, self.pipelines.setting().micro_batches)
    }
}

/// A stage, as far as its gradients care.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct HeldLayers {
    class: usize,
    first_layer: u32,
    end_layer: u32,
}

/// About how long gradients take to be reduced when stages of like layers share nodes. A node's interface then carries each
/// layer held there once, `2 (D - 1)/D` times its bytes, but for those that all replicas hold in this node. So replicas of
/// one shape reduce faster than a medley.
fn reduce_gradients_s(setting: &Setting, replicas: usize, stages: &mut [HeldLayers]) -> f64 {
    if replicas < 2 {
        return 0.0;
    }
    stages.sort_unstable();
    let mut slowest_s = 0.0_f64;
    for of_class in stages.chunk_by(|a, b| a.class == b.class) {
        let class = &setting.classes[of_class[0].class];
        let (mut crossing, mut most) = (0, 0);
        for node in of_class.chunks(class.units_per_node as usize) {
            let (mut crossing_here, mut reached) = (0, 0);
            for alike in node.chunk_by(|a, b| a == b) {
                let HeldLayers { first_layer, end_layer, .. } = alike[0];
                most = most.max(end_layer - first_layer);
                if alike.len() < replicas {
                    crossing_here += end_layer.saturating_sub(first_layer.max(reached));
                    reached = reached.max(end_layer);
                }
            }
            crossing = crossing.max(crossing_here);
        }
        slowest_s = slowest_s.max(setting.reduce_gradients_s(class, replicas, crossing, most));
    }
    slowest_s
}

/// A unit of class `gives` goes from one group to another, and one of class `takes`, if any, comes back.
#[derive(Clone, Copy, Debug)]
struct Step {
    from: usize,
    to: usize,
    gives: usize,
    takes: Option<usize>,
}

impl Step {
    fn apply(self, groups: &mut [Composition]) {
        groups[self.from].0[self.gives] -= 1;
        groups[self.to].0[self.gives] += 1;
        if let Some(takes) = self.takes {
            groups[self.to].0[takes] -= 1;
            groups[self.from].0[takes] += 1;
        }
    }

    fn undo(self, groups: &mut [Composition]) {
        Self { from: self.to, to: self.from, ..self }.apply(groups);
    }
}

/// All steps, equal groups taken once.
fn steps(groups: &[Composition], classes: usize) -> Vec<Step> {
    let idle = groups.len() - 1;
    let first_of_kind = |index: usize, except: usize| {
        index == idle || !(0..index).any(|earlier| earlier != except && groups[earlier] == groups[index])
    };
    let mut all = Vec::new();
    for from in (0..groups.len()).filter(|&from| first_of_kind(from, usize::MAX)) {
        for to in (0..groups.len()).filter(|&to| to != from && first_of_kind(to, from)) {
            for gives in (0..classes).filter(|&class| groups[from].0[class] > 0) {
                // A replica keeps one unit at least.
                if from == idle || groups[from].units() > 1 {
                    all.push(Step { from, to, gives, takes: None });
                }
                // Each swap once: with idle units as the second partner.
                if from < to {
                    let partners = (0..classes).filter(|&class| class != gives && groups[to].0[class] > 0);
                    all.extend(partners.map(|takes| Step { from, to, gives, takes: Some(takes) }));
                }
            }
        }
    }
    all
}

fn idle_units(setting: &Setting, replicas: &[Composition]) -> Composition {
    let mut idle = setting.all_units();
    for units in replicas {
        for (left, used) in idle.0.iter_mut().zip(units.0) {
            *left -= used;
        }
    }
    idle
}

/// Groupings to start from.
fn constructions(setting: &Setting, replicas: usize) -> Vec<Vec<Composition>> {
    let by_rate: Vec<usize> = (0..setting.classes.len()).collect();
    let mut by_memory = by_rate.clone();
    by_memory.sort_by_key(|&class| std::cmp::Reverse(setting.classes[class].gpu.memory_bytes));
    let rate = |class: usize| setting.classes[class].layer_rate_per_s();
    let memory = |class: usize| setting.classes[class].gpu.memory_bytes as f64;
    // A slow class can cost more than it brings, so the slowest ones are left idle one after another.
    let mut all: Vec<Vec<Composition>> =
        (1..=setting.classes.len()).rev().map(|classes| dealt(setting, replicas, classes)).collect();
    all.push(by_class(setting, replicas));
    all.push(cut_line(setting, replicas, &by_rate, rate));
    for order in [by_rate, by_memory] {
        all.push(cut_line(setting, replicas, &order, memory));
    }
    let mut distinct: Vec<Vec<Composition>> = Vec::with_capacity(all.len());
    for construction in all {
        if !distinct.contains(&construction) {
            distinct.push(construction);
        }
    }
    distinct
}

/// Each of the fastest classes dealt out evenly: replicas as alike as can be.
fn dealt(setting: &Setting, replicas: usize, classes: usize) -> Vec<Composition> {
    let mut groups = vec![Composition::default(); replicas];
    let mut next = 0;
    for (class, units) in setting.all_units().0.into_iter().enumerate().take(classes) {
        for _ in 0..units {
            groups[next % replicas].0[class] += 1;
            next += 1;
        }
    }
    groups
}

/// Replicas of one class each: classes get replicas by their share of the total rate.
fn by_class(setting: &Setting, replicas: usize) -> Vec<Composition> {
    let rates: Vec<f64> =
        setting.classes.iter().map(|class| f64::from(class.units) * class.layer_rate_per_s()).collect();
    let mut counts = vec![0_usize; rates.len()];
    for _ in 0..replicas {
        let per_replica = |class: usize| rates[class] / (counts[class] + 1) as f64;
        let open = (0..rates.len()).filter(|&class| counts[class] < setting.classes[class].units as usize);
        if let Some(next) = open.max_by(|&a, &b| per_replica(a).total_cmp(&per_replica(b))) {
            counts[next] += 1;
        }
    }
    let mut groups = Vec::with_capacity(replicas);
    for (class, &count) in counts.iter().enumerate() {
        let units = setting.classes[class].units as usize;
        for index in 0..count {
            let mut group = Composition::default();
            group.0[class] = (units / count + usize::from(index < units % count)) as u16;
            groups.push(group);
        }
    }
    groups.resize(replicas, Composition::default());
    groups
}

/// All units in a line, class by class, cut into pieces of about equal weight.
fn cut_line(setting: &Setting, replicas: usize, order: &[usize], weight: impl Fn(usize) -> f64) -> Vec<Composition> {
    let total: f64 = order.iter().map(|&class| f64::from(setting.classes[class].units) * weight(class)).sum();
    let mut groups = vec![Composition::default(); replicas];
    let mut passed = 0.0;
    for &class in order {
        for _ in 0..setting.classes[class].units {
            let middle = passed + weight(class) / 2.0;
            let group = ((middle / total * replicas as f64) as usize).min(replicas - 1);
            groups[group].0[class] += 1;
            passed += weight(class);
        }
    }
    groups
}
