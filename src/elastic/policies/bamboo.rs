//! Redundant computation (Bamboo; Thorpe et al., NSDI 2023).

use super::neighbours::apart;
use super::{JoinRule, Policy, planned_by};
use crate::cluster::Cluster;
use crate::cost::{CostError, CostModel, CostSettings};
use crate::elastic::layer_bitmap::AllowedSources;
use crate::ids::LayerId;
use crate::model::Block;
use crate::plan::{Judge, JudgedPlan, Plan, PlanError, PlanRequest, PlannedIteration, Planner, ScheduleKind};

/// Each stage holds a second copy of its successor's layers and does their forward pass too, where the schedule leaves time;
/// when one node is lost, its predecessor goes on in its place: no state is lost and nobody plans or rebuilds communicators.
/// Neighbouring stages are on different nodes where the planner's GPUs allow it, as in the paper, since a node takes all its
/// stages with it. Neighbours lost together take a copy with them, and training goes back to the last checkpoint unless another replica has
/// the layers.
///
/// What that costs is in the program: redundant forward passes and a longer optimizer step in time, weights and optimizer
/// state of the copy in memory ([`ScheduleKind::Redundant`]). Simplified, in its favour: activations put aside in host memory
/// and the gradients that keep the copy up to date travel for nothing. The iteration under way is done
/// again, not only its backward passes. The stand-in takes over the layers for good: until a new plan pays, which is weighed as
/// joins are, the pipeline has a stage less, and where no stage has room for a copy of the larger one, no copies at all. The first stage's stand-in is the last
/// stage, which can't hold both ends of a pipeline in one plan: then the plan is made anew, from the copy, as it is where the
/// stand-in has no memory for both stages.
pub(super) fn policy() -> Policy {
    Policy {
        name: "bamboo",
        summary: "computes redundantly, neighbours stand in for lost nodes",
        planner: Box::new(Redundant { planner: planned_by("amp") }),
        sources: AllowedSources::MemoryAndObjectStore,
        joins: JoinRule::WhenItPays,
        heeds_notice: false,
        stands_in: true,
        connects_ahead: false,
        avoids_zones: false,
        ..super::autohet::policy()
    }
}

/// A planner whose plans compute redundantly. It searches with as much memory as a stage and a copy of equal size need, and
/// what it has executed is executed, and checked against memory, as it will run.
pub struct Redundant {
    /// Who plans.
    pub planner: Box<dyn Planner>,
}

impl Planner for Redundant {
    fn name(&self) -> &'static str {
        "bamboo"
    }

    fn plan(&self, request: &PlanRequest) -> Result<PlannedIteration, PlanError> {
        let cost = with_room_for_copies(request);
        let judge = RedundantJudge { judge: request.judge, cost: request.cost };
        let planned = self.planner.plan(&PlanRequest { cost: &cost, judge: &judge, ..*request })?;
        let alternatives =
            planned.alternatives.into_iter().map(|other| JudgedPlan { plan: redundant(&other.plan), ..other });
        Ok(PlannedIteration { plan: redundant(&planned.plan), alternatives: alternatives.collect(), ..planned })
    }
}

fn redundant(plan: &Plan) -> Plan {
    Plan { schedule: ScheduleKind::Redundant, ..apart(plan) }
}

/// The model priced with more state a parameter: a second one's weights and optimizer state.
fn with_room_for_copies(request: &PlanRequest) -> CostModel {
    let cost = request.cost;
    let layer = Block::Layer(LayerId(0));
    let copy_bytes = cost.state_bytes(layer, request.training.precision) / cost.model().block_parameters(layer).max(1);
    let settings = cost.settings();
    let optimizer_bytes_per_parameter = settings.optimizer_bytes_per_parameter + copy_bytes;
    let profiled_bytes_per_parameter = settings.profiled_bytes_per_parameter + copy_bytes;
    let settings = CostSettings { optimizer_bytes_per_parameter, profiled_bytes_per_parameter, ..*settings };
    CostModel::new(cost.model().clone(), settings, cost.profile().cloned()).with_framework(cost.framework())
}

/// The judge, told of each plan as it will run. One that doesn't fit so takes for ever.
struct RedundantJudge<'a> {
    judge: &'a dyn Judge,
    cost: &'a CostModel,
}

