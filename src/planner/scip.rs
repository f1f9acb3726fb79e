//! The integer programs of the planner, solved by SCIP. The only file that names russcip.
//!
//! SCIP is exact but slow next to the planner's own search, and it may be left out of a build (feature `scip`). So it is
//! given what the search has found, and asked to better it or to prove that nothing is better.

mod joint;
mod self_test;

pub use joint::{ScipJoint, solve_joint};
pub use self_test::self_test;

use russcip::prelude::*;
use russcip::{ProblemCreated, Solution, Solved, Variable};
use thiserror::Error;

use super::autohet::grouping::{Grouping, GroupingError, GroupingProblem, UnitClass, lower_bound};

/// How long SCIP may go on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScipLimits {
    /// Branch and bound nodes. The same limit gives the same answer on every run, which a time does not. The default is
    /// about a tenth of a second for three classes and eight replicas.
    pub nodes: u64,
    /// Seconds. A safety net: what is cut short by it may differ from run to run.
    pub time_s: f64,
}

impl Default for ScipLimits {
    fn default() -> Self {
        Self { nodes: 300, time_s: 10.0 }
    }
}

/// Why SCIP stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScipStatus {
    /// The grouping is proven optimal, up to SCIP's tolerance.
    Optimal,
    /// There is no grouping.
    Infeasible,
    /// [`ScipLimits::nodes`] was reached: the grouping, if any, is an incumbent.
    NodeLimit,
    /// [`ScipLimits::time_s`] was reached: the grouping, if any, is an incumbent.
    TimeLimit,
    /// SCIP ran out of memory: the grouping, if any, is an incumbent.
    MemoryLimit,
    /// A signal stopped it: the grouping, if any, is an incumbent.
    Interrupted,
    /// Any other stop, none of which proves anything.
    Unknown,
}

impl From<Status> for ScipStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Optimal => Self::Optimal,
            // The objective is bounded from below, so this leaves one of the two.
            Status::Infeasible | Status::Inforunbd => Self::Infeasible,
            Status::NodeLimit | Status::TotalNodeLimit | Status::StallNodeLimit => Self::NodeLimit,
            Status::TimeLimit => Self::TimeLimit,
            Status::MemoryLimit => Self::MemoryLimit,
            Status::UserInterrupt | Status::Terminate => Self::Interrupted,
            Status::Unknown
            | Status::GapLimit
            | Status::PrimalLimit
            | Status::DualLimit
            | Status::SolutionLimit
            | Status::BestSolutionLimit
            | Status::RestartLimit
            | Status::Unbounded => Self::Unknown,
        }
    }
}

/// SCIP's answer to a [`GroupingProblem`].
#[derive(Debug, Clone, PartialEq)]
pub struct ScipGrouping {
    /// The best grouping known, the warm start included. Its objective is our own evaluation, not SCIP's.
    pub grouping: Option<Grouping>,
    /// Why SCIP stopped.
    pub status: ScipStatus,
    /// No grouping takes less than this, seconds, up to SCIP's tolerance; infinite where there is none at all.
    pub bound_s: f64,
    /// Branch and bound nodes explored.
    pub nodes: u64,
}

