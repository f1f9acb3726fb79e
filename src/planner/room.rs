//! How many layers a stage has room for.

use crate::cluster::GpuSpec;
use crate::cost::{CostModel, StageShape};
use crate::model::Execution;

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

/// Most layers whose state and activations fit a stage, by its [`Ends`] and micro batches in flight.
#[derive(Clone, Debug, Default)]
pub struct Room([Vec<u32>; 4]);

impl Room {
    /// The room of a stage on GPUs of this type, for up to `most_in_flight` micro batches in flight.
    pub fn new(cost: &CostModel, gpu: &GpuSpec, execution: &Execution, most_in_flight: u32) -> Self {
        Self([0, 1, 2, 3].map(|ends| {
            let fits = |num_layers, in_flight| {
                let shape = StageShape { num_layers, has_embedding: ends & 1 != 0, has_head: ends & 2 != 0, in_flight };
                cost.stage_memory(&shape, execution).total_bytes() <= gpu.memory_bytes
            };
            let (mut num_layers, mut too_many) = (0, cost.model().num_layers + 1);
            while too_many - num_layers > 1 {
                let middle = num_layers.midpoint(too_many);
                *(if fits(middle, 1) { &mut num_layers } else { &mut too_many }) = middle;
            }
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
        }))
    }

    /// Most layers with so many micro batches in flight, one at least.
    pub fn max_layers(&self, ends: Ends, in_flight: u32) -> u32 {
        self.0[ends.index()].get(in_flight as usize - 1).copied().unwrap_or(0)
    }
}