impl Judge for RedundantJudge<'_> {
    fn iteration_s(&self, plan: &Plan, cluster: &Cluster, _: &CostModel) -> Result<f64, CostError> {
        let plan = redundant(plan);
        if plan.validate(cluster, self.cost).is_err() {
            return Ok(f64::INFINITY);
        }
        self.judge.iteration_s(&plan, cluster, self.cost)
    }

    fn name(&self) -> &'static str {
        self.judge.name()
    }

    fn work(&self, plan: &Plan) -> u64 {
        self.judge.work(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::NodeDefaults;
    use crate::model::{ModelSpec, Precision, Recompute};
    use crate::plan::{Replica, SCHEMA_VERSION, Stage, TrainingSettings};
    use crate::runtime::sim::Simulator;

    fn cost() -> CostModel {
        CostModel::new(ModelSpec::preset("gpt3-1.3b").unwrap(), CostSettings::default(), None)
    }

    /// Two stages of twelve layers on one GPU each, one micro batch of one sample.
    fn two_stages(schedule: ScheduleKind) -> Plan {
        let stage = |node: &str, first_layer| Stage {
            node: node.to_owned(),
            gpus: vec![0],
            gpu_type: "A100-40".to_owned(),
            first_layer,
            num_layers: 12,
            later_chunks: Vec::new(),
        };
        Plan {
            schema_version: SCHEMA_VERSION,
            planner: "test".to_owned(),
            model: "gpt3-1.3b".into(),
            global_batch_size: 1,
            micro_batch_size: 1,
            sequence_parallel: false,
            recompute: Recompute::None,
            precision: Precision::Fp16,
            schedule,
            replicas: vec![Replica { micro_batches: 1, stages: vec![stage("a100-40-0", 0), stage("a100-40-1", 12)] }],
        }
    }

    #[test]
    fn a_copy_costs_its_state_and_its_forward_pass() {
        let cost = cost();
        let cluster = Cluster::parse_mix("2x1xA100-40", &NodeDefaults::default()).unwrap();
        let (plain, doubled) = (two_stages(ScheduleKind::default()), two_stages(ScheduleKind::Redundant));
        doubled.validate(&cluster, &cost).unwrap();
        // The first stage keeps weights and optimizer state of the second one, 14 bytes a parameter: twelve layers and the
        // head, with its copy of the embedding's matrix.
        let memory = |plan: &Plan| plan.memory_in(&plan.replicas[0], 0, &cost).total_bytes();
        let model = cost.model();
        let parameters = 12 * model.layer_parameters() + model.block_parameters(Block::Head);
        assert_eq!(memory(&doubled) - memory(&plain), 14 * parameters);
        // With a single micro batch a stage's copy is computed while it waits, but on the last stage before its backward
        // pass; both step for both stages.
        let seconds = |plan: &Plan| Simulator.iteration_s(plan, &cluster, &cost).unwrap();
        let execution = plain.execution_at(1);
        let gpu = &cluster.nodes[0].gpu;
        let forward_s = |block| cost.block_cost(block, gpu, &execution).unwrap().forward.total_s();
        let again_s = forward_s(Block::Embedding) + 12.0 * forward_s(Block::Layer(LayerId(0)));
        let step_s = |parameters| cost.optimizer_step_s(gpu, parameters, Precision::Fp16);
        let first = 12 * model.layer_parameters() + model.block_parameters(Block::Embedding);
        let expected_s = seconds(&plain) + again_s + step_s(first + parameters) - step_s(first);
        approx::assert_relative_eq!(seconds(&doubled), expected_s, max_relative = 1e-6);
    }

    #[test]
    fn plans_leave_room_for_the_copies() {
        let cost = cost();
        let cluster = Cluster::parse_mix("6x1xV100-16", &NodeDefaults::default()).unwrap();
        let training = TrainingSettings { global_batch_size: 64, ..TrainingSettings::default() };
        let request = PlanRequest {
            cluster: &cluster,
            cost: &cost,
            training: &training,
            judge: &Simulator,
            limits: crate::plan::PlanLimits::default(),
        };
        let planned = policy().planner.plan(&request).unwrap();
        planned.plan.validate(&cluster, &cost).unwrap();
        assert_eq!(planned.plan.schedule, ScheduleKind::Redundant);
        let without = planned_by("amp").plan(&request).unwrap();
        assert!(planned.predicted_iteration_s > without.predicted_iteration_s, "redundancy isn't free");
    }
}
