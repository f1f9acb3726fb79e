use super::*;
use crate::cluster::{Cluster, NodeDefaults};
use crate::cost::{CostModel, CostSettings};
use crate::model::{ModelSpec, Precision, Recompute};
use crate::plan::{Planner, TrainingSettings};
use crate::planner::autohet::AutoHet;
use crate::planner::sailor::SailorJudge;
use crate::profile::LayerProfile;
use std::path::Path;

/// Sailor's settings: nodes of 4 GPUs, and iterations a second of its own plan by its own judge.
const SETTINGS: [(&str, f64); 6] = [
    ("8x4xA100-40", 0.1251),
    ("20x4xA100-40", 0.2722),
    ("32x4xA100-40", 0.4175),
    ("8x4xA100-40+24x4xV100-16", 0.1700),
    ("20x4xA100-40+60x4xV100-16", 0.3609),
    ("32x4xA100-40+96x4xV100-16", 0.5229),
];

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
        let request = PlanRequest { cluster: &cluster, cost: &cost, training: &training, judge: &SailorJudge };
        let start = std::time::Instant::now();
        let planned = AutoHet::default().plan(&request).unwrap();
        let per_s = 1.0 / planned.predicted_iteration_s;
        println!(
            "{mix} {per_s:.5} {:.2} s {}",
            start.elapsed().as_secs_f64(),
            crate::planner::sailor::SailorPlan::of(&planned.plan).to_json().split_whitespace().collect::<String>()
        );
        assert!(per_s >= theirs_per_s, "{mix}: {per_s}");
    }
}
