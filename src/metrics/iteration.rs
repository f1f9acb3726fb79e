//! What the GPUs of a plan do during one iteration.

use super::{Activity, GpuTime, Ledger};
use crate::program::Op;
use crate::runtime::sim::{PassTime, SimulatedIteration};
use crate::units::SimTime;

/// One iteration's makespan, and the time of the plan's GPUs in it by activity.
///
/// ```
/// # use autohet::cluster::{Cluster, NodeDefaults};
/// # use autohet::cost::{CostModel, CostSettings};
/// # use autohet::model::ModelSpec;
/// # use autohet::plan::{PlanLimits, PlanRequest, TrainingSettings};
/// # use autohet::runtime::sim::Simulator;
/// #
/// # let cluster = Cluster::parse_mix("1x2xT4+1x1xV100-16", &NodeDefaults::default())?;
/// # let cost = CostModel::new(ModelSpec::preset("opt-350m")?, CostSettings::default(), None);
/// # let training = TrainingSettings { global_batch_size: 16, ..TrainingSettings::default() };
/// # let limits = PlanLimits::default();
/// # let request = PlanRequest { cluster: &cluster, cost: &cost, training: &training, judge: &Simulator, limits };
/// # let plan = autohet::planner::by_name("megatron").unwrap().plan(&request)?.plan;
/// use autohet::metrics::{Activity, GpuTime, IterationBreakdown};
/// use autohet::runtime::sim::simulate;
///
/// let breakdown = IterationBreakdown::of(&simulate(&plan, &cluster, &cost)?);
/// assert_eq!(breakdown.ledger.total(), GpuTime::of(breakdown.gpus, breakdown.makespan));
/// assert!(breakdown.ledger.get(Activity::Useful) > GpuTime::default());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
                Op::Forward { chunk, .. } => priced.forward(span.rank, chunk),
                Op::Backward { chunk, part, gradients, .. } => priced.backward(span.rank, chunk, part, gradients),
                Op::RedundantForward { .. } => {
                    let pass = priced.ranks[span.rank.index()].redundant_forward;
                    PassTime { recompute: pass.total.saturating_sub(pass.tensor_parallel), ..pass }
                }
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

/// What one rank's time went into. The parts add up to the makespan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankShares {
    /// Passes and the optimizer step, without the collectives in them.
    pub busy: SimTime,
    /// Tensor-parallel collectives, and transfers and reductions under way while nothing was computed.
    pub communication: SimTime,
    /// The rank waited for others.
    pub idle: SimTime,
}

impl RankShares {
    /// That of each rank of a simulated iteration.
    pub fn of(iteration: &SimulatedIteration) -> Vec<Self> {
        let SimulatedIteration { program, priced, timeline } = iteration;
        let mut collectives = vec![SimTime::ZERO; program.ranks().len()];
        for span in &timeline.spans {
            collectives[span.rank.index()] += match program.instruction(span.rank, span.id).op {
                Op::Forward { chunk, .. } => priced.forward(span.rank, chunk).tensor_parallel,
                Op::Backward { chunk, part, gradients, .. } => {
                    priced.backward(span.rank, chunk, part, gradients).tensor_parallel
                }
                _ => SimTime::ZERO,
            };
        }
        let times = timeline.rank_times(program).into_iter().zip(collectives);
        let shares = times.map(|(time, collectives)| Self {
            busy: time.busy.saturating_sub(collectives),
            communication: time.exposed_communication + collectives.min(time.busy),
            idle: time.bubble,
        });
        shares.collect()
    }
}