impl ScipGrouping {
    /// `(iteration_s − bound_s) / bound_s`, where there is a grouping. Never negative.
    pub fn gap(&self) -> Option<f64> {
        self.grouping.as_ref().map(|found| ((found.iteration_s - self.bound_s) / self.bound_s).max(0.0))
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ScipError {
    /// The question makes no sense.
    #[error(transparent)]
    Problem(#[from] GroupingError),
    /// SCIP failed.
    #[error("SCIP failed with `{0:?}`")]
    Solver(Retcode),
}

impl From<Retcode> for ScipError {
    fn from(code: Retcode) -> Self {
        Self::Solver(code)
    }
}

/// Solves device grouping to proven optimality or to a limit.
///
/// The program is the one in the documentation of [`GroupingProblem`]'s module, with these additions: time is measured in
/// multiples of [`lower_bound`], so that the numbers that SCIP compares are near one; `T ≥ lower_bound`; replicas are
/// ordered by rate, as they are interchangeable; and a feasible `warm_start` bounds `T` from above and is SCIP's first
/// incumbent. An infeasible one is ignored.
pub fn solve_grouping(
    problem: &GroupingProblem,
    limits: &ScipLimits,
    warm_start: Option<&Grouping>,
) -> Result<ScipGrouping, ScipError> {
    problem.validate()?;
    let least_s = lower_bound(problem);
    if !least_s.is_finite() {
        return Ok(ScipGrouping { grouping: None, status: ScipStatus::Infeasible, bound_s: f64::INFINITY, nodes: 0 });
    }
    let warm_start = warm_start.and_then(|grouping| reevaluate(problem, grouping));
    if let Some(grouping) = warm_start.as_ref().filter(|grouping| grouping.iteration_s <= least_s * (1.0 + TOLERANCE)) {
        let grouping = Some(grouping.clone());
        return Ok(ScipGrouping { grouping, status: ScipStatus::Optimal, bound_s: least_s, nodes: 0 });
    }
    let program = Program::new(problem, limits, least_s, warm_start.as_ref())?;
    let (solved, variables) = program.solve()?;
    Ok(read(problem, &solved, &variables, least_s, warm_start))
}

/// Relative difference below which two times count as equal: SCIP's feasibility tolerance.
const TOLERANCE: f64 = 1e-6;

/// Relative gap up to which a solution that SCIP calls optimal is one by our evaluation too.
const PROVEN: f64 = 1e-4;

fn reevaluate(problem: &GroupingProblem, grouping: &Grouping) -> Option<Grouping> {
    let units: Vec<Vec<u32>> = grouping.replicas.iter().map(|replica| replica.units.clone()).collect();
    let shares: Vec<u32> = grouping.replicas.iter().map(|replica| replica.micro_batches).collect();
    problem.grouping(&units, &shares)
}

/// The program as SCIP sees it.
struct Program<'a> {
    problem: &'a GroupingProblem,
    /// Unit of the time variable.
    least_s: f64,
    model: Model<ProblemCreated>,
    variables: Variables,
}

struct Variables {
    /// `T / lower_bound`.
    time: Variable,
    /// `x_cj`, by replica and class.
    units: Vec<Vec<Variable>>,
    /// `K_j`.
    shares: Vec<Variable>,
}

impl<'a> Program<'a> {
    fn new(
        problem: &'a GroupingProblem,
        limits: &ScipLimits,
        least_s: f64,
        incumbent: Option<&Grouping>,
    ) -> Result<Self, ScipError> {
        let mut model = empty_model(limits, incumbent.is_some())?;
        let most = incumbent.map_or(f64::INFINITY, |grouping| grouping.iteration_s / least_s * (1.0 + TOLERANCE));
        let time = model.add(var().name("T").cont(1.0..=most).obj(1.0));
        let share = whole(problem.micro_batches / problem.replicas);
        let spare = whole(problem.micro_batches - problem.replicas);
        let (least, most) = if problem.equal_micro_batches { (share, share) } else { (1, 1 + spare) };
        let (mut units, mut shares) = (Vec::new(), Vec::new());
        for replica in 0..problem.replicas {
            let of_class = |(index, class): (usize, &UnitClass)| {
                let most = whole(class.units.min(problem.layers));
                model.add(var().name(&format!("x_{index}_{replica}")).int(0..=most))
            };
            units.push(problem.classes.iter().enumerate().map(of_class).collect());
            shares.push(model.add(var().name(&format!("K_{replica}")).int(least..=most)));
        }
        let variables = Variables { time, units, shares };
        let mut program = Self { problem, least_s, model, variables };
        program.constrain_units();
        program.constrain_replicas();
        program.constrain_time();
        if let Some(grouping) = incumbent {
            program.start_from(grouping);
        }
        Ok(program)
    }

    /// `Σ_j x_cj ≤ N_c`, `Σ_j K_j = micro_batches`.
    fn constrain_units(&mut self) {
        for (index, class) in self.problem.classes.iter().enumerate() {
            let terms = self.variables.units.iter().map(|units| (&units[index], 1.0));
            self.model.add(cons().name(&format!("units_{index}")).expr(terms).le(class.units.into()));
        }
        let terms = self.variables.shares.iter().map(|share| (share, 1.0));
        self.model.add(cons().name("micro_batches").expr(terms).eq(self.problem.micro_batches.into()));
    }

    /// `1 ≤ P_j ≤ layers`, the memory, and the order of the replicas.
    fn constrain_replicas(&mut self) {
        let memory: Vec<f64> = self.problem.unit_memory().map(|each| each as f64).collect();
        let need = self.problem.memory_need() as f64;
        let scale = memory.iter().fold(1.0_f64, |most, each| most.max(each.abs()));
        for (replica, units) in self.variables.units.iter().enumerate() {
            let stages = units.iter().map(|count| (count, 1.0));
            self.model
                .add(cons().name(&format!("stages_{replica}")).expr(stages).bounds(1.0, self.problem.layers.into()));
            let held = units.iter().zip(&memory).map(|(count, each)| (count, each / scale));
            self.model.add(cons().name(&format!("memory_{replica}")).expr(held).ge(need / scale));
        }
        let rates = self.relative_rates();
        for (replica, pair) in self.variables.units.windows(2).enumerate() {
            let ahead = pair[0].iter().zip(&rates).map(|(count, &rate)| (count, rate));
            let behind = pair[1].iter().zip(&rates).map(|(count, &rate)| (count, -rate));
            self.model.add(cons().name(&format!("order_{replica}")).expr(ahead.chain(behind)).ge(0.0));
        }
    }

    /// `T · G_j ≥ W (K_j + P_j − 1)`, divided by the bound on `T` and the largest rate.
    fn constrain_time(&mut self) {
        let rates = self.relative_rates();
        let slot = self.problem.work_layers() / (self.least_s * self.fastest_per_s());
        for (replica, units) in self.variables.units.iter().enumerate() {
            let time = || Expr::var(&self.variables.time);
            let done = units.iter().zip(&rates).map(|(count, &rate)| (rate, time() * Expr::var(count)));
            let stages = units.iter().map(|count| (-slot, Expr::var(count)));
            let share = (-slot, Expr::var(&self.variables.shares[replica]));
            let body = Expr::sum_weighted(done.chain(stages).chain([share]));
            self.model.add(cons().name(&format!("time_{replica}")).expression(body).ge(-slot));
        }
    }

    fn fastest_per_s(&self) -> f64 {
        self.problem.classes.iter().map(|class| class.layer_rate_per_s).fold(0.0, f64::max)
    }

    fn relative_rates(&self) -> Vec<f64> {
        let fastest_per_s = self.fastest_per_s();
        self.problem.classes.iter().map(|class| class.layer_rate_per_s / fastest_per_s).collect()
    }

    /// Hands SCIP an incumbent. Should SCIP find it infeasible by a hair, its time is a bound all the same.
    fn start_from(&self, grouping: &Grouping) {
        let solution = self.model.create_orig_sol();
        solution.set_val(&self.variables.time, grouping.iteration_s / self.least_s);
        for (replica, (units, share)) in
            grouping.replicas.iter().zip(self.variables.units.iter().zip(&self.variables.shares))
        {
            for (&count, variable) in replica.units.iter().zip(units) {
                solution.set_val(variable, count.into());
            }
            solution.set_val(share, replica.micro_batches.into());
        }
        let _ = self.model.add_sol(solution);
    }

    fn solve(self) -> Result<(Model<Solved>, Variables), ScipError> {
        Ok((self.model.try_solve()?, self.variables))
    }
}

/// A count as russcip takes the bounds of integer variables; the largest are far above any that `validate` lets pass.
fn whole(count: u32) -> isize {
    isize::try_from(count).unwrap_or(isize::MAX)
}

/// SCIP with settings for many small programs, several times faster here than its defaults.
fn empty_model(limits: &ScipLimits, has_incumbent: bool) -> Result<Model<ProblemCreated>, ScipError> {
    let nodes = i64::try_from(limits.nodes).unwrap_or(i64::MAX).max(1);
    let model = Model::try_new()?
        .include_default_plugins()
        .hide_output()
        // Ctrl-C ends the program rather than one of its many small solves.
        .set_bool_param("misc/catchctrlc", false)?
        .set_longint_param("limits/totalnodes", nodes)?
        .set_real_param("limits/time", limits.time_s.clamp(0.0, 1e9))?
        // Cuts, bounds from extra LPs and restarts cost more here than the nodes that they save.
        .set_separating(ParamSetting::Off)
        .set_int_param("propagating/obbt/freq", -1)?
        .set_int_param("presolving/maxrestarts", 0)?
        .create_prob("grouping")
        .minimize();
    // The planner's own search is a better heuristic.
    Ok(if has_incumbent { model.set_heuristics(ParamSetting::Off) } else { model })
}

/// Takes the best of SCIP's solutions and the warm start by our own evaluation.
fn read(
    problem: &GroupingProblem,
    solved: &Model<Solved>,
    variables: &Variables,
    least_s: f64,
    warm_start: Option<Grouping>,
) -> ScipGrouping {
    let solutions = solved.get_sols().unwrap_or_default();
    let found = solutions.iter().filter_map(|solution| grouping_of(problem, solution, variables));
    let grouping = found.chain(warm_start).min_by(|a, b| a.iteration_s.total_cmp(&b.iteration_s));
    let bound = solved.best_bound();
    let status = match (ScipStatus::from(solved.status()), &grouping) {
        // Nothing is as good as the warm start, whose own time SCIP takes for a hair too long.
        (ScipStatus::Infeasible, Some(_)) => ScipStatus::Optimal,
        // SCIP's optimum breaks a constraint by a hair, and what is left is not proven to be one.
        (ScipStatus::Optimal, None) => ScipStatus::Unknown,
        (ScipStatus::Optimal, Some(found)) if found.iteration_s > bound * least_s * (1.0 + PROVEN) => {
            ScipStatus::Unknown
        }
        (status, _) => status,
    };
    // SCIP's infinity is 1e20, of either sign, and it may not have come to a bound at all.
    let bound_s = least_s * if bound.abs() < 1e20 { bound.max(1.0) } else { 1.0 };
    let bound_s = match (&grouping, status) {
        (None, ScipStatus::Infeasible) => f64::INFINITY,
        (Some(found), ScipStatus::Optimal) if bound >= 1e20 => found.iteration_s,
        (Some(found), _) => bound_s.min(found.iteration_s),
        (None, _) => bound_s,
    };
    ScipGrouping { grouping, status, bound_s, nodes: solved.n_nodes() as u64 }
}

fn grouping_of(problem: &GroupingProblem, solution: &Solution, variables: &Variables) -> Option<Grouping> {
    let whole = |variable: &Variable| solution.val(variable).round() as u32;
    let units: Vec<Vec<u32>> = variables.units.iter().map(|counts| counts.iter().map(whole).collect()).collect();
    let shares: Vec<u32> = variables.shares.iter().map(whole).collect();
    problem.grouping(&units, &shares)
}

#[cfg(test)]
mod tests;
