//! One point of the outer enumeration, `(b, recompute)` with one tensor-parallel degree or several, with everything that
//! the search asks of it worked out once.
//!
//! A unit class is a GPU type behind a kind of network interface, at one degree. Where a setting has several degrees, the
//! classes of one GPU type share its GPUs ([`Setting::can_form`]).

mod counted;
mod degrees;

use crate::cluster::{Cluster, GpuSpec, Link};
use crate::cost::{CostError, CostModel, Framework, OptimizerState};
use crate::ids::LayerId;
use crate::model::{Block, Execution};
use crate::plan::{PlanError, ScheduleChoice, ScheduleKind, TrainingSettings};
use crate::planner::room::{Ends, Place, Room};
use counted::count_units;
pub use counted::same_class;
use std::sync::Arc;

/// Most unit classes that a search tells apart; in a cluster of more, the classes of least total rate stay idle.
pub const MAX_CLASSES: usize = 20;

/// Units per class, over all replicas.
pub type Used = [u32; MAX_CLASSES];

/// Units per class of one replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Composition(pub [u16; MAX_CLASSES]);

impl Composition {
    /// Units in all: the replica's depth.
    pub fn units(&self) -> usize {
        self.0.iter().map(|&units| usize::from(units)).sum()
    }
}

/// Tensor-parallel units of one GPU type behind one kind of network interface: interchangeable.
#[derive(Clone, Debug)]
pub struct ClassCosts {
    /// GPU type.
    pub gpu: Arc<GpuSpec>,
    /// Network interface of the nodes.
    pub nic: Link,
    /// GPUs of a unit, `t`.
    pub tensor_parallel_size: u32,
    /// Units in the cluster, were no GPU used at another degree.
    pub units: u32,
    /// Units of the largest node.
    pub units_per_node: u32,
    /// Seconds of one layer for one micro batch, forward and backward.
    pub layer_s: f64,
    /// Of these, the seconds of its forward pass.
    pub layer_forward_s: f64,
    /// Seconds of the embedding, forward and backward.
    pub embedding_s: f64,
    /// Seconds of the head, forward and backward.
    pub head_s: f64,
    /// Greatest share of its forward pass in any block's time.
    pub forward_share: f64,
    room: Room,
    /// The classes of no smaller degree on the same GPUs, this one included, with the units of this class that one of
    /// theirs takes up.
    above: Vec<(usize, u32)>,
}

impl ClassCosts {
    /// Layers per second.
    pub fn layer_rate_per_s(&self) -> f64 {
        1.0 / self.layer_s
    }

    /// No stage of this class holds more layers with so many micro batches in flight, under 1F1B or `GPipe`.
    pub fn max_layers(&self, ends: Ends, in_flight: u32) -> u32 {
        self.room.at_most(ends, in_flight)
    }

    /// Most layers whose state and activations fit a stage of this class at this place.
    pub fn layers_at(&self, place: Place) -> u32 {
        self.room.layers(place)
    }

    /// Seconds that a stage's ends add to its layers.
    pub fn fixed_s(&self, ends: Ends) -> f64 {
        (if ends.embedding { self.embedding_s } else { 0.0 }) + (if ends.head { self.head_s } else { 0.0 })
    }
}

/// A point of the outer enumeration.
#[derive(Clone, Debug)]
pub struct Setting {
    /// How layers are executed; its degree is the largest where there are several.
    pub execution: Execution,
    /// The usable classes of units.
    pub classes: Vec<ClassCosts>,
    /// The schedule that plans are to run under; `None` where it is the planner's choice.
    pub schedule: Option<ScheduleChoice>,
    /// Transformer layers, `L`.
    pub num_layers: u32,
    /// Micro batches of an iteration over all replicas, `B / b`.
    pub micro_batches: u32,
    /// Bytes over a stage boundary for one micro batch in one direction, all tensor-parallel ranks together.
    pub boundary_bytes: f64,
    /// Seconds that any optimizer step takes at least.
    pub optimizer_s: f64,
    /// Where gradients aren't reduced layer by layer and by rings in step, the share of a gradient's bytes that passes each
    /// member's link at least until the optimizer's step.
    pub least_share_reduced: Option<f64>,
    /// Bytes of one layer's gradients, over all tensor-parallel ranks.
    pub layer_gradient_bytes: f64,
    /// Bytes of the embedding's gradients, over all tensor-parallel ranks.
    pub embedding_gradient_bytes: f64,
    /// Bytes of the head's gradients, likewise; none of its own where it shares the embedding's matrix.
    pub head_gradient_bytes: f64,
}

