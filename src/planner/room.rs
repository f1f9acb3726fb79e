//! How many layers a stage has room for.

use crate::cluster::GpuSpec;
use crate::cost::{CostModel, HeldChunk, OptimizerState, StageShape};
use crate::model::Execution;
use crate::plan::{Held, ScheduleChoice, ScheduleKind, StagePosition};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What a stage holds beside its layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Whether it's the first stage, which holds the embedding.
    pub embedding: bool,
    /// Whether it's the last stage, which holds the head.
    pub head: bool,
}

impl Ends {
    /// The ends at stage `stage` of `depth`.
    pub fn at(stage: usize, depth: usize) -> Self {
        Self { embedding: stage == 0, head: stage + 1 == depth }
    }

    fn index(self) -> usize {
        usize::from(self.embedding) + 2 * usize::from(self.head)
    }
}

/// Where a stage is: all that its memory may depend on beside what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Its place in the pipeline, from the input side.
    pub stage: usize,
    /// Stages of the pipeline.
    pub depth: usize,
    /// Micro batches of its replica in an iteration, or more: then there may be room for more layers than is said.
    pub micro_batches: u32,
    /// Replicas of the plan, among which the optimizer's state may be shared out.
    pub replicas: u32,
}

impl Place {
    /// Micro batches in flight under 1F1B.
    fn in_flight(self) -> u32 {
        self.micro_batches.min((self.depth - self.stage) as u32)
    }
}

/// Most layers whose state and activations fit a stage, by where it is.
#[derive(Clone, Debug, Default)]
pub struct Room {
    /// By [`Ends`] and micro batches in flight under 1F1B: at least as many as in any plan, and exactly those where the
    /// schedule is 1F1B and nothing is shared out.
    most: [Vec<u32>; 4],
    /// Everything else.
    asked: Option<Arc<Asked>>,
}

/// Rooms that depend on more than what is in flight, each worked out when it is asked for.
#[derive(Debug)]
struct Asked {
    cost: CostModel,
    memory_bytes: u64,
    execution: Execution,
    schedule: Option<ScheduleChoice>,
    known: Mutex<HashMap<Place, u32>>,
}

impl Room {
    /// The room of a stage on GPUs of this type, for up to `most_in_flight` micro batches in flight under 1F1B, in plans that
    /// run under the schedule, or under 1F1B.
    pub fn new(
        cost: &CostModel,
        gpu: &GpuSpec,
        execution: &Execution,
        (most_in_flight, schedule): (u32, Option<ScheduleChoice>),
    ) -> Self {
        let is_sharded = cost.framework().optimizer == OptimizerState::Sharded;
        let most = [0, 1, 2, 3].map(|ends| {
            let fits = |num_layers, in_flight| {
                let shape = StageShape { num_layers, has_embedding: ends & 1 != 0, has_head: ends & 2 != 0, in_flight };
                let shards = if is_sharded { u64::MAX } else { 1 };
                let memory = cost.stage_memory(&shape, execution).with_optimizer_shards(shards);
                memory.total_bytes() <= gpu.memory_bytes
            };
            let mut num_layers = most_that(cost.model().num_layers, |num_layers| fits(num_layers, 1));
            let mut most = Vec::new();
            // Fewer layers fit with more micro batches in flight, so one pass does.
            for in_flight in 1..=most_in_flight {
                while num_layers > 0 && !fits(num_layers, in_flight) {
                    num_layers -= 1;
                }
                if num_layers == 0 {
                    break;
                }
                most.push(num_layers);
            }
            most
        });
        let schedule = schedule.filter(|choice| choice.kind() != ScheduleKind::OneForwardOneBackward);
        let asked = (is_sharded || schedule.is_some()).then(|| {
            let (cost, execution, known) = (cost.clone(), *execution, Mutex::default());
            Arc::new(Asked { cost, memory_bytes: gpu.memory_bytes, execution, schedule, known })
        });
        Self { most, asked }
    }

    /// No stage of these ends holds more layers with so many micro batches in flight, one at least, under 1F1B or `GPipe`.
    pub fn at_most(&self, ends: Ends, in_flight: u32) -> u32 {
        self.most[ends.index()].get(in_flight as usize - 1).copied().unwrap_or(0)
    }

