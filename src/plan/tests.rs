use super::*;
use crate::cluster::{Cluster, NodeDefaults};
use crate::cost::{CostModel, CostSettings};
use crate::model::ModelSpec;

pub(super) fn cluster() -> Cluster {
    Cluster::parse_mix("1x2xA100-80+1x1xT4", &NodeDefaults::default()).unwrap()
}

pub(super) fn cost() -> CostModel {
    CostModel::new(ModelSpec::preset("gpt3-1.3b").unwrap(), CostSettings::default(), None)
}

/// 24 layers on two A100.
pub(super) fn plan() -> Plan {
    let node = cluster().nodes[0].name.clone();
    let stage = |gpu, first_layer| Stage {
        node: node.clone(),
        gpus: vec![gpu],
        gpu_type: "A100-80".to_owned(),
        first_layer,
        num_layers: 12,
        later_chunks: Vec::new(),
    };
    Plan {
        schema_version: SCHEMA_VERSION,
        planner: "by hand".to_owned(),
        model: "gpt3-1.3b".into(),
        global_batch_size: 8,
        micro_batch_size: 2,
        sequence_parallel: false,
        recompute: Recompute::Selective,
        precision: Precision::Fp16,
        schedule: ScheduleKind::OneForwardOneBackward,
        replicas: vec![Replica { micro_batches: 4, stages: vec![stage(0, 0), stage(1, 12)] }],
    }
}

fn violations(change: impl Fn(&mut Plan)) -> Vec<String> {
    let mut changed = plan();
    change(&mut changed);
    let found = changed.validate(&cluster(), &cost()).unwrap_err();
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn a_sound_plan_is_valid() {
    assert_eq!(plan().validate(&cluster(), &cost()), Ok(()));
}

#[test]
fn every_violation_is_named() {
    let said = |change: fn(&mut Plan), expected: &str| {
        let found = violations(change);
        assert!(found.iter().any(|text| text.contains(expected)), "`{expected}` is not in {found:?}");
    };
    said(|p| p.schema_version = 9, "schema version 9");
    said(|p| p.model = "bert-large".into(), "for model `bert-large`, not `gpt3-1.3b`");
    said(|p| p.replicas.clear(), "no replicas");
    said(|p| p.replicas[0].stages.clear(), "replica 0 has no stages");
    said(|p| p.replicas[0].micro_batches = 0, "replica 0 has no micro batches");
    said(|p| p.replicas[0].micro_batches = 5, "5 micro batches of 2 samples don't make the global batch of 8");
    said(|p| p.replicas[0].stages[1].gpus = (0..7).collect(), "has 7 GPUs, which can't share the model's 16 attention");
    said(|p| p.replicas[0].stages[1].gpus = Vec::new(), "replica 0 stage 1: has 0 GPUs");
    said(|p| p.replicas[0].stages[1].node = "nowhere".to_owned(), "replica 0 stage 1: there is no node `nowhere`");
    said(|p| p.replicas[0].stages[1].gpus = vec![2], "there is no GPU 2");
    said(|p| p.replicas[0].stages[1].gpus = vec![0], "is used already");
    said(|p| p.replicas[0].stages[1].gpu_type = "T4".to_owned(), "the plan says `T4`");
    said(|p| p.replicas[0].stages[1].gpus = vec![1, 1], "GPU 1 of node `a100-80-0` is used already");
    said(|p| p.replicas[0].stages[1].first_layer = 11, "starts at layer 11, expected layer 12");
    said(|p| p.replicas[0].stages[1].num_layers = 0, "holds no layers");
    said(|p| p.replicas[0].stages[1].num_layers = 11, "holds 23 layers, the model has 24");
    said(|p| p.replicas[0].stages[1].num_layers = u32::MAX, "the model has 24");
}

#[test]
fn memory_is_checked_by_stage() {
    let found = violations(|plan| {
        let node = cluster().nodes[1].name.clone();
        let whole = Stage {
            node,
            gpus: vec![0],
            gpu_type: "T4".to_owned(),
            first_layer: 0,
            num_layers: 24,
            later_chunks: Vec::new(),
        };
        plan.replicas[0].stages = vec![whole];
    });
    // 1.3 billion parameters of 16 bytes alone are 21 GB.
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("replica 0 stage 0: needs ") && found[0].contains("`T4` has "), "{found:?}");
}

#[test]
fn the_first_stage_holds_more_activations() {
    let (plan, cost) = (plan(), cost());
    let memory = |stage| plan.stage_memory(StagePlace { replica: 0, stage }, &cost);
    assert!(memory(0).activations_bytes > memory(1).activations_bytes);
}