impl Setting {
    /// Works out a setting of one degree; `None` where no unit can be formed.
    pub fn new(
        cluster: &Cluster,
        cost: &CostModel,
        global_batch_size: u32,
        execution: Execution,
    ) -> Result<Option<Self>, CostError> {
        Self::of_degrees(cluster, cost, global_batch_size, execution, &[execution.tensor_parallel_size])
    }

    /// Works out a setting in which each stage may have any of these degrees, each of which divides the next; `None` where
    /// no unit can be formed.
    pub fn of_degrees(
        cluster: &Cluster,
        cost: &CostModel,
        global_batch_size: u32,
        execution: Execution,
        degrees: &[u32],
    ) -> Result<Option<Self>, CostError> {
        let mut setting = Self::priced(cluster, cost, global_batch_size, execution, degrees)?;
        if let Some(setting) = &mut setting {
            setting.count_layers_that_fit(cost);
        }
        Ok(setting)
    }

    /// The same without its memory: no layer fits.
    pub fn priced(
        cluster: &Cluster,
        cost: &CostModel,
        global_batch_size: u32,
        execution: Execution,
        degrees: &[u32],
    ) -> Result<Option<Self>, CostError> {
        debug_assert!(degrees.windows(2).all(|pair| pair[1].is_multiple_of(pair[0])));
        let largest = degrees.last().copied().unwrap_or(1);
        let execution = Execution { tensor_parallel_size: largest, ..execution };
        let all_ranks = f64::from(largest);
        let gradient_bytes = |block| cost.gradient_bytes(block, &execution) as f64 * all_ranks;
        let tied = cost.model().tie_word_embeddings;
        let mut setting = Self {
            execution,
            classes: Vec::new(),
            schedule: None,
            num_layers: cost.model().num_layers,
            micro_batches: global_batch_size / execution.micro_batch_size,
            boundary_bytes: cost.boundary_bytes(&execution) as f64 * all_ranks,
            optimizer_s: f64::INFINITY,
            least_share_reduced: least_share_reduced(cost.framework()),
            layer_gradient_bytes: gradient_bytes(Block::Layer(LayerId(0))),
            embedding_gradient_bytes: gradient_bytes(Block::Embedding),
            head_gradient_bytes: if tied { 0.0 } else { gradient_bytes(Block::Head) },
        };
        let mut refused = None;
        for &degree in degrees {
            let execution = Execution { tensor_parallel_size: degree, ..execution };
            for counted in count_units(cluster, degree) {
                match price_class(cost, &counted.gpu, &execution) {
                    Ok(priced) => setting.classes.push(counted.with(priced)),
                    Err(error) => refused = Some(error),
                }
            }
        }
        if setting.classes.is_empty() {
            return refused.map_or(Ok(None), Err);
        }
        setting.keep_strongest();
        setting.find_sharers();
        setting.price_optimizer(cost);
        Ok(Some(setting))
    }

    /// The same for plans that run under this schedule.
    #[must_use]
    pub fn under(mut self, schedule: Option<ScheduleChoice>, cost: &CostModel) -> Self {
        self.schedule = schedule;
        if schedule.is_some() {
            self.count_layers_that_fit(cost);
        }
        self
    }

