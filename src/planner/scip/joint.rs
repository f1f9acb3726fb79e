//! Grouping, order, layers and micro batches in one nonlinear integer program, for few units.
//!
//! The problem is that of [`joint`](crate::planner::autohet::joint). Places are counted from the output side, so that the
//! micro batches in flight at a place are known. With `y` for "a unit of class `c` is at place `q` of replica `j`", `z` for
//! "and it's the first stage" and `l` for its layers:
//!
//! ```text
//! minimise    T
//! subject to  T ≥ F_j + (K_j - 1) β_j                                       the one product
//!             β_j ≥ τ_jq,  F_j = Σ_q τ_jq,  τ_jq = Σ_c r_c l_jqc + h_c y_j0c + e_c z_jqc
//!             y_jqc ≤ l_jqc ≤ m_cq (y_jqc - z_jqc) + m'_cq z_jqc            memory, without and with the embedding
//!             Σ_c z_jqc = Σ_c y_jqc - Σ_c y_j,q+1,c,  z ≤ y,  Σ_c y ≤ 1      no gap between stages
//!             Σ_qc l_jqc = L,  Σ_j K_j = B/b,  Σ_jq y_jqc ≤ N_c,  K_j ≥ K_j+1
//! ```
//!
//! Times are in multiples of the incumbent's, so that the numbers that SCIP compares are near one.

use super::{PROVEN, ScipError, ScipLimits, ScipStatus, TOLERANCE, empty_model, whole};
use crate::planner::autohet::joint::{JointPlan, JointReplica, most_layers};
use crate::planner::autohet::setting::Setting;
use crate::planner::room::Ends;
use russcip::prelude::*;
use russcip::{ProblemCreated, Solution, Solved, Variable};

/// SCIP's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ScipJoint {
    /// The best plan known, the warm start included. Its objective is our own evaluation, not SCIP's.
    pub plan: Option<JointPlan>,
    /// Why SCIP stopped.
    pub status: ScipStatus,
    /// No plan takes less than this, seconds, up to SCIP's tolerance; infinite where there is none at all.
    pub bound_s: f64,
}

/// Solves the joint problem to proven optimality or to a limit. A feasible `warm_start` bounds `T` from above and is SCIP's
/// first incumbent.
pub fn solve_joint(
    setting: &Setting,
    replicas: u32,
    limits: &ScipLimits,
    warm_start: Option<&JointPlan>,
) -> Result<ScipJoint, ScipError> {
    if replicas == 0 || replicas > setting.micro_batches.min(setting.units()) {
        return Ok(ScipJoint { plan: None, status: ScipStatus::Infeasible, bound_s: f64::INFINITY });
    }
    let scale_s = warm_start.map_or_else(|| longest_s(setting), |plan| plan.time_s);
    let mut program = Program::new(setting, replicas, (limits, scale_s, warm_start))?;
    program.constrain_all();
    if let Some(plan) = warm_start {
        program.start_from(plan);
    }
    let Program { model, variables, .. } = program;
    let solved = model.try_solve()?;
    Ok(read(setting, &solved, &variables, scale_s, warm_start))
}

/// One unit of the slowest class does everything: a time of the right order of magnitude.
fn longest_s(setting: &Setting) -> f64 {
    let one = |class: &super::super::autohet::setting::ClassCosts| {
        f64::from(setting.num_layers) * class.layer_s + class.fixed_s(Ends::at(0, 1))
    };
    setting.classes.iter().map(one).fold(0.0, f64::max) * f64::from(setting.micro_batches)
}

/// Of one class at one place of a replica.
struct Slot {
    used: Variable,
    first: Variable,
    layers: Variable,
}

struct ReplicaVariables {
    micro_batches: Variable,
    fill: Variable,
    period: Variable,
    /// By place and class.
    slots: Vec<Vec<Slot>>,
}

struct Variables {
    time: Variable,
    replicas: Vec<ReplicaVariables>,
}

struct Program<'a> {
    setting: &'a Setting,
    scale_s: f64,
    model: Model<ProblemCreated>,
    variables: Variables,
}

