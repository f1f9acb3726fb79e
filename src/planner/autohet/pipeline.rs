//! Stage 2, the abstract half of mapping: in which order a replica's units serve its stages.
//!
//! 1F1B keeps `P - p` micro batches in flight on stage `p`, so memory is scarce in front and units with more of it belong
//! there; but a fast unit with little memory may still do better in front with few layers. So units of one class stay
//! together, and several orders of classes are tried.

use super::balance::{LayerSplit, Pace, SplitGoal, StageLoad, split_layers, steady_period_s};
use super::setting::{Composition, Setting};
use crate::planner::room::{Ends, Place};
use std::collections::HashMap;

/// A replica whose stages have classes and layers, but no nodes yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipeline {
    /// Class of each stage, as an index into [`Setting::classes`].
    pub classes: Vec<usize>,
    /// Layers of each stage.
    pub layers: Vec<u32>,
    /// How its time grows with its micro batches.
    pub pace: Pace,
}

/// What a pipeline's memory is to be enough for.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Micro batches of an iteration; anything above what it gets is safe.
    pub micro_batches: u32,
    /// Replicas of the plan.
    pub replicas: u32,
}

/// Where a pipeline's stages stand, as far as transfers care.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// Class of each stage.
    pub classes: Vec<usize>,
    /// Seconds of the transfer over each boundary in one direction; one fewer than stages.
    pub transfer_s: Vec<f64>,
}

impl Layout {
    /// The layout of neighbouring units packed into as few nodes as can be.
    fn packed(setting: &Setting, classes: Vec<usize>) -> Self {
        let mut transfer_s = Vec::with_capacity(classes.len().saturating_sub(1));
        let mut run = 1;
        for pair in classes.windows(2) {
            let same_class = pair[0] == pair[1];
            let same_node = same_class && run % setting.classes[pair[0]].units_per_node != 0;
            run = if same_class { run + 1 } else { 1 };
            transfer_s.push(setting.transfer_s(pair[0], pair[1], same_node));
        }
        Self { classes, transfer_s }
    }

    /// The best layers for so many micro batches, `None` where they don't fit.
    pub fn pipeline(&self, setting: &Setting, micro_batches: u32, held: Held) -> Option<Pipeline> {
        let depth = self.classes.len();
        let Held { micro_batches: most, replicas } = held;
        let load = |(stage, &class): (usize, &usize)| {
            let (class, ends) = (&setting.classes[class], Ends::at(stage, depth));
            let max_layers = class.layers_at(Place { stage, depth, micro_batches: most, replicas });
            StageLoad { fixed_s: class.fixed_s(ends), layer_s: class.layer_s, max_layers }
        };
        let loads: Vec<StageLoad> = self.classes.iter().enumerate().map(load).collect();
        let period_floor_s = self.transfer_s.iter().copied().fold(0.0, f64::max);
        let goal = SplitGoal { num_layers: setting.num_layers, micro_batches, period_floor_s };
        let LayerSplit { layers, .. } = split_layers(&loads, goal)?;
        let pace = self.pace(setting, &layers);
        Some(Pipeline { classes: self.classes.clone(), layers, pace })
    }

    /// How it runs with these layers.
    pub fn pace(&self, setting: &Setting, layers: &[u32]) -> Pace {
        let depth = self.classes.len();
        let time_s = |(stage, (&class, &layers)): (usize, (&usize, &u32))| {
            let class = &setting.classes[class];
            class.fixed_s(Ends::at(stage, depth)) + f64::from(layers) * class.layer_s
        };
        let stage_s: Vec<f64> = self.classes.iter().zip(layers).enumerate().map(time_s).collect();
        let round_trip_s: Vec<f64> = self.transfer_s.iter().map(|one_way_s| 2.0 * one_way_s).collect();
        let period_floor_s = self.transfer_s.iter().copied().fold(0.0, f64::max);
        let period_s = steady_period_s(&stage_s, &round_trip_s).max(period_floor_s);
        Pace { fill_s: stage_s.iter().sum::<f64>() + round_trip_s.iter().sum::<f64>(), period_s }
    }
}

