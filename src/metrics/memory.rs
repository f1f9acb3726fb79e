//! Memory along an iteration: what each rank holds from which moment on.

use crate::cost::{CostModel, StageMemory};
use crate::ids::{ChunkId, Rank};
use crate::model::Block;
use crate::plan::{Held, Plan, Replica};
use crate::program::{Gradients, Op, Part, Program, Stream};
use crate::runtime::{Span, Timeline};
use crate::units::SimTime;
use std::collections::BTreeMap;

/// What a rank holds from a moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryChange {
    /// The moment.
    pub at: SimTime,
    /// What it holds.
    pub memory: StageMemory,
}

/// One rank's memory over an iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankMemory {
    /// The rank.
    pub rank: Rank,
    /// In order of time, the first at its start.
    pub changes: Vec<MemoryChange>,
}

impl RankMemory {
    /// The first moment at which it holds most.
    pub fn peak(&self) -> MemoryChange {
        let fullest = |a: &MemoryChange, b: &MemoryChange| if b.total() > a.total() { *b } else { *a };
        self.changes.iter().fold(self.changes[0], |most, change| fullest(&most, change))
    }
}

impl MemoryChange {
    fn total(&self) -> u64 {
        self.memory.total_bytes()
    }
}

/// What each rank of a plan holds when, by rank, as [`Plan::memory_while`] counts it: weights, gradients and optimizer state
/// all the time, activations from the begin of a forward pass to the end of its backward pass, transients while a pass is
/// under way. Activations that were received and not yet worked on aren't counted.
pub fn memory_over_time(plan: &Plan, program: &Program, timeline: &Timeline, cost: &CostModel) -> Vec<RankMemory> {
    let mut passes: Vec<Vec<&Span>> = vec![Vec::new(); program.ranks().len()];
    for span in &timeline.spans {
        if program.instruction(span.rank, span.id).stream() == Stream::Compute {
            passes[span.rank.index()].push(span);
        }
    }
    let mut known = BTreeMap::new();
    let of_rank = |(index, passes): (usize, Vec<&Span>)| {
        let place = &program.ranks()[index];
        let (replica, stage) = (&plan.replicas[place.replica.index()], place.stage.index());
        let mut price = |held: &Held| {
            let key = (place.replica, place.stage, held.clone());
            *known.entry(key).or_insert_with(|| plan.memory_while(replica, stage, held, cost))
        };
        RankMemory { rank: Rank::from(index), changes: changes(program, (replica, stage), &passes, &mut price) }
    };
    passes.into_iter().enumerate().map(of_rank).collect()
}

/// The moments at which one of a rank's passes begins or ends.
fn changes(
    program: &Program,
    (replica, stage): (&Replica, usize),
    passes: &[&Span],
    price: &mut dyn FnMut(&Held) -> StageMemory,
) -> Vec<MemoryChange> {
    let chunks = replica.stages[stage].chunk_count();
    let first_block = |chunk: ChunkId| replica.chunk_blocks(stage, chunk)[0];
    let firsts: Vec<Block> = (0..chunks).map(|chunk| first_block(ChunkId::from(chunk))).collect();
    let mut held = Held { whole: vec![0; chunks], awaiting_weights: vec![0; chunks], running: None };
    let mut changes = vec![MemoryChange { at: SimTime::ZERO, memory: price(&held) }];
    let mut note = |at, held: &Held| {
        let memory = price(held);
        // An end and a begin of the same instant are one change: what the one frees, the other may take.
        if changes.last().is_some_and(|last| last.at == at) {
            changes.pop();
        }
        if changes.last().is_none_or(|last| last.memory != memory) {
            changes.push(MemoryChange { at, memory });
        }
    };
    for span in passes {
        let op = program.instruction(span.rank, span.id).op;
        let (chunk, gradients) = match op {
            Op::Forward { chunk, .. } => (chunk.index(), None),
            Op::Backward { chunk, gradients, .. } => (chunk.index(), Some(gradients)),
            _ => continue,
        };
        held.whole[chunk] += u32::from(gradients.is_none());
        held.running = (gradients != Some(Gradients::Weights)).then_some(chunk);
        note(span.start, &held);
        held.running = None;
        let is_over = match op {
            Op::Backward { part: Part::Block(block), .. } => block == firsts[chunk],
            _ => true,
        };
        match gradients.filter(|_| is_over) {
            None => {}
            Some(Gradients::Weights) => held.awaiting_weights[chunk] -= 1,
            Some(half) => {
                held.whole[chunk] -= 1;
                held.awaiting_weights[chunk] += u32::from(half == Gradients::Inputs);
            }
        }
        note(span.end, &held);
    }
    changes
}

#[cfg(test)]
mod tests;