    /// Stages that a replica has at least.
    pub fn least_depth(&self) -> u32 {
        let is_redundant = self.schedule.is_some_and(|choice| choice.kind() == ScheduleKind::Redundant);
        if is_redundant { 2 } else { 1 }
    }

    /// Micro batches that a replica which is to have about so many may have to have room for.
    pub fn most_micro_batches(&self, about: u32) -> u32 {
        let holds_all = self.schedule.is_some_and(|choice| choice.kind() == ScheduleKind::GPipe);
        if holds_all { about } else { self.micro_batches }
    }

    /// The same with links over which everything is sent in no time.
    #[cfg(test)]
    pub fn with_free_links(mut self) -> Self {
        self.boundary_bytes = 0.0;
        (self.layer_gradient_bytes, self.embedding_gradient_bytes, self.head_gradient_bytes) = (0.0, 0.0, 0.0);
        for class in &mut self.classes {
            class.nic.latency_s = 0.0;
        }
        self
    }

    /// Most units that can be formed.
    pub fn units(&self) -> u32 {
        let least = self.classes.iter().map(|class| class.tensor_parallel_size).min();
        self.classes.iter().filter(|class| Some(class.tensor_parallel_size) == least).map(|class| class.units).sum()
    }

    /// Seconds of one boundary transfer in one direction, between neighbours of these classes.
    pub fn transfer_s(&self, from: usize, to: usize, same_node: bool) -> f64 {
        let (source, target) = (&self.classes[from], &self.classes[to]);
        if same_node {
            let link = source.gpu.intra_node;
            // Each tensor-parallel rank sends its part over its own link.
            let ranks = source.tensor_parallel_size.min(target.tensor_parallel_size);
            return link.latency_s + self.boundary_bytes / f64::from(ranks) / link.bytes_per_s;
        }
        let bytes_per_s = source.nic.bytes_per_s.min(target.nic.bytes_per_s);
        source.nic.latency_s + target.nic.latency_s + self.boundary_bytes / bytes_per_s
    }

    /// Seconds in which a node of this class has reduced its gradients: `crossing` layers pass its network interface,
    /// `2 (D - 1)/D` times their bytes; no GPU holds more than `most` layers, which pass its link to its neighbours.
    pub fn reduce_gradients_s(&self, class: &ClassCosts, replicas: usize, crossing: u32, most: u32) -> f64 {
        let layer_bytes = self.layer_gradient_bytes * 2.0 * (replicas as f64 - 1.0) / replicas as f64;
        let rank_bytes = layer_bytes / f64::from(class.tensor_parallel_size);
        let between_s = f64::from(crossing) * layer_bytes / class.nic.bytes_per_s;
        between_s.max(f64::from(most) * rank_bytes / class.gpu.intra_node.bytes_per_s)
    }

    fn keep_strongest(&mut self) {
        let rate = |class: &ClassCosts| f64::from(class.units) * class.layer_rate_per_s();
        if self.classes.len() > MAX_CLASSES {
            self.classes.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
            self.classes.truncate(MAX_CLASSES);
        }
        // One order whatever order the nodes come in: strongest unit first.
        self.classes
            .sort_by(|a, b| a.layer_s.total_cmp(&b.layer_s).then_with(|| b.gpu.memory_bytes.cmp(&a.gpu.memory_bytes)));
    }

    fn find_sharers(&mut self) {
        for class in 0..self.classes.len() {
            let degree = self.classes[class].tensor_parallel_size;
            let places = |other: usize| self.classes[other].tensor_parallel_size / degree;
            let above = (0..self.classes.len()).filter(|&other| self.share_gpus(class, other) && places(other) > 0);
            self.classes[class].above = above.map(|other| (other, places(other))).collect();
        }
    }

    fn count_layers_that_fit(&mut self, cost: &CostModel) {
        let deepest = self.units().min(self.num_layers).min(self.micro_batches);
        for class in &mut self.classes {
            let execution = Execution { tensor_parallel_size: class.tensor_parallel_size, ..self.execution };
            class.room = Room::new(cost, &class.gpu, &execution, (deepest, self.schedule));
        }
    }