#[test]
fn plans_survive_a_round_trip() {
    assert_eq!(Plan::from_json(&plan().to_json(), "plan.json").unwrap(), plan());
}

#[test]
fn bad_files_are_refused_with_their_place() {
    let error = Plan::from_json("{\n  \"schema_version\": 1,\n  \"planner\": 3\n}", "plan.json").unwrap_err();
    assert!(error.to_string().starts_with("`plan.json` line 3 column "), "{error}");
    let later = plan().to_json().replace("\"schema_version\": 2", "\"schema_version\": 3");
    assert_eq!(
        Plan::from_json(&later, "plan.json"),
        Err(PlanFileError::SchemaVersion { name: "plan.json".to_owned(), found: 3 })
    );
    let unknown = plan().to_json().replace("\"planner\"", "\"colour\": 1, \"planner\"");
    assert!(Plan::from_json(&unknown, "plan.json").unwrap_err().to_string().contains("colour"));
}

#[test]
fn the_fastest_of_the_judged_plans_is_the_plan_and_the_others_its_alternatives() {
    let judged = |name: &str, predicted_iteration_s| JudgedPlan {
        plan: Plan { planner: name.to_owned(), ..plan() },
        predicted_iteration_s,
    };
    let all = vec![judged("slow", 3.0), judged("fast", 2.0), judged("as fast", 2.0)];
    let planned = PlannedIteration::best_of(all, |_| LowerBound::of_all(1.6)).unwrap();
    assert_eq!((planned.plan.planner.as_str(), planned.predicted_iteration_s), ("fast", 2.0));
    assert!((planned.gap - 0.25).abs() < 1e-12);
    let others: Vec<&str> = planned.alternatives.iter().map(|other| other.plan.planner.as_str()).collect();
    assert_eq!(others, ["as fast", "slow"]);
    assert_eq!(PlannedIteration::best_of(Vec::new(), |_| LowerBound::of_all(1.6)), None);
}

/// A plan as version 1 wrote it: with one degree for all stages.
fn version_1(degree: u32) -> String {
    let added = format!("\"schema_version\": 1,\n  \"tensor_parallel_size\": {degree}");
    plan().to_json().replace("\"schema_version\": 2", &added)
}

#[test]
fn plans_of_version_1_are_read() {
    assert_eq!(Plan::from_json(&version_1(1), "old.json").unwrap(), plan());
    let error = Plan::from_json(&version_1(2), "old.json").unwrap_err().to_string();
    assert!(error.starts_with("`old.json`: replica 0 stage 0 has 1 GPUs, but `tensor_parallel_size` is 2\nhint: "));
    // Each version has its own keys.
    let mixed = version_1(1).replace("\"schema_version\": 1", "\"schema_version\": 2");
    assert!(Plan::from_json(&mixed, "old.json").unwrap_err().to_string().contains("tensor_parallel_size"));
    let bare = plan().to_json().replace("\"schema_version\": 2", "\"schema_version\": 1");
    assert!(Plan::from_json(&bare, "old.json").unwrap_err().to_string().contains("tensor_parallel_size"));
}

#[test]
fn each_stage_has_a_degree_of_its_own() {
    let mut plan = plan();
    assert_eq!((plan.tensor_parallel_sizes(), plan.tensor_parallel_text()), (vec![1], "1".to_owned()));
    plan.replicas[0].stages[0] = Stage { gpus: vec![0], num_layers: 8, ..plan.replicas[0].stages[0].clone() };
    let second = Stage { gpus: vec![1, 2], first_layer: 8, num_layers: 8, ..plan.replicas[0].stages[0].clone() };
    let third = Stage { gpus: vec![3, 4, 5, 6], first_layer: 16, ..second.clone() };
    plan.replicas[0].stages = vec![plan.replicas[0].stages[0].clone(), second, third];
    assert_eq!(plan.tensor_parallel_text(), "1, 2 and 4");
    assert_eq!(plan.world_size(), 7);
    let cluster = Cluster::parse_mix("1x8xA100-80", &NodeDefaults::default()).unwrap();
    assert_eq!(plan.validate(&cluster, &cost()), Ok(()));
    // Each stage's memory is that of its own degree: 8 layers of 12 h^2 + 13 h parameters, 2 bytes of weights each.
    let layer = 12 * 2048_u64.pow(2) + 13 * 2048;
    let memory = plan.stage_memory(StagePlace { replica: 0, stage: 1 }, &cost());
    assert_eq!(memory.parameters_bytes, 8 * layer / 2 * 2);
    let degree = |stage: usize| plan.execution(&plan.replicas[0].stages[stage]).tensor_parallel_size;
    assert_eq!([degree(0), degree(1), degree(2)], [1, 2, 4]);
}
