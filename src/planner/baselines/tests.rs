use super::grid::proportional;
use crate::cluster::{Cluster, NodeDefaults};
use crate::cost::{CostError, CostModel, CostSettings};
use crate::model::{ModelSpec, Precision, Recompute};
use crate::plan::{Judge, Plan, PlanLimits, PlanRequest, TrainingSettings};
use crate::planner::{self, estimate};

struct ClosedForm;

impl Judge for ClosedForm {
    fn iteration_s(&self, plan: &Plan, cluster: &Cluster, cost: &CostModel) -> Result<f64, CostError> {
        estimate::iteration_s(plan, cluster, cost)
    }
}

fn planned(name: &str, mix: &str) -> (Plan, f64) {
    let cluster = Cluster::parse_mix(mix, &NodeDefaults::default()).unwrap();
    let cost = CostModel::new(ModelSpec::preset("gpt3-2.7b").unwrap(), CostSettings::default(), None);
    let training = TrainingSettings {
        global_batch_size: 96,
        precision: Precision::Fp16,
        recompute: vec![Recompute::Selective, Recompute::Full],
        micro_batch_sizes: vec![1, 2],
        tensor_parallel_sizes: vec![1, 2, 4],
    };
    let request = PlanRequest {
        cluster: &cluster,
        cost: &cost,
        training: &training,
        judge: &ClosedForm,
        limits: PlanLimits::default(),
    };
    let planned = planner::by_name(name).unwrap().plan(&request).unwrap();
    assert_eq!(planned.plan.validate(&cluster, &cost), Ok(()));
    assert!(planned.lower_bound_s <= planned.predicted_iteration_s);
    (planned.plan, planned.predicted_iteration_s)
}

const MIXED: &str = "1x8xA100-40+2x8xV100-16";

#[test]
fn megatron_is_symmetric() {
    let (plan, _) = planned("megatron", MIXED);
    let depth = plan.replicas[0].stages.len();
    for replica in &plan.replicas {
        assert_eq!((replica.stages.len(), replica.micro_batches), (depth, plan.replicas[0].micro_batches));
        assert!(replica.stages.iter().all(|stage| stage.num_layers as usize * depth == 32));
    }
}

#[test]
fn whale_has_one_shape() {
    let (plan, _) = planned("whale", MIXED);
    let shape = |replica: &crate::plan::Replica| -> Vec<u32> { replica.stages.iter().map(|s| s.num_layers).collect() };
    assert!(plan.replicas.iter().all(|replica| shape(replica) == shape(&plan.replicas[0])));
}

#[test]
fn knowing_the_hardware_pays_on_mixed_clusters() {
    let time_s = |name| planned(name, MIXED).1;
    assert!(time_s("whale") <= time_s("megatron"));
    assert!(time_s("autohet") <= time_s("whale"));
}

#[test]
fn equal_devices_leave_little_to_gain() {
    let (megatron_s, autohet_s) = (planned("megatron", "2x8xA100-80").1, planned("autohet", "2x8xA100-80").1);
    assert!(autohet_s <= megatron_s && megatron_s < 1.05 * autohet_s, "{megatron_s} and {autohet_s}");
}

#[test]
fn shares_are_proportional_and_positive() {
    assert_eq!(proportional(&[2.0, 1.0, 1.0], 8), [4, 2, 2]);
    assert_eq!(proportional(&[1.0, 1.0], 2), [1, 1]);
    assert_eq!(proportional(&[1000.0, 1.0, 1.0], 10), [8, 1, 1]);
    assert_eq!(proportional(&[1.0, 1.0, 1.0], 11).iter().sum::<u32>(), 11);
}