impl<'a> Program<'a> {
    fn new(
        setting: &'a Setting,
        replicas: u32,
        (limits, scale_s, warm_start): (&ScipLimits, f64, Option<&JointPlan>),
    ) -> Result<Self, ScipError> {
        let mut model = empty_model(limits, warm_start.is_some())?;
        let longest = warm_start.map_or(f64::INFINITY, |_| 1.0 + TOLERANCE);
        let time = model.add(var().name("T").cont(0.0..=longest).obj(1.0));
        let most_shares = whole(setting.micro_batches - (replicas - 1));
        let places = setting.num_layers.min(setting.units() - (replicas - 1));
        let mut replica_variables = |j: u32| {
            let micro_batches = model.add(var().name(&format!("K_{j}")).int(1..=most_shares));
            // A replica's own time is within the whole, so both are below it.
            let fill = model.add(var().name(&format!("F_{j}")).cont(0.0..=longest));
            let period = model.add(var().name(&format!("beta_{j}")).cont(0.0..=longest));
            let mut slot = |(place, class): (u32, usize)| {
                let name = |kind: &str| format!("{kind}_{j}_{place}_{class}");
                Slot {
                    used: model.add(var().name(&name("y")).bin()),
                    first: model.add(var().name(&name("z")).bin()),
                    layers: model.add(var().name(&name("l")).int(0..=whole(setting.num_layers))),
                }
            };
            let slots = (0..places).map(|place| (0..setting.classes.len()).map(|class| slot((place, class))).collect());
            let slots = slots.collect();
            ReplicaVariables { micro_batches, fill, period, slots }
        };
        let replicas = (0..replicas).map(&mut replica_variables).collect();
        Ok(Self { setting, scale_s, model, variables: Variables { time, replicas } })
    }

    fn constrain_all(&mut self) {
        for j in 0..self.variables.replicas.len() {
            self.constrain_places(j);
            self.constrain_layers(j);
            self.constrain_time(j);
        }
        let Self { setting, model, variables, .. } = self;
        for (class, costs) in setting.classes.iter().enumerate() {
            let slots = variables.replicas.iter().flat_map(|replica| &replica.slots);
            let used = slots.map(|place| (&place[class].used, 1.0));
            model.add(cons().name(&format!("units_{class}")).expr(used).le(costs.units.into()));
        }
        let shares = variables.replicas.iter().map(|replica| (&replica.micro_batches, 1.0));
        model.add(cons().name("micro_batches").expr(shares).eq(setting.micro_batches.into()));
        for (j, pair) in variables.replicas.windows(2).enumerate() {
            let order = [(&pair[0].micro_batches, 1.0), (&pair[1].micro_batches, -1.0)];
            model.add(cons().name(&format!("order_{j}")).expr(order).ge(0.0));
        }
    }

    /// One unit at a place at most, none behind a gap, and the first stage at the last place that is used.
    fn constrain_places(&mut self, j: usize) {
        let slots = &self.variables.replicas[j].slots;
        for (place, classes) in slots.iter().enumerate() {
            let used = classes.iter().map(|slot| (&slot.used, 1.0));
            let least = if place == 0 { 1.0 } else { 0.0 };
            self.model.add(cons().name(&format!("one_{j}_{place}")).expr(used).bounds(least, 1.0));
            let name = format!("first_{j}_{place}");
            let first = classes.iter().flat_map(|slot| [(&slot.first, 1.0), (&slot.used, -1.0)]);
            let before = slots.get(place + 1).into_iter().flatten().map(|slot| (&slot.used, 1.0));
            self.model.add(cons().name(&name).expr(first.chain(before)).eq(0.0));
            for (class, slot) in classes.iter().enumerate() {
                let both = [(&slot.used, 1.0), (&slot.first, -1.0)];
                self.model.add(cons().name(&format!("is_{j}_{place}_{class}")).expr(both).ge(0.0));
            }
        }
    }

    fn constrain_layers(&mut self, j: usize) {
        let all = self.variables.replicas.len() as u32;
        let slots = &self.variables.replicas[j].slots;
        for (place, classes) in slots.iter().enumerate() {
            for (class, slot) in classes.iter().enumerate() {
                let least = [(&slot.layers, 1.0), (&slot.used, -1.0)];
                self.model.add(cons().name(&format!("some_{j}_{place}_{class}")).expr(least).ge(0.0));
                // The depth doesn't matter to a stage that isn't the first, as long as there is one before it.
                let inner = f64::from(most_layers(self.setting, class, (1, place + 2), all));
                let first = f64::from(most_layers(self.setting, class, (0, place + 1), all));
                let most = [(&slot.layers, 1.0), (&slot.used, -inner), (&slot.first, inner - first)];
                self.model.add(cons().name(&format!("fit_{j}_{place}_{class}")).expr(most).le(0.0));
            }
        }
        let all = slots.iter().flatten().map(|slot| (&slot.layers, 1.0));
        self.model.add(cons().name(&format!("layers_{j}")).expr(all).eq(self.setting.num_layers.into()));
    }

