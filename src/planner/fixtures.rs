//! What tests of planners share.

use super::estimate;
use crate::cluster::Cluster;
use crate::cost::{CostError, CostModel, CostSettings};
use crate::model::{ModelSpec, Recompute};
use crate::plan::{Judge, Plan, TrainingSettings};
use crate::profile::LayerProfile;

/// The closed form of an iteration in place of its execution.
pub struct ClosedForm;

impl Judge for ClosedForm {
    fn iteration_s(&self, plan: &Plan, cluster: &Cluster, cost: &CostModel) -> Result<f64, CostError> {
        estimate::iteration_s(plan, cluster, cost)
    }
}

/// BERT-large, 24 layers of 1 s each on an A100 and of 2 s on a V100, a quarter of them forward.
pub fn layers_of_a_second() -> CostModel {
    let entry = |gpu: &str, second: f64| {
        let ends = r#"{ "forward_s": 1e-9, "backward_s": 1e-9 }"#;
        let (forward, backward) = (0.25 * second, 0.75 * second);
        format!(
            r#"{{ "gpu": "{gpu}", "tensor_parallel_size": 1, "micro_batch_size": 1, "embedding": {ends}, "head": {ends},
            "layer": {{ "forward_s": {forward}, "backward_s": {backward} }}, "optimizer_s_per_parameter": 1e-15 }}"#
        )
    };
    let (a100, v100) = (entry("A100-40", 1.0), entry("V100-16", 2.0));
    let text = format!(r#"{{ "schema_version": 1, "model": "bert-large", "entries": [{a100}, {v100}] }}"#);
    let profile = LayerProfile::from_json(&text, "by hand").unwrap();
    CostModel::new(ModelSpec::preset("bert-large").unwrap(), CostSettings::default(), Some(profile))
}

/// Batches for [`layers_of_a_second`]: one sample a micro batch, one GPU a stage.
pub fn one_by_one(global_batch_size: u32) -> TrainingSettings {
    TrainingSettings {
        global_batch_size,
        recompute: vec![Recompute::None, Recompute::Full],
        micro_batch_sizes: vec![1],
        tensor_parallel_sizes: vec![1],
        ..TrainingSettings::default()
    }
}
