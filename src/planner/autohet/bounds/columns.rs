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
use crate::planner::autohet::setting::{ClassCosts, Ends, MAX_CLASSES, Setting};

/// Stages to which a replica's depth is followed exactly; behind these, places count as this one.
const MAX_DEPTH: usize = 64;

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
    /// By micro batches, once asked for: the most layers.
    tables: Vec<Option<Table>>,
    /// Places from the end that are told apart.
    depth: usize,
    /// Steps of the dynamic program so far.
    pub work: u64,
    cells: Vec<Cell>,
}

#[derive(Clone, Copy)]
struct Least {
    layer_s: f64,
    forward_s: f64,
    embedding_s: f64,
    head_s: f64,
    round_trip_s: f64,
    tail_s: f64,
}

/// Most layers of a stage that is not the first, and of one that is, by `place · classes + class`.
struct Table {
    inner: Vec<u32>,
    first: Vec<u32>,
    /// By class, over all places.
    most: Vec<u32>,
}

/// The cheapest stages that hold so many layers at so many stages from the end.
#[derive(Clone, Copy)]
struct Cell {
    price: f64,
    class: u8,
    from: u32,
}

impl<'a> Columns<'a> {
    /// Columns for an iteration in `time_s` seconds without the optimizer step.
    pub fn new(setting: &'a Setting, reductions: &'a Reductions, time_s: f64) -> Self {
        let classes = || setting.classes.iter();
        let least = |of: fn(&ClassCosts) -> f64| classes().map(of).fold(f64::INFINITY, f64::min);
        let links = (0..setting.classes.len()).flat_map(|from| (0..setting.classes.len()).map(move |to| (from, to)));
        let one_way_s = links.flat_map(|(from, to)| {
            let within = from == to && setting.classes[from].units_per_node > 1;
            [Some(setting.transfer_s(from, to, false)), within.then(|| setting.transfer_s(from, to, true))]
        });
        let reduced_after_layer_s = classes().zip(&reductions.layer_s).map(|(c, &reduce_s)| reduce_s - c.embedding_s);
        let least = Least {
            layer_s: least(|class| class.layer_s),
            forward_s: least(|class| class.layer_forward_s),
            embedding_s: least(|class| class.embedding_s),
            head_s: least(|class| class.head_s),
            round_trip_s: 2.0 * one_way_s.flatten().fold(f64::INFINITY, f64::min),
            tail_s: reduced_after_layer_s.fold(f64::INFINITY, f64::min).max(0.0),
        };
        let tables = std::iter::repeat_with(|| None).take(setting.micro_batches as usize + 1).collect();
        let depth = (setting.num_layers as usize).min(MAX_DEPTH).min(setting.units() as usize);
        Self { setting, reductions, time_s, least, tables, depth, work: 0, cells: Vec::new() }
    }

    /// The column of most gain, at least `least_gain`; `None` where there is none.
    pub fn best(&mut self, prices: &[f64], most_micro_batches: u32, least_gain: f64) -> Option<Column> {
        let mut best: Option<Column> = None;
        let mut to_beat = least_gain;
        for micro_batches in (1..=most_micro_batches).rev() {
            if f64::from(micro_batches) <= to_beat {
                break;
            }
            self.fill_table(micro_batches);
            let table = self.tables[micro_batches as usize].as_ref().expect("just made");
            let per_layer = table.most.iter().zip(prices).filter(|(most, _)| **most > 0);
            let per_layer = per_layer.map(|(&most, price)| price / f64::from(most)).fold(f64::INFINITY, f64::min);
            let layers = f64::from(self.setting.num_layers);
            if per_layer.is_finite()
                && f64::from(micro_batches) - layers * per_layer > to_beat
                && let Some(column) = self.cheapest(micro_batches, prices, f64::from(micro_batches) - to_beat)
            {
                to_beat = column.gain;
                best = Some(column);
            }
        }
        best
    }