    fn constrain_time(&mut self, j: usize) {
        let Self { setting, scale_s, model, variables } = self;
        let replica = &variables.replicas[j];
        let name = format!("fill_{j}");
        let mut all = Vec::new();
        for (place, classes) in replica.slots.iter().enumerate() {
            let name = format!("period_{j}_{place}");
            let mut stage = Vec::new();
            for (costs, slot) in setting.classes.iter().zip(classes) {
                stage.push((&slot.layers, costs.layer_s / *scale_s));
                stage.push((&slot.first, costs.embedding_s / *scale_s));
                if place == 0 {
                    stage.push((&slot.used, costs.head_s / *scale_s));
                }
            }
            all.extend(stage.iter().copied());
            let within = stage.into_iter().map(|(variable, by)| (variable, -by)).chain([(&replica.period, 1.0)]);
            model.add(cons().name(&name).expr(within).ge(0.0));
        }
        let fill = all.into_iter().map(|(variable, by)| (variable, -by)).chain([(&replica.fill, 1.0)]);
        model.add(cons().name(&name).expr(fill).eq(0.0));
        let product = Expr::var(&replica.micro_batches) * Expr::var(&replica.period);
        let terms = [
            (1.0, Expr::var(&variables.time)),
            (-1.0, Expr::var(&replica.fill)),
            (1.0, Expr::var(&replica.period)),
            (-1.0, product),
        ];
        model.add(cons().name(&format!("time_{j}")).expression(Expr::sum_weighted(terms)).ge(0.0));
    }

    /// Hands SCIP an incumbent. Should SCIP find it infeasible by a hair, its time is a bound all the same.
    fn start_from(&self, plan: &JointPlan) {
        let mut ordered: Vec<&JointReplica> = plan.replicas.iter().collect();
        ordered.sort_by_key(|replica| std::cmp::Reverse(replica.micro_batches));
        let solution = self.model.create_orig_sol();
        solution.set_val(&self.variables.time, plan.time_s / self.scale_s);
        for (given, variables) in ordered.into_iter().zip(&self.variables.replicas) {
            let depth = given.classes.len();
            let (mut fill_s, mut period_s) = (0.0, 0.0_f64);
            for (stage, (&class, &layers)) in given.classes.iter().zip(&given.layers).enumerate() {
                let costs = &self.setting.classes[class];
                let stage_s = costs.fixed_s(Ends::at(stage, depth)) + f64::from(layers) * costs.layer_s;
                fill_s += stage_s;
                period_s = period_s.max(stage_s);
                let slot = &variables.slots[depth - 1 - stage][class];
                solution.set_val(&slot.used, 1.0);
                solution.set_val(&slot.first, if stage == 0 { 1.0 } else { 0.0 });
                solution.set_val(&slot.layers, layers.into());
            }
            solution.set_val(&variables.fill, fill_s / self.scale_s);
            solution.set_val(&variables.period, period_s / self.scale_s);
            solution.set_val(&variables.micro_batches, given.micro_batches.into());
        }
        let _ = self.model.add_sol(solution);
    }
}

/// Takes the best of SCIP's solutions and the warm start by our own evaluation.
fn read(
    setting: &Setting,
    solved: &Model<Solved>,
    variables: &Variables,
    scale_s: f64,
    warm_start: Option<&JointPlan>,
) -> ScipJoint {
    let solutions = solved.get_sols().unwrap_or_default();
    let found = solutions.iter().filter_map(|solution| plan_of(setting, solution, variables));
    let plan = found.chain(warm_start.cloned()).min_by(|a, b| a.time_s.total_cmp(&b.time_s));
    let bound = solved.best_bound();
    let known = bound.abs() < 1e20;
    let status = match (ScipStatus::from(solved.status()), &plan) {
        // Nothing is as good as the warm start, whose own time SCIP takes for a hair too long.
        (ScipStatus::Infeasible, Some(_)) => ScipStatus::Optimal,
        // SCIP's optimum breaks a constraint by a hair, and what is left is not proven to be one.
        (ScipStatus::Optimal, None) => ScipStatus::Unknown,
        (ScipStatus::Optimal, Some(plan)) if plan.time_s > bound * scale_s * (1.0 + PROVEN) => ScipStatus::Unknown,
        (status, _) => status,
    };
    let bound_s = match (&plan, status) {
        (None, ScipStatus::Infeasible) => f64::INFINITY,
        (Some(plan), ScipStatus::Optimal) if !known => plan.time_s,
        (Some(plan), _) if known => (bound * scale_s).clamp(0.0, plan.time_s),
        (None, _) if known => (bound * scale_s).max(0.0),
        _ => 0.0,
    };
    ScipJoint { plan, status, bound_s }
}

fn plan_of(setting: &Setting, solution: &Solution, variables: &Variables) -> Option<JointPlan> {
    let is_one = |variable: &Variable| solution.val(variable) > 0.5;
    let replica = |replica: &ReplicaVariables| {
        let mut stages: Vec<(usize, u32)> = Vec::new();
        for place in replica.slots.iter().rev() {
            let used = place.iter().enumerate().find(|(_, slot)| is_one(&slot.used));
            stages.extend(used.map(|(class, slot)| (class, solution.val(&slot.layers).round() as u32)));
        }
        let (classes, layers) = stages.into_iter().unzip();
        JointReplica { classes, layers, micro_batches: solution.val(&replica.micro_batches).round() as u32 }
    };
    JointPlan::new(setting, variables.replicas.iter().map(replica).collect())
}
