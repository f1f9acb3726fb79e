//! The most micro batches that one replica can do in a given time, at given prices for units.
//!
//! A *column* is a replica: how many units of each class it takes, and its micro batches `K`. For a time `T` without the
//! optimizer step, a stage of class `c` with `l` layers, `q` stages behind it and time `τ` for one micro batch must meet
//! (see the module above for the terms)
//!
//! ```text
//! compute:    least time of the other layers, embedding and head + K τ - (min(K, q + 1) - 1) φ τ + tail  ≤ T
//! reduction:  least time of what precedes its last backward pass + its own blocks' reductions            ≤ T
//! memory:     l layers fit with min(K, q + 1) micro batches in flight
//! ```
//!
//! For each `K` this gives the most layers of a stage by class, place from the end, and whether it's the first one. Then
//! dynamic programming from the last stage forward finds the cheapest units that hold `L` layers.

use super::reductions::Reductions;
use crate::planner::autohet::setting::{ClassCosts, MAX_CLASSES, Setting};
use crate::planner::room::Ends;

/// Stages to which a replica's depth is followed exactly; behind these, places count as this one.
const MAX_DEPTH: u32 = 64;

/// A replica of the relaxed problem.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    /// Units by class.
    pub units: [u16; MAX_CLASSES],
    /// Micro batches.
    pub micro_batches: u32,
    /// Micro batches less the price of the units.
    pub gain: f64,
}

/// Looks for columns of one setting, number of replicas and time.
pub struct Columns<'a> {
    setting: &'a Setting,
    reductions: &'a Reductions,
    time_s: f64,
    /// Least seconds of a layer, of its forward pass, of the embedding and the head, and of a boundary's round trip.
    least: Least,
    /// Units of the largest node, and what a micro batch takes between nodes.
    within: (u32, f64),
    /// Places from the end that are told apart.
    depth: u32,
    most_stages: u32,
    /// Steps so far, and how many there may be.
    pub work: u64,
    most_work: u64,
    cells: Vec<Cell>,
}

#[derive(Clone, Copy)]
#[expect(clippy::struct_field_names, reason = "the unit")]
struct Least {
    layer_s: f64,
    forward_s: f64,
    embedding_s: f64,
    head_s: f64,
    round_trip_s: f64,
    tail_s: f64,
}

/// The cheapest stages that hold so many layers at so many stages from the end.
#[derive(Clone, Copy)]
struct Cell {
    price: f64,
    class: u8,
    from: u32,
}

impl<'a> Columns<'a> {
    /// Columns for an iteration in `time_s` seconds without the optimizer step, of so many replicas, with no class before
    /// `fastest`.
    pub fn new(
        setting: &'a Setting,
        reductions: &'a Reductions,
        (time_s, replicas, fastest): (f64, u32, usize),
        most_work: u64,
    ) -> Self {
        let classes = || setting.classes[fastest..].iter();
        let least = |of: fn(&ClassCosts) -> f64| classes().map(of).fold(f64::INFINITY, f64::min);
        let links = (fastest..setting.classes.len()).flat_map(|from| (fastest..=from).map(move |to| (from, to)));
        let one_way_s = links.flat_map(|(from, to)| {
            let within = setting.share_gpus(from, to) && (from != to || setting.classes[from].units_per_node > 1);
            [Some(setting.transfer_s(from, to, false)), within.then(|| setting.transfer_s(from, to, true))]
        });
        let reduced_after_layer_s =
            classes().zip(&reductions.layer_s[fastest..]).map(|(c, &reduce_s)| reduce_s - c.embedding_s);
        let least = Least {
            layer_s: least(|class| class.layer_s),
            forward_s: least(|class| class.layer_forward_s),
            embedding_s: least(|class| class.embedding_s),
            head_s: least(|class| class.head_s),
            round_trip_s: 2.0 * one_way_s.flatten().fold(f64::INFINITY, f64::min),
            tail_s: reduced_after_layer_s.fold(f64::INFINITY, f64::min).max(0.0),
        };
        // The other replicas have a unit each at least.
        let most_stages = setting.num_layers.min(setting.units().saturating_sub(replicas - 1)).max(1);
        let depth = most_stages.min(MAX_DEPTH);
        let largest = setting.classes.iter().map(|class| class.units_per_node).max().unwrap_or(1);
        let within = (largest, super::transfer_across_s(setting));
        Self { setting, reductions, time_s, least, within, most_stages, depth, work: 0, most_work, cells: Vec::new() }
    }

    /// Stages that a replica has at most.
    pub fn most_stages(&self) -> u32 {
        self.most_stages
    }

