//! One iteration of a plan in simulated time.

use super::{PricedProgram, SimBackend, SimError};
use crate::cluster::Cluster;
use crate::cost::{CostError, CostModel};
use crate::ids::Rank;
use crate::plan::{Judge, Plan};
use crate::program::{LowerOptions, Program};
use crate::runtime::{DriveError, Timeline, drive};

/// A simulated iteration: what was run, what it cost, what happened.
#[derive(Clone, Debug)]
pub struct SimulatedIteration {
    /// The lowered plan.
    pub program: Program,
    /// Its prices.
    pub priced: PricedProgram,
    /// What happened when.
    pub timeline: Timeline,
}

/// Executes one iteration of a valid plan.
pub fn simulate(plan: &Plan, cluster: &Cluster, cost: &CostModel) -> Result<SimulatedIteration, SimError> {
    let program = Program::lower(plan, LowerOptions::of(cost));
    let priced = PricedProgram::new(plan, &program, cluster, cost)?;
    let ranks: Vec<Rank> = (0..program.ranks().len()).map(Rank::from).collect();
    let timeline = match drive(&program, &ranks, &mut SimBackend::new(&program, &priced)) {
        Ok(timeline) => timeline,
        Err(DriveError::Backend(error)) => return Err(error),
        Err(DriveError::Deadlock(waiting)) => unreachable!("a lowered program can't deadlock: {waiting:?}"),
    };
    Ok(SimulatedIteration { program, priced, timeline })
}

/// The simulator as a planner's judge.
#[derive(Clone, Copy, Debug, Default)]
pub struct Simulator;

impl Judge for Simulator {
    fn iteration_s(&self, plan: &Plan, cluster: &Cluster, cost: &CostModel) -> Result<f64, CostError> {
        match simulate(plan, cluster, cost) {
            Ok(iteration) => Ok(iteration.timeline.makespan().as_seconds()),
            Err(SimError::Cost(error)) => Err(error),
            Err(SimError::UnknownNode(node)) => unreachable!("a planner uses nodes of its cluster, not `{node}`"),
        }
    }
}