    /// Most layers of a stage at this place.
    pub fn layers(&self, place: Place) -> u32 {
        match &self.asked {
            Some(asked) => asked.layers(place),
            None => self.at_most(Ends::at(place.stage, place.depth), place.in_flight()),
        }
    }
}

/// The largest number up to `most` that fits, where all smaller ones do; zero where one doesn't.
fn most_that(most: u32, fits: impl Fn(u32) -> bool) -> u32 {
    let (mut fitting, mut too_many) = (0, most + 1);
    while too_many - fitting > 1 {
        let middle = fitting.midpoint(too_many);
        *(if fits(middle) { &mut fitting } else { &mut too_many }) = middle;
    }
    fitting
}

impl Asked {
    fn layers(&self, place: Place) -> u32 {
        let place = self.reduced(place);
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&layers) = known().get(&place) {
            return layers;
        }
        let moments = self.moments(place);
        let layers = most_that(self.cost.model().num_layers, |layers| {
            moments.iter().all(|held| self.memory_bytes_of(place, held, layers) <= self.memory_bytes)
        });
        known().insert(place, layers);
        layers
    }

    /// A place with the same room, one for all of them as far as that is simple.
    fn reduced(&self, place: Place) -> Place {
        let shards = self.cost.framework().optimizer_shards(place.replicas as usize);
        let most = match self.kind() {
            ScheduleKind::OneForwardOneBackward | ScheduleKind::Redundant => place.in_flight(),
            ScheduleKind::GPipe => u32::MAX,
            ScheduleKind::ZeroBubbleH1 => place.depth as u32,
            // What a stage holds repeats itself from round to round.
            ScheduleKind::Interleaved => 4 * place.depth as u32,
        };
        Place { micro_batches: place.micro_batches.min(most), replicas: shards as u32, ..place }
    }

    fn kind(&self) -> ScheduleKind {
        self.schedule.map_or(ScheduleKind::default(), ScheduleChoice::kind)
    }

    fn position(&self, place: Place) -> StagePosition {
        let Place { stage, depth, micro_batches, .. } = place;
        let chunks = if depth > 1 { self.schedule.map_or(1, ScheduleChoice::chunks) as usize } else { 1 };
        StagePosition { stage, depth, chunks, micro_batches }
    }

    fn moments(&self, place: Place) -> Vec<Held> {
        let mut position = self.position(place);
        if position.chunks > 1 {
            // The schedule is for whole rounds.
            position.micro_batches = position.micro_batches.next_multiple_of(place.depth as u32);
        }
        self.kind().fullest(position)
    }

    /// Bytes of one GPU with so many layers, dealt to its chunks as evenly as they can be.
    fn memory_bytes_of(&self, place: Place, held: &Held, layers: u32) -> u64 {
        let chunks = self.position(place).chunks;
        let chunk = |index: usize| {
            let up_to = |chunk: usize| (chunk as u64 * u64::from(layers) / chunks as u64) as u32;
            let shape = StageShape {
                num_layers: up_to(index + 1) - up_to(index),
                has_embedding: place.stage == 0 && index == 0,
                has_head: place.stage + 1 == place.depth && index + 1 == chunks,
                in_flight: held.whole[index],
            };
            let is_running = held.running == Some(index);
            HeldChunk { shape, awaiting_weights: held.awaiting_weights[index], is_running }
        };
        let chunks: Vec<HeldChunk> = (0..chunks).map(chunk).collect();
        let memory = self.cost.held_memory(&chunks, &self.execution);
        memory.with_optimizer_shards(u64::from(place.replicas)).total_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Cluster, NodeDefaults};
    use crate::cost::{CostSettings, Framework};
    use crate::model::{ModelSpec, Precision, Recompute};
    use crate::plan::{Plan, Replica, SCHEMA_VERSION, Stage};

    const EXECUTION: Execution = Execution {
        tensor_parallel_size: 1,
        micro_batch_size: 2,
        recompute: Recompute::Selective,
        sequence_parallel: false,
        precision: Precision::Fp16,
    };

    fn gpu(mix: &str) -> Arc<GpuSpec> {
        Cluster::parse_mix(mix, &NodeDefaults::default()).unwrap().nodes[0].gpu.clone()
    }

    fn cost(framework: Framework) -> CostModel {
        let model = ModelSpec::preset("gpt3-1.3b").unwrap();
        CostModel::new(model, CostSettings::default(), None).with_framework(framework)
    }

    /// Replicas of so many stages, of which one has so many layers and the others one.
    fn plan(place: Place, layers: u32, schedule: Option<ScheduleChoice>) -> Option<Plan> {
        let Place { stage, depth, micro_batches, replicas } = place;
        let mut first_layer = 0;
        let stage = |at: usize| {
            let num_layers = if at == stage { layers } else { 2 };
            first_layer += num_layers;
            let (node, gpu_type) = (String::new(), "V100-32".to_owned());
            let first_layer = first_layer - num_layers;
            Stage { node, gpus: vec![0], gpu_type, first_layer, num_layers, later_chunks: Vec::new() }
        };
        let replica = Replica { micro_batches, stages: (0..depth).map(stage).collect() };
        let plan = Plan {
            schema_version: SCHEMA_VERSION,
            planner: String::new(),
            model: "gpt3-1.3b".into(),
            global_batch_size: replicas * micro_batches * EXECUTION.micro_batch_size,
            micro_batch_size: EXECUTION.micro_batch_size,
            sequence_parallel: EXECUTION.sequence_parallel,
            recompute: EXECUTION.recompute,
            precision: EXECUTION.precision,
            schedule: ScheduleKind::default(),
            replicas: vec![replica; replicas as usize],
        };
        match schedule {
            Some(choice) => plan.rescheduled(choice),
            None => Some(plan),
        }
    }

    /// The room is what the check of a plan leaves: one more layer doesn't fit, these do.
    #[test]
    fn a_plan_has_as_much_room_as_is_said() {
        let gpu = gpu("1x1xV100-32");
        let sharded = Framework { optimizer: OptimizerState::Sharded, ..Framework::default() };
        for framework in [Framework::default(), sharded] {
            let cost = cost(framework);
            for schedule in [None, Some("1f1b"), Some("gpipe"), Some("zb-h1"), Some("interleaved:2")] {
                let schedule = schedule.map(|name| name.parse().unwrap());
                let room = Room::new(&cost, &gpu, &EXECUTION, (24, schedule));
                for (stage, depth, micro_batches, replicas) in
                    [(0, 1, 4, 1), (0, 2, 2, 3), (1, 2, 8, 2), (0, 4, 16, 1), (2, 4, 8, 8), (3, 4, 32, 2)]
                {
                    let place = Place { stage, depth, micro_batches, replicas };
                    let bytes = |layers: u32| {
                        let plan = plan(place, layers, schedule)?;
                        Some(plan.memory_in(&plan.replicas[0], stage, &cost).total_bytes())
                    };
                    let layers = room.layers(place);
                    let said = format!("{schedule:?} {place:?}: {layers}");
                    assert!(layers < 2 || bytes(layers).is_some_and(|bytes| bytes <= gpu.memory_bytes), "{said}");
                    let is_all = layers == cost.model().num_layers;
                    assert!(is_all || bytes(layers + 1).is_none_or(|bytes| bytes > gpu.memory_bytes), "{said}");
                    if schedule.is_none_or(ScheduleChoice::is_within_bounds) {
                        assert!(room.at_most(Ends::at(stage, depth), place.in_flight()) >= layers, "{said}");
                    }
                }
            }
        }
    }

    #[test]
    fn shared_out_state_leaves_more_room() {
        let gpu = gpu("1x1xV100-16");
        let sharded = Framework { optimizer: OptimizerState::Sharded, ..Framework::default() };
        let layers = |framework, replicas| {
            let room = Room::new(&cost(framework), &gpu, &EXECUTION, (4, None));
            room.layers(Place { stage: 1, depth: 4, micro_batches: 8, replicas })
        };
        assert_eq!(layers(sharded, 1), layers(Framework::default(), 1));
        assert_eq!(layers(Framework::default(), 8), layers(Framework::default(), 1));
        assert!(layers(sharded, 8) > layers(sharded, 2) && layers(sharded, 2) > layers(sharded, 1));
    }
}
