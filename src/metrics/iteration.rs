//! What the GPUs of a plan do during one iteration.

use super::{Activity, GpuTime, Ledger};
use crate::program::Op;
use crate::runtime::sim::{PassTime, SimulatedIteration};
use crate::units::SimTime;

/// One iteration's makespan, and the time of the plan's GPUs in it by activity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IterationBreakdown {
    /// Time of the iteration.
    pub makespan: SimTime,
    /// GPUs in use.
    pub gpus: u32,
    /// `gpus × makespan` of GPU time: useful work, recomputation, exposed communication and bubble.
    pub ledger: Ledger,
}

impl IterationBreakdown {
    /// Measures a simulated iteration. Tensor-parallel collectives block their pass, so they count as exposed
    /// communication.
    pub fn of(iteration: &SimulatedIteration) -> Self {
        let SimulatedIteration { program, priced, timeline } = iteration;
        let mut ledger = Ledger::default();
        let mut book = |activity, time: SimTime| ledger.add(activity, GpuTime::of(1, time));
        for span in &timeline.spans {
            let pass = match program.instruction(span.rank, span.id).op {
                Op::Forward { .. } => priced.ranks[span.rank.index()].forward,
                Op::Backward { part, .. } => priced.backward(span.rank, part),
                Op::OptimizerStep => PassTime { total: span.end - span.start, ..PassTime::default() },
                Op::Send { .. }
                | Op::Receive { .. }
                | Op::AllReduce { .. }
                | Op::ReduceScatter { .. }
                | Op::AllGather { .. } => continue,
            };
            book(Activity::Recomputation, pass.recompute);
            book(Activity::ExposedCommunication, pass.tensor_parallel);
            book(Activity::Useful, (span.end - span.start).saturating_sub(pass.recompute + pass.tensor_parallel));
        }
        for rank in timeline.rank_times(program) {
            book(Activity::ExposedCommunication, rank.exposed_communication);
            book(Activity::Bubble, rank.bubble);
        }
        let makespan = timeline.makespan();
        let gpus = program.ranks().len() as u32;
        debug_assert_eq!(ledger.total(), GpuTime::of(gpus, makespan));
        Self { makespan, gpus, ledger }
    }
}