    /// The column of most gain above `least_gain`; `None` where there is none.
    pub fn best(&mut self, prices: &[f64], most_micro_batches: u32, least_gain: f64) -> Option<Column> {
        let mut best = self.next_above(prices, most_micro_batches, least_gain)?;
        while let Some(better) = self.next_above(prices, best.micro_batches - 1, best.gain) {
            best = better;
        }
        Some(best)
    }

    /// The first column of a gain above `least_gain`, most micro batches first.
    pub fn next_above(&mut self, prices: &[f64], most_micro_batches: u32, least_gain: f64) -> Option<Column> {
        let layers = f64::from(self.setting.num_layers);
        for micro_batches in (1..=most_micro_batches).rev() {
            let most = f64::from(micro_batches);
            if most <= least_gain || self.is_exhausted() {
                break;
            }
            self.work += prices.len() as u64;
            let per_layer = |(class, price): (usize, &f64)| price / self.layers_anywhere(micro_batches, class);
            let per_layer = prices.iter().enumerate().map(per_layer).fold(f64::INFINITY, f64::min);
            if most - layers * per_layer > least_gain
                && let Some(column) = self.cheapest(micro_batches, prices, most - least_gain)
            {
                return Some(column);
            }
        }
        None
    }

    /// Whether the steps are used up: then that nothing was found says nothing.
    pub fn is_exhausted(&self) -> bool {
        self.work >= self.most_work
    }

    /// The cheapest units for so many micro batches, if they cost less than `budget`.
    fn cheapest(&mut self, micro_batches: u32, prices: &[f64], budget: f64) -> Option<Column> {
        let classes = self.setting.classes.len();
        let layers = self.setting.num_layers as usize;
        let width = layers + 1;
        let unreached = Cell { price: f64::INFINITY, class: 0, from: 0 };
        self.cells.clear();
        self.cells.resize(width, unreached);
        self.cells[0].price = 0.0;
        let mut cheapest = (budget, None);
        for place in 0.. {
            let start = place * width;
            let most = |first| {
                let mut most = [0; MAX_CLASSES];
                for (class, most) in most.iter_mut().enumerate().take(classes) {
                    *most = self.most_layers(micro_batches, place as u32, class, first) as usize;
                }
                most
            };
            let (inner, first) = (most(false), most(true));
            self.work += 4 * classes as u64;
            self.cells.resize(start + 2 * width, unreached);
            let mut any = false;
            for held in 0..layers {
                let price = self.cells[start + held].price;
                if price >= cheapest.0 {
                    continue;
                }
                self.work += classes as u64;
                for class in 0..classes {
                    let price = price + prices[class];
                    if price >= cheapest.0 {
                        continue;
                    }
                    if held + first[class] >= layers {
                        cheapest = (price, Some((place, held, class)));
                    }
                    let now = (held + inner[class]).min(layers - 1);
                    if now > held && price < self.cells[start + width + now].price {
                        self.cells[start + width + now] = Cell { price, class: class as u8, from: held as u32 };
                        any = true;
                    }
                }
            }
            if !any || place as u32 + 1 >= self.most_stages {
                break;
            }
        }
        let (price, Some((place, held, class))) = cheapest else { return None };
        let mut units = [0; MAX_CLASSES];
        units[class] += 1;
        let mut at = held;
        for place in (1..=place).rev() {
            let cell = self.cells[place * width + at];
            units[usize::from(cell.class)] += 1;
            at = cell.from as usize;
        }
        Some(Column { units, micro_batches, gain: f64::from(micro_batches) - price })
    }

    /// Most layers of a stage of this class wherever it stands, perhaps more than can be; for a first look.
    fn layers_anywhere(&self, micro_batches: u32, class: usize) -> f64 {
        let costs = &self.setting.classes[class];
        let overlapped = f64::from(micro_batches.min(self.most_stages) - 1);
        let all = f64::from(micro_batches) - overlapped * costs.forward_share;
        let per_layer_s = all * costs.layer_s - self.least.layer_s;
        let left_s = self.time_s - f64::from(self.setting.num_layers) * self.least.layer_s;
        let inner = Ends { embedding: false, head: false };
        let fitting = f64::from(costs.max_layers(inner, 1));
        if per_layer_s > 0.0 { fitting.min(left_s.max(0.0) / per_layer_s) } else { fitting }
    }

