use super::*;
use crate::cluster::{Cluster, NodeDefaults};
use crate::cost::{CostError, CostModel, CostSettings};
use crate::model::{ModelSpec, Precision, Recompute};
use crate::plan::{Judge, Planner, TrainingSettings};
use crate::planner::autohet::{AutoHet, Engine};
use crate::planner::estimate;
use crate::planner::sailor::SailorJudge;
use crate::profile::LayerProfile;
use std::path::Path;

/// The planner's own closed form as a judge that ranks by itself.
struct ClosedForm;

impl Judge for ClosedForm {
    fn iteration_s(&self, plan: &Plan, cluster: &Cluster, cost: &CostModel) -> Result<f64, CostError> {
        estimate::iteration_s(plan, cluster, cost)
    }

    fn is_closed_form(&self) -> bool {
        true
    }
}

const BUDGET: PolishBudget = PolishBudget { work: 0, ranked_gpus: 60_000 };

/// Polishes the plan of the quick engine for a mix of GPUs.
fn polished(mix: &str, budget: PolishBudget) -> (JudgedPlan, Vec<JudgedPlan>) {
    let cluster = Cluster::parse_mix(mix, &NodeDefaults::default()).unwrap();
    let cost = CostModel::new(ModelSpec::preset("gpt3-1.3b").unwrap(), CostSettings::default(), None);
    let training = TrainingSettings { global_batch_size: 64, ..TrainingSettings::default() };
    let request = PlanRequest {
        cluster: &cluster,
        cost: &cost,
        training: &training,
        judge: &ClosedForm,
        limits: crate::plan::PlanLimits::default(),
    };
    let planned = AutoHet { engine: Engine::Fast }.plan(&request).unwrap();
    let start = JudgedPlan { plan: planned.plan, predicted_iteration_s: planned.predicted_iteration_s };
    let found = polish(&request, vec![start.clone()], budget);
    for found in &found {
        assert_eq!(found.plan.validate(&cluster, &cost), Ok(()));
        let judged_s = estimate::iteration_s(&found.plan, &cluster, &cost).unwrap();
        assert!((found.predicted_iteration_s / judged_s - 1.0).abs() < 1e-12);
    }
    (start, found)
}

#[test]
fn what_is_polished_is_valid_sorted_and_never_slower() {
    for mix in ["1x4xA100-40+2x4xT4", "1x8xA100-80", "3x2xV100-16+1x4xA100-40"] {
        let (start, found) = polished(mix, BUDGET);
        assert!(found[0].predicted_iteration_s <= start.predicted_iteration_s);
        assert!(found.iter().any(|known| known.plan == start.plan));
        assert!(found.windows(2).all(|pair| pair[0].predicted_iteration_s <= pair[1].predicted_iteration_s));
        assert_eq!(polished(mix, BUDGET).1, found, "the same request gives the same plans");
    }
}

#[test]
fn without_work_there_is_nothing_but_the_start() {
    let (start, found) = polished("1x4xA100-40+2x4xT4", PolishBudget { ranked_gpus: 0, ..BUDGET });
    assert_eq!(found, [start]);
}

/// Sailor's settings: nodes of 4 GPUs, and iterations a second of its own plan by its own judge.
const SETTINGS: [(&str, f64); 4] =
    [("8x4xA100-40", 0.1251), ("20x4xA100-40", 0.2722), ("32x4xA100-40", 0.4175), ("8x4xA100-40+24x4xV100-16", 0.1700)];

/// Where the peer's profiles are at hand.
#[test]
fn no_plan_of_sailor_is_better_by_its_own_judge() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/sailor/profiles");
    if !folder.is_dir() {
        return;
    }
    let model = ModelSpec::preset("opt-350m").unwrap();
    let profile = LayerProfile::read_all(&[folder], &model).unwrap();
    let cost = CostModel::new(model, CostSettings::default(), Some(profile));
    let training = TrainingSettings {
        global_batch_size: 1024,
        precision: Precision::Fp32,
        recompute: vec![Recompute::None],
        ..TrainingSettings::default()
    };
    for (mix, theirs_per_s) in SETTINGS {
        let cluster = Cluster::parse_mix(mix, &NodeDefaults::default()).unwrap();
        let request = PlanRequest {
            cluster: &cluster,
            cost: &cost,
            training: &training,
            judge: &SailorJudge,
            limits: crate::plan::PlanLimits::default(),
        };
        let planned = AutoHet::default().plan(&request).unwrap();
        let per_s = 1.0 / planned.predicted_iteration_s;
        // Its figures have four digits.
        assert!(per_s >= theirs_per_s - 0.5e-4, "{mix}: {per_s}");
    }
}