/// Orders that are tried first: those of two classes are all among them.
const USUAL_ORDERS: usize = 3;
/// What any other order must gain: differences below this are beyond the closed form, which is what it's chosen by.
const UNUSUAL_GAIN: f64 = 0.02;

/// How much longer a stage takes to be balanced than to be looked at.
const BALANCING: u64 = 20;

/// Finds pipelines for compositions, and remembers them.
pub struct Pipelines<'a> {
    setting: &'a Setting,
    micro_batches: u32,
    replicas: u32,
    work: u64,
    known: HashMap<Composition, Option<Pipeline>>,
}

impl<'a> Pipelines<'a> {
    /// Pipelines that are to be good at about `micro_batches` micro batches each, in so many replicas.
    pub fn new(setting: &'a Setting, micro_batches: u32, replicas: u32) -> Self {
        Self { setting, micro_batches, replicas, work: 0, known: HashMap::new() }
    }

    /// Work done so far: what balancing takes is counted as so many stages looked at.
    pub fn work(&self) -> u64 {
        self.work
    }

    /// The setting that they are for.
    pub fn setting(&self) -> &'a Setting {
        self.setting
    }

    /// The best pipeline of these units, `None` where the model doesn't fit them.
    pub fn get(&mut self, units: &Composition) -> Option<&Pipeline> {
        let (setting, about) = (self.setting, (self.micro_batches, self.replicas));
        let work = &mut self.work;
        self.known.entry(*units).or_insert_with(|| best_pipeline(setting, units, about, work)).as_ref()
    }
}

fn best_pipeline(
    setting: &Setting,
    units: &Composition,
    (micro_batches, replicas): (u32, u32),
    work: &mut u64,
) -> Option<Pipeline> {
    let held = Held { micro_batches: setting.most_micro_batches(micro_batches), replicas };
    if units.units() == 0 || units.units() > setting.num_layers as usize {
        return None;
    }
    let mut best: Option<Pipeline> = None;
    for (index, order) in class_orders(setting, units).into_iter().enumerate() {
        *work += BALANCING * units.units() as u64;
        let stages = order.iter().flat_map(|&class| std::iter::repeat_n(class, usize::from(units.0[class])));
        let layout = Layout::packed(setting, stages.collect());
        let Some(found) = layout.pipeline(setting, micro_batches, held) else { continue };
        let time_s = found.pace.time_s(micro_batches);
        let margin = if index < USUAL_ORDERS { 1e-12 } else { UNUSUAL_GAIN };
        if best.as_ref().is_none_or(|best| time_s < best.pace.time_s(micro_batches) * (1.0 - margin)) {
            best = Some(found);
        }
    }
    best
}

/// Orders of the classes present that are worth trying: most memory, highest rate, and lowest rate first; then the others,
/// where there are three classes.
fn class_orders(setting: &Setting, units: &Composition) -> Vec<Vec<usize>> {
    let by_rate: Vec<usize> = (0..setting.classes.len()).filter(|&class| units.0[class] > 0).collect();
    let mut by_memory = by_rate.clone();
    by_memory.sort_by_key(|&class| std::cmp::Reverse(setting.classes[class].gpu.memory_bytes));
    let by_slowness = by_rate.iter().rev().copied().collect();
    let mut orders = vec![by_memory];
    let others = match *by_rate.as_slice() {
        [a, b, c] => [[a, c, b], [b, a, c], [b, c, a], [c, a, b]].map(|order| order.to_vec()).into(),
        _ => Vec::new(),
    };
    for order in [by_rate, by_slowness].into_iter().chain(others) {
        if !orders.contains(&order) {
            orders.push(order);
        }
    }
    orders
}