    /// Most layers of a stage with so many behind it. What must be met is linear in the layers.
    pub fn most_layers(&self, micro_batches: u32, behind: u32, class: usize, first: bool) -> u32 {
        let last_place = behind + 1 >= self.depth && self.depth < self.most_stages;
        let behind = behind.min(self.depth - 1);
        let (least, costs, reductions) = (&self.least, &self.setting.classes[class], self.reductions);
        let ends = Ends { embedding: first, head: behind == 0 };
        // Places beyond the last that is told apart have at least as many behind them.
        let overlapped = if last_place { micro_batches } else { micro_batches.min(behind + 1) };
        let all = f64::from(micro_batches) - f64::from(overlapped - 1) * costs.forward_share;
        let layers = f64::from(self.setting.num_layers);
        let (behind_f, fixed_s) = (f64::from(behind), all * costs.fixed_s(ends));
        let head_s = if ends.head { 0.0 } else { least.head_s };
        let (ahead_s, embedding_reduced_s) = match (first, ends.head) {
            (true, true) => (0.0, reductions.embedding_s),
            (true, false) => (0.0, reductions.embedding_of_many_s),
            (false, _) => (least.embedding_s + least.round_trip_s, reductions.embedding_of_many_s),
        };
        let always_s = fixed_s + head_s + behind_f * least.round_trip_s;
        let compute = Line {
            at_none_s: always_s + layers * least.layer_s + ahead_s + least.tail_s + embedding_reduced_s,
            per_layer_s: all * costs.layer_s - least.layer_s,
        };
        // What is behind has been passed in both directions, what is ahead perhaps forward only.
        let backward_s = costs.layer_s - costs.layer_forward_s;
        let (other_s, behind_s, first_s) = if first {
            (least.layer_s, 0.0, embedding_reduced_s - costs.embedding_s)
        } else {
            // Its optimizer step may be shorter than a first stage's, which has been taken off the time.
            (least.forward_s, behind_f * (least.layer_s - least.forward_s), -self.setting.optimizer_s)
        };
        // The backward pass of the block that is reduced first is over.
        let untied_head = ends.head && self.setting.head_gradient_bytes > 0.0;
        let begun_s = if untied_head { reductions.head_s[class] } else { backward_s };
        let reduction = Line {
            at_none_s: always_s + layers * other_s + behind_s + first_s + begun_s,
            per_layer_s: all * costs.layer_s - other_s - backward_s + reductions.layer_s[class],
        };
        let in_flight = micro_batches.min(behind + 1);
        let fitting = costs.max_layers(ends, in_flight).min(self.setting.num_layers);
        let shown = reduction.most(self.time_s, compute.most(self.time_s, fitting));
        self.most_over_network(micro_batches, behind, (class, first), shown)
    }

    /// Most of so many layers that networks leave time for.
    fn most_over_network(&self, micro_batches: u32, behind: u32, (class, first): (usize, bool), most: u32) -> u32 {
        let (costs, reductions) = (&self.setting.classes[class], self.reductions);
        let (largest, across_s) = self.within;
        let all = f64::from(micro_batches);
        let mut most = most;
        let fill_s =
            f64::from(self.setting.num_layers) * self.least.layer_s + self.least.embedding_s + self.least.head_s;
        if fill_s + all * across_s > self.time_s * (1.0 + SLACK) {
            // The whole replica is within a node.
            let inside = Line {
                at_none_s: reductions.of_node_s - self.setting.optimizer_s,
                per_layer_s: all * costs.layer_forward_s,
            };
            most = if behind >= largest { 0 } else { inside.most(self.time_s, most) };
        }
        if costs.units_per_node == 1 && !self.setting.has_several_degrees() {
            let sent = f64::from(u32::from(!first) + u32::from(behind > 0)) * all * self.setting.boundary_bytes;
            let at_none_s = sent / costs.nic.bytes_per_s - self.setting.optimizer_s;
            let interface = Line { at_none_s, per_layer_s: reductions.layer_across_s[class] };
            most = if at_none_s > self.time_s * (1.0 + SLACK) { 0 } else { interface.most(self.time_s, most) };
        }
        most
    }
}

/// Seconds that are linear in a stage's layers.
struct Line {
    at_none_s: f64,
    per_layer_s: f64,
}

impl Line {
    /// The most layers, at most so many, that don't take longer than this; all where they cost nothing.
    fn most(&self, time_s: f64, at_most: u32) -> u32 {
        let left_s = time_s - self.at_none_s;
        if self.per_layer_s <= 0.0 {
            return at_most;
        }
        at_most.min((left_s / self.per_layer_s * (1.0 + SLACK)).max(0.0) as u32)
    }
}

/// Gives way to sums that were added in another order.
const SLACK: f64 = 1e-9;