    /// The last stage to finish its backward passes is a first stage, so it holds the embedding and a layer at least.
    fn price_optimizer(&mut self, cost: &CostModel) {
        let model = cost.model();
        let parameters = model.block_parameters(Block::Embedding) + model.block_parameters(Block::Layer(LayerId(0)));
        let step_s = |class: &ClassCosts| {
            let per_gpu = parameters / u64::from(class.tensor_parallel_size);
            cost.optimizer_step_s(&class.gpu, per_gpu, self.execution.precision)
        };
        let least_s = self.classes.iter().map(step_s).fold(f64::INFINITY, f64::min);
        // Shared out, it takes the less the more replicas there are.
        let is_sharded = cost.framework().optimizer == OptimizerState::Sharded;
        self.optimizer_s = if is_sharded { 0.0 } else { least_s };
    }
}

/// All of a gradient's bytes pass, or all but its own share's, whatever the algorithm; half of that where each member gets
/// its share only.
fn least_share_reduced(framework: Framework) -> Option<f64> {
    let plain = Framework::default();
    if framework.optimizer == OptimizerState::Sharded {
        return Some(0.5);
    }
    let is_plain = framework.buckets == plain.buckets && framework.collectives == plain.collectives;
    (!is_plain).then_some(1.0)
}

/// The class's times; its counts and memory are filled in by the caller.
fn price_class(cost: &CostModel, gpu: &Arc<GpuSpec>, execution: &Execution) -> Result<ClassCosts, CostError> {
    let price = |block| cost.block_cost(block, gpu, execution);
    let layer = price(Block::Layer(LayerId(0)))?;
    let (embedding, head) = (price(Block::Embedding)?, price(Block::Head)?);
    let share = |block: crate::cost::BlockCost| match block.total_s() {
        total_s if total_s > 0.0 => block.forward.total_s() / total_s,
        _ => 0.0,
    };
    Ok(ClassCosts {
        gpu: gpu.clone(),
        nic: Link { bytes_per_s: 0.0, latency_s: 0.0 },
        tensor_parallel_size: execution.tensor_parallel_size,
        units: 0,
        units_per_node: 0,
        layer_s: layer.total_s(),
        layer_forward_s: layer.forward.total_s(),
        embedding_s: embedding.total_s(),
        head_s: head.total_s(),
        forward_share: share(layer).max(share(embedding)).max(share(head)),
        room: Room::default(),
        above: Vec::new(),
    })
}

/// The executions that a request leaves open, in a fixed order.
pub fn executions(cost: &CostModel, training: &TrainingSettings) -> Result<Vec<Execution>, PlanError> {
    let divides = |&size: &u32| size > 0 && training.global_batch_size.is_multiple_of(size);
    let micro_batch_sizes = distinct(training.micro_batch_sizes.iter().copied().filter(divides));
    if micro_batch_sizes.is_empty() || training.global_batch_size == 0 {
        return Err(PlanError::Indivisible {
            global_batch_size: training.global_batch_size,
            sizes: training.micro_batch_sizes.clone(),
        });
    }
    let heads = cost.model().num_attention_heads;
    let degrees = training.tensor_parallel_sizes.iter().copied();
    let degrees = distinct(degrees.filter(|&t| t > 0 && heads.is_multiple_of(t)));
    let recompute = distinct(training.recompute.iter().copied());
    let mut all = Vec::new();
    for &tensor_parallel_size in &degrees {
        for &micro_batch_size in &micro_batch_sizes {
            all.extend(recompute.iter().map(|&recompute| Execution {
                tensor_parallel_size,
                micro_batch_size,
                recompute,
                sequence_parallel: tensor_parallel_size > 1,
                precision: training.precision,
            }));
        }
    }
    Ok(all)
}

fn distinct<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}