    /// The cheapest units for so many micro batches, if they cost less than `budget`.
    fn cheapest(&mut self, micro_batches: u32, prices: &[f64], budget: f64) -> Option<Column> {
        let table = self.tables[micro_batches as usize].as_ref()?;
        let classes = self.setting.classes.len();
        let layers = self.setting.num_layers as usize;
        let width = layers + 1;
        let unreached = Cell { price: f64::INFINITY, class: 0, from: 0 };
        self.cells.clear();
        self.cells.resize(width, unreached);
        self.cells[0].price = 0.0;
        let mut cheapest = (budget, None);
        for place in 0.. {
            let row = place.min(self.depth - 1) * classes;
            let start = place * width;
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
                    if held + table.first[row + class] as usize >= layers {
                        cheapest = (price, Some((place, held, class)));
                    }
                    let most = table.inner[row + class] as usize;
                    let now = (held + most).min(layers - 1);
                    if most > 0 && now > held && price < self.cells[start + width + now].price {
                        self.cells[start + width + now] = Cell { price, class: class as u8, from: held as u32 };
                        any = true;
                    }
                }
            }
            if !any || place + 1 >= layers {
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

    fn fill_table(&mut self, micro_batches: u32) {
        if self.tables[micro_batches as usize].is_some() {
            return;
        }
        let classes = self.setting.classes.len();
        let size = self.depth * classes;
        let mut table = Table { inner: vec![0; size], first: vec![0; size], most: vec![0; classes] };
        for place in 0..self.depth {
            for class in 0..classes {
                let at = place * classes + class;
                let held = |first| self.most_layers(micro_batches, place as u32, class, first);
                table.inner[at] = held(false);
                table.first[at] = held(true);
                table.most[class] = table.most[class].max(table.inner[at]).max(table.first[at]);
            }
        }
        self.work += size as u64;
        self.tables[micro_batches as usize] = Some(table);
    }

    /// Most layers of a stage with so many behind it.
    fn most_layers(&self, micro_batches: u32, behind: u32, class: usize, first: bool) -> u32 {
        // Places beyond the last that is told apart have at least as many behind them.
        let in_flight = micro_batches.min(behind + 1);
        let ends = Ends { embedding: first, head: behind == 0 };
        let costs = &self.setting.classes[class];
        let high = costs.max_layers(ends, in_flight).min(self.setting.num_layers);
        let meets = |layers| self.meets(micro_batches, behind, class, ends, layers);
        if high == 0 || meets(high) {
            return high;
        }
        // What must be met is linear in the layers, and grows with them as soon as there are a few micro batches.
        let kept = f64::from(micro_batches) * (1.0 - costs.forward_share) * costs.layer_s;
        if kept < self.least.layer_s + costs.layer_s - costs.layer_forward_s {
            return (1..high).rev().find(|&layers| meets(layers)).unwrap_or(0);
        }
        let (mut low, mut high) = (0, high - 1);
        while low < high {
            let middle = (low + high).div_ceil(2);
            if meets(middle) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low
    }

    fn meets(&self, micro_batches: u32, behind: u32, class: usize, ends: Ends, layers: u32) -> bool {
        let (least, costs) = (&self.least, &self.setting.classes[class]);
        let own = f64::from(layers);
        let others = f64::from(self.setting.num_layers - layers);
        let stage_s = own * costs.layer_s + costs.fixed_s(ends);
        let last_place = behind as usize + 1 >= self.depth;
        let overlapped = if last_place { micro_batches } else { micro_batches.min(behind + 1) } - 1;
        let all_s = (f64::from(micro_batches) - f64::from(overlapped) * costs.forward_share) * stage_s;
        let ahead = f64::from(u8::from(!ends.embedding));
        let head_s = if ends.head { 0.0 } else { least.head_s };
        let embedding_s = ahead * least.embedding_s;
        let trips_s = f64::from(behind) * least.round_trip_s;
        let reductions = self.reductions;
        let embedding_reduced_s =
            if ends.embedding && ends.head { reductions.embedding_s } else { reductions.embedding_of_many_s };
        let compute_s = others * least.layer_s + embedding_s + head_s + trips_s + ahead * least.round_trip_s + all_s;
        if compute_s + least.tail_s + embedding_reduced_s > self.time_s {
            return false;
        }
        // What is behind has been passed in both directions, what is ahead perhaps forward only.
        let passed_s = if ends.embedding {
            others * least.layer_s
        } else {
            others * least.forward_s + f64::from(behind) * (least.layer_s - least.forward_s)
        };
        let untied_head = ends.head && self.setting.head_gradient_bytes > 0.0;
        let backward_s = costs.layer_s - costs.layer_forward_s;
        let after_first_block_s = if untied_head { own } else { own - 1.0 } * backward_s
            + if ends.embedding { costs.embedding_s } else { 0.0 };
        let reduced_s = own * reductions.layer_s[class]
            + if untied_head { reductions.head_s[class] } else { 0.0 }
            + if ends.embedding { embedding_reduced_s } else { 0.0 };
        passed_s + head_s + trips_s + all_s - after_first_block_s + reduced_s <= self.time_s
    }
}
